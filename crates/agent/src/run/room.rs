//! Making room: how full the window is, and what is done before it is too full.

use tidegate_models::{ToolChoice, ToolSpec};
use tidegate_protocol::{Compaction, Entry, EntryBody, Message, RunEventBody};
use tidegate_runtime::{fault, new_id};
use tidegate_storage::{Context, NewCompaction};

use super::{Run, Stop};
use crate::compact::{Job, compact, is_long};
use crate::context::{Line, estimate, prune, summary};
use crate::flush::{Flushing, flush, is_due};

/// What came before the lines, and how much all of it is.
pub(super) struct Before {
    /// The newest compaction's line.
    summary: Option<Entry>,
    /// Instructions and tools, in tokens.
    fixed: u64,
    /// What the model said the conversation came to, up to its last answer.
    pub(super) tokens: u64,
    /// Lines that are in that count.
    pub(super) counted: usize,
    flushed: bool,
}

impl Before {
    pub(super) fn new(context: &Context, system: &[String], tools: &[ToolSpec], lines: &[Line]) -> Self {
        let summary = context.summary.clone();
        let fixed = fixed(system, tools);
        let (counted, tokens) = last_count(lines, summary.as_ref().map_or(0, |summary| summary.seq));
        Self { summary, fixed, tokens, counted, flushed: context.flushed }
    }
}

/// What the newest answer after the last compaction came to, and the lines up to it.
fn last_count(lines: &[Line], since: i64) -> (usize, u64) {
    let found = lines.iter().enumerate().rev().find_map(|(at, line)| match &line.message {
        Message::Assistant { usage, .. } if usage.total() > 0 && line.seq.is_none_or(|seq| seq > since) => {
            Some((at + 1, usage.total()))
        }
        _ => None,
    });
    found.unwrap_or((0, 0))
}

pub(super) fn fixed(system: &[String], tools: &[ToolSpec]) -> u64 {
    let tools =
        tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.parameters.to_string().len());
    let bytes: usize = system.iter().map(String::len).sum::<usize>() + tools.sum::<usize>();
    u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(4)
}

