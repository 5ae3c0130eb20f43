//! The one stream every wire format becomes.

use std::pin::Pin;

use futures_core::Stream;
use tidegate_protocol::{Block, ModelRef, Origin, StopReason, Usage};

use crate::failure::Failure;
use crate::request::Request;

/// One event of a model's answer.
///
/// The order is: at most some `Switched`, one `Start`, then blocks. Each block has one `BlockStart`, its deltas and one
/// `BlockEnd` with the whole of it; blocks do not overlap in `index`, which counts from 0. The stream ends with one
/// `Done` or `Failed`, before it one `Usage` if anything is known. A failure closes the text and the thinking that had
/// begun, so that the partial answer is whole; a tool call that was cut off has no end and is never run.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// A model or a credential could not be used, nothing was shown yet, and the next one is tried.
    Switched {
        from: ModelRef,
        profile_id: Option<String>,
        failure: Failure,
    },
    /// The model began; who answers is settled.
    Start(Origin),
    BlockStart {
        index: usize,
        kind: BlockKind,
    },
    TextDelta {
        index: usize,
        text: String,
    },
    ThinkingDelta {
        index: usize,
        text: String,
    },
    /// More of a call's arguments, as JSON text.
    ArgumentsDelta {
        index: usize,
        json: String,
    },
    BlockEnd {
        index: usize,
        block: Block,
    },
    Usage(Usage),
    Done(StopReason),
    /// What came before stays valid.
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockKind {
    Text,
    Thinking,
    ToolCall { id: String, name: String },
}

pub type ModelStream = Pin<Box<dyn Stream<Item = ModelEvent> + Send>>;

/// Something that answers.
pub trait Model: Send + Sync {
    /// Starts an answer. Dropping the stream ends the call and closes its connection.
    fn stream(&self, request: Request) -> ModelStream;
}
