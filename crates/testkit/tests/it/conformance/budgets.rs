//! Budgets: what a run may need is reserved with its acceptance and settled with its end, each exactly once.

use serde_json::json;
use tidegate_protocol::{Cost, ErrorBody, ErrorCode, RunId, RunState};
use tidegate_storage::{
    AbortOutcome, Accept, Admission, BudgetFilter, BudgetLine, BudgetMeasure, BudgetRow, Ending, Finish,
    Lease, Reservation, Step, StoreError,
};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, audit_of, claim, enlist, queue, restart, start, state};

on_both_backends! {
    a_run_reserves_what_it_may_need_and_spends_what_it_used,
    a_run_that_fails_spends_what_it_used,
    a_hard_line_without_room_refuses_the_run_and_says_so,
    a_refused_run_that_waits_is_refused_when_it_is_claimed,
    a_refused_run_ends_without_touching_its_budgets,
    a_line_of_the_tenant_refuses_although_the_agent_has_room,
    a_soft_line_lets_the_run_pass_with_a_warning,
    two_limits_of_one_period_reserve_once,
    a_replayed_request_reserves_nothing,
    messages_of_one_delivery_reserve_one_after_the_other,
    a_run_that_never_began_gives_its_reservation_back,
    a_run_ended_while_it_ran_spends_its_reservation_until_it_is_metered,
    a_run_that_crashed_spends_its_reservation_and_one_that_goes_on_keeps_it,
    a_released_run_keeps_its_reservation,
    what_an_open_run_was_metered_for_comes_out_of_its_reservation,
    a_run_under_way_holds_more_as_long_as_there_is_room,
    a_run_that_was_taken_over_holds_no_more,
    deleting_a_session_keeps_what_its_runs_spent,
    budgets_are_read_by_scope_and_period,
}

/// Tokens spent and reserved, and runs rejected, of the tenant and of the agent. Costs are the same numbers.
async fn seen(store: &ScratchStore, make: &Requests) -> [(u64, u64, u64); 2] {
    let scopes = [format!("tenant:{}", make.tenant()), format!("agent:{}:default:main", make.tenant())];
    let filter = BudgetFilter { limit: ALL, ..BudgetFilter::default() };
    let rows = store.budgets(make.tenant(), filter).await.unwrap();
    [0, 1].map(|number| {
        let Some(row) = rows.iter().find(|row| row.key.scope == scopes[number]) else { return (0, 0, 0) };
        let used = row.used;
        assert_eq!(
            (used.cost_spent, used.cost_reserved),
            (Cost(used.tokens_spent), Cost(used.tokens_reserved))
        );
        (used.tokens_spent, used.tokens_reserved, row.rejected)
    })
}

#[track_caller]
fn assert_both(seen: [(u64, u64, u64); 2], expected: (u64, u64, u64)) {
    assert_eq!(seen, [expected; 2]);
}

/// A run that asks for so much of a day's 100, begun at once.
async fn begin(store: &ScratchStore, make: &Requests, name: &str, asked: u64) -> Lease {
    let reservation = Some(make.reservation(asked, 100));
    let accept = Accept { reservation, ..make.accept(&make.key(name)) };
    start(store, make.owner().unwrap(), accept).await
}

async fn a_run_reserves_what_it_may_need_and_spends_what_it_used(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let lease = begin(store, &make, "work", 60).await;
    assert_eq!((&lease.refusal, lease.over_budget.as_slice()), (&None, [].as_slice()));
    assert_both(seen(store, &make).await, (0, 60, 0));
    let calls = vec![make.call(10), make.call(15)];
    store.finish(&lease, Finish { calls, ..make.completed() }).await.unwrap();
    assert_both(seen(store, &make).await, (25, 0, 0));
    // What is spent counts for the next one.
    assert_eq!(begin(store, &make, "work", 75).await.refusal, None);
    assert_both(seen(store, &make).await, (25, 75, 0));
}

async fn a_run_that_fails_spends_what_it_used(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let lease = begin(store, &make, "work", 60).await;
    store.finish(&lease, Finish { calls: vec![make.call(9)], ..make.failed() }).await.unwrap();
    assert_both(seen(store, &make).await, (9, 0, 0));
}

