//! Which models a run may use, what happens when one fails, and what is written down about every call.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_engine::{Request, Wish};
use tidegate_protocol::{ErrorCode, ReplyTarget, RunEventBody, RunState, Usage};
use tidegate_storage::{RunLookup, UsageFilter, UsageGroup};
use tidegate_testkit::model_server::{Kind, Step, Tokens, Turn};

use crate::vendor::{Bench, asked, followed, on_both_backends, price, question, wished};
use crate::{close, request, scope, until};

on_both_backends! {
    a_model_outside_the_allowlist_is_refused_before_any_call,
    an_agent_can_only_narrow_what_is_allowed,
    a_run_accepted_earlier_is_narrowed_by_the_policy_of_today,
    a_denied_stand_in_is_never_asked,
    a_primary_that_fails_is_replaced_and_the_stream_shows_it,
    a_primary_that_takes_too_long_is_replaced,
    a_request_that_the_vendor_cannot_read_is_not_sent_to_another,
    when_all_fail_the_error_names_every_try,
    a_failure_after_visible_text_is_no_silent_switch,
    a_run_does_not_cost_more_than_its_limit,
    every_call_is_written_down_with_how_it_ended,
    a_call_that_is_repeated_is_written_down_each_time,
    a_key_that_was_limited_is_not_the_first_one_of_the_next_process,
}

/// Where the requests went, as the played server tells vendors apart.
fn asked_of(bench: &Bench<'_>) -> Vec<String> {
    let requests = bench.vendor.requests();
    requests.iter().map(|request| request.body["model"].as_str().unwrap_or_default().to_owned()).collect()
}

fn switches(events: &[RunEventBody]) -> Vec<String> {
    let told = events.iter().filter_map(|event| match event {
        RunEventBody::ModelSwitched { from, reason, .. } => Some(format!("{from} {reason}")),
        _ => None,
    });
    told.collect()
}

async fn a_model_outside_the_allowlist_is_refused_before_any_call(bench: &Bench<'_>) {
    let policy = json!({"allowedModels": ["openai/*"]});
    let engine = bench.engine(json!({"models": {"policy": policy}})).await;
    for wish in [
        Wish::default(),
        Wish { model: Some("anthropic/other"), ..Wish::default() },
        Wish { provider: Some("anthropic"), ..Wish::default() },
    ] {
        let error = engine.settings().run_spec(&scope(), &wish).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PolicyDenied, "{wish:?}");
        assert!(error.to_string().contains("models.policy"), "{error}");
    }
    // Somebody who comes past the settings is stopped all the same.
    let mut forged = wished(&engine, "main", &Wish { model: Some("openai/second"), ..Wish::default() });
    forged.spec.models[0] = "anthropic/first".split_once('/').map(model).unwrap();
    let error = followed(engine.submit(forged).await.unwrap()).await.0.unwrap_err();
    assert_eq!(error.code, ErrorCode::PolicyDenied);
    assert_eq!(asked_of(bench), [""; 0]);
    close(engine).await;
}

fn model((provider, model): (&str, &str)) -> tidegate_protocol::ModelRef {
    tidegate_protocol::ModelRef { provider: provider.to_owned(), model: model.to_owned() }
}

async fn an_agent_can_only_narrow_what_is_allowed(bench: &Bench<'_>) {
    let list = json!([{"id": "main", "modelPolicy": {"allowedModels": ["anthropic/*", "openai/*"]}}]);
    let policy = json!({"deniedModels": ["anthropic/first"]});
    let engine = bench.engine(json!({"models": {"policy": policy}, "agents": {"list": list}})).await;
    let error = engine.settings().run_spec(&scope(), &Wish::default()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PolicyDenied, "what the home denies no agent allows");
    let wish = Wish { model: Some("openai/second"), ..Wish::default() };
    let (end, _) = followed(engine.submit(wished(&engine, "main", &wish)).await.unwrap()).await;
    end.unwrap();
    close(engine).await;
    let list = json!([{"id": "main", "modelPolicy": {"deniedModels": ["openai/*"]}}]);
    let engine = bench.engine(json!({"agents": {"list": list}})).await;
    let error = engine.settings().run_spec(&scope(), &wish).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PolicyDenied);
    assert!(error.to_string().contains("agent main"), "{error}");
    assert_eq!(asked_of(bench), ["second"]);
    close(engine).await;
}

