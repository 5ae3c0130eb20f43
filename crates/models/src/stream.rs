//! The one stream every wire format becomes.

use std::pin::Pin;

use futures_core::Stream;
use tidegate_protocol::{ErrorBody, Message, Origin, StopReason, Usage};

/// What a model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The conversation, oldest first; the last one is what to answer.
    pub messages: Vec<Message>,
    /// How the conversation is called where a person sees it.
    pub session_name: String,
}

/// One event of a model's answer. The stream ends with `Done` or `Failed`.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// The model began; who answers is settled.
    Start(Origin),
    TextDelta(String),
    Usage(Usage),
    Done(StopReason),
    /// What came before stays valid.
    Failed(ErrorBody),
}

pub type ModelStream = Pin<Box<dyn Stream<Item = ModelEvent> + Send>>;

/// Something that answers.
pub trait Model: Send + Sync {
    /// Starts an answer. Dropping the stream ends the call.
    fn stream(&self, request: Request) -> ModelStream;
}
