//! Verbs that touch several sessions, many at once: nobody waits in a circle, and nothing slips between two of them.

use futures_util::future::join_all;
use tidegate_protocol::RunState;
use tidegate_storage::{Absorb, Accept, Finish, StoreError};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{converse, enlist, queue, start, state};

on_both_backends! {
    connections = 8;
    a_run_started_while_its_parent_is_ended_does_not_outlive_it,
    conversations_that_tell_each_other_at_once_all_end,
    an_end_that_tells_and_an_abort_of_the_family_do_not_tear_each_other,
    a_fork_and_a_deletion_of_its_source_do_not_tear_each_other,
    two_heirs_that_go_at_once_leave_nothing,
    a_run_takes_in_each_message_once_while_others_come,
    calls_that_come_by_two_ways_at_once_are_counted_once,
}

const ROUNDS: usize = 12;

async fn a_run_started_while_its_parent_is_ended_does_not_outlive_it(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for round in 0..ROUNDS {
        let parent = start(store, owner, make.accept(&make.key(&format!("parent {round}")))).await;
        let accepts = (0..4).map(|number| {
            let mut accept = make.accept_from_channel(&make.key(&format!("child {round} {number}")));
            accept.run.parent = Some(parent.run);
            async move {
                let child = accept.run.id;
                match store.accept(Accept { claim: number % 2 == 0, ..accept }).await {
                    Ok(_) => Some(child),
                    Err(StoreError::StaleFence) => None,
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
        let principal = make.principal();
        let (started, aborted) =
            tokio::join!(join_all(accepts), store.abort(&principal, parent.run, make.now()));
        aborted.unwrap();
        for child in started.into_iter().flatten() {
            assert_eq!(state(store, &make, child).await, RunState::Aborted, "round {round}");
        }
    }
}

async fn conversations_that_tell_each_other_at_once_all_end(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let keys = ["a", "b", "c", "d"].map(|name| make.key(name));
    for round in 0..ROUNDS {
        let mut ends = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let reservation = || Some(make.reservation(1, 1_000_000));
            let lease = start(store, owner, Accept { reservation: reservation(), ..make.accept(key) }).await;
            let told = &keys[(number + 1 + round % 3) % keys.len()];
            let announce = Accept { reservation: reservation(), ..make.accept_from_channel(told) };
            let calls = vec![make.call(1)];
            let parts = vec![make.part("lane", "part")];
            ends.push((
                lease,
                Finish { announce: Some(Box::new(announce)), calls, parts, ..make.completed() },
            ));
        }
        let finished = join_all(ends.iter().map(|(lease, end)| store.finish(lease, end.clone()))).await;
        for finished in finished {
            assert!(finished.unwrap().announced.is_some());
        }
        for key in &keys {
            let lease = crate::scene::claim(store, &make, key, owner).await;
            assert!(!store.finish(&lease, make.completed()).await.unwrap().more, "one each");
        }
    }
}

async fn an_end_that_tells_and_an_abort_of_the_family_do_not_tear_each_other(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for round in 0..ROUNDS {
        // Whichever way round the keys sort.
        let names = if round % 2 == 0 { ["x", "y"] } else { ["y", "x"] };
        let [parent, child] = names.map(|name| make.key(&format!("{name} {round}")));
        let parent = start(store, owner, make.accept(&parent)).await;
        let mut accept = make.accept_from_channel(&child);
        accept.run.parent = Some(parent.run);
        let child = start(store, owner, accept).await;
        let told = make.accept_from_channel(&parent.key);
        let end = Finish { announce: Some(Box::new(told.clone())), ..make.completed() };
        let principal = make.principal();
        let (finished, aborted) =
            tokio::join!(store.finish(&child, end), store.abort(&principal, parent.run, make.now()));
        aborted.unwrap();
        let (expected, told_state) = match finished {
            Ok(_) => (RunState::Completed, Some(RunState::Queued)),
            Err(StoreError::StaleFence) => (RunState::Aborted, None),
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(state(store, &make, child.run).await, expected);
        let lookup = tidegate_storage::RunLookup::Id(told.run.id);
        let found = store.run(make.tenant(), &lookup).await.unwrap();
        assert_eq!(found.map(|row| row.state), told_state, "round {round}");
    }
}

async fn a_fork_and_a_deletion_of_its_source_do_not_tear_each_other(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for round in 0..ROUNDS {
        let (key, other) = (make.key(&format!("source {round}")), make.key(&format!("fork {round}")));
        let source = converse(store, &make, &key, owner).await;
        let lines = store.entries(make.tenant(), source.session, 0, ALL).await.unwrap();
        let (principal, fork) = (make.principal(), make.fork(source.session, 2, &other));
        let (forked, deleted) =
            tokio::join!(store.fork(&principal, fork), store.delete_session(&principal, &key, make.now()));
        deleted.unwrap();
        match forked {
            Ok(forked) => {
                let found = store.entries(make.tenant(), forked.session, 0, ALL).await.unwrap();
                assert_eq!(found, lines, "round {round}");
            }
            Err(StoreError::NotFound(_)) => {
                assert_eq!(store.session(&other).await.unwrap(), None);
                assert_eq!(store.entries(make.tenant(), source.session, 0, ALL).await.unwrap(), []);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

async fn two_heirs_that_go_at_once_leave_nothing(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for _ in 0..ROUNDS {
        let keys = ["source", "one", "two"].map(|name| make.key(name));
        let source = converse(store, &make, &keys[0], owner).await;
        for key in &keys[1..] {
            store.fork(&make.principal(), make.fork(source.session, 2, key)).await.unwrap();
        }
        let principal = make.principal();
        let deletions = keys.iter().map(|key| store.delete_session(&principal, key, make.now()));
        for deleted in join_all(deletions).await {
            deleted.unwrap();
        }
        for table in ["entries", "sessions", "session_keys"] {
            assert_eq!(store.rows(table, "true").await.len(), 0, "{table}");
        }
    }
}

async fn a_run_takes_in_each_message_once_while_others_come(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    store.step(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    let accepts = (0..24).map(|_| {
        let mut accept = make.accept_from_channel(&lease.key);
        accept.run.join = Some(tidegate_protocol::JoinMode::Steer);
        queue(store, accept)
    });
    let absorbing = async {
        let mut taken = Vec::new();
        for _ in 0..8 {
            let absorbed = store
                .absorb(&lease, Absorb::quietly(tidegate_protocol::JoinMode::Steer, make.now()))
                .await
                .unwrap();
            taken.extend(absorbed.into_iter().map(|joined| joined.run));
        }
        taken
    };
    let (mut sent, mut taken) = tokio::join!(join_all(accepts), absorbing);
    let rest = store
        .absorb(&lease, Absorb::quietly(tidegate_protocol::JoinMode::FollowUp, make.now()))
        .await
        .unwrap();
    taken.extend(rest.into_iter().map(|joined| joined.run));
    sent.sort();
    taken.sort();
    assert_eq!(taken, sent);
    assert!(crate::scene::log(store, &lease).await.iter().map(|line| line.seq).eq(1..=25));
}

async fn calls_that_come_by_two_ways_at_once_are_counted_once(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for round in 0..ROUNDS {
        let reservation = Some(make.reservation(5, 1_000_000));
        let key = make.key(&format!("s{round}"));
        let lease = start(store, owner, Accept { reservation, ..make.accept(&key) }).await;
        let calls = vec![make.call(3), make.call(4)];
        // With and without lines: both ways lock the run before its calls.
        let entries = if round % 2 == 0 { Vec::new() } else { vec![make.user("question")] };
        let end = Finish { calls: calls.clone(), entries, ..make.failed() };
        let meter = make.meter(Some(lease.run), calls.into_iter().rev().collect());
        let (finished, metered) = tokio::join!(store.finish(&lease, end), store.meter(make.tenant(), meter));
        finished.unwrap();
        metered.unwrap();
        assert_eq!(crate::scene::run(store, &make, lease.run).await.usage.input, 7, "round {round}");
    }
    let filter = tidegate_storage::BudgetFilter { limit: ALL, ..Default::default() };
    for row in store.budgets(make.tenant(), filter).await.unwrap() {
        let spent = u64::try_from(ROUNDS).unwrap() * 7;
        assert_eq!((row.used.tokens_spent, row.used.tokens_reserved), (spent, 0));
    }
}
