//! The ledger: every model call once, and what they add up to.

use tidegate_protocol::{Cost, Usage};
use tidegate_storage::{Finish, NewCall, UsageFilter, UsageGroup, UsageRow};
use tidegate_testkit::requests::{EPOCH, Requests, parse};
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, enlist, start};

on_both_backends! {
    a_finished_run_leaves_its_calls,
    a_call_is_written_down_once,
    usage_is_added_up_by_day_model_session_and_agent,
    usage_is_bounded_by_time_agent_session_and_limit,
    calls_of_no_run_touch_no_budget,
    a_name_of_any_text_comes_back,
    usage_stays_in_its_tenant,
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
    let accept = tidegate_storage::Accept { reservation, ..one.accept(&one.key("work")) };
    let lease = start(store, owner, accept).await;
    store.abort(&one.principal(), lease.run, one.now()).await.unwrap();
    let before = store.tables(one.tenant()).await;
    store.meter(two.tenant(), two.meter(Some(lease.run), vec![two.call(1)])).await.unwrap();
    assert_eq!(store.tables(one.tenant()).await, before);
    assert_eq!(store.tables(two.tenant()).await["budget_usage"].len(), 0);
}
