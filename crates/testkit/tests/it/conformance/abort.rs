//! Ending a run from outside.

use tidegate_protocol::{ErrorCode, RunId, RunState};
use tidegate_storage::{AbortOutcome, Accept, Claim, RunRow};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, audit_of, claim, converse, enlist, queue, run, start, state};

on_both_backends! {
    a_run_under_way_is_ended,
    a_run_that_waits_is_ended_and_the_one_under_way_goes_on,
    a_run_that_ended_keeps_its_end,
    a_run_that_does_not_exist_is_not_found,
    only_a_waiting_run_is_ended_where_only_that_is_wanted,
    the_next_run_can_start_after_an_abort,
    an_abort_keeps_what_the_run_wrote,
}

async fn a_run_under_way_is_ended(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let before = run(store, &make, lease.run).await;
    let now = make.now();
    assert_eq!(store.abort(&make.principal(), lease.run, now).await.unwrap(), AbortOutcome::Aborted);
    let after = run(store, &make, lease.run).await;
    assert_eq!(after.error.as_ref().map(|error| error.code), Some(ErrorCode::Aborted));
    let expected =
        RunRow { state: RunState::Aborted, error: after.error.clone(), finished_at: Some(now), ..before };
    assert_eq!(after, expected);
    let audit = audit_of(store, &make, &lease.run.to_string()).await;
    let [row] = audit.as_slice() else { panic!("one end, {} audit rows", audit.len()) };
    assert_eq!(
        (row.action.as_str(), row.actor.as_str(), row.resource_type.as_str(), row.created_at),
        ("agent.run.aborted", make.principal().actor(), "run", now)
    );
}

async fn only_a_waiting_run_is_ended_where_only_that_is_wanted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let under_way = start(store, owner, make.accept(&key)).await.run;
    let waiting = queue(store, make.accept(&key)).await;
    let abort = async |run| store.abort_queued(&make.principal(), run, make.now()).await.unwrap();
    assert_eq!(abort(under_way).await, AbortOutcome::Begun);
    assert_eq!(state(store, &make, under_way).await, RunState::Running);
    assert_eq!(abort(waiting).await, AbortOutcome::Aborted);
    assert_eq!(abort(waiting).await, AbortOutcome::AlreadyEnded(RunState::Aborted));
    assert_eq!(abort(make.id::<RunId>()).await, AbortOutcome::NotFound);
}

async fn a_run_that_waits_is_ended_and_the_one_under_way_goes_on(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let lease = start(store, owner, make.accept(&key)).await;
    let dropped = queue(store, make.accept(&key)).await;
    let last = queue(store, make.accept(&key)).await;
    assert_eq!(store.abort(&make.principal(), dropped, make.now()).await.unwrap(), AbortOutcome::Aborted);
    assert_eq!(state(store, &make, dropped).await, RunState::Aborted);
    assert!(store.finish(&lease, make.completed()).await.unwrap().more);
    assert_eq!(claim(store, &make, &key, owner).await.run, last);
}

async fn a_run_that_ended_keeps_its_end(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let completed = converse(store, &make, &key, owner).await;
    let failed = start(store, owner, make.accept(&key)).await;
    store.finish(&failed, make.failed()).await.unwrap();
    let aborted = start(store, owner, make.accept(&key)).await;
    store.abort(&make.principal(), aborted.run, make.now()).await.unwrap();
    let interrupted = start(store, owner, make.accept(&key)).await;
    let owner = store.enlist(owner.instance, make.now()).await.unwrap();
    store.recover(&owner, make.now()).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    for (run, state) in [
        (completed.run, RunState::Completed),
        (failed.run, RunState::Failed),
        (aborted.run, RunState::Aborted),
        (interrupted.run, RunState::Interrupted),
    ] {
        let outcome = store.abort(&make.principal(), run, make.now()).await.unwrap();
        assert_eq!(outcome, AbortOutcome::AlreadyEnded(state));
    }
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn a_run_that_does_not_exist_is_not_found(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let before = store.snapshot(make.tenant()).await;
    let outcome = store.abort(&make.principal(), make.id::<RunId>(), make.now()).await.unwrap();
    assert_eq!(outcome, AbortOutcome::NotFound);
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn the_next_run_can_start_after_an_abort(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let lease = start(store, owner, make.accept(&key)).await;
    store.abort(&make.principal(), lease.run, make.now()).await.unwrap();
    assert_eq!(store.claim(&key, &owner, HOUR, make.now()).await.unwrap(), Claim::Nothing);
    let next = start(store, owner, Accept { owner, claim: true, ..make.accept(&key) }).await;
    store.finish(&next, make.completed()).await.unwrap();
}

async fn an_abort_keeps_what_the_run_wrote(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    converse(store, &make, &key, owner).await;
    let lease = start(store, owner, make.accept(&key)).await;
    store.step(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    let before = store.snapshot(make.tenant()).await.library;
    store.abort(&make.principal(), lease.run, make.now()).await.unwrap();
    let after = store.snapshot(make.tenant()).await.library;
    assert_eq!(after.entries, before.entries);
    assert_eq!(run(store, &make, lease.run).await.entries, Some((3, 3)));
    assert_eq!(store.session(&key).await.unwrap().map(|row| row.head_seq), Some(3));
}
