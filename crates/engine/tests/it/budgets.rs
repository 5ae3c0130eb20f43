//! Budgets through the whole engine: reserved before a run begins, settled by what the vendor counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_engine::{Drain, Engine, Options, Wish};
use tidegate_policy::Principal;
use tidegate_protocol::{Cost, Doubt, ErrorCode, ReplyTarget, RunEventBody, RunState};
use tidegate_runtime::Shutdown;
use tidegate_storage::{BudgetUse, RunFilter, RunLookup};
use tidegate_testkit::model_server::{Step, Tokens, Turn};

use crate::network::{Memory, UNRENDERABLE};
use crate::vendor::{Bench, LONGEST, asked, followed, on_both_backends, price, question};
use crate::{close, request, scope, until};

on_both_backends! {
    with_room_for_one_of_twenty_exactly_one_calls_the_model,
    what_was_spent_is_what_the_vendor_counted_times_its_price,
    a_limit_of_the_tenant_refuses_although_the_agent_has_room,
    a_soft_limit_lets_the_run_pass_and_says_so,
    a_day_ends_where_the_tenant_lives,
    a_month_rolls_over_where_the_tenant_lives,
    an_aborted_run_is_settled_at_what_it_used,
    a_run_that_its_caller_gave_up_is_settled_at_what_it_used,
    a_killed_process_settles_at_the_reservation_and_never_twice,
    a_run_that_goes_on_after_a_kill_is_settled_once,
    a_reply_that_cannot_be_rendered_is_paid_for_all_the_same,
    a_refusal_is_in_the_audit_with_what_was_there,
    a_sender_gets_the_refusal_as_an_answer,
    a_run_of_many_calls_ends_where_its_budget_does,
    a_shadow_sends_nothing_not_even_why_it_failed,
}

async fn a_run_of_many_calls_ends_where_its_budget_does(bench: &Bench<'_>) {
    const LIMIT: u64 = 1_200;
    let tokens = Tokens { input: 300, output: 80, cache_read: 0, cache_write: 0 };
    bench.vendor.always(Turn::call("c", "time.now", json!({})).then(Step::Usage(tokens)));
    let engine = bench.engine(json!({"budgets": {"agents": {"main": {"dailyTokens": LIMIT}}}})).await;
    let error = asked(&engine, "main").await.0.unwrap_err();
    assert_eq!(error.code, ErrorCode::BudgetExceeded, "{error:?}");
    // Two calls of 380 fit, and a third one with what it may answer does not.
    assert_eq!(bench.vendor.requests().len(), 2);
    let used = bench.used(&engine, "agent:", "day:").await;
    assert_eq!((spent(&used).0, reserved(&used)), (760, NOTHING));
    close(engine).await;
}

/// What `what?` asks for: its own length, generously, and the longest answer.
const ASKED: u64 = 2 + LONGEST;

fn answer(input: u64, output: u64) -> Turn {
    let tokens = Tokens { input, output, cache_read: 0, cache_write: 0 };
    Turn::say("because").then(Step::Usage(tokens))
}

fn spent(used: &BudgetUse) -> (u64, Cost) {
    (used.tokens_spent, used.cost_spent)
}

fn reserved(used: &BudgetUse) -> (u64, Cost) {
    (used.tokens_reserved, used.cost_reserved)
}

const NOTHING: (u64, Cost) = (0, Cost(0));