async fn a_run_accepted_earlier_is_narrowed_by_the_policy_of_today(bench: &Bench<'_>) {
    bench.vendor.push(Turn::new([Step::HalfOpen]));
    let run = bench.killed_while_asking(&json!({}), &ReplyTarget::Session);
    let policy = json!({"deniedModels": ["openai/second"], "maxCostPerRunUsd": 0.001});
    let engine =
        bench.engine_with(json!({"models": {"policy": policy}}), |options| options.stays = true).await;
    let ended = async || {
        let row = engine.library().run(&scope().tenant, &RunLookup::Id(run)).await.unwrap().unwrap();
        row.state.is_terminal().then_some(row)
    };
    until("the run goes on and ends", async || ended().await.is_some()).await;
    let row = ended().await.unwrap();
    assert_eq!(row.state, RunState::Failed);
    assert_eq!(row.error.unwrap().code, ErrorCode::BudgetExceeded, "what a run may cost today");
    assert_eq!(asked_of(bench), ["first"], "only before the policy");
    close(engine).await;
    let policy = json!({"allowedProviders": ["openai"]});
    bench.vendor.push(Turn::new([Step::HalfOpen]));
    let run = bench.killed_while_asking(&json!({}), &ReplyTarget::Session);
    let engine =
        bench.engine_with(json!({"models": {"policy": policy}}), |options| options.stays = true).await;
    let end = engine.follow(run).await.unwrap().end().await;
    assert_eq!(end.unwrap_err().code, ErrorCode::PolicyDenied);
    assert_eq!(asked_of(bench), ["first", "first"]);
    close(engine).await;
}

async fn a_denied_stand_in_is_never_asked(bench: &Bench<'_>) {
    bench.vendor.always_for("first", Turn::refuse(Kind::Overloaded));
    let policy = json!({"deniedModels": ["*/second"], "fallback": ["anthropic/other"]});
    let engine = bench.engine(json!({"models": {"policy": policy}})).await;
    let (end, events) = asked(&engine, "main").await;
    assert_eq!(end.unwrap().origin.model, "other");
    assert_eq!(switches(&events), ["anthropic/first overloaded"]);
    assert_eq!(asked_of(bench), ["first", "other"]);
    close(engine).await;
}

async fn a_primary_that_fails_is_replaced_and_the_stream_shows_it(bench: &Bench<'_>) {
    for (at, (kind, reason)) in
        [(Kind::RateLimit, "rateLimit"), (Kind::Server, "broken"), (Kind::Overloaded, "overloaded")]
            .into_iter()
            .enumerate()
    {
        bench.vendor.push_for("first", Turn::refuse(kind)).push_for("second", Turn::say("instead"));
        // A later one is not blamed for what an earlier one did.
        bench.clock.set(1_784_127_600_000 + i64::try_from(at).unwrap() * 86_400_000);
        let engine = bench.engine(json!({})).await;
        let (end, events) = asked(&engine, &format!("s{at}")).await;
        let answer = end.unwrap();
        assert_eq!((answer.text.as_str(), answer.origin.provider.as_str()), ("instead", "openai"));
        assert_eq!(switches(&events), [format!("anthropic/first {reason}")]);
        close(engine).await;
    }
}

async fn a_primary_that_takes_too_long_is_replaced(bench: &Bench<'_>) {
    bench.vendor.push_for("first", Turn::new([Step::HalfOpen])).push_for("second", Turn::say("instead"));
    let engine = bench.engine(json!({"models": {"policy": {"timeoutMs": 300}}})).await;
    let (end, events) = asked(&engine, "main").await;
    assert_eq!(end.unwrap().text, "instead");
    assert_eq!(switches(&events), ["anthropic/first timeout"]);
    close(engine).await;
    assert_eq!(bench.outcomes().await, ["anthropic/first timeout", "openai/second ok"]);
}

async fn a_request_that_the_vendor_cannot_read_is_not_sent_to_another(bench: &Bench<'_>) {
    bench.vendor.push(Turn::refuse(Kind::BadRequest));
    let engine = bench.engine(json!({})).await;
    let (end, events) = asked(&engine, "main").await;
    assert_eq!(end.unwrap_err().code, ErrorCode::ModelUnavailable);
    assert_eq!((switches(&events), asked_of(bench)), (Vec::new(), vec!["first".to_owned()]));
    close(engine).await;
}

