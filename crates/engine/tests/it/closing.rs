//! Ending in good order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_config::{ConfigFile, Env};
use tidegate_engine::{Drain, Drained, Engine, Options, Settings};
use tidegate_protocol::{Doubt, ErrorCode, ReplyTarget, RunState};
use tidegate_storage::{BudgetFilter, BudgetUse, RunLookup};

use crate::network::{Memory, wedged};
use crate::tools::{Recorder, canary_of, toolbox};
use crate::vendor::{Bench, on_both_backends, question};
use crate::{ask, close, host, passing, request, scope, start, start_with, until};

on_both_backends! {
    a_tool_under_way_at_a_stop_is_told_as_interrupted_and_what_never_began_is_done_after_it,
}

#[tokio::test]
async fn nothing_new_is_taken_while_closing_and_what_was_accepted_ends_first() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    let submitted = engine.submit(request("main", "hi")).await.unwrap();
    engine.stop_accepting();
    let Err(error) = engine.submit(request("main", "late")).await else { panic!("accepted") };
    assert_eq!(error.body().code, ErrorCode::Closing);
    engine.close(Drain::Everything).await;
    assert!(submitted.follower.end().await.unwrap().text.contains("hi"));
}

#[tokio::test]
async fn a_run_over_the_budget_is_given_back_uncounted_and_goes_on_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let engine = host(folder.path(), Vec::new()).await;
    let posted = tidegate_engine::Request { reply: ReplyTarget::Session, ..wedged("main") };
    let run = engine.submit(posted).await.unwrap().run;
    let waiting = tidegate_engine::Request { reply: ReplyTarget::Session, ..request("main", "behind it") };
    let behind = engine.submit(waiting).await.unwrap().run;
    let begin = Instant::now();
    let drained = engine.close(Drain::Within(Duration::from_millis(100))).await;
    assert_eq!(drained, Drained { given_back: 1 });
    assert!(begin.elapsed() < Duration::from_secs(5));
    let row = engine.library().run(&scope().tenant, &RunLookup::Id(run)).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempt), (RunState::Queued, 0));
    drop(engine);
    let engine = host(folder.path(), Vec::new()).await;
    until("the run is under way again", async || {
        let row = engine.library().run(&scope().tenant, &RunLookup::Id(run)).await.unwrap().unwrap();
        row.state == RunState::Running && row.attempt == 1
    })
    .await;
    let owner = tidegate_policy::Principal::local_owner(scope().tenant);
    engine.abort(&owner, run).await.unwrap();
    assert!(engine.follow(behind).await.unwrap().end().await.unwrap().text.contains("behind it"));
    close(engine).await;
}

#[tokio::test]
async fn a_caller_whose_run_is_over_the_budget_is_told_that_it_was_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let engine = host(folder.path(), Vec::new()).await;
    let submitted = engine.submit(wedged("main")).await.unwrap();
    let waiting = engine.submit(request("main", "behind it")).await.unwrap();
    engine.close(Drain::Within(Duration::from_millis(50))).await;
    assert_eq!(submitted.follower.end().await.unwrap_err().code, ErrorCode::Interrupted);
    assert_eq!(waiting.follower.end().await.unwrap_err().code, ErrorCode::Closing);
    drop(engine);
    let engine = start(folder.path()).await;
    let row = engine.library().run(&scope().tenant, &RunLookup::Id(waiting.run)).await.unwrap().unwrap();
    assert_eq!((row.state, row.started_at), (RunState::Aborted, None));
    ask(&engine, "main", "the session is free").await.unwrap();
    close(engine).await;
}

#[tokio::test]
async fn answers_on_their_way_go_out_before_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let network = Memory::new("a", Doubt::Blind);
    let engine = host(folder.path(), vec![network.clone()]).await;
    for at in 0..20 {
        network.post(&format!("peer {at}"), "m1", "hello");
    }
    until("everything is accepted", async || {
        let filter = tidegate_storage::RunFilter { limit: 100, ..Default::default() };
        engine.library().runs(&scope().tenant, filter).await.unwrap().len() == 20
    })
    .await;
    engine.close(Drain::Within(Duration::from_secs(20))).await;
    assert_eq!(network.visible().len(), 20);
}