async fn with_room_for_one_of_twenty_exactly_one_calls_the_model(bench: &Bench<'_>) {
    const LIMIT: u64 = ASKED + 40;
    bench.vendor.always(answer(10, 80).then(Step::Pause(Duration::from_millis(200))));
    let engine = bench.engine(json!({"budgets": {"agents": {"main": {"dailyTokens": LIMIT}}}})).await;
    let over = Arc::new(AtomicBool::new(false));
    let watch = async {
        while !over.load(Ordering::SeqCst) {
            let used = bench.used(&engine, "agent:", "day:").await;
            assert!(used.tokens_spent + used.tokens_reserved <= LIMIT, "{used:?}");
        }
    };
    let ask = async {
        let engine = &engine;
        let asks = (0..20).map(|at| async move { asked(engine, &format!("s{at}")).await.0 });
        let ends = futures_util::future::join_all(asks).await;
        over.store(true, Ordering::SeqCst);
        ends
    };
    let (ends, ()) = tokio::join!(ask, watch);
    let (answered, refused): (Vec<_>, Vec<_>) = ends.into_iter().partition(Result::is_ok);
    assert_eq!((answered.len(), refused.len(), bench.vendor.requests().len()), (1, 19, 1));
    for error in refused.into_iter().map(Result::unwrap_err) {
        assert_eq!(error.code, ErrorCode::BudgetExceeded);
        for word in ["agent main", "for today", &format!("{LIMIT} tokens"), "free again tomorrow"] {
            assert!(error.message.contains(word), "{word}: {}", error.message);
        }
    }
    let used = bench.used(&engine, "agent:", "day:").await;
    assert_eq!((spent(&used), reserved(&used)), ((90, price([10, 80, 0, 0])), NOTHING));
    close(engine).await;
}

async fn what_was_spent_is_what_the_vendor_counted_times_its_price(bench: &Bench<'_>) {
    let tokens = Tokens { input: 11, output: 7, cache_read: 500, cache_write: 40 };
    bench.vendor.always(Turn::say("because").then(Step::Usage(tokens)));
    let engine =
        bench.engine(json!({"budgets": {"tenant": {"dailyUsd": 5, "monthlyTokens": 100_000}}})).await;
    let (end, _) = asked(&engine, "main").await;
    let cost = price([11, 7, 500, 40]);
    let usage = end.unwrap().usage;
    assert_eq!((usage.total(), usage.cost), (558, cost));
    for period in ["day:", "month:"] {
        let used = bench.used(&engine, "tenant:", period).await;
        assert_eq!((spent(&used), reserved(&used)), ((558, cost), NOTHING), "{period}");
    }
    close(engine).await;
}

async fn a_limit_of_the_tenant_refuses_although_the_agent_has_room(bench: &Bench<'_>) {
    let agents = json!({"main": {"dailyTokens": 1_000_000}});
    let budgets = json!({"tenant": {"monthlyUsd": 0.1}, "agents": agents});
    let engine = bench.engine(json!({"budgets": budgets})).await;
    let (end, _) = asked(&engine, "main").await;
    let error = end.unwrap_err();
    assert_eq!(error.code, ErrorCode::BudgetExceeded);
    for word in ["tenant local", "for this month", "$0.10", "free again next month"] {
        assert!(error.message.contains(word), "{word}: {}", error.message);
    }
    assert_eq!(bench.vendor.requests().len(), 0);
    let agent = bench.used(&engine, "agent:", "day:").await;
    assert_eq!((spent(&agent), reserved(&agent)), (NOTHING, NOTHING), "the agent's room is left to others");
    close(engine).await;
}

async fn a_soft_limit_lets_the_run_pass_and_says_so(bench: &Bench<'_>) {
    bench.vendor.always(answer(3, 4));
    let budget = json!({"dailyTokens": 1, "hardLimit": false});
    let engine = bench.engine(json!({"budgets": {"workspace": budget}})).await;
    let (end, events) = asked(&engine, "main").await;
    assert_eq!(end.unwrap().text, "because");
    let warned = events.iter().find_map(|event| match event {
        RunEventBody::OverBudget { message } => Some(message.clone()),
        _ => None,
    });
    let message = warned.expect("a warning");
    assert!(message.contains("workspace default for today"), "{message}");
    assert_eq!(spent(&bench.used(&engine, "workspace:", "day:").await).0, 7);
    close(engine).await;
}

/// Asks once with the clock there; whether there was room.
async fn has_room_at(bench: &Bench<'_>, engine: &Engine, now: i64) -> bool {
    bench.clock.set(now);
    asked(engine, "main").await.0.is_ok()
}

