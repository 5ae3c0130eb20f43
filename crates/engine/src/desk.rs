//! The run's side of the engine: what it tells, what it cost, and whether somebody wrote meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tidegate_agent::text::is_silent;
use tidegate_agent::{Afford, Desk};
use tidegate_models::Ledger;
use tidegate_protocol::{CallId, ChannelName, JoinMode, RunEventBody};
use tidegate_storage::{Lease, NewCall, NewPart, Reservation, StoreError};

use crate::execute::{Work, over_budget};
use crate::live::Live;
use crate::metering::Account;
use crate::start::Core;

/// Tokens of an answer where there is no money for a long one.
const SHORT_ANSWER: u32 = 1_024;

pub(crate) struct RunDesk<'a> {
    core: &'a Arc<Core>,
    work: &'a Work,
    lease: Lease,
    live: &'a Live,
    ledger: Arc<Ledger>,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    /// How many of the ledger's calls are in the books.
    charged: usize,
    /// Those that are in no commit yet.
    open: Vec<NewCall>,
    /// Where something is to be sent once it is in a commit.
    lanes: Vec<(String, ChannelName, String)>,
}

impl<'a> RunDesk<'a> {
    pub(crate) fn new(core: &'a Arc<Core>, work: &'a Work, lease: &Lease, live: &'a Live) -> Self {
        Self { core, work, lease: lease.clone(), live, ledger: Arc::default(), books: Mutex::default() }
    }

    /// Where the run's model writes down its calls.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Every call that is in no commit yet, however the run came to its end.
    pub(crate) fn remaining(&self) -> Vec<NewCall> {
        self.charge("turn");
        self.calls()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Desk for RunDesk<'_> {
    fn emit(&self, event: RunEventBody) {
        // Silence comes in one piece, and nobody should see the word for it.
        if matches!(&event, RunEventBody::TextDelta { text } if is_silent(text)) {
            return;
        }
        self.live.publish(self.work.run, event);
    }

    fn charge(&self, purpose: &'static str) {
        let mut books = self.books();
        let mut records = self.ledger.calls();
        let new = records.split_off(books.charged.min(records.len()));
        books.charged += new.len();
        let account = Account { purpose, ..Account::of(self.work) };
        match self.core.calls(&account, new) {
            Ok(calls) => books.open.extend(calls),
            Err(error) => tracing::error!(%error, run = %self.work.run, "model calls cannot be written down"),
        }
    }

    fn calls(&self) -> Vec<NewCall> {
        self.books().open.clone()
    }

    fn booked(&self, calls: &[NewCall]) {
        let booked: Vec<CallId> = calls.iter().map(|call| call.id).collect();
        let mut books = self.books();
        books.open.retain(|call| !booked.contains(&call.id));
        let lanes = std::mem::take(&mut books.lanes);
        drop(books);
        for (lane, channel, account) in lanes {
            self.core.wake_lane(lane, &channel, &account);
        }
    }

    fn is_limited(&self) -> bool {
        let now = self.core.clock.now_ms();
        !self.core.settings.budget_lines(&self.work.key.scope, now).is_empty()
    }

    async fn afford(&self, tokens: u64) -> Result<Afford, StoreError> {
        let (core, spec) = (self.core, &self.work.spec);
        let now = core.clock.now_ms();
        let short = spec.limits.max_tokens.map_or(SHORT_ANSWER, |most| most.min(SHORT_ANSWER));
        let mut brief = spec.clone();
        brief.limits.max_tokens = Some(short);
        let reservation = |spec| core.settings.reservation(&self.work.key.scope, spec, tokens, now);
        let wanted: Vec<Reservation> = [spec, &brief].into_iter().filter_map(reservation).collect();
        let reserved = core.with_room(|| core.store.reserve(&self.lease, wanted.clone(), now)).await?;
        Ok(match reserved {
            Ok(0) => Afford::Whole,
            Ok(_) => Afford::Short(short),
            Err(refusal) => Afford::No(over_budget(&refusal)),
        })
    }

    fn is_joined(&self, mode: JoinMode) -> bool {
        self.live.is_joined(mode)
    }

    fn catches_up(&self) {
        self.live.catches_up();
    }

    async fn parts(&self, text: &str) -> Vec<NewPart> {
        let parts = self.core.reply_parts(self.work, &Ok(text.to_owned())).await.unwrap_or_else(|error| {
            tracing::warn!(%error, run = %self.work.run, "an interim message cannot be rendered");
            Vec::new()
        });
        let lanes =
            parts.iter().map(|part| (part.lane.clone(), part.channel.clone(), part.account_id.clone()));
        self.books().lanes.extend(lanes);
        parts
    }
}