async fn a_hard_line_without_room_refuses_the_run_and_says_so(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let spender = begin(store, &make, "one", 50).await;
    store.finish(&spender, Finish { calls: vec![make.call(30)], ..make.completed() }).await.unwrap();
    begin(store, &make, "two", 40).await;
    let refused = begin(store, &make, "three", 31).await;
    let refusal = refused.refusal.expect("there was room for 30");
    let told: Vec<_> = refusal.lines.iter().map(|line| (line.scope.as_str(), line.measure)).collect();
    let [tenant, agent] = ["tenant:local", "agent:local:default:main"];
    let (tokens, cost) = (BudgetMeasure::Tokens, BudgetMeasure::Cost);
    assert_eq!(told, [(tenant, tokens), (tenant, cost), (agent, tokens), (agent, cost)]);
    assert_both(seen(store, &make).await, (30, 40, 1));
    let audit = audit_of(store, &make, &refused.run.to_string()).await;
    assert_eq!(audit[0].action, "budget.rejected");
    assert_eq!(
        audit[0].metadata["lines"][0],
        json!({"scope": tenant, "period": "day:2026-02-23", "measure": "tokens", "spent": 30, "reserved": 40,
            "asked": 31, "limit": 100})
    );
    // One that fits is still let in, and the count goes on.
    assert_eq!(begin(store, &make, "four", 30).await.refusal, None);
    assert!(begin(store, &make, "five", 1).await.refusal.is_some());
    assert_both(seen(store, &make).await, (30, 70, 2));
}

async fn a_refused_run_that_waits_is_refused_when_it_is_claimed(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = begin(store, &make, "work", 100).await;
    let reservation = Some(make.reservation(1, 100));
    let second = queue(store, Accept { reservation, ..make.accept_from_channel(&key) }).await;
    store.finish(&first, make.completed()).await.unwrap();
    // There is room by now; what was decided stays decided.
    let lease = claim(store, &make, &key, owner).await;
    assert_eq!((lease.run, lease.refusal.is_some()), (second, true));
    let (owner, _) = restart(store, &make, owner).await;
    let again = claim(store, &make, &key, owner).await;
    assert_eq!((again.run, again.refusal), (second, lease.refusal));
}

async fn a_refused_run_ends_without_touching_its_budgets(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let refused = begin(store, &make, "work", 101).await;
    let error = ErrorBody::new(ErrorCode::BudgetExceeded, refused.refusal.as_ref().unwrap().to_string());
    store.finish(&refused, make.ending(Ending::Failed(error))).await.unwrap();
    assert_eq!(state(store, &make, refused.run).await, RunState::Failed);
    let aborted = begin(store, &make, "other", 101).await;
    store.abort(&make.principal(), aborted.run, make.now()).await.unwrap();
    assert_both(seen(store, &make).await, (0, 0, 2));
}

async fn a_line_of_the_tenant_refuses_although_the_agent_has_room(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut reservation = make.reservation(50, 100);
    reservation.lines[0].max_tokens = Some(49);
    let accept = Accept { reservation: Some(reservation), ..make.accept(&make.key("work")) };
    let lease = start(store, owner, accept).await;
    let [only] = lease.refusal.unwrap().lines.try_into().unwrap();
    assert_eq!((only.scope.as_str(), only.limit), ("tenant:local", 49));
    assert_eq!(seen(store, &make).await, [(0, 0, 1), (0, 0, 0)]);
}

async fn a_soft_line_lets_the_run_pass_with_a_warning(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = begin(store, &make, "work", 10).await;
    let mut reservation = make.reservation(50, 100);
    reservation.lines[1] = BudgetLine { max_tokens: Some(20), hard: false, ..reservation.lines[1].clone() };
    let accept = Accept { reservation: Some(reservation), ..make.accept_from_channel(&key) };
    let waiting = queue(store, accept).await;
    store.finish(&first, make.completed()).await.unwrap();
    let lease = claim(store, &make, &key, owner).await;
    assert_eq!((lease.run, lease.refusal), (waiting, None));
    let [excess] = lease.over_budget.try_into().unwrap();
    assert_eq!((excess.reserved, excess.asked, excess.limit), (10, 50, 20));
    assert_both(seen(store, &make).await, (0, 50, 0));
}