const MINUTE: i64 = 60_000;

async fn a_day_ends_where_the_tenant_lives(bench: &Bench<'_>) {
    /// 2026-07-15T15:00Z, when it is midnight in Tokyo.
    const MIDNIGHT: i64 = 1_784_127_600_000;
    bench.vendor.always(answer(0, 60));
    bench.clock.set(MIDNIGHT - 30 * MINUTE);
    let budgets = json!({"timezone": "Asia/Tokyo", "tenant": {"dailyTokens": 170}});
    let engine = bench.engine(json!({"budgets": budgets})).await;
    assert!(has_room_at(bench, &engine, MIDNIGHT - 20 * MINUTE).await);
    assert!(!has_room_at(bench, &engine, MIDNIGHT - MINUTE).await, "the day is used up");
    assert!(has_room_at(bench, &engine, MIDNIGHT + MINUTE).await, "a new day in Tokyo");
    assert!(!has_room_at(bench, &engine, MIDNIGHT + 9 * 60 * MINUTE + MINUTE).await, "not one in London");
    close(engine).await;
}

async fn a_month_rolls_over_where_the_tenant_lives(bench: &Bench<'_>) {
    /// 2026-08-01T04:00Z, when August begins in New York.
    const AUGUST: i64 = 1_785_556_800_000;
    bench.vendor.always(answer(0, 60));
    bench.clock.set(AUGUST - 30 * MINUTE);
    let budgets = json!({"timezone": "America/New_York", "agents": {"main": {"monthlyTokens": 170}}});
    let engine = bench.engine(json!({"budgets": budgets})).await;
    assert!(has_room_at(bench, &engine, AUGUST - 3 * 24 * 60 * MINUTE).await);
    assert!(!has_room_at(bench, &engine, AUGUST - MINUTE).await, "it is August in London, not there");
    assert!(has_room_at(bench, &engine, AUGUST + MINUTE).await);
    close(engine).await;
}

async fn an_aborted_run_is_settled_at_what_it_used(bench: &Bench<'_>) {
    bench.vendor.push(Turn::say("twenty characters...").then(Step::Silence));
    let engine = bench.engine(json!({"budgets": {"tenant": {"dailyTokens": 1_000}}})).await;
    let mut submitted = engine.submit(question(&engine, "main")).await.unwrap();
    while let Some(event) = submitted.follower.next().await {
        if matches!(event.body, RunEventBody::TextDelta { .. }) {
            break;
        }
    }
    let used = bench.used(&engine, "tenant:", "day:").await;
    assert_eq!((spent(&used), reserved(&used).0), (NOTHING, ASKED));
    let run = submitted.run;
    engine.abort(&Principal::local_owner(scope().tenant), run).await.unwrap();
    bench.vendor.until_dropped(1).await;
    assert_eq!(followed(submitted).await.0.unwrap_err().code, ErrorCode::Aborted);
    until("what it used is written down", async || !bench.calls().await.is_empty()).await;
    assert_eq!(bench.outcomes().await, ["anthropic/first dropped"]);
    let call = &bench.calls().await[0];
    let tokens = ["token_input", "token_output", "token_cache_read", "token_cache_write"]
        .map(|name| call[name].as_u64().unwrap());
    assert!(tokens[1] > 0 && tokens[1] < LONGEST, "a part of an answer: {tokens:?}");
    let used = bench.used(&engine, "tenant:", "day:").await;
    assert_eq!((spent(&used), reserved(&used)), ((tokens.iter().sum(), price(tokens)), NOTHING));
    close(engine).await;
}

