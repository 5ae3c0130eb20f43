//! Forgetting: what has served its time goes, a bounded piece at once, and nothing else does.

use tidegate_protocol::{RunState, SendOutcome};
use tidegate_storage::{
    Accept, Admission, BudgetFilter, BudgetLine, Finish, Lease, OutboxState, Owner, Sweep, Swept,
};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{
    HOUR, converse, enlist, everything, log, next_send, outbox_states, queue, reply, restart, send, start,
    state,
};

on_both_backends! {
    inbox_rows_go_when_their_runs_have_ended,
    outbox_rows_go_when_they_are_settled,
    failures_go_after_they_were_told,
    expired_keys_go_and_may_be_used_again,
    a_part_that_waited_too_long_is_dead_and_its_rest_dropped,
    a_part_that_a_person_wants_again_waits_anew,
    an_unused_ephemeral_session_goes_with_everything,
    a_session_in_use_stays,
    a_session_stays_until_its_answer_is_settled,
    a_session_is_ephemeral_only_if_it_began_so,
    an_ephemeral_log_has_no_transcript,
    a_sweep_is_bounded_and_says_that_there_may_be_more,
    a_young_store_is_left_as_it_is,
    a_sweep_stays_in_its_tenant,
    old_calls_go_and_what_they_cost_stays_counted,
    periods_of_budgets_go_after_four_hundred_days,
}

/// A time at which nothing is old.
const NEVER: i64 = 0;

fn nothing(now: i64) -> Sweep {
    Sweep {
        now,
        settled_before: NEVER,
        untold_before: NEVER,
        pending_before: NEVER,
        ephemeral_before: NEVER,
        calls_before: NEVER,
        limit: 1_000,
    }
}

async fn sweep(store: &ScratchStore, make: &Requests, sweep: Sweep) -> Swept {
    store.sweep(make.tenant(), sweep).await.unwrap()
}

async fn inbox_rows_go_when_their_runs_have_ended(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let ended = start(store, owner, make.accept_from_channel(&make.key("ended"))).await;
    store.finish(&ended, make.completed()).await.unwrap();
    let running = start(store, owner, make.accept_from_channel(&make.key("running"))).await;
    let waiting = queue(store, make.accept_from_channel(&make.key("running"))).await;
    let border = make.now();
    let young = start(store, owner, make.accept_from_channel(&make.key("young"))).await;
    store.finish(&young, make.completed()).await.unwrap();
    let settled = Sweep { settled_before: border, ..nothing(make.now()) };
    assert_eq!(sweep(store, &make, settled).await, Swept { inbox: 1, ..Swept::default() });
    let mut left: Vec<_> =
        store.rows("inbox", "true").await.into_iter().map(|row| row["run_id"].clone()).collect();
    let mut expected = [running.run, waiting, young.run].map(|run| run.to_string());
    left.sort_by_key(ToString::to_string);
    expected.sort();
    assert_eq!(left, expected);
    assert_eq!(sweep(store, &make, settled).await, Swept::default());
}

async fn outbox_rows_go_when_they_are_settled(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let sent = reply(store, &make, owner, "one", &[make.part("a", "1")]).await;
    let dropped = reply(store, &make, owner, "two", &[make.part("b", "1"), make.part("b", "2")]).await;
    let open = reply(store, &make, owner, "three", &[make.part("c", "1"), make.part("c", "2")]).await;
    let sending = send(store, &make, owner).await;
    store.settle_send(&sending, SendOutcome::Sent { id: "r".to_owned() }, make.now()).await.unwrap();
    let rows = store.outbox_of(make.tenant(), dropped).await.unwrap();
    store.drop_send(&make.principal(), rows[0].id, make.now()).await.unwrap();
    send(store, &make, owner).await;
    let settled = Sweep { settled_before: make.now(), ..nothing(make.now()) };
    let swept = sweep(store, &make, settled).await;
    assert_eq!((swept.outbox, swept.more), (3, false));
    for run in [sent, dropped] {
        assert_eq!(store.outbox_of(make.tenant(), run).await.unwrap(), []);
        assert_eq!(state(store, &make, run).await, RunState::Completed, "the run itself stays");
    }
    assert_eq!(outbox_states(store, &make, open).await, [OutboxState::Sending, OutboxState::Pending]);
}

