//! The ledger: every model call once, and what they add up to.

use tidegate_protocol::{Cost, Usage};
use tidegate_storage::{
    Accept, BudgetFilter, Finish, Lease, NewCall, Step, UsageFilter, UsageGroup, UsageRow,
};
use tidegate_testkit::requests::{EPOCH, Requests, parse};
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, claim, enlist, restart, run, start};

on_both_backends! {
    a_finished_run_leaves_its_calls,
    a_call_is_written_down_once,
    usage_is_added_up_by_day_model_session_and_agent,
    usage_is_bounded_by_time_agent_session_and_limit,
    calls_of_no_run_touch_no_budget,
    a_name_of_any_text_comes_back,
    usage_stays_in_its_tenant,
    the_calls_of_a_run_are_listed_in_the_order_they_began,
    what_steps_use_comes_out_of_the_reservation_and_is_not_counted_again,
    what_an_aborted_run_used_in_its_steps_stays_spent,
}

fn all(group: UsageGroup) -> UsageFilter {
    UsageFilter { since_ms: EPOCH, until_ms: EPOCH + HOUR, agent: None, session: None, group, limit: 100 }
}

async fn usage(store: &ScratchStore, make: &Requests, filter: UsageFilter) -> Vec<UsageRow> {
    store.usage(make.tenant(), filter).await.unwrap()
}

fn names(rows: &[UsageRow]) -> Vec<&str> {
    rows.iter().map(|row| row.group.as_str()).collect()
}

async fn a_finished_run_leaves_its_calls(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let guess = NewCall {
        estimated: true,
        usage: Usage { input: 1, output: 2, cache_read: 3, cache_write: 4, cost: Cost(5) },
        ..make.call(0)
    };
    let calls = vec![guess, make.call(10)];
    store.finish(&lease, Finish { calls, ..make.completed() }).await.unwrap();
    let expected = UsageRow {
        group: "2026-02-23".to_owned(),
        calls: 2,
        usage: Usage { input: 11, output: 2, cache_read: 3, cache_write: 4, cost: Cost(15) },
        estimated_calls: 1,
    };
    assert_eq!(usage(store, &make, all(UsageGroup::Day)).await, [expected]);
    let rows = store.rows("model_calls", "purpose = 'turn' AND outcome = 'ok'").await;
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["run_id"] == lease.run.to_string()));
}

async fn a_call_is_written_down_once(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let call = make.call(10);
    for _ in 0..2 {
        store.meter(make.tenant(), make.meter(Some(lease.run), vec![call.clone()])).await.unwrap();
    }
    store.finish(&lease, Finish { calls: vec![call.clone(), call], ..make.completed() }).await.unwrap();
    let rows = usage(store, &make, all(UsageGroup::Agent)).await;
    assert_eq!((rows[0].calls, rows[0].usage.input), (1, 10));
}

/// Calls that differ in everything they can be grouped by.
async fn fill(store: &ScratchStore, make: &Requests) {
    let call = |day: &str, model: &str, session: Option<&str>, agent: &str, used: u64| NewCall {
        day: day.to_owned(),
        model: model.to_owned(),
        session: session.map(|name| make.key(name)),
        agent: parse(agent),
        ..make.call(used)
    };
    let calls = vec![
        call("2026-02-23", "small", Some("one"), "main", 10),
        call("2026-02-24", "small", Some("two"), "main", 20),
        call("2026-02-22", "large", None, "helper", 25),
        call("2026-02-24", "small", Some("one"), "helper", 1),
    ];
    store.meter(make.tenant(), make.meter(None, calls)).await.unwrap();
}

