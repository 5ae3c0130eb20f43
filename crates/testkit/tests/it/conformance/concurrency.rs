//! Many at once: every promise holds, and nobody waits for strangers.

use futures_util::future::join_all;
use tidegate_protocol::{RunState, SendOutcome};
use tidegate_storage::{
    AbortOutcome, Accept, Admission, BudgetFilter, BudgetLine, Claim, Finish, NextSend, Owner, RunFilter,
    StoreError,
};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, converse, enlist, log, next_send, queue, reply, send, start, state};

on_both_backends! {
    connections = 8;
    one_key_from_sixteen_callers_is_one_run,
    sixteen_callers_of_one_session_get_sixteen_places,
    sixty_four_writers_on_sessions_of_their_own_all_land,
    a_waiting_run_is_claimed_by_one_of_many,
    a_silent_owner_is_succeeded_by_one_of_many,
    a_part_is_sent_by_one_of_many_and_a_lane_by_nobody_twice,
    either_the_finish_or_the_abort_wins,
    an_acceptance_and_a_deletion_do_not_tear_each_other,
    a_head_is_claimed_by_one_of_many,
    a_doubtful_head_is_taken_over_once,
    two_sealers_seal_every_row_once,
    with_room_for_one_reservation_one_of_twenty_passes,
    budgets_that_cross_are_counted_right_by_many_at_once,
    two_networks_may_deliver_into_the_same_sessions_at_once,
}

async fn one_key_from_sixteen_callers_is_one_run(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let idempotency = make.idempotency("key", "request");
    let accepts = (0..16).map(|_| {
        let idempotency = Some(idempotency.clone());
        store.accept(Accept { idempotency, owner, claim: true, ..make.accept_from_channel(&key) })
    });
    let accepted: Vec<_> = join_all(accepts).await.into_iter().map(Result::unwrap).collect();
    let runs = store.runs(make.tenant(), RunFilter { limit: ALL, ..RunFilter::default() }).await.unwrap();
    let [run] = runs.as_slice() else { panic!("one request, {} runs", runs.len()) };
    assert!(accepted.iter().all(|accepted| accepted.run == run.id));
    let replayed = accepted.iter().filter(|accepted| accepted.admission == Admission::Replayed).count();
    assert_eq!(replayed, 15);
    assert_eq!(store.tables(make.tenant()).await["inbox"].len(), 1);
}

async fn sixteen_callers_of_one_session_get_sixteen_places(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let accepts = (0..16).map(|_| store.accept(Accept { owner, claim: true, ..make.accept(&key) }));
    let mut waiting = Vec::new();
    let mut lease = None;
    for accepted in join_all(accepts).await {
        let accepted = accepted.unwrap();
        match accepted.admission {
            Admission::Claimed(claimed) => assert!(lease.replace(claimed).is_none(), "claimed twice"),
            Admission::Queued { ahead } => waiting.push((ahead, accepted.run)),
            Admission::Replayed => panic!("nothing was replayed"),
        }
    }
    waiting.sort_unstable();
    assert!(waiting.iter().map(|(ahead, _)| *ahead).eq(1..16), "{waiting:?}");
    // And they are served in the order they were told.
    let mut lease = lease.expect("one found the session idle");
    for (_, expected) in waiting {
        assert!(store.finish(&lease, make.completed()).await.unwrap().more);
        let Claim::Granted(next) = store.claim(&key, &owner, HOUR, make.now()).await.unwrap() else {
            panic!("a run waits")
        };
        assert_eq!(next.run, expected);
        lease = next;
    }
    assert!(!store.finish(&lease, make.completed()).await.unwrap().more);
    assert!(log(store, &lease).await.iter().map(|line| line.seq).eq(1..=32));
}

