//! One tiny real call, so that a person learns whether a model answers before a conversation depends on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use tidegate_models::{
    CacheRetention, CallOutcome, Failure, FailureKind, Ledger, ModelEvent, ModelStream, Options, Request,
};
use tidegate_protocol::api::{CallFailure, ModelTested};
use tidegate_protocol::{Message, RunSpec, Scope, ThinkingLevel, Usage};

use crate::error::EngineError;
use crate::metering::Account;
use crate::start::{Core, Engine};

const QUESTION: &str = "Answer with the single word: ok";
const MOST_TOKENS: u32 = 32;
/// For the call with its repetitions; what is configured for single steps is usually shorter.
const LIMIT: Duration = Duration::from_secs(150);

impl Engine {
    /// Asks the first model of `spec`, and no other. What it used is metered, however it ended.
    pub async fn probe(&self, scope: &Scope, spec: RunSpec) -> Result<ModelTested, EngineError> {
        let core = Arc::clone(&self.core);
        if core.closing.is_requested() {
            return Err(EngineError::Closing);
        }
        let scope = scope.clone();
        self.core.unbroken("probe", async move { core.probe(&scope, spec).await }).await?
    }
}

impl Core {
    async fn probe(&self, scope: &Scope, mut spec: RunSpec) -> Result<ModelTested, EngineError> {
        spec.models.truncate(1);
        let model = spec.models.first().cloned().unwrap_or_else(tidegate_models::default_model);
        let ledger = Arc::new(Ledger::default());
        let answering = self.models.open(&scope.agent, &spec, &ledger)?;
        let begin = Instant::now();
        // Whatever ends it drops the stream, so that the call is in the ledger.
        let heard = tokio::select! {
            heard = listen(answering.stream(question(self.clock.now_ms()))) => Some(heard),
            () = tokio::time::sleep(LIMIT) => Some(Heard::failed(FailureKind::Timeout, too_long())),
            () = self.closing.requested() => None,
        };
        let elapsed = begin.elapsed();
        let calls = ledger.take();
        let profile_id = calls.last().and_then(|call| call.profile_id.clone());
        let usage = calls.iter().fold(Usage::default(), |mut sum, call| {
            sum += call.usage;
            sum
        });
        let estimated = calls.iter().any(|call| call.estimated && call.outcome == CallOutcome::Answered);
        let account = Account { agent: &scope.agent, session: None, purpose: "test" };
        self.meter(None, &account, calls).await?;
        let Some(Heard { passed_over, outcome }) = heard else { return Err(EngineError::Closing) };
        let (text, failure) = match outcome {
            Ok(text) => (Some(text), None),
            Err(failure) => (None, Some(told(profile_id.clone(), failure))),
        };
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        Ok(ModelTested { model, profile_id, elapsed_ms, usage, estimated, text, failure, passed_over })
    }
}

fn question(now: i64) -> Request {
    Request {
        messages: vec![Message::user(QUESTION, now)],
        options: Options {
            max_tokens: Some(MOST_TOKENS),
            thinking: ThinkingLevel::Off,
            cache: CacheRetention::None,
            insist: true,
            ..Options::default()
        },
        session_name: "test".to_owned(),
        ..Request::default()
    }
}

fn too_long() -> String {
    format!("the model gave no complete answer within {} s", LIMIT.as_secs())
}

/// What the stream said, to its end.
struct Heard {
    passed_over: Vec<CallFailure>,
    outcome: Result<String, Failure>,
}

impl Heard {
    fn failed(kind: FailureKind, message: String) -> Self {
        Self { passed_over: Vec::new(), outcome: Err(Failure::new(kind, message)) }
    }
}

async fn listen(mut stream: ModelStream) -> Heard {
    let mut heard = Heard::failed(FailureKind::Broken, "the model's answer broke off".to_owned());
    let mut said = String::new();
    while let Some(event) = stream.next().await {
        match event {
            ModelEvent::Switched { profile_id, failure, .. } => {
                heard.passed_over.push(told(profile_id, failure));
            }
            ModelEvent::TextDelta { text, .. } => said.push_str(&text),
            ModelEvent::Done(_) => heard.outcome = Ok(std::mem::take(&mut said)),
            ModelEvent::Failed(failure) => heard.outcome = Err(failure),
            _ => {}
        }
    }
    heard
}

fn told(profile_id: Option<String>, failure: Failure) -> CallFailure {
    CallFailure {
        reason: failure.kind.as_str().to_owned(),
        message: failure.message,
        profile_id,
        status: failure.status,
        retry_after_ms: failure.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
    }
}