async fn usage_is_added_up_by_day_model_session_and_agent(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    fill(store, &make).await;
    let days = usage(store, &make, all(UsageGroup::Day)).await;
    assert_eq!(names(&days), ["2026-02-22", "2026-02-23", "2026-02-24"]);
    assert_eq!((days[2].calls, days[2].usage.cost), (2, Cost(21)));
    let models = usage(store, &make, all(UsageGroup::Model)).await;
    assert_eq!(names(&models), ["offline/small", "offline/large"]);
    assert_eq!((models[0].calls, models[0].usage.total()), (3, 31));
    let sessions = usage(store, &make, all(UsageGroup::Session)).await;
    assert_eq!(names(&sessions), ["", &make.key("two").to_string(), &make.key("one").to_string()]);
    // The same cost: the one with more tokens comes first.
    let mut call = NewCall { agent: parse("zeta"), ..make.call(26) };
    call.usage.output = 1;
    store.meter(make.tenant(), make.meter(None, vec![call])).await.unwrap();
    let agents = usage(store, &make, all(UsageGroup::Agent)).await;
    assert_eq!(names(&agents), ["main", "zeta", "helper"]);
    assert_eq!((agents[1].usage.cost, agents[2].usage.cost), (Cost(26), Cost(26)));
}

async fn usage_is_bounded_by_time_agent_session_and_limit(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    fill(store, &make).await;
    let started = store.rows("model_calls", "day = '2026-02-22'").await[0]["started_at"].as_i64().unwrap();
    let at = UsageFilter { since_ms: started, until_ms: started + 1, ..all(UsageGroup::Model) };
    assert_eq!(names(&usage(store, &make, at.clone()).await), ["offline/large"]);
    let before = UsageFilter { since_ms: EPOCH, until_ms: started, ..at };
    assert_eq!(names(&usage(store, &make, before).await), ["offline/small"]);
    let of_agent = UsageFilter { agent: Some(parse("helper")), ..all(UsageGroup::Day) };
    assert_eq!(names(&usage(store, &make, of_agent).await), ["2026-02-22", "2026-02-24"]);
    let of_session = UsageFilter { session: Some(make.key("two")), ..all(UsageGroup::Agent) };
    assert_eq!(names(&usage(store, &make, of_session).await), ["main"]);
    // The limit keeps the newest days, and the dearest of anything else.
    let two_days = UsageFilter { limit: 2, ..all(UsageGroup::Day) };
    assert_eq!(names(&usage(store, &make, two_days).await), ["2026-02-23", "2026-02-24"]);
    let dearest = UsageFilter { limit: 1, ..all(UsageGroup::Model) };
    assert_eq!(names(&usage(store, &make, dearest).await), ["offline/small"]);
}

async fn calls_of_no_run_touch_no_budget(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let call = NewCall { purpose: "embedding".to_owned(), session: None, profile_id: None, ..make.call(9) };
    store.meter(make.tenant(), make.meter(None, vec![call])).await.unwrap();
    let tables = store.tables(make.tenant()).await;
    assert_eq!((tables["model_calls"].len(), tables["budget_usage"].len()), (1, 0));
}

async fn a_name_of_any_text_comes_back(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let call = NewCall { provider: "a\0b".to_owned(), model: "c/d\u{1}'".to_owned(), ..make.call(1) };
    store.meter(make.tenant(), make.meter(None, vec![call])).await.unwrap();
    assert_eq!(names(&usage(store, &make, all(UsageGroup::Model)).await), ["a\0b/c/d\u{1}'"]);
}

async fn usage_stays_in_its_tenant(store: &ScratchStore) {
    let (one, two) = (Requests::new("one", 1), Requests::new("two", 1));
    let owner = enlist(store, &one).await;
    fill(store, &one).await;
    assert_eq!(usage(store, &two, all(UsageGroup::Day)).await, []);
    // Not even with the other tenant's run in hand.
    let reservation = Some(one.reservation(50, 100));
    let accept = Accept { reservation, ..one.accept(&one.key("work")) };
    let lease = start(store, owner, accept).await;
    store.abort(&one.principal(), lease.run, one.now()).await.unwrap();
    let before = store.tables(one.tenant()).await;
    store.meter(two.tenant(), two.meter(Some(lease.run), vec![two.call(1)])).await.unwrap();
    assert_eq!(store.tables(one.tenant()).await, before);
    assert_eq!(store.tables(two.tenant()).await["budget_usage"].len(), 0);
}