impl Run<'_> {
    /// Tokens of the next request, as far as anybody knows.
    pub(super) fn tokens(&self) -> u64 {
        let (counted, base) = match self.before.counted {
            0 => (0, self.before.fixed + self.before.summary.as_ref().map_or(0, size)),
            counted => (counted, self.before.tokens),
        };
        let since = self.lines.get(counted..).unwrap_or_default();
        base + since.iter().map(|line| estimate(&line.message)).sum::<u64>()
    }

    /// The messages of the next request.
    pub(super) fn messages(&self) -> Vec<Message> {
        let before = self.before.summary.as_ref().and_then(summary);
        let lines = self.lines.iter().map(|line| line.message.clone());
        let all: Vec<Message> = before.into_iter().chain(lines).collect();
        let window = &self.turn.window;
        let sent = prune(&all, &window.pruning, window.tokens);
        sent.into_iter().map(std::borrow::Cow::into_owned).collect()
    }

    /// Before a call: notes first, then the conversation is summed up, each only if it is time.
    pub(super) async fn make_room(&mut self) -> Result<(), Stop> {
        // Strangers could fill a window, and so what is remembered.
        let can_write = self.parts.tools.takes_notes() && !self.turn.scene.group;
        if is_due(self.tokens(), &self.turn.window, self.before.flushed, can_write) {
            self.take_notes().await?;
        }
        if self.tokens() > self.turn.window.line() {
            self.sum_up_from(self.tokens(), None).await?;
        }
        Ok(())
    }

    /// Lets the agent write down what should last, seen by nobody.
    async fn take_notes(&mut self) -> Result<(), Stop> {
        self.before.flushed = true;
        let prompt = self.turn.window.flush.as_ref().and_then(|flush| flush.prompt.as_deref());
        let quiet = self.quiet("flush");
        let flushing = Flushing {
            quiet: &quiet,
            lease: &self.turn.lease,
            request: self.request(ToolChoice::Auto),
            prompt,
            zone: &self.turn.scene.zone,
        };
        let flushed = flush(flushing, self.parts).await;
        self.note_asked(&quiet);
        flushed?;
        Ok(())
    }

    /// Sums the conversation up because somebody asked for it. `false` when there is nothing to sum up.
    pub(super) async fn sum_up(&mut self, instructions: Option<&str>) -> Result<bool, Stop> {
        self.sum_up_from(self.tokens(), instructions).await
    }

    /// The same, asked for by nobody, when the model itself says that it is too long: then it is, whatever was counted here.
    pub(super) async fn sum_up_after_overflow(&mut self) -> Result<bool, Stop> {
        self.sum_up_from(self.tokens().max(self.turn.window.tokens), None).await
    }

    async fn sum_up_from(&mut self, tokens: u64, instructions: Option<&str>) -> Result<bool, Stop> {
        let in_log: Vec<Line> = self.lines.iter().filter(|line| line.seq.is_some()).cloned().collect();
        let before = self.before.summary.as_ref().and_then(|entry| match &entry.body {
            EntryBody::Compaction(compaction) => Some(compaction),
            _ => None,
        });
        let lease = &self.turn.lease;
        let session_name = lease.alias.clone().unwrap_or_else(|| lease.session.to_string());
        let job = Job {
            lines: &in_log,
            before,
            window: &self.turn.window,
            tokens,
            fixed: self.before.fixed + self.unlogged(),
            instructions,
            session_name: &session_name,
        };
        if !is_long(&job) {
            return Ok(false);
        }
        self.parts.desk.emit(RunEventBody::CompactionStarted { tokens });
        let quiet = self.quiet("compaction");
        let compaction = compact(job, &quiet).await;
        self.parts.desk.charge("compaction");
        self.note_asked(&quiet);
        let Some(compaction) = compaction else { return Ok(false) };
        self.replace(compaction).await?;
        Ok(true)
    }

    /// Tokens of what is not in the log yet: it stays whatever is summed up.
    fn unlogged(&self) -> u64 {
        let lines = self.lines.iter().filter(|line| line.seq.is_none());
        lines.map(|line| estimate(&line.message)).sum()
    }

    /// Whether this run summed the conversation up, in whichever attempt.
    pub(super) fn has_summed_up(&self) -> bool {
        self.before.summary.as_ref().is_some_and(|summary| summary.run_id == self.turn.lease.run)
    }

    /// Commits a summary and goes on with it.
    async fn replace(&mut self, compaction: Compaction) -> Result<(), Stop> {
        let Compaction { tokens_before, mechanical, first_kept_seq, .. } = compaction;
        let (id, now) = (new_id(self.parts.clock)?, self.parts.clock.now_ms());
        let calls = self.parts.desk.calls();
        let new = NewCompaction { id, compaction: compaction.clone(), calls: calls.clone(), now };
        fault::pause("agent.compact.before").await;
        let seq = self.parts.journal.compact(&self.turn.lease, new).await?;
        fault::pause("agent.compact.after").await;
        self.parts.desk.booked(&calls);
        self.head = seq;
        let lease = &self.turn.lease;
        self.before.summary = Some(Entry {
            session_id: lease.session,
            seq,
            id,
            parent_id: None,
            run_id: lease.run,
            created_at: now,
            body: EntryBody::Compaction(compaction),
        });
        self.lines.retain(|line| line.seq.is_none_or(|seq| seq >= first_kept_seq));
        (self.before.counted, self.before.tokens, self.before.flushed) = (0, 0, false);
        let tokens_after = self.tokens();
        self.parts.desk.emit(RunEventBody::CompactionEnded { tokens_before, tokens_after, mechanical });
        Ok(())
    }
}

fn size(entry: &Entry) -> u64 {
    summary(entry).as_ref().map_or(0, estimate)
}
