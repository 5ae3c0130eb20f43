//! What a run's calls used, kept beside the stream: a call that is dropped half-way was still paid for.

use std::sync::{Mutex, PoisonError};

use tidegate_protocol::{ModelRef, Usage};

use crate::failure::FailureKind;

/// One call that was made, however it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    pub model: ModelRef,
    pub profile_id: Option<String>,
    pub started_at: i64,
    pub usage: Usage,
    /// The provider did not say; the tokens are counted from the characters.
    pub estimated: bool,
    pub outcome: CallOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    Answered,
    Failed(FailureKind),
    /// Whoever asked went away.
    Dropped,
}

/// The calls of one run.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Vec<CallRecord>>);

impl Ledger {
    pub fn record(&self, call: CallRecord) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }

    /// What was recorded and not taken yet.
    pub fn calls(&self) -> Vec<CallRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes what was recorded since the last time.
    pub fn take(&self) -> Vec<CallRecord> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Everything so far.
    pub fn total(&self) -> Usage {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().fold(Usage::default(), |mut sum, call| {
            sum += call.usage;
            sum
        })
    }
}
