//! The calls that sum up: a bounded number of them, each in its time, and what is done when one is of no use.

use std::time::Duration;

use tidegate_models::{CacheRetention, Options, Request};
use tidegate_protocol::Message;
use tokio::time::{Instant, timeout};

use super::room::Room;
use super::serialise::{Piece, inert, tokens};
use super::stages::{is_oversized, plan, with_safety};
use super::words::clip;
use super::{Job, prompt, trust};
use crate::run::Quiet;

/// What all of the calls together may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) call: Duration,
    pub(super) whole: Duration,
    pub(super) calls: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { call: Duration::from_mins(1), whole: Duration::from_mins(3), calls: 8 }
    }
}

/// Below this many tokens of a conversation a call is not worth its instructions.
const LEAST_INPUT: u64 = 200;
/// Tokens of the instructions around what is quoted.
const INSTRUCTIONS: u64 = 400;

/// A model that is asked to sum up.
pub(super) struct Summariser<'a> {
    job: &'a Job<'a>,
    quiet: &'a Quiet<'a>,
    limits: Limits,
    ends: Instant,
    calls_left: usize,
    /// Tokens of a chunk at most.
    input: u64,
    /// Tokens of an answer at most; a model that thinks thinks within them.
    output: u64,
    /// Characters of a summary on its way at most.
    characters: usize,
}

impl<'a> Summariser<'a> {
    pub(super) fn new(job: &'a Job<'a>, room: &Room, quiet: &'a Quiet<'a>, limits: Limits) -> Self {
        let window = job.window.tokens;
        let kept_free = window.saturating_sub(job.window.line());
        let output = (kept_free.saturating_mul(4) / 5).min(window / 4).max(room.summary);
        // Two summaries are quoted when parts are merged; one, beside a chunk.
        let quoted = room.summary.saturating_add(INSTRUCTIONS).saturating_add(output);
        let input = window.saturating_sub(quoted).saturating_mul(5) / 6;
        Self {
            job,
            quiet,
            limits,
            ends: Instant::now() + limits.whole,
            calls_left: limits.calls,
            input,
            output,
            characters: room.summary_characters(),
        }
    }

    /// A summary of the pieces, going on from the earlier one. First of all of them; if that is of no use, without those
    /// that fill half of the window alone. `None` when a model is of no use at all.
    pub(super) async fn write(&mut self, pieces: &[Piece], earlier: Option<&str>) -> Option<String> {
        if pieces.is_empty() || self.input < LEAST_INPUT {
            return None;
        }
        let all: Vec<&Piece> = pieces.iter().collect();
        if all.iter().all(|piece| piece.tokens <= self.input)
            && let Some(summary) = self.staged(&all, earlier).await
        {
            return Some(summary);
        }
        let (large, rest): (Vec<&Piece>, Vec<&Piece>) =
            all.into_iter().partition(|piece| self.is_large(piece));
        if large.is_empty() || rest.is_empty() {
            return None;
        }
        let summary = self.staged(&rest, earlier).await?;
        let sizes: Vec<String> = large.iter().map(|piece| thousands(piece.tokens)).collect();
        Some(format!(
            "(Left out because of their size: {} messages of about {} tokens.)\n{summary}",
            large.len(),
            clip(&sizes.join(", "), 200)
        ))
    }

    fn is_large(&self, piece: &Piece) -> bool {
        piece.tokens > self.input || is_oversized(piece.tokens, self.job.window.tokens)
    }

    /// In parts, each chunk by chunk, and merged.
    async fn staged(&mut self, pieces: &[&Piece], earlier: Option<&str>) -> Option<String> {
        let sizes: Vec<u64> = pieces.iter().map(|piece| piece.tokens).collect();
        let plan = plan(&sizes, self.job.window.tokens, self.input, self.calls_left);
        let mut summaries = Vec::with_capacity(plan.parts.len());
        for (at, part) in plan.parts.into_iter().enumerate() {
            let mut so_far = earlier.filter(|_| at == 0).map(inert);
            for chunk in part {
                let texts = pieces.get(chunk).unwrap_or_default().iter().map(|piece| piece.text.as_str());
                so_far = Some(self.sum_up(&texts.collect::<Vec<_>>().join("\n\n"), so_far.as_deref()).await?);
            }
            summaries.extend(so_far);
        }
        let summary = if summaries.len() > 1 { self.merge(&summaries).await? } else { summaries.pop()? };
        Some(match plan.skipped {
            0 => summary,
            skipped => {
                format!("(The oldest {skipped} messages were left out: there were too many.)\n{summary}")
            }
        })
    }

    async fn sum_up(&mut self, chunk: &str, so_far: Option<&str>) -> Option<String> {
        let asked = prompt::sum_up(chunk, so_far, self.job.instructions, self.words());
        let source = chunk.len() + so_far.map_or(0, str::len);
        self.ask(asked, source, Some(chunk)).await
    }

    /// What was good enough apart is good enough side by side, if it cannot be merged.
    async fn merge(&mut self, parts: &[String]) -> Option<String> {
        let joined = parts.join("\n\n");
        if with_safety(tokens(&joined)) > self.input {
            return Some(joined);
        }
        let asked = prompt::merge(parts, self.job.instructions, self.words());
        Some(self.ask(asked, joined.len(), None).await.unwrap_or(joined))
    }

    /// Three words take about four tokens.
    fn words(&self) -> u64 {
        u64::try_from(self.characters).unwrap_or(u64::MAX) / 4 * 3 / 4
    }

    async fn ask(&mut self, asked: String, source: usize, conversation: Option<&str>) -> Option<String> {
        let left = self.ends.saturating_duration_since(Instant::now());
        self.calls_left = self.calls_left.checked_sub(1)?;
        if left.is_zero() {
            return None;
        }
        let request = Request {
            system: vec![prompt::SYSTEM.to_owned()],
            messages: vec![Message::user(asked, 0)],
            tools: Vec::new(),
            options: Options {
                max_tokens: Some(u32::try_from(self.output).unwrap_or(u32::MAX)),
                cache: CacheRetention::None,
                ..Options::default()
            },
            session_name: self.job.session_name.to_owned(),
        };
        let heard = timeout(self.limits.call.min(left), self.quiet.ask(request)).await;
        let answer = heard.ok()?.ok()?.message(0);
        let summary = trust::summary_in(&answer, source, conversation)?;
        Some(clip(&inert(&summary), self.characters))
    }
}

/// `~12K`.
fn thousands(tokens: u64) -> String {
    format!("{}K", tokens.div_ceil(1_000))
}