async fn a_killed_process_settles_at_the_reservation_and_never_twice(bench: &Bench<'_>) {
    bench.vendor.push(Turn::new([Step::HalfOpen]));
    let budgets = json!({"budgets": {"tenant": {"dailyTokens": 1_000}}});
    let run = bench.killed_while_asking(&budgets, &ReplyTarget::Caller);
    for start in 0..3 {
        let engine = bench.engine(budgets.clone()).await;
        let row = engine.library().run(&scope().tenant, &RunLookup::Id(run)).await.unwrap().unwrap();
        assert_eq!(row.state, RunState::Interrupted);
        let used = bench.used(&engine, "tenant:", "day:").await;
        assert_eq!((spent(&used).0, reserved(&used)), (ASKED, NOTHING), "start {start}");
        close(engine).await;
    }
}

async fn a_run_that_its_caller_gave_up_is_settled_at_what_it_used(bench: &Bench<'_>) {
    bench.vendor.push(Turn::say("twenty characters...").then(Step::Silence));
    let engine = bench.engine(json!({"budgets": {"tenant": {"dailyTokens": 1_000}}})).await;
    let cancel = Shutdown::new();
    let mut stop = |event: &RunEventBody| {
        if matches!(event, RunEventBody::TextDelta { .. }) {
            cancel.request();
        }
    };
    let error = engine.ask(question(&engine, "main"), &cancel, &mut stop).await.unwrap_err();
    assert_eq!(error.body().code, ErrorCode::Aborted);
    assert_eq!(bench.outcomes().await, ["anthropic/first dropped"]);
    let used = bench.used(&engine, "tenant:", "day:").await;
    assert!(used.tokens_spent > 0 && used.tokens_spent < ASKED, "{used:?}");
    assert_eq!(reserved(&used), NOTHING);
    close(engine).await;
}

async fn a_run_that_goes_on_after_a_kill_is_settled_once(bench: &Bench<'_>) {
    bench.vendor.push(Turn::new([Step::HalfOpen])).push(answer(5, 6));
    let budgets = json!({"budgets": {"tenant": {"dailyTokens": 1_000}}});
    let run = bench.killed_while_asking(&budgets, &ReplyTarget::Session);
    let engine = bench.engine_with(budgets, |options| options.stays = true).await;
    engine.follow(run).await.unwrap().end().await.unwrap();
    let used = bench.used(&engine, "tenant:", "day:").await;
    assert_eq!((spent(&used), reserved(&used)), ((11, price([5, 6, 0, 0])), NOTHING));
    close(engine).await;
}

async fn a_reply_that_cannot_be_rendered_is_paid_for_all_the_same(bench: &Bench<'_>) {
    let tokens = Tokens { input: 5, output: 6, cache_read: 0, cache_write: 0 };
    bench.vendor.push(Turn::say(UNRENDERABLE).then(Step::Usage(tokens)));
    let network = Memory::new("a", Doubt::Blind);
    let engine = with_network(bench, json!({"budgets": {"tenant": {"dailyTokens": 1_000}}}), &network).await;
    network.post("peer", "m1", "what?");
    until("the sender is told", async || !network.visible().is_empty()).await;
    assert!(network.visible()[0].contains("fault"), "{:?}", network.visible());
    assert_eq!(bench.outcomes().await, ["anthropic/first ok"]);
    let used = bench.used(&engine, "tenant:", "day:").await;
    assert_eq!((spent(&used), reserved(&used)), ((11, price([5, 6, 0, 0])), NOTHING));
    engine.close(Drain::Within(Duration::from_secs(5))).await;
}

async fn with_network(bench: &Bench<'_>, config: Value, network: &Arc<Memory>) -> Engine {
    let connector = Arc::clone(network);
    let change = |options: &mut Options| {
        options.stays = true;
        options.connectors = vec![connector];
    };
    bench.engine_with(config, change).await
}

