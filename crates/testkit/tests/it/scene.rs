//! Short ways to get a store into a situation, and the rows a request should have become.

use tidegate_protocol::{Entry, InstanceId, RunId, RunState, SessionKey, TenantId, Usage};
use tidegate_storage::{
    Accept, Admission, AuditRow, Claim, ContextLimits, Finish, Lease, NewEntry, NewPart, OutboxState, Owner,
    Recovered, Result, RunLookup, RunRow, Sending, Sweep,
};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::script;
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::ScratchStore;

/// Longer than any test takes.
pub(crate) const HOUR: i64 = 3_600_000;

/// A new instance in its first incarnation.
pub(crate) async fn enlist(store: &ScratchStore, make: &Requests) -> Owner {
    let owner = store.enlist(make.id::<InstanceId>(), make.now()).await.unwrap();
    if make.owner().is_none() {
        make.set_owner(owner);
    }
    owner
}

/// The process dies and starts again; from now on its new incarnation accepts.
pub(crate) async fn restart(store: &ScratchStore, make: &Requests, owner: Owner) -> (Owner, Recovered) {
    let owner = store.enlist(owner.instance, make.now()).await.unwrap();
    make.set_owner(owner);
    let recovered = store.recover(&owner, make.now()).await.unwrap();
    (owner, recovered)
}

/// Forgets whatever may be forgotten at that time.
pub(crate) fn everything(now: i64) -> Sweep {
    Sweep {
        now,
        settled_before: now,
        untold_before: i64::MIN,
        pending_before: now,
        ephemeral_before: now,
        calls_before: now,
        limit: 1_000,
    }
}

/// Takes the next part that may go out, whatever its lane.
pub(crate) async fn next_send(
    store: &ScratchStore,
    tenant: &TenantId,
    owner: &Owner,
    now: i64,
) -> Result<Option<Sending>> {
    script::next_send(&**store, tenant, owner, now).await
}

/// Takes a part that must be there.
pub(crate) async fn send(store: &ScratchStore, make: &Requests, owner: Owner) -> Sending {
    next_send(store, make.tenant(), &owner, make.now()).await.unwrap().expect("a part waits")
}

/// A finished run with these parts.
pub(crate) async fn reply(
    store: &ScratchStore,
    make: &Requests,
    owner: Owner,
    name: &str,
    parts: &[NewPart],
) -> RunId {
    let lease = start(store, owner, make.accept_from_channel(&make.key(name))).await;
    store.finish(&lease, Finish { parts: parts.to_vec(), ..make.completed() }).await.unwrap();
    lease.run
}

/// Accepts a request that must be claimed with its acceptance.
pub(crate) async fn start(store: &ScratchStore, owner: Owner, accept: Accept) -> Lease {
    let accepted = store.accept(Accept { owner, claim: true, ..accept }).await.unwrap();
    match accepted.admission {
        Admission::Claimed(lease) => lease,
        other => panic!("the session was idle, and yet: {other:?}"),
    }
}

/// Accepts a request that must wait.
pub(crate) async fn queue(store: &ScratchStore, accept: Accept) -> RunId {
    let accepted = store.accept(accept).await.unwrap();
    assert!(matches!(accepted.admission, Admission::Queued { .. }), "{accepted:?}");
    accepted.run
}

/// Claims the session's next run, which must be there.
pub(crate) async fn claim(store: &ScratchStore, make: &Requests, key: &SessionKey, owner: Owner) -> Lease {
    match store.claim(key, &owner, HOUR, make.now()).await.unwrap() {
        Claim::Granted(lease) => lease,
        other => panic!("a run waits, and yet: {other:?}"),
    }
}

/// A whole turn: a question and its answer become the key's conversation.
pub(crate) async fn converse(store: &ScratchStore, make: &Requests, key: &SessionKey, owner: Owner) -> Lease {
    let lease = start(store, owner, make.accept(key)).await;
    store.finish(&lease, make.completed()).await.unwrap();
    lease
}

pub(crate) async fn run(store: &ScratchStore, make: &Requests, run: RunId) -> RunRow {
    store.run(make.tenant(), &RunLookup::Id(run)).await.unwrap().expect("the run is there")
}

pub(crate) async fn state(store: &ScratchStore, make: &Requests, id: RunId) -> RunState {
    run(store, make, id).await.state
}

pub(crate) async fn log(store: &ScratchStore, lease: &Lease) -> Vec<Entry> {
    store.entries(lease.tenant(), lease.session, 0, ALL).await.unwrap()
}

/// The newest lines that a run is shown.
pub(crate) async fn context(store: &ScratchStore, lease: &Lease, entries: u32) -> Vec<Entry> {
    store.context(lease, ContextLimits { entries, ..ContextLimits::NONE }).await.unwrap().entries
}

/// The states of a run's outgoing parts.
pub(crate) async fn outbox_states(store: &ScratchStore, make: &Requests, run: RunId) -> Vec<OutboxState> {
    store.outbox_of(make.tenant(), run).await.unwrap().into_iter().map(|row| row.state).collect()
}

/// The audit rows about a run or session, the newest first.
pub(crate) async fn audit_of(store: &ScratchStore, make: &Requests, resource: &str) -> Vec<AuditRow> {
    let rows = store.audit(make.tenant(), ALL).await.unwrap();
    rows.into_iter().filter(|row| row.resource_id == resource).collect()
}

/// What an accepted run looks like before anybody claimed it.
pub(crate) fn waiting_row(accept: &Accept) -> RunRow {
    RunRow {
        id: accept.run.id,
        client_key: accept.run.client_key.clone(),
        key: accept.key.clone(),
        session: None,
        state: RunState::Queued,
        attempt: 0,
        actor: accept.principal.actor().to_owned(),
        spec: accept.run.spec.clone(),
        input: accept.run.input.clone(),
        reply: accept.run.reply.clone(),
        join: accept.run.join,
        joined: None,
        parent: accept.run.parent,
        error: None,
        usage: Usage::default(),
        entries: None,
        created_at: accept.now,
        started_at: None,
        finished_at: None,
    }
}

/// What a claimed run looks like.
pub(crate) fn running_row(accept: &Accept, lease: &Lease, started_at: i64) -> RunRow {
    RunRow {
        session: Some(lease.session),
        state: RunState::Running,
        attempt: lease.attempt,
        started_at: Some(started_at),
        ..waiting_row(accept)
    }
}

/// The lines that new entries become behind `before`.
pub(crate) fn lines(before: &[Entry], lease: &Lease, entries: &[NewEntry], created_at: i64) -> Vec<Entry> {
    let mut lines = before.to_vec();
    for entry in entries {
        let last = lines.last();
        lines.push(Entry {
            session_id: lease.session,
            seq: last.map_or(0, |last| last.seq) + 1,
            id: entry.id,
            parent_id: last.map(|last| last.id),
            run_id: lease.run,
            created_at,
            body: entry.body.clone(),
        });
    }
    lines
}