async fn the_calls_of_a_run_are_listed_in_the_order_they_began(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let calls: Vec<_> = (1..=3).map(|used| make.call(used)).collect();
    let odd = NewCall { profile_id: None, session: None, outcome: "nul \0".to_owned(), ..calls[2].clone() };
    let step = Step { calls: vec![odd.clone(), calls[0].clone()], now: make.now(), ..Step::default() };
    store.step(&lease, step).await.unwrap();
    store.meter(make.tenant(), make.meter(Some(lease.run), vec![calls[1].clone()])).await.unwrap();
    store.meter(make.tenant(), make.meter(None, vec![make.call(9)])).await.unwrap();
    let found = store.calls_of(make.tenant(), lease.run).await.unwrap();
    assert_eq!(found, [calls[0].clone(), calls[1].clone(), odd]);
    let foreign = Requests::new("elsewhere", 1);
    assert_eq!(store.calls_of(foreign.tenant(), lease.run).await.unwrap(), []);
}

/// Tokens spent and reserved of the tenant's day.
async fn budget(store: &ScratchStore, make: &Requests) -> (u64, u64) {
    let filter = BudgetFilter { limit: 9, ..BudgetFilter::default() };
    let rows = store.budgets(make.tenant(), filter).await.unwrap();
    let used: Vec<_> = rows.iter().map(|row| (row.used.tokens_spent, row.used.tokens_reserved)).collect();
    assert!(used.iter().all(|line| *line == used[0]), "{used:?}");
    used[0]
}

async fn used(store: &ScratchStore, make: &Requests, lease: &Lease, tokens: u64) {
    let step = Step { calls: vec![make.call(tokens)], now: make.now(), ..Step::default() };
    store.step(lease, step).await.unwrap();
}

async fn what_steps_use_comes_out_of_the_reservation_and_is_not_counted_again(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let reservation = Some(make.reservation(50, 1_000));
    let accept = Accept { reservation, ..make.accept_from_channel(&make.key("work")) };
    let lease = start(store, owner, accept).await;
    assert_eq!(budget(store, &make).await, (0, 50));
    used(store, &make, &lease, 20).await;
    assert_eq!(budget(store, &make).await, (20, 30));
    // Another attempt goes on with what is left.
    let (owner, _) = restart(store, &make, owner).await;
    let lease = claim(store, &make, &lease.key, owner).await;
    used(store, &make, &lease, 40).await;
    assert_eq!(budget(store, &make).await, (60, 0));
    let finished =
        store.finish(&lease, Finish { calls: vec![make.call(5)], ..make.completed() }).await.unwrap();
    assert_eq!(budget(store, &make).await, (65, 0));
    assert_eq!(finished.usage.input, 65);
}

async fn what_an_aborted_run_used_in_its_steps_stays_spent(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let accept = Accept { reservation: Some(make.reservation(50, 1_000)), ..make.accept(&make.key("work")) };
    let lease = start(store, owner, accept).await;
    let entries = vec![make.user("question")];
    store.step(&lease, Step { entries, now: make.now(), ..Step::default() }).await.unwrap();
    used(store, &make, &lease, 20).await;
    store.abort(&make.principal(), lease.run, make.now()).await.unwrap();
    assert_eq!(budget(store, &make).await, (50, 0), "nobody knows yet what it used since");
    store.meter(make.tenant(), make.meter(Some(lease.run), vec![make.call(5)])).await.unwrap();
    assert_eq!(budget(store, &make).await, (25, 0));
    assert_eq!(run(store, &make, lease.run).await.usage.input, 25);
    let log = store.session_by_name(make.tenant(), &lease.session.to_string()).await.unwrap().unwrap();
    assert_eq!(log.usage.input, 25);
}
