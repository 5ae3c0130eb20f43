//! A stale fence never writes: whoever lost a session is refused by every verb, and the store keeps every byte.

use tidegate_protocol::{JoinMode, RunId, ToolRunState};
use tidegate_storage::{Absorb, Claim, Fence, Lease, Owner, Step, StoreError};
use tidegate_testkit::requests::{Requests, at_once};
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{claim, enlist, start};

on_both_backends! {
    a_lease_taken_over_by_another_owner_is_stale,
    a_lease_of_an_aborted_run_is_stale,
    a_lease_of_a_recovered_run_is_stale,
    a_lease_claimed_again_after_recovery_is_stale,
    a_lease_of_an_old_incarnation_is_stale_before_recovery,
    a_lease_of_a_finished_run_is_stale,
    a_lease_of_a_deleted_session_is_stale,
    a_lease_with_another_fence_or_run_is_stale,
    a_stale_write_after_the_session_went_on_changes_nothing,
}

/// A run with a tool under way.
async fn under_way(store: &ScratchStore, make: &Requests, owner: Owner) -> (Lease, Step) {
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    let intent = make.intent(vec![make.user("question")]);
    store.step(&lease, intent.clone()).await.unwrap();
    (lease, intent)
}

/// Tries every write that shows a lease.
async fn assert_stale(store: &ScratchStore, make: &Requests, lease: &Lease, open: &Step) {
    let before = store.snapshot(make.tenant()).await;
    let intent = || make.intent(vec![make.assistant("stale")]);
    let outcome = || make.outcome(open, &ToolRunState::Succeeded, vec![make.user("stale")]);
    let mut completed = make.completed();
    completed.parts = vec![make.part("stale", "stale")];
    let stale = StoreError::StaleFence;
    assert_eq!(store.step(lease, intent()).await.unwrap_err(), stale, "intend");
    assert_eq!(store.step(lease, outcome()).await.unwrap_err(), stale, "result");
    assert_eq!(store.step(lease, at_once(outcome(), intent())).await.unwrap_err(), stale, "both");
    assert_eq!(store.step(lease, Step::default()).await.unwrap_err(), stale, "an empty step");
    assert_eq!(store.compact(lease, make.compaction(1)).await.unwrap_err(), stale, "compact");
    assert_eq!(
        store.absorb(lease, Absorb::quietly(JoinMode::FollowUp, make.now())).await.unwrap_err(),
        stale,
        "absorb"
    );
    assert_eq!(store.note_flush(lease, make.now()).await.unwrap_err(), stale, "note_flush");
    assert_eq!(store.finish(lease, completed).await.unwrap_err(), stale, "finish");
    assert_eq!(store.finish(lease, make.failed()).await.unwrap_err(), stale, "finish");
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn a_lease_taken_over_by_another_owner_is_stale(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let (lease, open) = under_way(store, &make, owner).await;
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    let Claim::Granted(taken) = store.claim(&lease.key, &other, 0, make.now()).await.unwrap() else {
        panic!("the owner is silent")
    };
    assert_stale(store, &make, &lease, &open).await;
    store.finish(&taken, make.completed()).await.unwrap();
    assert_stale(store, &make, &lease, &open).await;
}

async fn a_lease_of_an_aborted_run_is_stale(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (lease, open) = under_way(store, &make, owner).await;
    store.abort(&make.principal(), lease.run, make.now()).await.unwrap();
    assert_stale(store, &make, &lease, &open).await;
}

async fn a_lease_of_a_recovered_run_is_stale(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (lease, open) = under_way(store, &make, owner).await;
    let owner = store.enlist(owner.instance, make.now()).await.unwrap();
    store.recover(&owner, make.now()).await.unwrap();
    assert_stale(store, &make, &lease, &open).await;
}

async fn a_lease_claimed_again_after_recovery_is_stale(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (lease, open) = under_way(store, &make, owner).await;
    let owner = store.enlist(owner.instance, make.now()).await.unwrap();
    store.recover(&owner, make.now()).await.unwrap();
    // The same run is under way again; only the fence tells the two apart.
    let again = claim(store, &make, &lease.key, owner).await;
    assert_eq!(again.run, lease.run);
    assert_stale(store, &make, &lease, &open).await;
    store.finish(&again, make.completed()).await.unwrap();
}

async fn a_lease_of_an_old_incarnation_is_stale_before_recovery(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (lease, open) = under_way(store, &make, owner).await;
    // Every earlier incarnation is void from this commit on.
    store.enlist(owner.instance, make.now()).await.unwrap();
    assert_stale(store, &make, &lease, &open).await;
}

async fn a_lease_of_a_finished_run_is_stale(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (lease, open) = under_way(store, &make, owner).await;
    store.finish(&lease, make.completed()).await.unwrap();
    assert_stale(store, &make, &lease, &open).await;
}

async fn a_lease_of_a_deleted_session_is_stale(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (lease, open) = under_way(store, &make, owner).await;
    store.finish(&lease, make.completed()).await.unwrap();
    store.delete_session(&make.principal(), &lease.key, make.now()).await.unwrap();
    assert_stale(store, &make, &lease, &open).await;
    // The key begins again with the same small fence; the run tells the two apart.
    start(store, owner, make.accept(&lease.key)).await;
    assert_stale(store, &make, &lease, &open).await;
}

async fn a_lease_with_another_fence_or_run_is_stale(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (lease, open) = under_way(store, &make, owner).await;
    for wrong in [
        Lease { fence: Fence(lease.fence.0 - 1), ..lease.clone() },
        Lease { fence: Fence(lease.fence.0 + 1), ..lease.clone() },
        Lease { run: make.id::<RunId>(), ..lease.clone() },
        Lease { key: make.key("elsewhere"), ..lease.clone() },
    ] {
        assert_stale(store, &make, &wrong, &open).await;
    }
    store.finish(&lease, make.completed()).await.unwrap();
}

async fn a_stale_write_after_the_session_went_on_changes_nothing(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (lease, open) = under_way(store, &make, owner).await;
    store.abort(&make.principal(), lease.run, make.now()).await.unwrap();
    let next = start(store, owner, make.accept(&lease.key)).await;
    store.step(&next, make.intent(vec![make.user("next")])).await.unwrap();
    assert_stale(store, &make, &lease, &open).await;
    store.finish(&next, make.completed()).await.unwrap();
    assert_stale(store, &make, &lease, &open).await;
}
