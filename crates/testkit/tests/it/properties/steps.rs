//! The steps that sequences are made of.

use proptest::prelude::*;
use tidegate_protocol::JoinMode;

pub(super) const SESSIONS: usize = 3;

/// One step. Numbers are taken modulo what there is.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Accept(Asked),
    Claim { session: usize, owner: usize },
    TakeOver { session: usize, owner: usize },
    Intend { lease: usize },
    Result { lease: usize, next: bool },
    Finish { lease: usize, completed: bool, lines: usize, parts: usize },
    Absorb { lease: usize, mode: JoinMode },
    Compact { lease: usize, keeps: i64 },
    Fork { session: usize, log: usize, after: usize },
    Abort { run: usize },
    Restart { owner: usize },
    Release { lease: usize },
    ClaimSend { owner: usize, lane: usize },
    Settle { sending: usize, outcome: u8 },
    Retry { part: usize },
    Drop { part: usize },
    Delete { session: usize },
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) session: usize,
    pub(super) owner: usize,
    pub(super) claim: bool,
    pub(super) channel: bool,
    pub(super) fresh: bool,
    /// Its idempotency key.
    pub(super) key: Option<u8>,
    pub(super) join: Option<JoinMode>,
    /// The run that starts it.
    pub(super) parent: Option<usize>,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let (session, owner, number) = (0..SESSIONS, 0..2_usize, 0..64_usize);
    // Most steps are about what is under way: the last leases and sends come up more often than stale ones.
    let recent = prop_oneof![3 => Just(usize::MAX), 1 => number.clone()];
    prop_oneof![
        6 => accept(session.clone(), owner.clone(), recent.clone()),
        4 => (session.clone(), owner.clone()).prop_map(|(session, owner)| Step::Claim { session, owner }),
        1 => (session.clone(), owner.clone()).prop_map(|(session, owner)| Step::TakeOver { session, owner }),
        3 => recent.clone().prop_map(|lease| Step::Intend { lease }),
        2 => (recent.clone(), any::<bool>()).prop_map(|(lease, next)| Step::Result { lease, next }),
        5 => (recent.clone(), any::<bool>(), 0..3_usize, 0..3_usize)
            .prop_map(|(lease, completed, lines, parts)| Step::Finish { lease, completed, lines, parts }),
        2 => (recent.clone(), mode()).prop_map(|(lease, mode)| Step::Absorb { lease, mode }),
        2 => (recent.clone(), 0..6_i64).prop_map(|(lease, keeps)| Step::Compact { lease, keeps }),
        2 => (session.clone(), number.clone(), 0..6_usize)
            .prop_map(|(session, log, after)| Step::Fork { session, log, after }),
        2 => number.clone().prop_map(|run| Step::Abort { run }),
        1 => recent.clone().prop_map(|lease| Step::Release { lease }),
        1 => number.clone().prop_map(|part| Step::Retry { part }),
        1 => number.prop_map(|part| Step::Drop { part }),
        1 => owner.clone().prop_map(|owner| Step::Restart { owner }),
        3 => (owner, 0..2_usize).prop_map(|(owner, lane)| Step::ClaimSend { owner, lane }),
        2 => (recent, 0..4_u8).prop_map(|(sending, outcome)| Step::Settle { sending, outcome }),
        1 => session.prop_map(|session| Step::Delete { session }),
    ]
}

fn mode() -> impl Strategy<Value = JoinMode> + Clone {
    prop_oneof![Just(JoinMode::Steer), Just(JoinMode::Note), Just(JoinMode::FollowUp)]
}

fn accept(
    session: impl Strategy<Value = usize>,
    owner: impl Strategy<Value = usize>,
    parent: impl Strategy<Value = usize>,
) -> impl Strategy<Value = Step> {
    use proptest::option::weighted;
    let flags = (any::<bool>(), any::<bool>(), proptest::bool::weighted(0.3));
    let rest = (weighted(0.2, 0..3_u8), weighted(0.5, mode()), weighted(0.3, parent));
    (session, owner, flags, rest).prop_map(
        |(session, owner, (claim, channel, fresh), (key, join, parent))| {
            Step::Accept(Asked { session, owner, claim, channel, fresh, key, join, parent })
        },
    )
}
