//! The run's own verbs: a step (INTENT before a tool, RESULT after it), what it reads, and what it takes in.

use async_trait::async_trait;
use serde_json::Value;
use tidegate_protocol::{
    Entry, EntryBody, EntryId, Id as _, JoinMode, Message, Role, RunId, ToolRunId, ToolRunState,
};

use crate::error::{Result, StoreError};
use crate::lease::Lease;
use crate::ledger::NewCall;
use crate::library::ToolRunRow;
use crate::outbox::NewPart;

#[async_trait]
pub trait Journal: Send + Sync {
    /// One commit of the run: the tools that ended (RESULT), the lines that join the log, the tools that are about to
    /// start (INTENT), in that order. The run's input enters the log with its first step. `NotFound`, and nothing
    /// written, when a tool ended that was not open. Answers the log's last position.
    async fn step(&self, lease: &Lease, step: Step) -> Result<i64>;

    /// The newest lines of the lease's log that fit the limits, with what was summed up before them. Costs the same in
    /// a short and a long log.
    async fn context(&self, lease: &Lease, limits: ContextLimits) -> Result<Context>;

    /// The run's own tools in the order they were intended: what an earlier attempt left.
    async fn steps(&self, lease: &Lease) -> Result<Vec<ToolRunRow>>;

    /// Appends a summary and moves the floor: from now on the context begins with the summary. Everything before stays
    /// as it is. Answers the summary's position. `NotFound`, and nothing written, when its first line is not one of
    /// those shown so far or the one after them.
    async fn compact(&self, lease: &Lease, compaction: NewCompaction) -> Result<i64>;

    /// Takes in the messages at the head of the session's queue that may join this run in that way, in order, as long as
    /// they may: their lines join the log, their runs end as `joined`, what they reserved is given back.
    async fn absorb(&self, lease: &Lease, absorb: Absorb) -> Result<Vec<Absorbed>>;

    /// Whether there is a message that [`absorb`](Journal::absorb) would take in.
    async fn is_joined(&self, lease: &Lease, mode: JoinMode) -> Result<bool>;

    /// Notes that the agent was asked to write down what matters, in this cycle of compaction. Answers `false`, and
    /// notes nothing, when it was asked already.
    async fn note_flush(&self, lease: &Lease, now: i64) -> Result<bool>;
}

/// How messages are taken in.
#[derive(Debug, Clone)]
pub struct Absorb {
    pub mode: JoinMode,
    /// What the run said before them. It is sent only if there is one: else it is the run's answer, and goes with its end.
    pub parts: Vec<NewPart>,
    pub now: i64,
}

impl Absorb {
    /// With nothing said before them.
    pub fn quietly(mode: JoinMode, now: i64) -> Self {
        Self { mode, parts: Vec::new(), now }
    }
}

/// Messages that one commit takes in at most.
pub const MOST_ABSORBED: usize = 32;

/// A line to append; its position and parent follow from the log.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEntry {
    pub id: EntryId,
    pub body: EntryBody,
}

/// What one commit of a run holds.
#[derive(Debug, Clone, Default)]
pub struct Step {
    pub ended: Vec<ToolOutcome>,
    pub entries: Vec<NewEntry>,
    pub begun: Vec<NewToolRun>,
    /// Model calls since the last step. A call that is in the ledger already is not counted again.
    pub calls: Vec<NewCall>,
    /// What is said to a network before the run is over; numbered on from the run's last part.
    pub parts: Vec<NewPart>,
    /// How long the run has worked by now, all attempts together. The next one counts on from here.
    pub worked_ms: Option<u64>,
    pub now: i64,
}

#[derive(Debug, Clone)]
pub struct NewToolRun {
    pub id: ToolRunId,
    /// The model's id of the call.
    pub call_id: String,
    pub tool_name: String,
    pub args: Value,
}

#[derive(Debug, Clone)]
pub struct ToolOutcome {
    pub tool_run: ToolRunId,
    /// `Succeeded`, `Failed`, `Interrupted` or `Shadowed`.
    pub state: ToolRunState,
    pub result: Value,
}

/// How much of a log is read at most; the newest come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextLimits {
    pub entries: u32,
    /// Of the stored bodies together, where a body with pictures counts as [`PICTURE_BYTES`](crate::PICTURE_BYTES) at
    /// most: a model counts them by their number. At least one line is read, and all lines of the run that reads.
    pub bytes: u64,
    /// Messages of people, without those of the run that reads. The oldest of them is the oldest line.
    pub turns: u32,
}

/// What a stored body with pictures counts as, at most.
pub const PICTURE_BYTES: u64 = 20_000;

impl ContextLimits {
    /// Everything there is.
    pub const NONE: Self = Self { entries: u32::MAX, bytes: u64::MAX, turns: u32::MAX };
}