/// An engine with a budget that counts the model that never ends.
async fn budgeted(root: &std::path::Path) -> Engine {
    let file = root.join("config.json5");
    let text = r#"{
        models: {providers: {wedged: {api: "offline"}}},
        budgets: {tenant: {dailyTokens: 1000000}},
    }"#;
    std::fs::write(&file, text).unwrap();
    let settings =
        Settings::new(&ConfigFile::new(file, root.join("revisions")).load(&Env::default()).unwrap());
    start_with(root, Options { stays: true, settings, ..passing() }).await
}

async fn used(engine: &Engine) -> BudgetUse {
    let filter = BudgetFilter { limit: 10, ..BudgetFilter::default() };
    let rows = engine.library().budgets(&scope().tenant, filter).await.unwrap();
    rows.into_iter().map(|row| row.used).next().unwrap_or_default()
}

#[tokio::test]
async fn a_run_that_is_interrupted_or_aborted_before_it_used_anything_spends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = budgeted(folder.path()).await;
    let first = engine.submit(wedged("a")).await.unwrap();
    let second = engine.submit(wedged("b")).await.unwrap();
    let reserved = used(&engine).await;
    assert!(reserved.tokens_reserved > 0 && reserved.tokens_spent == 0, "{reserved:?}");
    let owner = tidegate_policy::Principal::local_owner(scope().tenant);
    engine.abort(&owner, first.run).await.unwrap();
    engine.close(Drain::Within(Duration::from_millis(50))).await;
    assert_eq!(second.follower.end().await.unwrap_err().code, ErrorCode::Interrupted);
    assert_eq!(used(&engine).await, BudgetUse::default());
}

/// An engine that stays, whose model calls for a command and then for a file.
async fn two_calls(bench: &Bench<'_>, script: &std::path::Path, runner: &Arc<Recorder>) -> Engine {
    let call = |id: &str, name: &str, arguments| json!({"id": id, "name": name, "arguments": arguments});
    let calls = json!([
        call("c1", "exec", json!({"command": "ls"})),
        call("c2", "write", json!({"path": "canary.txt", "content": "alive"})),
    ]);
    std::fs::write(
        script,
        json!({"turns": [
            {"when": "what?", "say": "I will see.", "calls": calls},
            {"say": "It is done."},
        ]})
        .to_string(),
    )
    .unwrap();
    let config = json!({
        "agents": {"defaults": {"model": {"primary": "demo/m", "fallbacks": []}}},
        "models": {"providers": {"demo": {"api": "scripted", "script": script, "models": [{"id": "m"}]}}},
        "tools": {"profile": "full", "highRisk": "allow", "exec": {"security": "full", "ask": "off"}},
    });
    let stays = |options: &mut Options| (options.toolbox, options.stays) = (toolbox(runner), true);
    bench.engine_with(config, stays).await
}

async fn a_tool_under_way_at_a_stop_is_told_as_interrupted_and_what_never_began_is_done_after_it(
    bench: &Bench<'_>,
) {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.json");
    let endless = Arc::new(Recorder { endless: true, ..Recorder::default() });
    let engine = two_calls(bench, &script, &endless).await;
    let posted = tidegate_engine::Request { reply: ReplyTarget::Session, ..question(&engine, "main") };
    let run = engine.submit(posted).await.unwrap().run;
    until("the command runs", async || !endless.started.lock().unwrap().is_empty()).await;
    assert_eq!(engine.close(Drain::Within(Duration::from_millis(50))).await, Drained { given_back: 1 });
    assert_eq!(canary_of(&engine), None, "what comes after it has not begun");
    drop(engine);

    let next = Arc::<Recorder>::default();
    let engine = two_calls(bench, &script, &next).await;
    let answer = engine.follow(run).await.unwrap().end().await.unwrap();
    let told: Vec<(&str, bool, String)> =
        answer.calls.iter().map(|(call, result)| (call.id.as_str(), result.ok, result.text())).collect();
    let [("c1", false, cut), ("c2", true, _)] = told.as_slice() else { panic!("{told:?}") };
    assert!(cut.starts_with("interrupted: "), "{cut}");
    assert!(next.started.lock().unwrap().is_empty(), "it is not run once more");
    assert_eq!(canary_of(&engine).as_deref(), Some("alive"));
    close(engine).await;
}