async fn when_all_fail_the_error_names_every_try(bench: &Bench<'_>) {
    bench.vendor.always(Turn::refuse(Kind::Server));
    let engine = bench.engine(json!({})).await;
    let error = asked(&engine, "main").await.0.unwrap_err();
    assert_eq!(error.code, ErrorCode::ModelUnavailable);
    for name in ["anthropic/first", "openai/second"] {
        assert!(error.message.contains(name), "{}", error.message);
    }
    close(engine).await;
}

async fn a_failure_after_visible_text_is_no_silent_switch(bench: &Bench<'_>) {
    bench.vendor.push(Turn::say("I think that").then(Step::ErrorInside(Kind::Overloaded)));
    let engine = bench.engine(json!({})).await;
    let submitted = engine.submit(question(&engine, "main")).await.unwrap();
    let run = submitted.run;
    let (end, events) = followed(submitted).await;
    assert_eq!(end.unwrap_err().code, ErrorCode::ModelUnavailable);
    assert!(events.iter().any(|event| matches!(event, RunEventBody::TextDelta { .. })), "{events:?}");
    assert_eq!((switches(&events), asked_of(bench)), (Vec::new(), vec!["first".to_owned()]));
    let row = engine.library().run(&scope().tenant, &RunLookup::Id(run)).await.unwrap().unwrap();
    assert_eq!((row.state, row.entries), (RunState::Failed, None), "nothing half is in the log");
    bench.vendor.push(Turn::say("now"));
    bench.clock.set(1_900_000_000_000);
    asked(&engine, "main").await.0.unwrap();
    let sent = bench.vendor.last_request().body["messages"].to_string();
    assert!(!sent.contains("I think that"), "{sent}");
    close(engine).await;
}

async fn a_run_does_not_cost_more_than_its_limit(bench: &Bench<'_>) {
    // What is sent is paid for first; the rest may come back, at two thousandths of a dollar a token.
    let engine = bench.engine(json!({"models": {"policy": {"maxCostPerRunUsd": 3.0}}})).await;
    asked(&engine, "main").await.0.unwrap();
    let most = bench.vendor.last_request().body["max_tokens"].as_u64().unwrap();
    assert!((1..1_500).contains(&most), "{most}");
    close(engine).await;
    let engine = bench.engine(json!({"models": {"policy": {"maxCostPerRunUsd": 0.001}}})).await;
    let error = asked(&engine, "new").await.0.unwrap_err();
    assert_eq!(error.code, ErrorCode::BudgetExceeded);
    assert!(error.message.contains("anthropic/first"), "{}", error.message);
    assert_eq!(asked_of(bench).len(), 1, "nobody was asked");
    close(engine).await;
}

async fn total(engine: &tidegate_engine::Engine) -> (u64, Usage) {
    let filter = UsageFilter {
        since_ms: 0,
        until_ms: i64::MAX,
        agent: None,
        session: None,
        group: UsageGroup::Model,
        limit: 100,
    };
    let rows = engine.library().usage(&scope().tenant, filter).await.unwrap();
    rows.iter().fold((0, Usage::default()), |(calls, mut sum), row| {
        sum += row.usage;
        (calls + row.calls, sum)
    })
}

