//! Whoever called, while the call goes on: told how far it is, and what there is to know.
#![allow(deprecated, reason = "the newer era of the protocol has no log; clients of the older one want it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
}

impl Level {
    pub(super) fn of(level: LoggingLevel) -> Self {
        match level {
            LoggingLevel::Debug => Self::Debug,
            LoggingLevel::Info => Self::Info,
            LoggingLevel::Notice => Self::Notice,
            LoggingLevel::Warning => Self::Warning,
            LoggingLevel::Error => Self::Error,
            LoggingLevel::Critical | LoggingLevel::Alert | LoggingLevel::Emergency => Self::Critical,
        }
    }

    fn written(self) -> LoggingLevel {
        match self {
            Self::Debug => LoggingLevel::Debug,
            Self::Info => LoggingLevel::Info,
            Self::Notice => LoggingLevel::Notice,
            Self::Warning => LoggingLevel::Warning,
            Self::Error => LoggingLevel::Error,
            Self::Critical => LoggingLevel::Critical,
        }
    }
}

/// What a client wants to be told at least; shared by all calls of a session.
#[derive(Debug)]
pub(super) struct Least(AtomicU8);

impl Default for Least {
    fn default() -> Self {
        Self(AtomicU8::new(Level::Info as u8))
    }
}

impl Least {
    pub(super) fn set(&self, level: Level) {
        self.0.store(level as u8, Ordering::Relaxed);
    }

    fn lets(&self, level: Level) -> bool {
        level as u8 >= self.0.load(Ordering::Relaxed)
    }
}

/// Whoever made a call.
#[derive(Clone)]
pub struct Caller {
    peer: Peer<RoleServer>,
    /// Absent when it does not want to know how far the call is.
    token: Option<ProgressToken>,
    /// Notes so far.
    told: Arc<AtomicU64>,
    least: Arc<Least>,
}

impl Caller {
    pub(super) fn of(context: &RequestContext<RoleServer>, least: &Arc<Least>) -> Self {
        Self {
            peer: context.peer.clone(),
            token: context.meta.get_progress_token(),
            told: Arc::default(),
            least: Arc::clone(least),
        }
    }

    /// Says how far the call is.
    pub async fn progress(&self, done: f64, total: Option<f64>, message: Option<String>) {
        let Some(token) = self.token.clone() else { return };
        let mut note = ProgressNotificationParam::new(token, done);
        (note.total, note.message) = (total, message);
        // Whoever does not listen any more gets the answer, or does not.
        let _ = self.peer.notify_progress(note).await;
    }

    /// Says what happens, where nobody knows how much is left.
    pub async fn note(&self, message: String) {
        let count = self.told.fetch_add(1, Ordering::Relaxed) + 1;
        #[expect(clippy::cast_precision_loss, reason = "nobody counts that far")]
        self.progress(count as f64, None, Some(message)).await;
    }

    /// Says something that a person may want to know.
    pub async fn log(&self, level: Level, text: &str) {
        if self.least.lets(level) {
            let note = LoggingMessageNotificationParam::new(level.written(), text.into());
            let _ = self.peer.notify_logging_message(note).await;
        }
    }
}
