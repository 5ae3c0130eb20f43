//! Claiming from an owner that is void: an earlier incarnation, or an instance that fell silent.

use std::time::Duration;

use tidegate_protocol::{ErrorCode, RunState, ToolRunState};
use tidegate_storage::{Claim, Lease, Owner, POISON_CRASHES};
use tidegate_testkit::requests::{Requests, at_once};
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, audit_of, claim, context, enlist, log, queue, run, start, state};

on_both_backends! {
    a_silent_owner_loses_its_run_after_the_ttl,
    a_silent_owner_keeps_its_run_before_the_ttl,
    a_heartbeat_keeps_the_session,
    a_clock_that_jumps_back_takes_nothing_over,
    an_earlier_incarnation_loses_its_run_at_once,
    a_run_taken_over_goes_on_in_the_same_log,
    a_run_whose_caller_waited_ends_as_interrupted,
    the_next_run_is_claimed_in_the_commit_that_ends_the_lost_one,
    a_takeover_interrupts_tools_without_a_result,
    a_run_that_is_taken_over_again_and_again_is_left_to_the_engine,
}

/// Long enough for any database clock to show that time went by.
async fn silence() {
    tokio::time::sleep(Duration::from_millis(30)).await;
}

/// Claims with the shortest patience there is.
async fn take_over(store: &ScratchStore, make: &Requests, lost: &Lease, owner: &Owner) -> Claim {
    silence().await;
    store.claim(&lost.key, owner, 0, make.now()).await.unwrap()
}

async fn a_silent_owner_loses_its_run_after_the_ttl(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let accept = make.accept_from_channel(&make.key("work"));
    let lost = start(store, owner, accept).await;
    silence().await;
    // Silent for at least 20 ms by any clock.
    let claimed = store.claim(&lost.key, &other, 20, make.now()).await.unwrap();
    let Claim::Granted(lease) = claimed else { panic!("the owner is silent, and yet: {claimed:?}") };
    assert!(lease.fence > lost.fence);
    assert_eq!(lease, Lease { owner: other, fence: lease.fence, attempt: 2, ..lost });
    let row = run(store, &make, lease.run).await;
    assert_eq!((row.state, row.attempt, row.error), (RunState::Running, 2, None));
}

async fn a_silent_owner_keeps_its_run_before_the_ttl(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    silence().await;
    let before = store.snapshot(make.tenant()).await;
    let claimed = store.claim(&lease.key, &other, HOUR, make.now()).await.unwrap();
    assert_eq!(claimed, Claim::Busy { run: lease.run });
    before.assert_same(&store.snapshot(make.tenant()).await);
    store.finish(&lease, make.completed()).await.unwrap();
}

async fn a_heartbeat_keeps_the_session(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    let later = make.now() + 20_000;
    store.heartbeat(&owner, later).await.unwrap();
    // By the enlistment alone the owner would be silent for longer than this.
    let claimed = store.claim(&lease.key, &other, 10_000, later + 1_000).await.unwrap();
    assert_eq!(claimed, Claim::Busy { run: lease.run });
}

async fn a_clock_that_jumps_back_takes_nothing_over(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    let claimed = store.claim(&lease.key, &other, 10_000, make.now() - 24 * HOUR).await.unwrap();
    assert_eq!(claimed, Claim::Busy { run: lease.run });
}

async fn an_earlier_incarnation_loses_its_run_at_once(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let accepts = [make.accept_from_channel(&make.key("one")), make.accept_from_channel(&make.key("two"))];
    let mut lost = Vec::new();
    for accept in accepts {
        lost.push(start(store, owner, accept).await);
    }
    let successor = store.enlist(owner.instance, make.now()).await.unwrap();
    // By its successor, and by anybody else.
    for (lost, claimant) in lost.iter().zip([successor, other]) {
        let lease = claim(store, &make, &lost.key, claimant).await;
        assert!(lease.fence > lost.fence);
        assert_eq!(lease, Lease { owner: claimant, fence: lease.fence, attempt: 2, ..lost.clone() });
    }
}

async fn a_run_taken_over_goes_on_in_the_same_log(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let mut accept = make.accept_from_channel(&make.key("work"));
    accept.new_session.alias = Some("lc-1-abcd".to_owned());
    let lost = start(store, owner, accept).await;
    store.step(&lost, make.intent(vec![make.user("question")])).await.unwrap();
    let before = log(store, &lost).await;
    let Claim::Granted(lease) = take_over(store, &make, &lost, &other).await else { panic!("not granted") };
    assert_eq!((lease.session, lease.alias.clone()), (lost.session, lost.alias));
    assert_eq!(context(store, &lease, 10).await, before);
    store.finish(&lease, make.completed()).await.unwrap();
    let row = run(store, &make, lease.run).await;
    assert_eq!((row.state, row.attempt, row.entries), (RunState::Completed, 2, Some((1, 3))));
}

async fn a_run_whose_caller_waited_ends_as_interrupted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let lost = start(store, owner, make.accept(&make.key("work"))).await;
    assert_eq!(take_over(store, &make, &lost, &other).await, Claim::Nothing);
    let row = run(store, &make, lost.run).await;
    assert_eq!(row.state, RunState::Interrupted);
    assert_eq!(row.error.map(|error| error.code), Some(ErrorCode::Interrupted));
    assert!(row.finished_at.is_some());
    assert_eq!(audit_of(store, &make, &lost.run.to_string()).await.len(), 1);
    // The session is idle again, under a higher fence.
    let next = start(store, other, make.accept(&lost.key)).await;
    assert!(next.fence.0 >= lost.fence.0 + 2);
}

async fn the_next_run_is_claimed_in_the_commit_that_ends_the_lost_one(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let lost = start(store, owner, make.accept(&make.key("work"))).await;
    let waiting = queue(store, make.accept_from_channel(&lost.key)).await;
    let Claim::Granted(lease) = take_over(store, &make, &lost, &other).await else { panic!("not granted") };
    assert_eq!((lease.run, lease.attempt, lease.owner), (waiting, 1, other));
    assert_eq!(state(store, &make, lost.run).await, RunState::Interrupted);
}

async fn a_takeover_interrupts_tools_without_a_result(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let lost = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    let (done, open) = (make.intent(Vec::new()), make.intent(Vec::new()));
    store.step(&lost, done.clone()).await.unwrap();
    let outcome = make.outcome(&done, &ToolRunState::Succeeded, Vec::new());
    store.step(&lost, at_once(outcome, open)).await.unwrap();
    take_over(store, &make, &lost, &other).await;
    let tools = store.tool_runs(make.tenant(), lost.run).await.unwrap();
    let states: Vec<_> = tools.into_iter().map(|tool| tool.state).collect();
    assert_eq!(states, [ToolRunState::Succeeded, ToolRunState::Interrupted]);
}

async fn a_run_that_is_taken_over_again_and_again_is_left_to_the_engine(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    for attempt in 2..=POISON_CRASHES + 2 {
        let next = enlist(store, &make).await;
        let Claim::Granted(taken) = take_over(store, &make, &lease, &next).await else {
            panic!("not granted")
        };
        assert_eq!((taken.run, taken.attempt), (lease.run, attempt));
        assert!(taken.fence > lease.fence);
        lease = taken;
    }
    assert_eq!(audit_of(store, &make, &lease.run.to_string()).await, []);
}