async fn failures_go_after_they_were_told(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut failed = Vec::new();
    for outcome in [
        SendOutcome::Rejected { reason: "no".to_owned() },
        SendOutcome::Unknown { reason: "lost".to_owned() },
    ] {
        reply(store, &make, owner, "one", &[make.part("a", "1")]).await;
        let sending = send(store, &make, owner).await;
        store.settle_send(&sending, outcome, make.now()).await.unwrap();
        failed.push(sending.id);
    }
    let settled = |border: i64| Sweep { settled_before: border, ..nothing(border) };
    assert_eq!(sweep(store, &make, settled(make.now() + HOUR)).await.outbox, 0, "nobody was told");
    let told_at = make.now() + HOUR;
    store.note_told(make.tenant(), &failed, told_at).await.unwrap();
    assert_eq!(sweep(store, &make, settled(told_at)).await.outbox, 0, "there is time to decide");
    assert_eq!(sweep(store, &make, settled(told_at + 1)).await.outbox, 2);
}

async fn expired_keys_go_and_may_be_used_again(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let key = make.key("work");
    let keyed = |name: &str| Accept { idempotency: Some(make.idempotency(name, name)), ..make.accept(&key) };
    let old = keyed("old");
    let expires_at = old.idempotency.as_ref().unwrap().expires_at;
    queue(store, old).await;
    let young = queue(store, keyed("young")).await;
    assert_eq!(sweep(store, &make, nothing(expires_at - 1)).await.idempotency, 0);
    assert_eq!(sweep(store, &make, nothing(expires_at)).await.idempotency, 1);
    assert_eq!(store.accept(keyed("young")).await.unwrap().run, young);
    let again = store.accept(keyed("old")).await.unwrap();
    assert!(matches!(again.admission, Admission::Queued { .. }), "{again:?}");
}

async fn a_part_that_waited_too_long_is_dead_and_its_rest_dropped(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let under_way = reply(store, &make, owner, "sending", &[make.part("s", "1"), make.part("s", "2")]).await;
    send(store, &make, owner).await;
    let parts = [make.part("a", "1"), make.part("a", "2"), make.part("a", "3")];
    let old = reply(store, &make, owner, "old", &parts).await;
    let border = make.now();
    let young = reply(store, &make, owner, "young", &[make.part("a", "4")]).await;
    let pending = Sweep { pending_before: border, ..nothing(make.now()) };
    let swept = sweep(store, &make, pending).await;
    let second = store.outbox_of(make.tenant(), under_way).await.unwrap()[1].id;
    assert_eq!(swept, Swept { expired: vec![second, parts[0].id], ..Swept::default() });
    let (dead, dropped) = (OutboxState::Dead, OutboxState::Dropped);
    assert_eq!(outbox_states(store, &make, old).await, [dead.clone(), dropped.clone(), dropped]);
    assert_eq!(outbox_states(store, &make, under_way).await, [OutboxState::Sending, dead]);
    assert_eq!(outbox_states(store, &make, young).await, [OutboxState::Pending]);
    let told: Vec<_> =
        store.undelivered(make.tenant(), 10).await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(told, [second, parts[0].id], "the owner is told");
    assert_eq!(next_send(store, make.tenant(), &owner, make.now()).await.unwrap().unwrap().run, young);
}

async fn a_part_that_a_person_wants_again_waits_anew(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let part = make.part("a", "1");
    let run = reply(store, &make, owner, "work", std::slice::from_ref(&part)).await;
    let pending = |border: i64| Sweep { pending_before: border, ..nothing(border) };
    assert_eq!(sweep(store, &make, pending(make.now())).await.expired, [part.id]);
    let retried_at = make.now();
    store.retry_send(&make.principal(), part.id, retried_at).await.unwrap();
    assert_eq!(sweep(store, &make, pending(retried_at)).await.expired, []);
    assert_eq!(outbox_states(store, &make, run).await, [OutboxState::Pending]);
    assert_eq!(sweep(store, &make, pending(retried_at + 1)).await.expired, [part.id]);
}