async fn a_refusal_is_in_the_audit_with_what_was_there(bench: &Bench<'_>) {
    bench.vendor.push(answer(30, 60));
    let engine = bench.engine(json!({"budgets": {"agents": {"main": {"dailyTokens": ASKED + 40}}}})).await;
    asked(&engine, "main").await.0.unwrap();
    let error = asked(&engine, "other").await.0.unwrap_err();
    let rows = engine.library().audit(&scope().tenant, 100).await.unwrap();
    let refusals: Vec<_> = rows.iter().filter(|row| row.action == "budget.rejected").collect();
    let [refusal] = refusals.as_slice() else { panic!("{rows:?}") };
    let line = &refusal.metadata["lines"][0];
    let seen = ["spent", "reserved", "asked", "limit"].map(|name| line[name].as_u64().unwrap());
    assert_eq!(seen, [90, 0, ASKED, ASKED + 40], "{}", refusal.metadata);
    assert_eq!(line["scope"], "agent:local:default:main");
    assert_eq!(error.details.unwrap()["lines"][0], *line, "the caller is told the same");
    close(engine).await;
}

async fn a_sender_gets_the_refusal_as_an_answer(bench: &Bench<'_>) {
    let network = Memory::new("a", Doubt::Blind);
    let engine = with_network(bench, json!({"budgets": {"tenant": {"dailyTokens": 1}}}), &network).await;
    network.post("peer", "m1", "what?");
    until("there is an answer", async || !network.visible().is_empty()).await;
    let [told] = &network.visible()[..] else { panic!("{:?}", network.visible()) };
    assert!(told.contains("budget of tenant local") && told.contains("tomorrow"), "{told}");
    assert_eq!(bench.vendor.requests().len(), 0);
    engine.close(Drain::Within(Duration::from_secs(5))).await;
}

async fn a_shadow_sends_nothing_not_even_why_it_failed(bench: &Bench<'_>) {
    let network = Memory::new("a", Doubt::Blind);
    let agents = json!({"list": [{"id": "main", "shadow": true}]});
    let config = json!({"agents": agents, "budgets": {"tenant": {"dailyTokens": 1}}});
    let engine = with_network(bench, config, &network).await;
    network.post("peer", "m1", "what?");
    network.post("peer", "m2", "/status");
    until("both have ended", async || {
        let runs = engine.library().runs(engine.tenant(), RunFilter { limit: 9, ..RunFilter::default() });
        let runs = runs.await.unwrap();
        runs.len() == 2 && runs.iter().all(|run| run.state.is_terminal())
    })
    .await;
    engine.close(Drain::Within(Duration::from_secs(5))).await;
    assert!(network.visible().is_empty(), "{:?}", network.visible());
}

#[tokio::test]
async fn a_price_that_nobody_knows_is_refused_under_a_hard_limit_in_dollars() {
    crate::vendor::with_bench(tidegate_testkit::stores::Backend::Sqlite, async |bench| {
        let chain = json!({"primary": "anthropic/first", "fallbacks": ["openai/unpriced", "openai/second"]});
        let agents = json!({"defaults": {"model": chain}});
        let config = json!({"agents": agents, "budgets": {"tenant": {"monthlyUsd": 100}}});
        let engine = bench.engine(config).await;
        let wish = Wish { model: Some("openai/unpriced"), ..Wish::default() };
        let error = engine.settings().run_spec(&scope(), &wish).unwrap_err();
        assert_eq!(error.code(), ErrorCode::BudgetExceeded);
        assert!(error.to_string().contains("openai/unpriced"), "{error}");
        let spec = question(&engine, "main").spec;
        let names: Vec<_> = spec.models.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["anthropic/first", "openai/second"], "a stand-in without a price is left out");
        // One that was accepted before the limit came is judged when its turn comes.
        let mut promised = request("main", "what?");
        promised.spec = spec;
        promised.spec.models.remove(0);
        promised.spec.models[0].model = "unpriced".to_owned();
        promised.reply = ReplyTarget::Caller;
        let error = followed(engine.submit(promised).await.unwrap()).await.0.unwrap_err();
        assert_eq!(error.code, ErrorCode::BudgetExceeded);
        assert_eq!(bench.vendor.requests().len(), 0);
        close(engine).await;
    })
    .await;
}