async fn sixty_four_writers_on_sessions_of_their_own_all_land(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let turns = (0..64).map(|number| {
        let make = &make;
        async move {
            let lease = start(store, owner, make.accept(&make.key(&format!("s{number}")))).await;
            store.step(&lease, make.intent(vec![make.user("question")])).await.unwrap();
            store.finish(&lease, make.completed()).await.unwrap();
            lease
        }
    });
    for lease in join_all(turns).await {
        assert_eq!(state(store, &make, lease.run).await, RunState::Completed);
        assert!(log(store, &lease).await.iter().map(|line| line.seq).eq(1..=3));
    }
    let status = store.status(make.tenant()).await.unwrap();
    assert_eq!((status.sessions, status.runs), (64, vec![("completed".to_owned(), 64)]));
}

async fn a_waiting_run_is_claimed_by_one_of_many(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owners = join_all((0..8).map(|_| enlist(store, &make))).await;
    let key = make.key("work");
    let first = queue(store, make.accept(&key)).await;
    queue(store, make.accept(&key)).await;
    let claims = join_all(owners.iter().map(|owner| store.claim(&key, owner, HOUR, make.now()))).await;
    let claims: Vec<_> = claims.into_iter().map(Result::unwrap).collect();
    let granted: Vec<_> = claims.iter().filter(|claim| matches!(claim, Claim::Granted(_))).collect();
    assert_eq!(granted.len(), 1, "{granted:?}");
    let busy = claims.iter().filter(|claim| **claim == Claim::Busy { run: first }).count();
    assert_eq!(busy, 7);
}

async fn a_silent_owner_is_succeeded_by_one_of_many(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lost = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let others = join_all((0..8).map(|_| enlist(store, &make))).await;
    // The lost owner is silent for at least this long by any clock; the others have just begun.
    let patience = 250;
    let now = make.now();
    join_all(others.iter().map(|other| async { store.heartbeat(other, now).await.unwrap() })).await;
    let claims = join_all(others.iter().map(|other| store.claim(&lost.key, other, patience, now))).await;
    let granted: Vec<_> = claims
        .into_iter()
        .filter_map(|claim| match claim.unwrap() {
            Claim::Granted(lease) => Some(lease),
            Claim::Busy { run } => {
                assert_eq!(run, lost.run);
                None
            }
            Claim::Nothing => panic!("the run is there"),
        })
        .collect();
    assert_eq!(granted.len(), 1, "{granted:?}");
    assert_eq!((granted[0].run, granted[0].attempt), (lost.run, 2));
    assert_eq!(store.finish(&lost, make.completed()).await.unwrap_err(), StoreError::StaleFence);
}

async fn a_part_is_sent_by_one_of_many_and_a_lane_by_nobody_twice(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owners = join_all((0..8).map(|_| enlist(store, &make))).await;
    let lease = start(store, owners[0], make.accept_from_channel(&make.key("work"))).await;
    let parts = (0..12).map(|number| make.part(["a", "b", "c"][number % 3], &number.to_string())).collect();
    store.finish(&lease, Finish { parts, ..make.completed() }).await.unwrap();
    let claims =
        join_all(owners.iter().map(|owner| next_send(store, make.tenant(), owner, make.now()))).await;
    let mut sent: Vec<_> =
        claims.into_iter().filter_map(Result::unwrap).map(|sending| sending.body).collect();
    // Some may have looked while another held the row; nobody got a second part of a lane.
    for _ in 0..3 {
        let more = next_send(store, make.tenant(), &owners[0], make.now()).await.unwrap();
        sent.extend(more.map(|sending| sending.body));
    }
    sent.sort();
    assert_eq!(sent, ["0", "1", "2"]);
}

async fn either_the_finish_or_the_abort_wins(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for number in 0..12 {
        let lease = start(store, owner, make.accept(&make.key(&format!("s{number}")))).await;
        let principal = make.principal();
        let (finished, aborted) = futures_util::join!(
            store.finish(&lease, make.completed()),
            store.abort(&principal, lease.run, make.now())
        );
        let state = state(store, &make, lease.run).await;
        match (finished, aborted.unwrap()) {
            (Ok(_), AbortOutcome::AlreadyEnded(RunState::Completed)) => {
                assert_eq!(state, RunState::Completed);
            }
            (Err(StoreError::StaleFence), AbortOutcome::Aborted) => {
                assert_eq!(state, RunState::Aborted);
                assert_eq!(log(store, &lease).await, []);
            }
            other => panic!("both or neither: {other:?}"),
        }
    }
}

