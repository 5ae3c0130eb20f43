//! Giving a run back in good order.

use tidegate_protocol::{ErrorCode, ReplyTarget, RunState, ToolRunState};
use tidegate_storage::{Claim, Lease, StoreError};
use tidegate_testkit::requests::{Requests, nobody};
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, audit_of, claim, context, enlist, log, queue, restart, run, start, state};

on_both_backends! {
    a_released_run_waits_in_its_old_place_and_has_as_many_tries_as_before,
    a_released_run_goes_on_in_its_log,
    a_run_read_by_its_session_is_queued_again,
    a_released_run_of_a_caller_ends_as_interrupted,
    a_release_interrupts_tools_without_a_result,
    what_is_not_held_is_not_released,
}

async fn a_released_run_waits_in_its_old_place_and_has_as_many_tries_as_before(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let key = make.key("work");
    let first = start(store, owner, make.accept_from_channel(&key)).await;
    let second = queue(store, make.accept_from_channel(&key)).await;
    // A crash counts, a release does not.
    let (owner, _) = restart(store, &make, owner).await;
    for claimant in [owner, other, owner] {
        let lease = claim(store, &make, &key, claimant).await;
        assert_eq!((lease.run, lease.attempt), (first.run, 2));
        assert_eq!(store.release(&lease, make.now()).await.unwrap(), RunState::Queued);
        let row = run(store, &make, first.run).await;
        assert_eq!((row.state, row.attempt, row.error, row.finished_at), (RunState::Queued, 1, None, None));
        assert_eq!(store.finish(&lease, make.completed()).await.unwrap_err(), StoreError::StaleFence);
    }
    assert_eq!(audit_of(store, &make, &first.run.to_string()).await, []);
    let lease = claim(store, &make, &key, other).await;
    assert!(lease.fence > first.fence);
    store.finish(&lease, make.completed()).await.unwrap();
    assert_eq!(claim(store, &make, &key, other).await.run, second);
}

async fn a_released_run_goes_on_in_its_log(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    store.step(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    let before = log(store, &lease).await;
    store.release(&lease, make.now()).await.unwrap();
    let again = claim(store, &make, &lease.key, owner).await;
    assert_eq!(again, Lease { fence: again.fence, ..lease });
    assert_eq!(context(store, &again, 10).await, before);
}

async fn a_run_read_by_its_session_is_queued_again(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut accept = make.accept(&make.key("work"));
    accept.run.reply = ReplyTarget::Session;
    let lease = start(store, owner, accept).await;
    assert_eq!(store.release(&lease, make.now()).await.unwrap(), RunState::Queued);
}

async fn a_released_run_of_a_caller_ends_as_interrupted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let lease = start(store, owner, make.accept(&key)).await;
    assert_eq!(store.release(&lease, make.now()).await.unwrap(), RunState::Interrupted);
    let row = run(store, &make, lease.run).await;
    assert_eq!((row.state, row.attempt), (RunState::Interrupted, 1));
    assert_eq!(row.error.map(|error| error.code), Some(ErrorCode::Interrupted));
    assert!(row.finished_at.is_some());
    let audit = audit_of(store, &make, &lease.run.to_string()).await;
    assert_eq!(audit.iter().map(|row| row.action.as_str()).collect::<Vec<_>>(), ["agent.run.interrupted"]);
    assert_eq!(store.claim(&key, &owner, HOUR, make.now()).await.unwrap(), Claim::Nothing);
}

async fn a_release_interrupts_tools_without_a_result(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    store.step(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    store.release(&lease, make.now()).await.unwrap();
    let tools = store.tool_runs(make.tenant(), lease.run).await.unwrap();
    assert_eq!(tools[0].state, ToolRunState::Interrupted);
}

async fn what_is_not_held_is_not_released(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let key = make.key("work");
    let lease = start(store, owner, make.accept_from_channel(&key)).await;
    let stale = |lease: Lease| async move { store.release(&lease, 0).await.unwrap_err() };
    let before = store.snapshot(make.tenant()).await;
    assert_eq!(stale(Lease { owner: nobody(), ..lease.clone() }).await, StoreError::StaleFence);
    before.assert_same(&store.snapshot(make.tenant()).await);
    store.release(&lease, make.now()).await.unwrap();
    assert_eq!(stale(lease.clone()).await, StoreError::StaleFence);
    let taken = claim(store, &make, &key, other).await;
    assert_eq!(stale(lease).await, StoreError::StaleFence);
    // A newer incarnation has begun.
    store.enlist(other.instance, make.now()).await.unwrap();
    assert_eq!(stale(taken.clone()).await, StoreError::StaleFence);
    assert_eq!(state(store, &make, taken.run).await, RunState::Running);
}
