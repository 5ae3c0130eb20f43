//! What a run works on, and how it can end.

use tidegate_protocol::{ErrorBody, Message, Origin, RunSpec, StopReason, ToolCall, ToolError, ToolResult};
use tidegate_storage::{Lease, NewEntry};

use crate::context::{Pruning, Scene};

/// What a run works on.
#[derive(Debug, Clone)]
pub struct Turn {
    pub lease: Lease,
    pub spec: RunSpec,
    pub input: Message,
    /// Calls that a person wrote at the beginning of the message.
    pub manual: Option<Manual>,
    pub scene: Scene,
    pub window: Window,
}

/// What `tool:` at the beginning of a message asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Manual {
    pub calls: Vec<ToolCall>,
    /// What cannot be understood about them; then nothing is run.
    pub malformed: Option<ToolError>,
}

/// How much fits, and what happens when it does not.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Tokens of a request and its answer together.
    pub tokens: u64,
    /// Kept free for the answer. Smaller where the window is small: see [`Window::line`].
    pub reserve: u64,
    /// About so many of the newest tokens stay as they are when the rest is summed up.
    pub keep_recent: u64,
    pub flush: Option<Flush>,
    pub pruning: Pruning,
}

/// Writing down what matters before it is summed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flush {
    /// So many tokens before the conversation is summed up.
    pub soft: u64,
    /// The request, in place of the built-in one.
    pub prompt: Option<String>,
}

impl Window {
    /// What is kept free for the answer: as configured, and never more than a quarter of the window. Without that bound
    /// a small window would be summed up all the time, or never have its notes written.
    fn kept_free(&self) -> u64 {
        self.reserve.min(self.tokens / 4)
    }

    /// Beyond this many tokens a conversation is summed up.
    pub fn line(&self) -> u64 {
        self.tokens.saturating_sub(self.kept_free())
    }

    /// Beyond this many the agent is asked for its notes first, so always before it is summed up. `None` when even so a
    /// window has no room for that.
    pub fn flush_line(&self) -> Option<u64> {
        let flush = self.flush.as_ref()?;
        self.line().checked_sub(flush.soft).filter(|line| *line > 0)
    }
}

/// How a run ended, for the engine to commit.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Answered(Box<Answer>),
    /// Whatever was said since the last step is provisional and not kept.
    Failed {
        error: ErrorBody,
    },
    /// The conversation was summed up, from so many tokens to so many.
    SummedUp {
        before: u64,
        after: u64,
    },
    /// Somebody asked for a summary of what is short enough.
    NothingToSumUp,
    /// The process ends; the run goes on with the next one.
    Closing,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What is not in the log yet.
    pub entries: Vec<NewEntry>,
    /// What a person reads.
    pub text: String,
    pub origin: Origin,
    /// The calls of this run and what came of them, in the order they were made. Those beyond the limit are not among
    /// them: nothing was made of them.
    pub calls: Vec<(ToolCall, ToolResult)>,
    /// The model wanted more tools than it may have.
    pub limit: Option<StepLimit>,
    /// How full the model's window is.
    pub context_tokens: u64,
    /// What the run's own tools have sent to where this answer goes.
    pub sent: Vec<String>,
    /// Calls that whoever asked has to run: the answer to their results comes with the next run.
    pub handed: Vec<ToolCall>,
    /// The conversation was summed up on the way, and nobody had asked for that.
    pub summed_up: bool,
    /// Why the model stopped.
    pub stop_reason: StopReason,
}

/// The model called tools once more after its last round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepLimit {
    pub steps: u32,
    /// The first tool that was not run for it.
    pub tool: String,
}