async fn an_acceptance_and_a_deletion_do_not_tear_each_other(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for number in 0..12 {
        let key = make.key(&format!("s{number}"));
        let old = converse(store, &make, &key, owner).await;
        let accept = Accept { owner, claim: true, ..make.accept(&key) };
        let principal = make.principal();
        let (accepted, deleted) =
            futures_util::join!(store.accept(accept), store.delete_session(&principal, &key, make.now()));
        let Admission::Claimed(lease) = accepted.unwrap().admission else { panic!("the session was idle") };
        let deleted = match deleted {
            Ok(_) => true,
            Err(StoreError::SessionBusy) => false,
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(lease.session != old.session, deleted, "an accepted run is in a log that exists or will");
        let finished = store.finish(&lease, make.completed()).await.unwrap();
        assert_eq!(finished.head_seq, if deleted { 2 } else { 4 });
    }
}

async fn claim_lane(store: &ScratchStore, make: &Requests, owner: Owner) -> NextSend {
    store.claim_send(make.tenant(), &owner, "a", HOUR, make.now()).await.unwrap()
}

async fn a_head_is_claimed_by_one_of_many(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owners = join_all((0..8).map(|_| enlist(store, &make))).await;
    for name in ["one", "two", "three"] {
        reply(store, &make, owners[0], name, &[make.part("a", name), make.part("a", name)]).await;
    }
    for body in ["one", "one", "two", "two", "three", "three"] {
        let claims = join_all(owners.iter().map(|owner| claim_lane(store, &make, *owner))).await;
        let mut claimed = claims.into_iter().filter_map(|claim| match claim {
            NextSend::Granted(sending) => Some(sending),
            other => {
                assert_eq!(other, NextSend::Busy);
                None
            }
        });
        let sending = claimed.next().expect("one of them gets it");
        assert_eq!((sending.body.as_str(), claimed.next()), (body, None));
        let sent = SendOutcome::Sent { id: "remote".to_owned() };
        store.settle_send(&sending, sent, make.now()).await.unwrap();
    }
}

async fn a_doubtful_head_is_taken_over_once(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owners = join_all((0..8).map(|_| enlist(store, &make))).await;
    let dead = enlist(store, &make).await;
    reply(store, &make, owners[0], "one", &[make.part("a", "1"), make.part("a", "2")]).await;
    let lost = send(store, &make, dead).await;
    store.enlist(dead.instance, make.now()).await.unwrap();
    let claims = join_all(owners.iter().map(|owner| claim_lane(store, &make, *owner))).await;
    let taken: Vec<_> = claims.into_iter().filter(|claim| matches!(claim, NextSend::Granted(_))).collect();
    let [NextSend::Granted(taken)] = taken.as_slice() else { panic!("{taken:?}") };
    assert_eq!((taken.id, taken.attempt, taken.doubtful), (lost.id, 2, true));
}

async fn two_sealers_seal_every_row_once(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for number in 0..12 {
        converse(store, &make, &make.key(&format!("s{number}")), owner).await;
    }
    let sealed = join_all((0..8).map(|_| store.seal(make.tenant(), 2, make.now()))).await;
    let mut numbers: Vec<_> =
        sealed.into_iter().filter_map(Result::unwrap).map(|seal| (seal.number, seal.rows)).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=6).map(|number| (number, 2)).collect::<Vec<_>>());
    assert_eq!(store.unsealed(make.tenant()).await.unwrap(), 0);
    assert_eq!(super::seal::verify(store, &make).await, []);
}