async fn two_limits_of_one_period_reserve_once(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut reservation = make.reservation(50, 100);
    let again = BudgetLine { max_tokens: Some(10), hard: false, ..reservation.lines[0].clone() };
    reservation.lines.push(again);
    let accept = Accept { reservation: Some(reservation), ..make.accept(&make.key("work")) };
    let lease = start(store, owner, accept).await;
    assert_eq!(lease.over_budget.len(), 1);
    assert_both(seen(store, &make).await, (0, 50, 0));
    store.finish(&lease, Finish { calls: vec![make.call(7)], ..make.completed() }).await.unwrap();
    assert_both(seen(store, &make).await, (7, 0, 0));
}

async fn a_replayed_request_reserves_nothing(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let idempotency = make.idempotency("key", "request");
    for round in 0..3 {
        let accept = Accept {
            idempotency: Some(idempotency.clone()),
            reservation: Some(make.reservation(60, 100)),
            ..make.accept(&make.key("work"))
        };
        let accepted = store.accept(accept).await.unwrap();
        assert_eq!(accepted.admission == Admission::Replayed, round > 0);
        assert_both(seen(store, &make).await, (0, 60, 0));
    }
}

async fn messages_of_one_delivery_reserve_one_after_the_other(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    // The second one came twice.
    let mut ingest = make.ingest(&key, &[1, 2, 2, 3], Some("3"));
    for message in &mut ingest.messages {
        message.reservation = Some(make.reservation(50, 100));
    }
    ingest.messages[0].claim = true;
    let accepted = store.ingest(ingest).await.unwrap();
    assert_both(seen(store, &make).await, (0, 100, 1));
    let Admission::Claimed(mut lease) = accepted[0].admission.clone() else { panic!("it was idle") };
    let mut refused = Vec::new();
    for number in 0..3 {
        refused.push(lease.refusal.is_some());
        store.finish(&lease, make.completed()).await.unwrap();
        if number < 2 {
            lease = claim(store, &make, &key, owner).await;
        }
    }
    assert_eq!(refused, [false, false, true]);
    assert_both(seen(store, &make).await, (0, 0, 1));
}

async fn a_run_that_never_began_gives_its_reservation_back(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let waits = async |caller: bool| -> RunId {
        let key = make.key("work");
        let accept = if caller { make.accept(&key) } else { make.accept_from_channel(&key) };
        queue(store, Accept { reservation: Some(make.reservation(20, 100)), ..accept }).await
    };
    let (one, two) = (waits(true).await, waits(false).await);
    let (three, four) = (waits(true).await, waits(false).await);
    assert_both(seen(store, &make).await, (0, 80, 0));
    let principal = make.principal();
    assert_eq!(store.abort_queued(&principal, one, make.now()).await.unwrap(), AbortOutcome::Aborted);
    assert_eq!(store.abort(&principal, two, make.now()).await.unwrap(), AbortOutcome::Aborted);
    assert_both(seen(store, &make).await, (0, 40, 0));
    // A second wish changes nothing.
    let again = store.abort(&principal, two, make.now()).await.unwrap();
    assert_eq!(again, AbortOutcome::AlreadyEnded(RunState::Aborted));
    let (owner, _) = restart(store, &make, owner).await;
    assert_eq!(state(store, &make, three).await, RunState::Interrupted);
    assert_both(seen(store, &make).await, (0, 20, 0));
    // A silent neighbour's caller is gone: the claim passes over its run.
    let neighbour = store.enlist(make.id(), make.now()).await.unwrap();
    let gone = Accept {
        owner: neighbour,
        reservation: Some(make.reservation(20, 100)),
        ..make.accept(&make.key("gone"))
    };
    let gone = queue(store, gone).await;
    store.enlist(neighbour.instance, make.now()).await.unwrap();
    store.claim(&make.key("gone"), &owner, HOUR, make.now()).await.unwrap();
    assert_eq!(state(store, &make, gone).await, RunState::Interrupted);
    assert_both(seen(store, &make).await, (0, 20, 0));
    assert_eq!(claim(store, &make, &make.key("work"), owner).await.run, four);
}

