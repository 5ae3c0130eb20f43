//! The turn loop, for now one turn: read the context, stream the answer, say how it ended.

use futures_util::StreamExt as _;
use tidegate_models::{Model, ModelEvent, Options, Request};
use tidegate_protocol::{
    Block, ErrorBody, ErrorCode, Message, Origin, RunEventBody, RunSpec, StopReason, Usage,
};
use tidegate_runtime::Clock;
use tidegate_storage::{Journal, Lease, StoreError};

use crate::context;

/// What a run works on.
#[derive(Debug, Clone)]
pub struct Turn {
    pub lease: Lease,
    pub spec: RunSpec,
    pub input: Message,
}

/// How a run ended, for the engine to commit.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Answered {
        message: Message,
        origin: Origin,
    },
    /// Whatever was said before the failure is provisional and not kept.
    Failed {
        error: ErrorBody,
    },
}

/// Runs one turn. `emit` gets the provisional events in order.
pub async fn run(
    turn: &Turn,
    model: &dyn Model,
    journal: &dyn Journal,
    clock: &dyn Clock,
    emit: &mut (dyn FnMut(RunEventBody) + Send),
) -> Result<Outcome, StoreError> {
    let history = journal.context(&turn.lease, turn.spec.limits.history).await?;
    let name = turn.lease.alias.clone().unwrap_or_else(|| turn.lease.session.to_string());
    let request = Request {
        messages: context::build(&history, &turn.input),
        options: Options {
            max_tokens: turn.spec.limits.max_tokens,
            thinking: turn.spec.thinking.unwrap_or_default(),
            ..Options::default()
        },
        session_name: name,
        ..Request::default()
    };
    let mut stream = model.stream(request);
    let mut answer = Answer::default();
    emit(RunEventBody::Started);
    while let Some(event) = stream.next().await {
        match event {
            ModelEvent::Start(origin) => answer.origin = Some(origin),
            ModelEvent::Switched { from, profile_id, failure } => emit(RunEventBody::ModelSwitched {
                from,
                profile_id,
                reason: failure.kind.as_str().to_owned(),
                message: failure.message,
            }),
            ModelEvent::TextDelta { text, .. } => emit(RunEventBody::TextDelta { text }),
            ModelEvent::BlockEnd { block, .. } => answer.content.push(block),
            ModelEvent::BlockStart { .. }
            | ModelEvent::ThinkingDelta { .. }
            | ModelEvent::ArgumentsDelta { .. } => {}
            ModelEvent::Usage(usage) => answer.usage = usage,
            ModelEvent::Done(reason) => return Ok(answer.complete(reason, clock.now_ms())),
            ModelEvent::Failed(failure) => {
                return Ok(Outcome::Failed { error: failure.body() });
            }
        }
    }
    Ok(cut_off())
}

#[derive(Default)]
struct Answer {
    origin: Option<Origin>,
    content: Vec<Block>,
    usage: Usage,
}

impl Answer {
    fn complete(self, stop_reason: StopReason, timestamp: i64) -> Outcome {
        let Some(origin) = self.origin else { return cut_off() };
        let message = Message::Assistant {
            content: self.content,
            origin: origin.clone(),
            usage: self.usage,
            stop_reason,
            error_message: None,
            timestamp,
        };
        Outcome::Answered { message, origin }
    }
}

fn cut_off() -> Outcome {
    let error = ErrorBody::new(ErrorCode::ModelUnavailable, "the model's answer broke off");
    Outcome::Failed { error }
}
