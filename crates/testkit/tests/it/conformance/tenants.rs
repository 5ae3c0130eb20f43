//! Tenants: the same keys, ids and names in two of them never meet.

use tidegate_protocol::{SendOutcome, ToolRunState};
use tidegate_storage::{
    AbortOutcome, Accept, Admission, Claim, Finish, Lease, MirrorPosition, Owner, RunFilter, RunLookup,
    Sending, SessionFilter, StoreError,
};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::snapshot::Snapshot;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, context, enlist, next_send, start};

on_both_backends! {
    the_same_ids_live_in_two_tenants_side_by_side,
    a_read_shows_one_tenant_only,
    a_lease_does_not_work_in_another_tenant,
    a_send_does_not_work_in_another_tenant,
    an_abort_does_not_reach_another_tenant,
    a_position_does_not_reach_another_tenant,
    a_principal_deletes_nothing_of_another_tenant,
    a_principal_accepts_nothing_for_another_tenant,
}

/// Two builders that make the same ids.
fn twins() -> (Requests, Requests) {
    (Requests::new("one", 7), Requests::new("two", 7))
}

/// A conversation with a reply, and a run under way with a tool.
async fn fill(store: &ScratchStore, make: &Requests, owner: Owner) -> (Lease, Lease) {
    let key = make.key("work");
    let mut first = make.accept_from_channel(&key);
    first.new_session.alias = Some("lc-7-abcd".to_owned());
    first.run.client_key = Some("client".to_owned());
    first.idempotency = Some(make.idempotency("key", "request"));
    let first = start(store, owner, first).await;
    let parts = vec![make.part("lane", "1"), make.part("lane", "2")];
    store.finish(&first, Finish { parts, ..make.completed() }).await.unwrap();
    let second = start(store, owner, make.accept_from_channel(&key)).await;
    store.step(&second, make.intent(vec![make.user("question")])).await.unwrap();
    (first, second)
}

async fn both(store: &ScratchStore, one: &Requests, two: &Requests) -> [Snapshot; 2] {
    [store.snapshot(one.tenant()).await, store.snapshot(two.tenant()).await]
}

async fn assert_untouched(store: &ScratchStore, one: &Requests, two: &Requests, before: &[Snapshot; 2]) {
    for (before, after) in before.iter().zip(both(store, one, two).await) {
        before.assert_same(&after);
    }
}

async fn the_same_ids_live_in_two_tenants_side_by_side(store: &ScratchStore) {
    let (one, two) = twins();
    let owner = enlist(store, &one).await;
    // The second builder follows the first one's sequence.
    two.id::<tidegate_protocol::InstanceId>();
    two.now();
    let (mine, _) = fill(store, &one, owner).await;
    let before = store.snapshot(one.tenant()).await;
    let (theirs, _) = fill(store, &two, owner).await;
    assert_eq!((mine.run, mine.session), (theirs.run, theirs.session), "the test is about the same ids");
    let [first, second] = both(store, &one, &two).await;
    before.assert_same(&first);
    assert_eq!(second.library.entries, first.library.entries);
    assert_eq!(second.library.outbox, first.library.outbox);
    assert_eq!(second.library.tool_runs, first.library.tool_runs);
    assert_eq!(second.library.status, first.library.status);
}

async fn a_read_shows_one_tenant_only(store: &ScratchStore) {
    let (one, two) = twins();
    let owner = enlist(store, &one).await;
    let (lease, _) = fill(store, &one, owner).await;
    let tenant = two.tenant();
    assert_eq!(
        store.sessions(tenant, SessionFilter { agent: None, all: false, limit: 10 }).await.unwrap(),
        []
    );
    assert_eq!(store.session(&two.key("work")).await.unwrap(), None);
    for name in [lease.session.to_string(), "lc-7-abcd".to_owned()] {
        assert_eq!(store.session_by_name(tenant, &name).await.unwrap(), None);
    }
    assert_eq!(store.entries(tenant, lease.session, 0, 10).await.unwrap(), []);
    assert_eq!(store.runs(tenant, RunFilter { limit: 10, ..RunFilter::default() }).await.unwrap(), []);
    for lookup in [RunLookup::Id(lease.run), RunLookup::ClientKey("client".to_owned())] {
        assert_eq!(store.run(tenant, &lookup).await.unwrap(), None);
    }
    assert_eq!(store.tool_runs(tenant, lease.run).await.unwrap(), []);
    assert_eq!(store.outbox_of(tenant, lease.run).await.unwrap(), []);
    assert_eq!(store.audit(tenant, 10).await.unwrap(), []);
    assert_eq!(store.mirror_backlog(tenant, 10).await.unwrap(), []);
    assert_eq!(next_send(store, tenant, &owner, two.now()).await.unwrap(), None);
    assert_eq!(store.claim(&two.key("work"), &owner, HOUR, two.now()).await.unwrap(), Claim::Nothing);
    let status = store.status(tenant).await.unwrap();
    assert_eq!((status.sessions, status.runs, status.outbox), (0, Vec::new(), Vec::new()));
    let foreign = Lease { key: two.key("work"), ..lease };
    assert_eq!(context(store, &foreign, 10).await, []);
}

