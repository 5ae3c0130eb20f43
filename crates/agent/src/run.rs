//! The turn loop, for now one turn: read the context, stream the answer, say how it ended.

use futures_util::StreamExt as _;
use tidegate_models::{Model, ModelEvent, Request};
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
        usage: Usage,
    },
    /// Whatever was said before the failure is provisional and not kept.
    Failed {
        error: ErrorBody,
        usage: Usage,
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
    let request = Request { messages: context::build(&history, &turn.input), session_name: name };
    let mut stream = model.stream(request);
    let mut answer = Answer::default();
    emit(RunEventBody::Started);
    while let Some(event) = stream.next().await {
        match event {
            ModelEvent::Start(origin) => answer.origin = Some(origin),
            ModelEvent::TextDelta(text) => {
                answer.text.push_str(&text);
                emit(RunEventBody::TextDelta { text });
            }
            ModelEvent::Usage(usage) => answer.usage = usage,
            ModelEvent::Done(reason) => return Ok(answer.complete(reason, clock.now_ms())),
            ModelEvent::Failed(error) => return Ok(Outcome::Failed { error, usage: answer.usage }),
        }
    }
    Ok(answer.cut_off())
}

#[derive(Default)]
struct Answer {
    origin: Option<Origin>,
    text: String,
    usage: Usage,
}

impl Answer {
    fn complete(self, stop_reason: StopReason, timestamp: i64) -> Outcome {
        let Some(origin) = self.origin else { return self.cut_off() };
        let message = Message::Assistant {
            content: vec![Block::Text { text: self.text }],
            origin: origin.clone(),
            usage: self.usage,
            stop_reason,
            error_message: None,
            timestamp,
        };
        Outcome::Answered { message, origin, usage: self.usage }
    }

    fn cut_off(self) -> Outcome {
        let error = ErrorBody::new(ErrorCode::ModelUnavailable, "the model's answer broke off");
        Outcome::Failed { error, usage: self.usage }
    }
}
