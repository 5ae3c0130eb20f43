//! The book of one lane: how many places are taken, who waits, and whose turn it is. Pure: time is passed in.
//!
//! Two kinds wait: sessions whose next run could begin, and runs under way that waited for somebody and go on. They take
//! turns: a run that goes on holds memory and a session, so it is not put behind a thousand that have not begun; and a
//! thousand that go on do not keep others from beginning.

use std::collections::HashMap;
use std::time::Instant;

use tidegate_protocol::{RunId, Scope, SessionKey};

use super::fair::{FairQueue, Path, Pushed, Ticket};

/// Of how many is told at one look. A crowd that waits must not overrun those who listen; the others are told of next.
const TOLD_AT_ONCE: usize = 100;
/// Runs under way are not kept waiting outside: each is in memory anyhow.
const UNBOUNDED: usize = usize::MAX;

/// A session whose next run could begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) key: SessionKey,
    /// Its next run, where that is known.
    pub(crate) run: Option<RunId>,
    pub(crate) since: Instant,
    /// Somebody was told that it waits for long.
    pub(super) warned: bool,
}

impl Waiter {
    /// A session that has its place already.
    pub(crate) fn of(key: SessionKey) -> Self {
        Self { key, run: None, since: Instant::now(), warned: false }
    }
}

/// One that got a place. `R` is how a run that goes on is told.
#[derive(Debug)]
pub(super) enum Turn<R> {
    Begins(Waiter),
    GoesOn { tell: R, since: Instant },
}

pub(super) struct Book<R> {
    limit: usize,
    taken: usize,
    beginning: FairQueue<Waiter>,
    /// A session waits once, however often it is named.
    known: HashMap<SessionKey, Ticket>,
    going_on: FairQueue<(R, Instant)>,
    /// Who went last.
    last_went_on: bool,
    /// The store has sessions that had no room here.
    spilled: bool,
    bound: usize,
}

/// A run that waited for longer than it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Late {
    pub(super) waiter: Waiter,
    /// So many come before it.
    pub(super) ahead: usize,
}

/// How full a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) limit: usize,
    pub(super) taken: usize,
    pub(super) waiting: usize,
    pub(super) oldest: Option<Instant>,
}

impl<R> Book<R> {
    /// `bound`: of the sessions that are remembered here.
    pub(super) fn new(limit: usize, bound: usize) -> Self {
        Self {
            limit: limit.max(1),
            taken: 0,
            beginning: FairQueue::new(bound),
            known: HashMap::new(),
            going_on: FairQueue::new(UNBOUNDED),
            last_went_on: false,
            spilled: false,
            bound,
        }
    }

    /// Takes a place if one is free and nobody waits for it.
    pub(super) fn take_now(&mut self) -> bool {
        let free = self.taken < self.limit && self.nobody_waits();
        self.taken += usize::from(free);
        free
    }

    fn nobody_waits(&self) -> bool {
        self.beginning.is_empty() && self.going_on.is_empty()
    }

    pub(super) fn give_back(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }

    /// Whether somebody could be given a place now.
    pub(super) fn has_turn(&self) -> bool {
        self.taken < self.limit && !self.nobody_waits()
    }

    /// Notes a session whose next run could begin; `false` when it had to be left to the store, or another one had.
    pub(super) fn wait_to_begin(&mut self, key: SessionKey, run: Option<RunId>, now: Instant) -> bool {
        let path = path_of(&key.scope);
        if let Some(ticket) = self.known.get(&key) {
            if let Some(waiter) = self.beginning.get_mut(&path, *ticket)
                && run.is_some()
                && waiter.run != run
            {
                // Another run than the one that was waiting: its time begins now.
                let since = if waiter.run.is_none() { waiter.since } else { now };
                *waiter = Waiter { run, since, warned: false, key };
            }
            return true;
        }
        let waiter = Waiter { key: key.clone(), run, since: now, warned: false };
        match self.beginning.push(&path, waiter) {
            Pushed::In(ticket) => {
                self.known.insert(key, ticket);
                true
            }
            Pushed::Instead(ticket, left) => {
                self.known.remove(&left.key);
                self.known.insert(key, ticket);
                self.spilled = true;
                false
            }
            Pushed::Full(_) => {
                self.spilled = true;
                false
            }
        }
    }