async fn every_call_is_written_down_with_how_it_ended(bench: &Bench<'_>) {
    let tokens = Tokens { input: 5, output: 6, cache_read: 70, cache_write: 8 };
    bench.vendor.push_for("first", Turn::say("cut").then(Step::Usage(tokens)).then(Step::Reset));
    bench.vendor.push_for("first", Turn::say("whole").then(Step::Usage(tokens)));
    let engine = bench.engine(json!({})).await;
    asked(&engine, "main").await.0.unwrap_err();
    let answered = asked(&engine, "main").await.0.unwrap();
    bench.vendor.push_for("first", Turn::refuse(Kind::RateLimit)).push_for("second", Turn::say("instead"));
    let replaced = asked(&engine, "main").await.0.unwrap();
    assert_eq!(
        bench.outcomes().await,
        ["anthropic/first broken", "anthropic/first ok", "anthropic/first rateLimit", "openai/second ok"]
    );
    let calls = bench.calls().await;
    let of = |call: &serde_json::Map<String, Value>| {
        ["token_input", "token_output", "token_cache_read", "token_cache_write", "cost"]
            .map(|name| call[name].as_u64().unwrap())
    };
    assert_eq!(of(&calls[1]), [5, 6, 70, 8, price([5, 6, 70, 8]).0]);
    assert_eq!(of(&calls[2]), [0; 5], "who is refused pays nothing");
    let profiles: Vec<_> = calls.iter().map(|call| call["profile_id"].as_str().unwrap()).collect();
    assert_eq!(profiles, ["anthropic/config", "anthropic/config", "anthropic/config", "openai/env"]);
    // A run's usage is the sum of its calls, and the whole is the sum of the runs.
    let mut sum = Usage::default();
    let filter = tidegate_storage::RunFilter { limit: 10, ..Default::default() };
    for row in engine.library().runs(&scope().tenant, filter).await.unwrap() {
        let own = calls.iter().filter(|call| call["run_id"] == row.id.to_string()).map(of);
        let own = own.fold([0; 5], |sum, call| std::array::from_fn(|at| sum[at] + call[at]));
        let told = row.usage;
        assert_eq!([told.input, told.output, told.cache_read, told.cache_write, told.cost.0], own);
        sum += told;
    }
    assert_eq!(total(&engine).await, (4, sum));
    assert_eq!(
        answered.usage.total() + replaced.usage.total() + of(&calls[0])[..4].iter().sum::<u64>(),
        sum.total()
    );
    close(engine).await;
}

async fn a_call_that_is_repeated_is_written_down_each_time(bench: &Bench<'_>) {
    bench
        .vendor
        .push(Turn::refuse_for(Kind::Overloaded, 0))
        .push(Turn::new([Step::Reset]))
        .push(Turn::say("third"));
    let engine = bench.engine(json!({"models": {"retries": 2}})).await;
    let (end, events) = asked(&engine, "main").await;
    assert_eq!(end.unwrap().text, "third");
    assert!(switches(&events).is_empty(), "{events:?}");
    close(engine).await;
    assert_eq!(
        bench.outcomes().await,
        ["anthropic/first overloaded", "anthropic/first broken", "anthropic/first ok"]
    );
}

async fn a_key_that_was_limited_is_not_the_first_one_of_the_next_process(bench: &Bench<'_>) {
    let chain = json!({"agents": {"defaults": {"model": {"primary": "openai/second", "fallbacks": []}}}});
    bench.vendor.push(Turn::refuse_for(Kind::RateLimit, 60));
    let keys = || -> Vec<String> {
        let requests = bench.vendor.requests();
        requests
            .iter()
            .map(|request| request.header("authorization").unwrap_or_default().to_owned())
            .collect()
    };
    let (environment, configured) = ("Bearer environment-key".to_owned(), "Bearer second-key".to_owned());
    let engine = bench.engine(chain.clone()).await;
    let answer = asked(&engine, "main").await.0.unwrap();
    assert_eq!(answer.origin.profile_id.as_deref(), Some("openai/config"));
    close(engine).await;
    let engine = bench.engine(chain.clone()).await;
    asked(&engine, "main").await.0.unwrap();
    close(engine).await;
    assert_eq!(keys(), [environment.clone(), configured.clone(), configured.clone()]);
    // Once it has rested it is the first again.
    bench.clock.set(tidegate_runtime::Clock::now_ms(&*bench.clock) + 3_600_000);
    let engine = bench.engine(chain).await;
    asked(&engine, "main").await.0.unwrap();
    assert_eq!(keys().last(), Some(&environment));
    close(engine).await;
}

#[tokio::test]
async fn nothing_is_accepted_for_a_model_without_a_credential() {
    crate::vendor::with_bench(tidegate_testkit::stores::Backend::Sqlite, async |bench| {
        let model = json!({"defaults": {"model": {"primary": "groq/some-model", "fallbacks": []}}});
        let engine = bench.engine(json!({"agents": model})).await;
        let posted = Request { patience: Some(Duration::from_secs(1)), ..question(&engine, "main") };
        let Err(error) = engine.submit(posted).await else { panic!("accepted") };
        assert_eq!(error.body().code, ErrorCode::AuthRequired);
        let filter = tidegate_storage::RunFilter { limit: 10, ..Default::default() };
        assert!(engine.library().runs(&scope().tenant, filter).await.unwrap().is_empty());
        let offline = request("main", "still there");
        assert!(followed(engine.submit(offline).await.unwrap()).await.0.is_ok());
        close(engine).await;
    })
    .await;
}
