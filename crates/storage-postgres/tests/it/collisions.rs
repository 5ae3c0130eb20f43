//! Many at once: nothing doubled, nothing lost, nobody told of a collision that could be repeated.

use std::collections::BTreeSet;
use std::time::Duration;

use sqlx::PgConnection;
use tidegate_protocol::{RunId, SendOutcome};
use tidegate_runtime::spawn;
use tidegate_storage::{
    Admission, Claim, Instances as _, Library as _, NextSend, Outbox as _, OutboxState, RunFilter, Runs as _,
    StoreError,
};
use tidegate_storage_postgres::{Mode, PostgresStore};

use crate::scratch::{
    NOW, Scratch, accept, begin, enlisted, finish, idempotency, key, part, run, tenant, with_schema,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_writers_share_eight_connections() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        let owner = enlisted(&store).await;
        let tasks: Vec<_> = (0..64)
            .map(|number| {
                let store = store.clone();
                // Half of them in one session, half in sessions of their own.
                let name = if number % 2 == 0 { "shared".to_owned() } else { format!("s{number}") };
                spawn("writer", async move { store.accept(accept(&key("acme", &name), owner)).await })
            })
            .collect();
        let mut places = BTreeSet::new();
        let mut claimed = 0;
        for task in tasks {
            match task.join().await.unwrap().unwrap().admission {
                Admission::Claimed(_) => claimed += 1,
                Admission::Queued { ahead } => {
                    assert!(places.insert(ahead), "two runs have {ahead} before them");
                }
                Admission::Replayed => panic!("nothing was said twice"),
            }
        }
        assert_eq!(claimed, 33, "one in the shared session, one in each other");
        assert_eq!(places, (1..=31).collect());
        let runs =
            store.runs(&tenant("acme"), RunFilter { limit: 100, ..RunFilter::default() }).await.unwrap();
        assert_eq!(runs.len(), 64);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_request_from_sixteen_callers_is_one_run() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        let owner = enlisted(&store).await;
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let store = store.clone();
                spawn("caller", async move {
                    let mut request = accept(&key("acme", "a"), owner);
                    request.idempotency = Some(idempotency("k", "same"));
                    store.accept(request).await
                })
            })
            .collect();
        let mut runs = BTreeSet::<RunId>::new();
        let mut replayed = 0;
        for task in tasks {
            let accepted = task.join().await.unwrap().unwrap();
            replayed += u32::from(accepted.admission == Admission::Replayed);
            runs.insert(accepted.run);
        }
        assert_eq!((runs.len(), replayed), (1, 15));
        let mut other = accept(&key("acme", "a"), owner);
        other.claim = false;
        other.idempotency = Some(idempotency("k", "something else"));
        assert_eq!(store.accept(other.clone()).await, Err(StoreError::IdempotencyConflict));
        other.now = NOW + 60_000;
        assert!(matches!(store.accept(other).await.unwrap().admission, Admission::Queued { ahead: 1 }));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_sends_one_part_at_a_time_in_order_whoever_asks() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        let owner = enlisted(&store).await;
        let writers: Vec<_> = (0..6)
            .map(|number| {
                let store = store.clone();
                spawn("writer", async move {
                    let lease = begin(&store, &key("acme", &format!("s{number}")), owner).await;
                    let parts = (0..3)
                        .map(|place| part(&format!("lane{}", number % 2), &format!("{number}.{place}")));
                    store.finish(&lease, finish(&lease, &["x"], parts.collect())).await.unwrap();
                })
            })
            .collect();
        for writer in writers {
            writer.join().await.unwrap();
        }
        let senders: Vec<_> = (0..6)
            .map(|_| {
                let store = store.clone();
                spawn("sender", async move {
                    let mut sent = Vec::new();
                    let mut idle = 0;
                    let (tenant, mut turn) = (tenant("acme"), 0);
                    while idle < 20 {
                        turn += 1;
                        let lane = format!("lane{}", turn % 2);
                        let claimed = store.claim_send(&tenant, &owner, &lane, 60_000, NOW).await.unwrap();
                        let NextSend::Granted(sending) = claimed else {
                            idle += 1;
                            tokio::time::sleep(Duration::from_millis(2)).await;
                            continue;
                        };
                        idle = 0;
                        let began = std::time::Instant::now();
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        sent.push((
                            sending.lane.clone(),
                            began,
                            std::time::Instant::now(),
                            sending.body.clone(),
                        ));
                        let outcome = SendOutcome::Sent { id: "r".into() };
                        assert_eq!(store.settle_send(&sending, outcome, NOW).await, Ok(OutboxState::Sent));
                    }
                    sent
                })
            })
            .collect();
        let mut sent = Vec::new();
        for sender in senders {
            sent.extend(sender.join().await.unwrap());
        }
        assert_eq!(sent.len(), 18);
        sent.sort();
        for pair in sent.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            assert!(pair[0].2 <= pair[1].1, "two sends of one lane overlap: {pair:?}");
        }
        for lane in ["lane0", "lane1"] {
            let bodies: Vec<_> = sent.iter().filter(|row| row.0 == lane).map(|row| row.3.as_str()).collect();
            for reply in bodies.chunks(3) {
                let run = &reply[0][..1];
                let whole: Vec<_> = (0..3).map(|place| format!("{run}.{place}")).collect();
                assert_eq!(reply, whole, "the parts of a reply stay together");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_tried_again_and_nobody_notices() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        let owner = enlisted(&store).await;
        let key = key("acme", "a");
        let first = begin(&store, &key, owner).await;
        store.finish(&first, finish(&first, &["x"], vec![])).await.unwrap();
        let lease = begin(&store, &key, owner).await;

        // The other side holds the log's row and never gives up itself; FINISH holds the session's row and waits.
        let mut other = scratch.superuser().await;
        run(&mut other, "SET deadlock_timeout = '60s'; BEGIN; UPDATE sessions SET route = 'other'")
            .await
            .unwrap();
        let task = {
            let (store, lease) = (store.clone(), lease.clone());
            spawn("finish", async move { store.finish(&lease, finish(&lease, &["y"], vec![])).await })
        };
        wait_for_a_waiter(&scratch).await;
        run(&mut other, "UPDATE session_keys SET updated_at = 1; COMMIT").await.unwrap();
        let finished = task.join().await.unwrap().unwrap();
        assert_eq!((finished.head_seq, finished.more), (2, false));
        assert_eq!(store.claim(&key, &owner, 60_000, NOW).await, Ok(Claim::Nothing));
    })
    .await;
}