/// Takes the lines of a log, the newest first, until a limit is reached.
#[derive(Debug)]
pub struct ContextReader {
    limits: ContextLimits,
    run: RunId,
    bytes: u64,
    turns: u32,
    entries: Vec<Entry>,
}

impl ContextReader {
    pub fn new(lease: &Lease, limits: ContextLimits) -> Self {
        Self { limits, run: lease.run, bytes: 0, turns: 0, entries: Vec::new() }
    }

    /// Whether the next line is read, which is that long. The lines of the run itself are, whatever they take.
    #[must_use]
    pub fn wants(&mut self, bytes: u64, of_run: RunId) -> bool {
        if of_run == self.run {
            return true;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        let fits = self.entries.len() < self.limits.entries as usize && self.bytes <= self.limits.bytes;
        self.entries.is_empty() || (fits && self.turns < self.limits.turns)
    }

    pub fn take(&mut self, entry: Entry) {
        let is_turn = entry.run_id != self.run
            && entry.body.message().is_some_and(|message| message.role() == Role::User);
        self.turns = self.turns.saturating_add(u32::from(is_turn));
        self.entries.push(entry);
    }

    /// Lines and bytes that may still be read.
    pub fn left(&self) -> (u64, u64) {
        let lines = u64::from(self.limits.entries.max(1)).saturating_sub(self.entries.len() as u64);
        (lines, self.limits.bytes.saturating_sub(self.bytes))
    }

    /// The lines, the oldest first.
    pub fn into_entries(mut self) -> Vec<Entry> {
        self.entries.reverse();
        self.entries
    }
}

/// What a run finds in its log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Context {
    /// The newest compaction of the log, if there was one. It is not among the entries.
    pub summary: Option<Entry>,
    /// The newest lines after the floor, oldest first.
    pub entries: Vec<Entry>,
    /// There are older lines after the floor that did not fit.
    pub cut: bool,
    /// How often the log was summed up.
    pub compactions: u32,
    /// The agent was asked to write its notes since the last time it was summed up.
    pub flushed: bool,
    /// When the log was last written to before this run.
    pub touched_at: Option<i64>,
    /// The run's own message is in the log, though it may have been summed up since.
    pub begun: bool,
    /// The run's own lines before the floor, oldest first: what it did before it was summed up still counts.
    pub summed_up: Vec<Entry>,
}

#[derive(Debug, Clone)]
pub struct NewCompaction {
    pub id: EntryId,
    pub compaction: tidegate_protocol::Compaction,
    /// What summing up cost.
    pub calls: Vec<NewCall>,
    pub now: i64,
}

impl NewCompaction {
    /// Refuses one that would bring lines back or hide lines that do not exist.
    pub fn check(&self, floor_seq: i64, head_seq: i64) -> Result<()> {
        let first_kept = self.compaction.first_kept_seq;
        if first_kept > floor_seq && first_kept <= head_seq.saturating_add(1) {
            return Ok(());
        }
        Err(StoreError::NotFound(format!(
            "line {first_kept} among those shown ({} to {head_seq})",
            floor_seq.saturating_add(1)
        )))
    }
}

/// A message that joined the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Absorbed {
    pub run: RunId,
    pub input: Message,
}

impl Absorbed {
    /// The line that its message becomes. It has the run's own id: a message joins once.
    pub fn entry(&self) -> NewEntry {
        let bytes = self.run.uuid().into_bytes();
        let (time, rest) = bytes.split_at(6);
        let unix_ms = time.iter().fold(0, |ms, byte| ms << 8 | u64::from(*byte));
        let mut random = [0; 10];
        random.copy_from_slice(rest);
        NewEntry { id: EntryId::from_parts(unix_ms, random), body: EntryBody::Message(self.input.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{Compaction, FileTrail};

    use super::*;

    #[test]
    fn a_summary_keeps_from_a_line_that_is_shown_or_the_one_after_the_last() {
        let new = |first_kept_seq| NewCompaction {
            id: EntryId::from_parts(0, [0; 10]),
            compaction: Compaction {
                summary: String::new(),
                first_kept_seq,
                tokens_before: 0,
                mechanical: true,
                files: FileTrail::default(),
            },
            calls: Vec::new(),
            now: 0,
        };
        let allowed: Vec<i64> = (-1..=12).filter(|kept| new(*kept).check(4, 9).is_ok()).collect();
        assert_eq!(allowed, (5..=10).collect::<Vec<_>>());
        let refused = new(11).check(4, 9).unwrap_err().to_string();
        assert_eq!(refused, "line 11 among those shown (5 to 9) does not exist");
        assert!(new(i64::MAX).check(i64::MAX, i64::MAX).is_err());
    }

    #[test]
    fn the_line_of_a_joined_message_has_its_runs_id() {
        let run = RunId::from_parts(1_771_866_451_000, [0xfe; 10]);
        let joined = Absorbed { run, input: Message::user("hi", 5) };
        assert_eq!(joined.entry().id.to_string(), run.to_string());
    }
}
