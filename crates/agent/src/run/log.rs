//! What a run says and does, on its way into the log.

use tidegate_protocol::{EntryBody, Message};
use tidegate_runtime::{fault, new_id};
use tidegate_storage::{NewEntry, NewPart, NewToolRun, Step, ToolOutcome};

use super::{Run, Stop};
use crate::context::Line;

/// What is in no commit yet.
#[derive(Default)]
pub(super) struct Unsaid {
    pub(super) entries: Vec<NewEntry>,
    pub(super) ended: Vec<ToolOutcome>,
    pub(super) parts: Vec<NewPart>,
}

impl Run<'_> {
    /// Adds a message to the conversation. It is in the log with the next commit.
    pub(super) fn say(&mut self, message: Message) -> Result<(), Stop> {
        let id = new_id(self.parts.clock)?;
        self.unsaid.entries.push(NewEntry { id, body: EntryBody::Message(message.clone()) });
        let used = match &message {
            Message::Assistant { usage, .. } => usage.total(),
            _ => 0,
        };
        self.lines.push(Line { seq: None, message });
        if used > 0 {
            (self.before.counted, self.before.tokens) = (self.lines.len(), used);
        }
        Ok(())
    }

    /// The same for a message that stands among the lines already.
    pub(super) fn note(&mut self, message: Message) -> Result<(), Stop> {
        let id = new_id(self.parts.clock)?;
        self.unsaid.entries.push(NewEntry { id, body: EntryBody::Message(message) });
        Ok(())
    }

    /// Takes the input back out: it is a command.
    pub(super) fn forget_input(&mut self) {
        self.unsaid = Unsaid::default();
        self.lines.retain(|line| line.seq.is_some());
    }

    /// RESULT of what ended and INTENT of what begins, with everything said so far.
    pub(super) async fn commit(&mut self, begun: Vec<NewToolRun>) -> Result<(), Stop> {
        let (desk, calls) = (self.parts.desk, self.parts.desk.calls());
        let unsaid = std::mem::take(&mut self.unsaid);
        let lines = i64::try_from(unsaid.entries.len()).unwrap_or(i64::MAX);
        let begins = !begun.is_empty();
        fault::pause(if begins { "agent.intent.before" } else { "agent.result.before" }).await;
        let step = Step {
            ended: unsaid.ended,
            entries: unsaid.entries,
            begun,
            calls: calls.clone(),
            parts: unsaid.parts,
            worked_ms: None,
            now: self.parts.clock.now_ms(),
        };
        let head = self.parts.journal.step(&self.turn.lease, step).await?;
        fault::pause(if begins { "agent.intent.after" } else { "agent.result.after" }).await;
        desk.booked(&calls);
        self.head = head;
        for (line, seq) in
            self.lines.iter_mut().filter(|line| line.seq.is_none()).zip(head - lines + 1..=head)
        {
            line.seq = Some(seq);
        }
        Ok(())
    }
}