async fn wait_for_a_waiter(scratch: &Scratch) {
    let mut watcher: PgConnection = scratch.superuser().await;
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_locks l JOIN pg_locks o USING (pid)
                 WHERE NOT l.granted AND o.relation = 'sessions'::regclass AND o.granted)";
    for _ in 0..200 {
        if sqlx::query_scalar::<_, bool>(sql).fetch_one(&mut watcher).await.unwrap() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nobody waits");
}

#[tokio::test]
async fn a_short_name_that_is_taken_stops_nobody() {
    with_schema(|scratch| async move {
        let store = PostgresStore::open(scratch.options(Mode::ReadWrite)).await.unwrap();
        let owner = enlisted(&store).await;
        let mut leases = Vec::new();
        for name in ["a", "b"] {
            let mut request = accept(&key("acme", name), owner);
            request.new_session.alias = Some("lc-1-abcd".into());
            let Admission::Claimed(lease) = store.accept(request).await.unwrap().admission else {
                panic!("not claimed")
            };
            leases.push(lease);
        }
        for lease in &leases {
            store.finish(lease, finish(lease, &["x"], vec![])).await.unwrap();
        }
        let named = store.session_by_name(&tenant("acme"), "lc-1-abcd").await.unwrap().unwrap();
        assert_eq!(named.id, leases[0].session);
        let other =
            store.session_by_name(&tenant("acme"), &leases[1].session.to_string()).await.unwrap().unwrap();
        assert_eq!((other.id, other.alias), (leases[1].session, None));
    })
    .await;
}

/// Waits until somebody asks for an advisory lock and does not get it.
async fn wait_at_the_gate(scratch: &Scratch) {
    let mut watcher: PgConnection = scratch.superuser().await;
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                 WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database())";
    for _ in 0..400 {
        if sqlx::query_scalar::<_, bool>(sql).fetch_one(&mut watcher).await.unwrap() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nobody waits");
}

fn gate(lock: &str, instance: impl std::fmt::Display) -> String {
    format!(
        "BEGIN; SELECT {lock}(hashtextextended(format('%s instance %s', current_schema(), '{instance}'), 0))"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_incarnation_waits_for_what_the_last_one_is_committing() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        let owner = enlisted(&store).await;
        // A process that was killed has sent its last statement; the server still works on it.
        let mut last = scratch.superuser().await;
        run(&mut last, &gate("pg_advisory_xact_lock_shared", owner.instance)).await.unwrap();
        let next = {
            let store = store.clone();
            spawn("enlist", async move { store.enlist(owner.instance, NOW).await })
        };
        wait_at_the_gate(&scratch).await;
        let other = enlisted(&store).await;
        begin(&store, &key("acme", "other"), other).await;
        run(&mut last, "COMMIT").await.unwrap();
        assert_eq!(next.join().await.unwrap().unwrap().incarnation, owner.incarnation + 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_after_the_next_incarnation_began_is_never_written() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        let owner = enlisted(&store).await;
        let lease = begin(&store, &key("acme", "a"), owner).await;
        let mut next = scratch.superuser().await;
        run(&mut next, &gate("pg_advisory_xact_lock", owner.instance)).await.unwrap();
        run(&mut next, "UPDATE instances SET incarnation = incarnation + 1").await.unwrap();
        let late = {
            let (store, lease) = (store.clone(), lease.clone());
            spawn("finish", async move { store.finish(&lease, finish(&lease, &["x"], vec![])).await })
        };
        let accepted = {
            let store = store.clone();
            spawn("accept", async move { store.accept(accept(&key("acme", "b"), owner)).await })
        };
        wait_at_the_gate(&scratch).await;
        run(&mut next, "COMMIT").await.unwrap();
        assert_eq!(late.join().await.unwrap(), Err(StoreError::StaleFence));
        assert_eq!(accepted.join().await.unwrap(), Err(StoreError::StaleFence));
        let runs = store.runs(lease.tenant(), RunFilter { limit: 9, ..RunFilter::default() }).await.unwrap();
        assert_eq!(runs.len(), 1);
    })
    .await;
}