async fn a_lease_does_not_work_in_another_tenant(store: &ScratchStore) {
    let (one, two) = twins();
    let owner = enlist(store, &one).await;
    let (_, under_way) = fill(store, &one, owner).await;
    let before = both(store, &one, &two).await;
    let foreign = Lease { key: two.key("work"), ..under_way };
    let intent = two.intent(vec![two.user("foreign")]);
    let outcome = two.outcome(&intent, &ToolRunState::Succeeded, Vec::new());
    let stale = StoreError::StaleFence;
    assert_eq!(store.step(&foreign, intent).await.unwrap_err(), stale);
    assert_eq!(store.step(&foreign, outcome).await.unwrap_err(), stale);
    assert_eq!(store.finish(&foreign, two.completed()).await.unwrap_err(), stale);
    assert_untouched(store, &one, &two, &before).await;
}

async fn a_send_does_not_work_in_another_tenant(store: &ScratchStore) {
    let (one, two) = twins();
    let owner = enlist(store, &one).await;
    fill(store, &one, owner).await;
    let sending = next_send(store, one.tenant(), &owner, one.now()).await.unwrap().unwrap();
    let before = both(store, &one, &two).await;
    let foreign = Sending { tenant: two.tenant().clone(), ..sending };
    let outcome = SendOutcome::Rejected { reason: "foreign".to_owned() };
    let error = store.settle_send(&foreign, outcome, two.now()).await.unwrap_err();
    assert_eq!(error, StoreError::StaleFence);
    assert_untouched(store, &one, &two, &before).await;
}

async fn an_abort_does_not_reach_another_tenant(store: &ScratchStore) {
    let (one, two) = twins();
    let owner = enlist(store, &one).await;
    let (_, under_way) = fill(store, &one, owner).await;
    let before = both(store, &one, &two).await;
    let outcome = store.abort(&two.principal(), under_way.run, two.now()).await.unwrap();
    assert_eq!(outcome, AbortOutcome::NotFound);
    assert_untouched(store, &one, &two, &before).await;
}

async fn a_position_does_not_reach_another_tenant(store: &ScratchStore) {
    let (one, two) = twins();
    let owner = enlist(store, &one).await;
    let (lease, _) = fill(store, &one, owner).await;
    let before = both(store, &one, &two).await;
    let _ = store
        .note_mirrored(two.tenant(), lease.session, MirrorPosition { seq: 2, bytes: 9, checksum: -9 })
        .await;
    assert_untouched(store, &one, &two, &before).await;
}

async fn a_principal_deletes_nothing_of_another_tenant(store: &ScratchStore) {
    let (one, two) = twins();
    let owner = enlist(store, &one).await;
    let (_, under_way) = fill(store, &one, owner).await;
    store.finish(&under_way, one.completed()).await.unwrap();
    let before = both(store, &one, &two).await;
    store.delete_session(&two.principal(), &two.key("work"), two.now()).await.unwrap_err();
    assert_untouched(store, &one, &two, &before).await;
    // Not even with the other tenant's key in hand.
    let crossed = store.delete_session(&two.principal(), &one.key("work"), two.now()).await;
    assert!(crossed.is_err(), "{crossed:?}");
    assert_untouched(store, &one, &two, &before).await;
}

async fn a_principal_accepts_nothing_for_another_tenant(store: &ScratchStore) {
    let (one, two) = twins();
    let owner = enlist(store, &one).await;
    fill(store, &one, owner).await;
    let before = both(store, &one, &two).await;
    let crossed = Accept { principal: two.principal(), ..one.accept(&one.key("work")) };
    let crossed = store.accept(crossed).await;
    assert!(crossed.is_err(), "{crossed:?}");
    assert_untouched(store, &one, &two, &before).await;
    // The same idempotency key is two keys in two tenants.
    let accept = Accept {
        owner,
        idempotency: Some(two.idempotency("key", "another")),
        ..two.accept(&two.key("work"))
    };
    let accepted = store.accept(accept).await.unwrap();
    assert_eq!(accepted.admission, Admission::Queued { ahead: 0 });
}
