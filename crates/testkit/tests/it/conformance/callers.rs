//! Runs whose caller waits in a process: that process's to run while it lives, and ended with it.

use tidegate_protocol::{ErrorCode, RunState};
use tidegate_storage::{Accept, Claim};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, audit_of, claim, enlist, queue, run, start, state};

on_both_backends! {
    a_callers_run_is_left_to_its_living_process,
    what_waits_behind_a_callers_run_waits_too,
    a_callers_run_of_an_earlier_incarnation_is_ended_and_passed_over,
    a_callers_run_of_a_silent_process_is_ended_and_passed_over,
    nothing_is_left_where_every_caller_is_gone,
    a_callers_run_of_a_release_without_owners_is_ended_and_passed_over,
    a_run_for_a_channel_is_anybodys,
}

async fn a_callers_run_is_left_to_its_living_process(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let key = make.key("work");
    let waiting = queue(store, make.accept(&key)).await;
    let before = store.snapshot(make.tenant()).await;
    assert_eq!(store.claim(&key, &other, HOUR, make.now()).await.unwrap(), Claim::Busy { run: waiting });
    before.assert_same(&store.snapshot(make.tenant()).await);
    assert_eq!(claim(store, &make, &key, owner).await.run, waiting);
}

async fn what_waits_behind_a_callers_run_waits_too(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let key = make.key("work");
    let first = queue(store, make.accept(&key)).await;
    let second = queue(store, Accept { owner: other, ..make.accept_from_channel(&key) }).await;
    assert_eq!(store.claim(&key, &other, HOUR, make.now()).await.unwrap(), Claim::Busy { run: first });
    let lease = claim(store, &make, &key, owner).await;
    store.finish(&lease, make.completed()).await.unwrap();
    assert_eq!(claim(store, &make, &key, other).await.run, second);
}

async fn a_callers_run_of_an_earlier_incarnation_is_ended_and_passed_over(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let keys = [make.key("one"), make.key("two")];
    let mut waiting = Vec::new();
    for key in &keys {
        let gone = queue(store, make.accept(key)).await;
        waiting.push((gone, queue(store, make.accept_from_channel(key)).await));
    }
    let successor = store.enlist(owner.instance, make.now()).await.unwrap();
    // By its successor, and by anybody else.
    for ((key, (gone, next)), claimant) in keys.iter().zip(waiting).zip([successor, other]) {
        let lease = claim(store, &make, key, claimant).await;
        assert_eq!((lease.run, lease.attempt), (next, 1));
        let row = run(store, &make, gone).await;
        assert_eq!((row.state, row.attempt), (RunState::Interrupted, 0));
        assert_eq!(row.error.map(|error| error.code), Some(ErrorCode::Interrupted));
        assert!(row.finished_at.is_some());
        let audit = audit_of(store, &make, &gone.to_string()).await;
        assert_eq!(
            audit.iter().map(|row| row.action.as_str()).collect::<Vec<_>>(),
            ["agent.run.interrupted"]
        );
    }
}

async fn a_callers_run_of_a_silent_process_is_ended_and_passed_over(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (_, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let key = make.key("work");
    let gone = queue(store, make.accept(&key)).await;
    let next = queue(store, make.accept_from_channel(&key)).await;
    // Any database clock shows that this went by.
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    let claimed = store.claim(&key, &other, 0, make.now()).await.unwrap();
    assert!(matches!(&claimed, Claim::Granted(lease) if lease.run == next), "{claimed:?}");
    assert_eq!(state(store, &make, gone).await, RunState::Interrupted);
}

async fn nothing_is_left_where_every_caller_is_gone(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let lost = start(store, owner, make.accept(&key)).await;
    let gone = [queue(store, make.accept(&key)).await, queue(store, make.accept(&key)).await];
    let owner = store.enlist(owner.instance, make.now()).await.unwrap();
    assert_eq!(store.claim(&key, &owner, HOUR, make.now()).await.unwrap(), Claim::Nothing);
    for run in [lost.run, gone[0], gone[1]] {
        assert_eq!(state(store, &make, run).await, RunState::Interrupted);
    }
    start(store, owner, make.accept(&key)).await;
}

async fn a_callers_run_of_a_release_without_owners_is_ended_and_passed_over(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let gone = queue(store, make.accept(&key)).await;
    store.execute("UPDATE runs SET owner_instance = NULL, owner_incarnation = NULL").await;
    let next = queue(store, make.accept(&key)).await;
    assert_eq!(claim(store, &make, &key, owner).await.run, next);
    assert_eq!(state(store, &make, gone).await, RunState::Interrupted);
}

async fn a_run_for_a_channel_is_anybodys(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (_, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let key = make.key("work");
    let waiting = queue(store, make.accept_from_channel(&key)).await;
    assert_eq!(claim(store, &make, &key, other).await.run, waiting);
}
