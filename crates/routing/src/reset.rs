//! When a conversation begins anew by itself: at an hour of the day, after silence, or whichever comes first.
//!
//! The hour is a person's hour: the caller passes the time zone in. Where clocks change, a day still has exactly one
//! beginning: an hour that is skipped counts from the moment the clocks jump, one that comes twice counts the first time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use tidegate_protocol::{Place, SessionKey};

/// The hour of a daily reset when nobody says another.
const HOUR: u8 = 4;
/// Minutes of silence when somebody wants a reset after silence and does not say how much.
const IDLE_MINUTES: u32 = 60;

/// What ends a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResetMode {
    /// An hour of the day.
    #[default]
    Daily,
    /// Silence.
    Idle,
    /// Nothing but a person's word.
    Off,
}

/// What somebody configured. What a narrower rule leaves open, a wider one says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResetRule {
    pub mode: Option<ResetMode>,
    /// For [`ResetMode::Daily`].
    pub at_hour: Option<u8>,
    /// Minutes of silence, beside the hour of the day too.
    pub idle_minutes: Option<u32>,
}

impl ResetRule {
    fn or(self, wider: Self) -> Self {
        Self {
            mode: self.mode.or(wider.mode),
            at_hour: self.at_hour.or(wider.at_hour),
            idle_minutes: self.idle_minutes.or(wider.idle_minutes),
        }
    }
}

/// Kinds of conversations that may have their own rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Conversation {
    /// With one person, also one that has a name.
    Direct,
    Group,
    /// A thread inside of either.
    Thread,
}

impl Conversation {
    /// The kind of conversation a key stands for; nothing for one that a run has with another.
    fn of(key: &SessionKey) -> Option<Self> {
        Some(match key.place {
            Place::Sub { .. } => return None,
            _ if key.thread.is_some() => Self::Thread,
            Place::Group { .. } => Self::Group,
            Place::Main | Place::Named { .. } | Place::Dm { .. } => Self::Direct,
        })
    }
}

/// All that is configured about resets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResetRules {
    pub general: ResetRule,
    pub by_type: BTreeMap<Conversation, ResetRule>,
    /// By the network's name; beats the kind of conversation.
    pub by_channel: BTreeMap<String, ResetRule>,
}

impl ResetRules {
    /// What holds for a conversation. One that a run began for a piece of work lasts as long as that work.
    pub fn policy(&self, key: &SessionKey) -> ResetPolicy {
        let Some(kind) = Conversation::of(key) else { return ResetPolicy::default() };
        let channel = match &key.place {
            Place::Dm { channel, .. } => channel.as_ref(),
            Place::Group { channel, .. } => Some(channel),
            Place::Main | Place::Named { .. } | Place::Sub { .. } => None,
        };
        let by_channel = channel.and_then(|channel| self.by_channel.get(channel.as_str()));
        let by_type = self.by_type.get(&kind);
        let narrow = by_channel.copied().unwrap_or_default().or(by_type.copied().unwrap_or_default());
        ResetPolicy::of(narrow.or(self.general))
    }
}

/// When one conversation begins anew. Both may be set; whichever comes first ends it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResetPolicy {
    pub daily_hour: Option<u8>,
    pub idle_minutes: Option<u32>,
}

impl ResetPolicy {
    fn of(rule: ResetRule) -> Self {
        match rule.mode.unwrap_or_default() {
            ResetMode::Daily => {
                Self { daily_hour: Some(rule.at_hour.unwrap_or(HOUR)), idle_minutes: rule.idle_minutes }
            }
            ResetMode::Idle => {
                Self { daily_hour: None, idle_minutes: Some(rule.idle_minutes.unwrap_or(IDLE_MINUTES)) }
            }
            ResetMode::Off => Self::default(),
        }
    }

    /// The newest instant such that a conversation last used before it begins anew now; nothing when it never does.
    pub fn boundary(&self, now: i64, zone: &TimeZone) -> Option<i64> {
        let daily = self.daily_hour.and_then(|hour| last_daily(hour, now, zone));
        let idle = self.idle_minutes.map(|minutes| now.saturating_sub(i64::from(minutes) * 60_000));
        daily.max(idle)
    }
}

/// When that hour of the day last began.
fn last_daily(hour: u8, now: i64, zone: &TimeZone) -> Option<i64> {
    let time = Time::new(i8::try_from(hour).ok()?, 0, 0, 0).ok()?;
    let today = zone.to_datetime(Timestamp::from_millisecond(now).ok()?).date();
    let began = |date: Date| {
        let begin = zone.to_ambiguous_timestamp(date.to_datetime(time)).compatible().ok()?;
        Some(begin.as_millisecond())
    };
    // Where clocks go back over midnight, tomorrow has begun once already; where a whole day is skipped, the one before
    // yesterday is the last that began.
    let yesterday = today.yesterday().ok();
    let days =
        [today.tomorrow().ok(), Some(today), yesterday, yesterday.and_then(|day| day.yesterday().ok())];
    days.into_iter().flatten().filter_map(began).filter(|begin| *begin <= now).max()
}

#[cfg(test)]
mod tests;