async fn a_run_ended_while_it_ran_spends_its_reservation_until_it_is_metered(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let lease = begin(store, &make, "work", 60).await;
    store.abort(&make.principal(), lease.run, make.now()).await.unwrap();
    assert_both(seen(store, &make).await, (60, 0, 0));
    let meter = make.meter(Some(lease.run), vec![make.call(13)]);
    for _ in 0..2 {
        // The same report twice is one report.
        store.meter(make.tenant(), meter.clone()).await.unwrap();
        assert_both(seen(store, &make).await, (13, 0, 0));
    }
    // Another call of it is added; the reservation was replaced once.
    store.meter(make.tenant(), make.meter(Some(lease.run), vec![make.call(4)])).await.unwrap();
    assert_both(seen(store, &make).await, (17, 0, 0));
    // One that used nothing says so without a call.
    let idle = begin(store, &make, "idle", 50).await;
    store.abort(&make.principal(), idle.run, make.now()).await.unwrap();
    store.meter(make.tenant(), make.meter(Some(idle.run), Vec::new())).await.unwrap();
    assert_both(seen(store, &make).await, (17, 0, 0));
}

async fn a_run_that_crashed_spends_its_reservation_and_one_that_goes_on_keeps_it(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let gone = begin(store, &make, "gone", 30).await;
    let reservation = Some(make.reservation(20, 100));
    let stays =
        start(store, owner, Accept { reservation, ..make.accept_from_channel(&make.key("stays")) }).await;
    let (owner, _) = restart(store, &make, owner).await;
    assert_eq!(state(store, &make, gone.run).await, RunState::Interrupted);
    assert_eq!(state(store, &make, stays.run).await, RunState::Queued);
    assert_both(seen(store, &make).await, (30, 20, 0));
    // It began once: what its first try used is not known.
    store.abort_queued(&make.principal(), stays.run, make.now()).await.unwrap();
    assert_both(seen(store, &make).await, (50, 0, 0));
    store.meter(make.tenant(), make.meter(Some(gone.run), vec![make.call(5)])).await.unwrap();
    assert_both(seen(store, &make).await, (25, 0, 0));
    // A claim takes a dead neighbour's run over in the same way.
    let neighbour = store.enlist(make.id(), make.now()).await.unwrap();
    let reservation = Some(make.reservation(40, 100));
    let taken = start(store, neighbour, Accept { reservation, ..make.accept(&make.key("taken")) }).await;
    store.enlist(neighbour.instance, make.now()).await.unwrap();
    store.claim(&make.key("taken"), &owner, HOUR, make.now()).await.unwrap();
    assert_eq!(state(store, &make, taken.run).await, RunState::Interrupted);
    assert_both(seen(store, &make).await, (65, 0, 0));
}

async fn a_released_run_keeps_its_reservation(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let reservation = Some(make.reservation(60, 100));
    let lease = start(store, owner, Accept { reservation, ..make.accept_from_channel(&key) }).await;
    assert_eq!(store.release(&lease, make.now()).await.unwrap(), RunState::Queued);
    assert_both(seen(store, &make).await, (0, 60, 0));
    let again = claim(store, &make, &key, owner).await;
    store.finish(&again, Finish { calls: vec![make.call(8)], ..make.completed() }).await.unwrap();
    assert_both(seen(store, &make).await, (8, 0, 0));
    // One whose caller waits ends with its release.
    let lease = begin(store, &make, "caller", 30).await;
    assert_eq!(store.release(&lease, make.now()).await.unwrap(), RunState::Interrupted);
    assert_both(seen(store, &make).await, (38, 0, 0));
}

async fn what_an_open_run_was_metered_for_comes_out_of_its_reservation(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let lease = begin(store, &make, "work", 60).await;
    let early = make.call(20);
    store.meter(make.tenant(), make.meter(Some(lease.run), vec![early.clone()])).await.unwrap();
    assert_both(seen(store, &make).await, (20, 40, 0));
    // FINISH names all calls; the one that was metered is not counted again.
    let calls = vec![early, make.call(5)];
    store.finish(&lease, Finish { calls, ..make.completed() }).await.unwrap();
    assert_both(seen(store, &make).await, (25, 0, 0));
}

