//! Thinning what is sent, never what is stored: old results of tools, first shortened, then left out.
//!
//! What is thinned follows from the messages and their times alone. So the next request thins the same ones in the same
//! way, and a provider's cache holds from one pause of the conversation to the next.

use std::borrow::Cow;
use std::time::Duration;

use tidegate_protocol::{Block, Message, Role};

use super::estimate::{characters, count, room};

/// When and how old tool output is left out of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Pruning {
    pub mode: PruningMode,
    /// How long a provider keeps a prompt.
    pub ttl: Duration,
    /// Results after the last so many answers are never touched.
    pub keep_assistants: usize,
    /// Thin earlier and harder: the conversation is open to strangers.
    pub untrusted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PruningMode {
    Off,
    /// Only what stands before a pause in which the provider has forgotten the prompt anyway.
    CacheTtl,
    /// Whenever the request is large.
    Size,
}

/// Characters that an image counts as.
const IMAGE: u64 = 8_000;
/// A result that has more characters than this is shortened to its beginning and its end.
const LONG: u64 = 4_000;
const BEGINNING: usize = 1_500;
const END: usize = 1_500;
/// What stands for a result that was left out.
const LEFT_OUT: &str = "[an old result was left out here; call the tool again if it matters]";

/// How far thinning goes. Shares of the window are in hundredths.
struct Measure {
    window: u64,
    shorten: u64,
    leave_out: u64,
    /// Leaving out starts when results of so many characters could be.
    worthwhile: u64,
    keep: usize,
}

impl Measure {
    fn new(pruning: &Pruning, window: u64) -> Self {
        let usual = Self {
            window: room(window),
            shorten: 30,
            leave_out: 50,
            worthwhile: 50_000,
            keep: pruning.keep_assistants,
        };
        if !pruning.untrusted {
            return usual;
        }
        Self { shorten: 15, leave_out: 25, worthwhile: 25_000, keep: usual.keep.min(1), ..usual }
    }

    fn reaches(&self, used: u64, share: u64) -> bool {
        used.saturating_mul(100) >= self.window.saturating_mul(share)
    }
}

/// The messages as they are sent. `window` is in tokens.
pub fn prune<'a>(messages: &'a [Message], pruning: &Pruning, window: u64) -> Vec<Cow<'a, Message>> {
    let end = match pruning.mode {
        PruningMode::Off => 0,
        PruningMode::CacheTtl => last_pause(messages, pruning.ttl),
        PruningMode::Size => messages.len(),
    };
    let (old, new) = messages.split_at_checked(end).unwrap_or((&[], messages));
    let mut sent: Vec<Cow<'a, Message>> = old.iter().map(Cow::Borrowed).collect();
    thin(&mut sent, &Measure::new(pruning, window));
    sent.extend(new.iter().map(Cow::Borrowed));
    sent
}

/// How many messages stand before the last pause of at least `ttl`. A pause ends with what made us ask: an answer's own
/// time is not known when it is asked for.
fn last_pause(messages: &[Message], ttl: Duration) -> usize {
    let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
    let mut latest: Option<i64> = None;
    let mut end = 0;
    for (at, message) in messages.iter().enumerate() {
        let now = message.timestamp();
        let paused = latest.is_some_and(|latest| now.saturating_sub(latest) >= ttl);
        if paused && message.role() != Role::Assistant {
            end = at;
        }
        latest = Some(latest.map_or(now, |latest| latest.max(now)));
    }
    end
}

/// Shortens long results, then leaves out the oldest ones, each only while there is too much.
fn thin(messages: &mut [Cow<'_, Message>], measure: &Measure) {
    let mut used: u64 = messages.iter().map(|message| characters(message, IMAGE)).sum();
    if !measure.reaches(used, measure.shorten) {
        return;
    }
    let thinnable = thinnable(messages, measure.keep);
    for at in thinnable.clone() {
        replace(messages, at, shortened, &mut used);
    }
    let left: u64 = thinnable
        .clone()
        .filter_map(|at| messages.get(at))
        .filter_map(|result| text(result))
        .map(|text| count(&text))
        .sum();
    if left < measure.worthwhile {
        return;
    }
    for at in thinnable {
        if !measure.reaches(used, measure.leave_out) {
            return;
        }
        replace(messages, at, |_| Some(LEFT_OUT.to_owned()), &mut used);
    }
}

/// The part of a conversation whose results may be thinned: from its first question to the last answers that are kept
/// with all that belongs to them.
fn thinnable(messages: &[Cow<'_, Message>], keep: usize) -> std::ops::Range<usize> {
    let is = |role: Role| move |message: &Cow<'_, Message>| message.role() == role;
    let first = messages.iter().position(is(Role::User)).unwrap_or(messages.len());
    let mut answers =
        (0..messages.len()).rev().filter(|at| messages.get(*at).is_some_and(is(Role::Assistant)));
    let end = match keep.checked_sub(1) {
        None => messages.len(),
        Some(before) => answers.nth(before).unwrap_or(0),
    };
    first..end.max(first)
}

/// Puts another text in the place of a result's, if that is shorter.
fn replace(
    messages: &mut [Cow<'_, Message>],
    at: usize,
    make: impl Fn(&str) -> Option<String>,
    used: &mut u64,
) {
    let Some(message) = messages.get_mut(at) else { return };
    let Some(before) = text(message) else { return };
    let Some(after) = make(&before).filter(|after| count(after) < count(&before)) else { return };
    *used = used.saturating_sub(count(&before) - count(&after));
    if let Message::ToolResult { content, .. } = message.to_mut() {
        *content = vec![Block::text(after)];
    }
}

/// The text of a result that has nothing but text.
fn text(message: &Message) -> Option<String> {
    let Message::ToolResult { content, .. } = message else { return None };
    let texts = content.iter().map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    Some(texts.collect::<Option<Vec<_>>>()?.join("\n"))
}

fn shortened(text: &str) -> Option<String> {
    let all = count(text);
    if all <= LONG {
        return None;
    }
    let beginning: String = text.chars().take(BEGINNING).collect();
    let end: Vec<char> = text.chars().rev().take(END).collect();
    let end: String = end.into_iter().rev().collect();
    Some(format!(
        "{beginning}\n[…]\n{end}\n\n[Shortened: the first {BEGINNING} and the last {END} characters of {all} are left here.]"
    ))
}
