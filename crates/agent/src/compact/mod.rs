//! Summing up a conversation that has grown too long. It always ends with something that fits.
//!
//! The order to read it in: `room` (how much of everything fits), `cut` (where the old part ends), `serialise` (the old
//! part as a model reads it), `stages` (in how many calls), `summarise` (the calls, and which answers count), `mechanical`
//! (when none does), `notes` (what is kept whatever the model wrote).

mod cut;
mod mechanical;
mod notes;
mod prompt;
mod room;
mod serialise;
mod stages;
mod summarise;
#[cfg(test)]
mod tests;
mod trail;
mod trust;
mod words;

use tidegate_protocol::{Compaction, Message};

use crate::context::{Line, estimate};
use crate::run::{Quiet, Window};

pub use cut::{Cut, cut_point};

use notes::Notes;
use room::Room;
use summarise::{Limits, Summariser};

/// What is summed up.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// All lines of the context that are in the log, oldest first.
    pub lines: &'a [Line],
    /// The summary before this one.
    pub before: Option<&'a Compaction>,
    pub window: &'a Window,
    /// Tokens of the conversation now; at least the window's when a provider said that it is too long.
    pub tokens: u64,
    /// Tokens of it that no summary makes fewer: instructions, tools, and what is not in the log yet.
    pub fixed: u64,
    /// What somebody wants kept in mind.
    pub instructions: Option<&'a str>,
    /// How the conversation is called at the provider.
    pub session_name: &'a str,
}

/// Whether there is anything to sum up.
pub(crate) fn is_long(job: &Job<'_>) -> bool {
    let room = Room::new(job.window, job.fixed, job.tokens, estimated(job));
    match cut::fitting(job.lines, &room) {
        Some(cut) => {
            let (old, kept) = job.lines.split_at(cut.first_kept);
            first_kept_seq(old, kept).is_some()
        }
        None => shorter(job, &room).is_some(),
    }
}

/// Sums up. `None` when there is nothing to sum up. Never fails: without a usable answer of the model the summary says
/// what was left out.
pub(crate) async fn compact(job: Job<'_>, quiet: &Quiet<'_>) -> Option<Compaction> {
    compact_within(job, quiet, Limits::default()).await
}

async fn compact_within(job: Job<'_>, quiet: &Quiet<'_>, limits: Limits) -> Option<Compaction> {
    let earlier = job.before.map(|before| notes::body_of(&before.summary));
    let room = Room::new(job.window, job.fixed, job.tokens, estimated(&job));
    let Some(cut) = cut::fitting(job.lines, &room) else { return shorter(&job, &room) };
    let (old, kept) = job.lines.split_at(cut.first_kept);
    let notes = Notes::new(&job, &cut);
    let mut summariser = Summariser::new(&job, &room, quiet, limits);
    let (body, mechanical) = match summariser.write(&serialise::pieces(old, cut.turn_start), earlier).await {
        Some(text) => (text, false),
        None => (mechanical::summary(old, earlier, room.summary_characters()), true),
    };
    Some(Compaction {
        summary: notes.below(&body, room.summary_characters()),
        first_kept_seq: first_kept_seq(old, kept)?,
        tokens_before: job.tokens,
        mechanical,
        files: notes.files,
    })
}

/// The summary before in less room, when it is what takes too much: it was written for a larger window.
fn shorter(job: &Job<'_>, room: &Room) -> Option<Compaction> {
    let before = job.before?;
    if job.tokens <= job.window.line() || estimate(&Message::user(before.summary.as_str(), 0)) <= room.summary
    {
        return None;
    }
    let kept = job.lines.iter().filter_map(|line| line.seq).min();
    let notes = Notes::new(job, &Cut { first_kept: 0, turn_start: None });
    Some(Compaction {
        summary: notes.below(notes::body_of(&before.summary), room.summary_characters()),
        first_kept_seq: kept.unwrap_or(before.first_kept_seq),
        tokens_before: job.tokens,
        mechanical: true,
        files: notes.files,
    })
}

/// What the lines and the summary before them come to, by our own count.
fn estimated(job: &Job<'_>) -> u64 {
    let before = job.before.map_or(0, |before| estimate(&Message::user(before.summary.as_str(), 0)));
    job.lines.iter().map(|line| estimate(&line.message)).fold(before, u64::saturating_add)
}

/// The position that the context begins with from now on. Lines that were moved behind a result they came before are
/// not lost; and at least one line goes, or the same would be summed up again and again.
fn first_kept_seq(old: &[Line], kept: &[Line]) -> Option<i64> {
    let oldest = old.iter().filter_map(|line| line.seq).min()?;
    let newest = old.iter().filter_map(|line| line.seq).max()?;
    let first = kept.iter().filter_map(|line| line.seq).min();
    Some(first.unwrap_or(newest.saturating_add(1)).max(oldest.saturating_add(1)))
}