async fn a_run_under_way_holds_more_as_long_as_there_is_room(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let lease = begin(store, &make, "work", 30).await;
    let other = begin(store, &make, "other", 20).await;
    let step = Step { calls: vec![make.call(25)], now: make.now(), ..Step::default() };
    store.step(&lease, step).await.unwrap();
    assert_both(seen(store, &make).await, (25, 25, 0));
    // What it holds itself does not stand in its way: 25 spent, 20 for the other, 55 left.
    let wanted = |asked: &[u64]| asked.iter().map(|asked| make.reservation(*asked, 100)).collect::<Vec<_>>();
    assert_eq!(store.reserve(&lease, wanted(&[56, 55]), make.now()).await.unwrap(), Ok(1));
    assert_both(seen(store, &make).await, (25, 75, 0));
    assert_eq!(store.reserve(&lease, wanted(&[10, 5]), make.now()).await.unwrap(), Ok(0));
    assert_both(seen(store, &make).await, (25, 30, 0));
    let refusal = store.reserve(&lease, wanted(&[57, 56]), make.now()).await.unwrap().unwrap_err();
    assert_eq!((refusal.lines[0].asked, refusal.lines[0].reserved, refusal.lines[0].spent), (56, 20, 25));
    assert_both(seen(store, &make).await, (25, 30, 1));
    let audit = audit_of(store, &make, &lease.run.to_string()).await;
    assert!(audit.iter().any(|row| row.action == "budget.rejected"), "{audit:?}");
    store.finish(&lease, make.failed()).await.unwrap();
    store.finish(&other, make.completed()).await.unwrap();
    assert_both(seen(store, &make).await, (25, 0, 1));
}

async fn a_run_that_was_taken_over_holds_no_more(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let lease = begin(store, &make, "work", 30).await;
    store.abort(&make.principal(), lease.run, make.now()).await.unwrap();
    let before = seen(store, &make).await;
    let stale = store.reserve(&lease, vec![make.reservation(1, 100)], make.now()).await.unwrap_err();
    assert!(matches!(stale, StoreError::StaleFence), "{stale:?}");
    assert_eq!(seen(store, &make).await, before);
}

async fn deleting_a_session_keeps_what_its_runs_spent(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let lease = begin(store, &make, "work", 60).await;
    store.abort(&make.principal(), lease.run, make.now()).await.unwrap();
    store.delete_session(&make.principal(), &make.key("work"), make.now()).await.unwrap();
    assert_both(seen(store, &make).await, (60, 0, 0));
    // The run is gone: its calls are written down, and nothing can be replaced any more.
    store.meter(make.tenant(), make.meter(Some(lease.run), vec![make.call(5)])).await.unwrap();
    assert_both(seen(store, &make).await, (60, 0, 0));
    assert_eq!(store.tables(make.tenant()).await["model_calls"].len(), 1);
}

async fn budgets_are_read_by_scope_and_period(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let line = |scope: &str, period: &str| BudgetLine {
        scope: scope.to_owned(),
        period: period.to_owned(),
        max_tokens: None,
        max_cost: None,
        hard: true,
    };
    let lines = vec![
        line("tenant:local", "month:2026-02"),
        line("tenant:local", "day:2026-02-23"),
        line("agent:local:default:main", "day:2026-02-23"),
    ];
    // Without a limit nothing is too much.
    let reservation = Reservation { tokens: u64::MAX, cost: Cost(3), lines };
    let accept = Accept { reservation: Some(reservation), ..make.accept(&make.key("work")) };
    assert_eq!(start(store, owner, accept).await.refusal, None);
    let read = async |scopes: &[&str], periods: &[&str]| -> Vec<(String, String)> {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        let filter = BudgetFilter { scopes: names(scopes), periods: names(periods), limit: ALL };
        let rows: Vec<BudgetRow> = store.budgets(make.tenant(), filter).await.unwrap();
        assert!(rows.iter().all(|row| row.used.cost_reserved == Cost(3)));
        rows.into_iter().map(|row| (row.key.scope, row.key.period)).collect()
    };
    let row = |scope: &str, period: &str| (scope.to_owned(), period.to_owned());
    let all = [
        row("agent:local:default:main", "day:2026-02-23"),
        row("tenant:local", "day:2026-02-23"),
        row("tenant:local", "month:2026-02"),
    ];
    assert_eq!(read(&[], &[]).await, all);
    assert_eq!(read(&["tenant:local"], &[]).await, all[1..]);
    assert_eq!(read(&[], &["day:2026-02-23"]).await, all[..2]);
    assert_eq!(read(&["tenant:local"], &["month:2026-02"]).await, all[2..]);
    assert_eq!(read(&["tenant:other"], &[]).await, []);
}
