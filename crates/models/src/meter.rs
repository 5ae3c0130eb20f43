//! What one call used: the provider's own count, or ours when it gave none.

use std::sync::Arc;

use tidegate_protocol::{Block, Message, ModelRef, Usage};

use crate::catalogue::Price;
use crate::failure::FailureKind;
use crate::ledger::{CallOutcome, CallRecord, Ledger};
use crate::request::Request;
use crate::stream::ModelEvent;

/// Watches one call. A call that is dropped half-way is recorded all the same.
pub(crate) struct Meter {
    ledger: Arc<Ledger>,
    model: ModelRef,
    profile_id: Option<String>,
    price: Option<Price>,
    started_at: i64,
    sent: u64,
    received: u64,
    counted: Option<Usage>,
    recorded: bool,
}

impl Meter {
    pub(crate) fn new(
        ledger: &Arc<Ledger>,
        model: ModelRef,
        profile_id: Option<String>,
        price: Option<Price>,
        started_at: i64,
        request: &Request,
    ) -> Self {
        let ledger = Arc::clone(ledger);
        let sent = estimate(request);
        Self {
            ledger,
            model,
            profile_id,
            price,
            started_at,
            sent,
            received: 0,
            counted: None,
            recorded: false,
        }
    }

    /// Looks at an event on its way, and prices what it says.
    pub(crate) fn look(&mut self, event: &mut ModelEvent) {
        match event {
            ModelEvent::TextDelta { text, .. }
            | ModelEvent::ThinkingDelta { text, .. }
            | ModelEvent::ArgumentsDelta { json: text, .. } => self.received += characters(text),
            ModelEvent::Usage(usage) => {
                usage.cost = self.price.unwrap_or_default().of(usage);
                self.counted = Some(*usage);
            }
            _ => {}
        }
    }

    /// What was used, as far as anybody knows.
    pub(crate) fn usage(&self) -> (Usage, bool) {
        if let Some(usage) = self.counted {
            return (usage, false);
        }
        let mut usage = Usage { input: self.sent, output: self.received.div_ceil(4), ..Usage::default() };
        usage.cost = self.price.unwrap_or_default().of(&usage);
        (usage, true)
    }

    /// A call that was refused before anything came back cost nothing.
    pub(crate) fn end(&mut self, outcome: CallOutcome) {
        let (usage, estimated) = match outcome {
            CallOutcome::Failed(kind) if self.counted.is_none() && !costs(kind, self.received) => {
                (Usage::default(), false)
            }
            _ => self.usage(),
        };
        self.recorded = true;
        self.ledger.record(CallRecord {
            model: self.model.clone(),
            profile_id: self.profile_id.clone(),
            started_at: self.started_at,
            usage,
            estimated,
            outcome,
        });
    }
}

/// Whether a provider may charge for a call that failed this way: one that went silent was at work.
fn costs(kind: FailureKind, received: u64) -> bool {
    received > 0 || matches!(kind, FailureKind::Timeout | FailureKind::Empty)
}

impl Drop for Meter {
    fn drop(&mut self) {
        if !self.recorded {
            self.end(CallOutcome::Dropped);
        }
    }
}

/// The usual rough count of what is sent: four characters a token.
pub(crate) fn estimate(request: &Request) -> u64 {
    let system: u64 = request.system.iter().map(|text| characters(text)).sum();
    let messages: u64 = request.messages.iter().map(size).sum();
    let tools: u64 = request
        .tools
        .iter()
        .map(|tool| {
            characters(&tool.description) + characters(&tool.name) + characters(&tool.parameters.to_string())
        })
        .sum();
    (system + messages + tools).div_ceil(4)
}

/// Characters of a message as a model reads it; an image counts as much as a page of text.
fn size(message: &Message) -> u64 {
    const IMAGE: u64 = 4800;
    let block = |block: &Block| match block {
        Block::Text { text, .. } => characters(text),
        Block::Thinking { thinking, .. } => characters(thinking),
        Block::Image { .. } => IMAGE,
        Block::ToolCall { name, arguments, .. } => characters(name) + characters(&arguments.to_string()),
    };
    message.content().iter().map(block).sum()
}

fn characters(text: &str) -> u64 {
    text.chars().count() as u64
}