async fn passing(store: &ScratchStore, make: &Requests, name: &str, owner: Owner) -> Lease {
    let accept = Accept {
        ephemeral: true,
        idempotency: Some(make.idempotency(name, name)),
        ..make.accept(&make.key(name))
    };
    let lease = start(store, owner, accept).await;
    store.step(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    store.finish(&lease, make.completed()).await.unwrap();
    lease
}

fn forget(border: i64) -> Sweep {
    Sweep { ephemeral_before: border, ..nothing(NEVER) }
}

async fn an_unused_ephemeral_session_goes_with_everything(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    converse(store, &make, &make.key("kept"), owner).await;
    let before = store.snapshot(make.tenant()).await;
    let lease = passing(store, &make, "passing", owner).await;
    let failed = start(store, owner, make.accept(&lease.key)).await;
    store.finish(&failed, make.failed()).await.unwrap();
    assert_eq!(log(store, &lease).await.len(), 3);
    let border = make.now();
    assert_eq!(sweep(store, &make, forget(border - 2 * HOUR)).await, Swept::default());
    let last = make.now();
    assert_eq!(sweep(store, &make, forget(last)).await, Swept { sessions: 1, ..Swept::default() });
    let mut after = store.snapshot(make.tenant()).await;
    // What was done stays in the audit trail.
    after.library.audit.retain(|row| before.library.audit.iter().any(|kept| kept.id == row.id));
    after.tables.insert("audit_logs".to_owned(), before.tables["audit_logs"].clone());
    before.assert_same(&after);
    // The same key begins anew, and so does its idempotency key.
    let again = passing(store, &make, "passing", owner).await;
    assert_ne!(again.session, lease.session);
}

async fn a_session_in_use_stays(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for name in ["running", "waiting", "young", "unknown"] {
        passing(store, &make, name, owner).await;
    }
    let running = start(store, owner, make.accept(&make.key("running"))).await;
    queue(store, make.accept(&make.key("waiting"))).await;
    let unknown = queue(store, make.accept(&make.key("unknown"))).await;
    store.execute(&format!("UPDATE runs SET state = 'paused' WHERE id = '{unknown}'")).await;
    let border = make.now();
    converse(store, &make, &make.key("young"), owner).await;
    assert_eq!(sweep(store, &make, forget(border)).await, Swept::default());
    // A run that is worked on moves its session's time.
    store.finish(&running, make.completed()).await.unwrap();
    assert_eq!(sweep(store, &make, forget(border)).await, Swept::default());
    assert_eq!(sweep(store, &make, forget(make.now())).await.sessions, 2);
    for kept in ["waiting", "unknown"] {
        assert!(store.session(&make.key(kept)).await.unwrap().is_some(), "{kept}");
    }
}

async fn a_session_stays_until_its_answer_is_settled(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let accept = Accept { ephemeral: true, ..make.accept_from_channel(&make.key("passing")) };
    let lease = start(store, owner, accept).await;
    let mut finish = make.completed();
    finish.parts = vec![make.part("a", "1")];
    store.finish(&lease, finish).await.unwrap();
    assert_eq!(sweep(store, &make, forget(make.now())).await.sessions, 0, "its answer waits");
    let sending = send(store, &make, owner).await;
    assert_eq!(sweep(store, &make, forget(make.now())).await.sessions, 0, "its answer is being sent");
    let rejected = SendOutcome::Rejected { reason: "no".to_owned() };
    store.settle_send(&sending, rejected, make.now()).await.unwrap();
    assert_eq!(sweep(store, &make, forget(make.now())).await.sessions, 0, "nobody was told");
    store.note_told(make.tenant(), &[sending.id], make.now()).await.unwrap();
    assert_eq!(sweep(store, &make, forget(make.now())).await.sessions, 1);
    assert!(store.rows("outbox", "true").await.is_empty());
}

async fn a_session_is_ephemeral_only_if_it_began_so(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (lasting, fleeting) = (make.key("lasting"), make.key("fleeting"));
    converse(store, &make, &lasting, owner).await;
    let lease = start(store, owner, Accept { ephemeral: true, ..make.accept(&lasting) }).await;
    store.finish(&lease, make.completed()).await.unwrap();
    passing(store, &make, "fleeting", owner).await;
    converse(store, &make, &fleeting, owner).await;
    assert_eq!(sweep(store, &make, forget(make.now())).await.sessions, 1);
    assert!(store.session(&lasting).await.unwrap().is_some());
    assert_eq!(store.session(&fleeting).await.unwrap(), None);
}

async fn an_ephemeral_log_has_no_transcript(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = passing(store, &make, "passing", owner).await;
    converse(store, &make, &lease.key, owner).await;
    assert_eq!(store.mirror_backlog(make.tenant(), 10).await.unwrap(), []);
    let kept = converse(store, &make, &make.key("kept"), owner).await;
    let backlog = store.mirror_backlog(make.tenant(), 10).await.unwrap();
    assert_eq!(backlog.iter().map(|task| task.session).collect::<Vec<_>>(), [kept.session]);
}

async fn a_sweep_is_bounded_and_says_that_there_may_be_more(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for number in 0..3 {
        passing(store, &make, &format!("passing {number}"), owner).await;
        let name = format!("channel {number}");
        reply(store, &make, owner, &name, &[make.part(&name, "1")]).await;
        let sending = send(store, &make, owner).await;
        store.settle_send(&sending, SendOutcome::Sent { id: "r".to_owned() }, make.now()).await.unwrap();
    }
    for number in 0..3 {
        let name = format!("late {number}");
        reply(store, &make, owner, &name, &[make.part(&name, "1")]).await;
    }
    let all = Sweep { limit: 2, ..everything(make.now() + 2 * HOUR) };
    let first = sweep(store, &make, all).await;
    assert_eq!((first.inbox, first.outbox, first.sessions, first.expired.len()), (2, 2, 2, 2));
    assert_eq!((first.idempotency, first.more), (2, true));
    let second = sweep(store, &make, all).await;
    assert_eq!((second.inbox, second.outbox, second.sessions, second.expired.len()), (2, 1, 1, 1));
    assert!(second.more);
    let mut last = second;
    for _ in 0..3 {
        if last.more {
            last = sweep(store, &make, all).await;
        }
    }
    assert!(!last.more, "{last:?}");
    assert_eq!(sweep(store, &make, all).await, Swept::default());
}

async fn a_young_store_is_left_as_it_is(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    passing(store, &make, "passing", owner).await;
    reply(store, &make, owner, "one", &[make.part("a", "1"), make.part("b", "2")]).await;
    let sending = send(store, &make, owner).await;
    store.settle_send(&sending, SendOutcome::Sent { id: "r".to_owned() }, make.now()).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    assert_eq!(sweep(store, &make, nothing(make.now())).await, Swept::default());
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn a_sweep_stays_in_its_tenant(store: &ScratchStore) {
    let (make, other) = (Requests::new("local", 1), Requests::new("other", 1));
    let owner = enlist(store, &make).await;
    passing(store, &make, "passing", owner).await;
    reply(store, &make, owner, "one", &[make.part("a", "1")]).await;
    let (owner, _) = restart(store, &make, owner).await;
    let before = store.snapshot(make.tenant()).await;
    assert_eq!(sweep(store, &other, everything(make.now() + 9 * HOUR)).await, Swept::default());
    before.assert_same(&store.snapshot(make.tenant()).await);
    assert_eq!(send(store, &make, owner).await.body, "1");
}

async fn old_calls_go_and_what_they_cost_stays_counted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let reservation = Some(make.reservation(50, 100));
    let lease = start(store, owner, Accept { reservation, ..make.accept(&make.key("work")) }).await;
    let calls = vec![make.call(1), make.call(2), make.call(3)];
    let border = calls[2].started_at;
    store.finish(&lease, Finish { calls, ..make.completed() }).await.unwrap();
    let before = store.tables(make.tenant()).await;
    let one = Sweep { calls_before: border, limit: 1, ..nothing(make.now()) };
    for expected in std::iter::repeat_n(Swept { calls: 1, more: true, ..Swept::default() }, 2) {
        assert_eq!(sweep(store, &make, one).await, expected);
    }
    assert_eq!(sweep(store, &make, one).await, Swept::default());
    let mut after = store.tables(make.tenant()).await;
    assert_eq!(after["model_calls"].len(), 1);
    assert_eq!(after["model_calls"][0]["token_input"], 3);
    after.insert("model_calls".to_owned(), before["model_calls"].clone());
    assert_eq!(after, before, "nothing else went");
}

async fn periods_of_budgets_go_after_four_hundred_days(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut reservation = make.reservation(1, 100);
    let line = reservation.lines[0].clone();
    // 400 days before the sweep it was 2026-02-23.
    let periods = ["day:2026-02-22", "day:2026-02-23", "month:2026-01", "month:2026-02", "year:2020"];
    reservation.lines =
        periods.map(|period| BudgetLine { period: period.to_owned(), ..line.clone() }).to_vec();
    let accept = Accept { reservation: Some(reservation), ..make.accept(&make.key("work")) };
    let lease = start(store, owner, accept).await;
    let late = make.now() + 400 * 24 * HOUR;
    assert_eq!(sweep(store, &make, nothing(late)).await, Swept { budgets: 2, ..Swept::default() });
    // A run that began then still ends: its forgotten periods begin anew.
    store.finish(&lease, Finish { calls: vec![make.call(5)], ..make.completed() }).await.unwrap();
    let filter = BudgetFilter { limit: 9, ..BudgetFilter::default() };
    let rows = store.budgets(make.tenant(), filter).await.unwrap();
    let told: Vec<_> = rows.iter().map(|row| row.key.period.as_str()).collect();
    assert_eq!(told, periods);
    assert!(rows.iter().all(|row| (row.used.tokens_spent, row.used.tokens_reserved) == (5, 0)), "{rows:?}");
}