    /// Notes a run that goes on.
    pub(super) fn wait_to_go_on(&mut self, scope: &Scope, tell: R, now: Instant) -> Option<Ticket> {
        match self.going_on.push(&path_of(scope), (tell, now)) {
            Pushed::In(ticket) | Pushed::Instead(ticket, _) => Some(ticket),
            Pushed::Full(_) => None,
        }
    }

    /// One that was to go on ended instead.
    pub(super) fn forget(&mut self, scope: &Scope, ticket: Ticket) {
        self.going_on.remove(&path_of(scope), ticket);
    }

    /// A run that waited has ended: its session waits no longer because of it.
    pub(super) fn ended(&mut self, key: &SessionKey, run: RunId) {
        let path = path_of(&key.scope);
        let Some(ticket) = self.known.get(key).copied() else { return };
        let is_other = |waiter: &mut Waiter| waiter.run.is_some_and(|next| next != run);
        if self.beginning.get_mut(&path, ticket).is_some_and(is_other) {
            return;
        }
        self.known.remove(key);
        self.beginning.remove(&path, ticket);
    }

    /// Gives the next one a place, if there is one.
    pub(super) fn next(&mut self) -> Option<Turn<R>> {
        if !self.has_turn() {
            return None;
        }
        let goes_on = !self.going_on.is_empty() && (!self.last_went_on || self.beginning.is_empty());
        let turn = if goes_on {
            let (tell, since) = self.going_on.pop()?;
            Turn::GoesOn { tell, since }
        } else {
            let waiter = self.beginning.pop()?;
            self.known.remove(&waiter.key);
            Turn::Begins(waiter)
        };
        self.last_went_on = goes_on;
        self.taken += 1;
        Some(turn)
    }

    /// Nothing begins any more.
    pub(super) fn dismiss(&mut self) {
        self.beginning.clear();
        self.known.clear();
    }

    /// Whether no session waits to begin.
    pub(super) fn is_idle(&self) -> bool {
        self.beginning.is_empty()
    }

    /// Whether the store is to be asked who else waits: nobody does here, or there is room again for those it keeps.
    pub(super) fn wants_more(&self) -> bool {
        self.beginning.is_empty() || self.is_short()
    }

    /// Whether the store has some for whom there is room again.
    pub(super) fn is_short(&self) -> bool {
        self.spilled && self.beginning.len() <= self.bound / 2
    }

    /// The store was asked: what it has beyond this is noted again when it does not fit.
    pub(super) fn refilled(&mut self) {
        self.spilled = false;
    }

    /// The store may have more than it told.
    pub(super) fn note_more(&mut self) {
        self.spilled = true;
    }

    /// Some of those who have waited since then or longer and of whom nobody was told yet; told now.
    pub(super) fn late(&mut self, since: Instant) -> Vec<Late> {
        let mut found = Vec::new();
        self.beginning.each(&mut |ticket, waiter| {
            if !waiter.warned && waiter.since <= since && found.len() < TOLD_AT_ONCE {
                waiter.warned = true;
                found.push((ticket, waiter.clone()));
            }
        });
        found.sort_by_key(|(ticket, _)| *ticket);
        found
            .into_iter()
            .map(|(ticket, waiter)| Late { ahead: self.ahead(&waiter.key, ticket), waiter })
            .collect()
    }

    fn ahead(&self, key: &SessionKey, ticket: Ticket) -> usize {
        let own = self.beginning.ahead(&path_of(&key.scope), ticket).unwrap_or(0);
        own + self.going_on.len().min(own + usize::from(!self.last_went_on))
    }

    /// The longest that anybody waits since.
    pub(super) fn standing(&mut self) -> Standing {
        let mut oldest: Option<Instant> = None;
        let mut note = |since: Instant| oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
        self.beginning.each(&mut |_, waiter| note(waiter.since));
        self.going_on.each(&mut |_, (_, since)| note(*since));
        let waiting = self.beginning.len() + self.going_on.len();
        Standing { limit: self.limit, taken: self.taken, waiting, oldest }
    }
}

fn path_of(scope: &Scope) -> Path {
    [scope.tenant.to_string(), format!("{}/{}", scope.workspace, scope.agent)]
}

#[cfg(test)]
mod tests;