async fn two_networks_may_deliver_into_the_same_sessions_at_once(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let batches = (0..8).map(|batch: u32| {
        let mut ingest = make.ingest(&make.key("a"), &[2 * batch, 2 * batch + 1, 99], None);
        // In opposite orders: they would wait for each other.
        let other = usize::from(batch.is_multiple_of(2));
        ingest.messages[other].key = make.key("b");
        store.ingest(ingest)
    });
    let accepted: Vec<_> = join_all(batches).await.into_iter().flat_map(Result::unwrap).collect();
    let replayed = accepted.iter().filter(|accepted| accepted.admission == Admission::Replayed).count();
    assert_eq!((accepted.len(), replayed), (24, 7));
}

async fn with_room_for_one_reservation_one_of_twenty_passes(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let accepts = (0..20).map(|number| {
        let reservation = Some(make.reservation(60, 100));
        start(store, owner, Accept { reservation, ..make.accept(&make.key(&format!("s{number}"))) })
    });
    let leases = join_all(accepts).await;
    assert_eq!(leases.iter().filter(|lease| lease.refusal.is_none()).count(), 1);
    let filter = BudgetFilter { limit: ALL, ..BudgetFilter::default() };
    for row in store.budgets(make.tenant(), filter).await.unwrap() {
        assert_eq!((row.used.tokens_reserved, row.rejected), (60, 19), "{row:?}");
    }
}

/// Every run names the shared lines in another order, alone or in one delivery with others, and ends in another way.
async fn budgets_that_cross_are_counted_right_by_many_at_once(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let reservation = |turned: usize| {
        let mut reservation = make.reservation(10, 1_000_000);
        for agent in ["a", "b"] {
            let scope = format!("agent:local:default:{agent}");
            reservation.lines.push(BudgetLine { scope, ..reservation.lines[0].clone() });
        }
        reservation.lines.rotate_left(turned % 4);
        reservation.lines.truncate(3);
        Some(reservation)
    };
    let turns = (0..24_usize).map(|number| {
        let (make, reservation) = (&make, &reservation);
        async move {
            let key = make.key(&format!("s{}", number % 6));
            if number % 3 == 0 {
                let names: Vec<u32> = (0..3).map(|part| u32::try_from(number).unwrap() * 10 + part).collect();
                let mut ingest = make.ingest(&key, &names, None);
                for (turned, message) in ingest.messages.iter_mut().enumerate() {
                    message.reservation = reservation(number + turned);
                    message.key = make.key(&format!("s{}", (number + turned) % 6));
                }
                // Sessions in one order: here it is about the lines.
                ingest.messages.sort_by_key(|message| message.key.to_string());
                return store.ingest(ingest).await.map(drop);
            }
            store
                .accept(Accept { reservation: reservation(number), ..make.accept_from_channel(&key) })
                .await?;
            let Claim::Granted(lease) = store.claim(&key, &owner, HOUR, make.now()).await? else {
                return Ok(());
            };
            if number % 2 == 0 {
                let calls = vec![make.call(4)];
                return store.finish(&lease, Finish { calls, ..make.completed() }).await.map(drop);
            }
            store.abort(&make.principal(), lease.run, make.now()).await?;
            store.meter(make.tenant(), make.meter(Some(lease.run), vec![make.call(4)])).await
        }
    });
    for turn in join_all(turns).await {
        turn.unwrap();
    }
    // What is left waits in its sessions; all of it finishes.
    for session in 0..6 {
        let key = make.key(&format!("s{session}"));
        while let Claim::Granted(lease) = store.claim(&key, &owner, HOUR, make.now()).await.unwrap() {
            store.finish(&lease, Finish { calls: vec![make.call(4)], ..make.completed() }).await.unwrap();
        }
    }
    let filter = BudgetFilter { limit: ALL, ..BudgetFilter::default() };
    let rows = store.budgets(make.tenant(), filter).await.unwrap();
    assert!(rows.iter().all(|row| row.used.tokens_reserved == 0), "{rows:?}");
    // 16 runs and 8 deliveries of three; each run counts in three of the four lines.
    assert_eq!(rows.iter().map(|row| row.used.tokens_spent).sum::<u64>(), (16 + 24) * 3 * 4);
}
