//! Turns through the engine.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidegate_policy::Principal;
use tidegate_protocol::{ErrorCode, ReplyTarget, RunEventBody, RunState};
use tidegate_runtime::Shutdown;
use tidegate_storage::{AbortOutcome, RunLookup, SessionChoice};

use crate::subagents::crew;
use crate::vendor::{Bench, on_both_backends};
use crate::{ask, close, put, request, scope, start, start_with, until};

on_both_backends! {
    what_went_wrong_with_the_tools_is_the_same_when_the_answer_is_read_back,
}

#[tokio::test]
async fn deltas_join_to_the_committed_answer() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    let mut streamed = String::new();
    let answer = put(&engine, request("main", "你好"), &mut |event| {
        if let RunEventBody::TextDelta { text } = event {
            streamed.push_str(text);
        }
    })
    .await
    .unwrap();
    assert_eq!(streamed, answer.text);
    close(engine).await;
}

#[tokio::test]
async fn many_asks_at_once_in_one_session_take_turns() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    let texts: Vec<String> = (0..10).map(|at| format!("question {at}")).collect();
    let answers = futures_util::future::join_all(texts.iter().map(|text| ask(&engine, "main", text))).await;
    let mut contexts: Vec<usize> = answers
        .into_iter()
        .map(|answer| {
            let text = answer.unwrap().text;
            let (_, rest) = text.split_once("context=").unwrap();
            rest.split_once('条').unwrap().0.parse().unwrap()
        })
        .collect();
    contexts.sort_unstable();
    // Each turn sees every earlier one.
    assert_eq!(contexts, [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
    close(engine).await;
}

#[tokio::test]
async fn a_run_that_names_no_usable_model_fails_and_keeps_the_session_free() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    let mut bad = request("main", "hi");
    bad.spec.models[0].provider = "nowhere".to_owned();
    bad.session = SessionChoice::Fresh;
    let error = put(&engine, bad, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.body().code, ErrorCode::ModelUnavailable);
    let answer = ask(&engine, "main", "hi").await.unwrap();
    assert!(answer.text.contains("context=1条"), "{}", answer.text);
    close(engine).await;
}

#[tokio::test]
async fn a_cancelled_run_that_waits_for_its_turn_ends_as_aborted() {
    let folder = tempfile::tempdir().unwrap();
    // One lane, taken by a run of another session that never ends by itself.
    let engine = start_with(folder.path(), crate::narrow(1)).await;
    let lane = engine.submit(crate::network::wedged("other")).await.unwrap();
    let cancel = Shutdown::new();
    cancel.request();
    let error = engine.ask(request("main", "hi"), &cancel, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.body().code, ErrorCode::Aborted);
    engine.abort(&Principal::local_owner(scope().tenant), lane.run).await.unwrap();
    ask(&engine, "main", "again").await.unwrap();
    close(engine).await;
}

#[tokio::test]
async fn a_request_that_waits_too_long_for_its_turn_is_told_that_the_session_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    let wedged = engine.submit(crate::network::wedged("main")).await.unwrap();
    let patience = Some(Duration::from_millis(100));
    let waiting = tidegate_engine::Request { patience, ..request("main", "hi") };
    let error = put(&engine, waiting, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.body().code, ErrorCode::SessionBusy);
    engine.abort(&Principal::local_owner(scope().tenant), wedged.run).await.unwrap();
    assert_eq!(ask(&engine, "main", "next").await.unwrap().text.matches("context=1条").count(), 1);
    close(engine).await;
}

#[tokio::test]
async fn the_same_key_is_the_same_run_and_another_request_under_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    let keyed = |text: &str| tidegate_engine::Request {
        idempotency: Some("once".to_owned()),
        ..request("main", text)
    };
    let first = put(&engine, keyed("hi"), &mut |_| {}).await.unwrap();
    let again = engine.submit(keyed("hi")).await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.follower.end().await.unwrap(), first);
    let Err(error) = engine.submit(keyed("something else")).await else { panic!("accepted") };
    assert_eq!(error.body().code, ErrorCode::IdempotencyConflict);
    assert_eq!(engine.library().runs(&scope().tenant, all()).await.unwrap().len(), 1);
    close(engine).await;
}

#[tokio::test]
async fn aborting_a_run_under_way_frees_its_session_and_tells_whoever_follows() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    let wedged = engine.submit(crate::network::wedged("main")).await.unwrap();
    let owner = Principal::local_owner(scope().tenant);
    assert_eq!(engine.abort(&owner, wedged.run).await.unwrap(), AbortOutcome::Aborted);
    assert_eq!(wedged.follower.end().await.unwrap_err().code, ErrorCode::Aborted);
    assert_eq!(
        engine.abort(&owner, wedged.run).await.unwrap(),
        AbortOutcome::AlreadyEnded(RunState::Aborted)
    );
    ask(&engine, "main", "next").await.unwrap();
    close(engine).await;
}

#[tokio::test]
async fn more_sessions_than_lanes_are_all_served() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start_with(folder.path(), crate::narrow(2)).await;
    let asks = (0..40).map(|at| {
        let engine = engine.clone();
        async move { ask(&engine, &format!("s{}", at % 20), &format!("question {at}")).await }
    });
    for answer in futures_util::future::join_all(asks).await {
        answer.unwrap();
    }
    close(engine).await;
}

#[tokio::test]
async fn a_run_of_the_session_kind_needs_nobody_to_wait_and_its_answer_is_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    let posted = tidegate_engine::Request { reply: ReplyTarget::Session, ..request("main", "hi") };
    let run = engine.submit(posted).await.map(|submitted| submitted.run).unwrap();
    let engine = Arc::new(engine);
    until("the run completes", async || {
        let row = engine.library().run(&scope().tenant, &RunLookup::Id(run)).await.unwrap().unwrap();
        row.state == RunState::Completed
    })
    .await;
    engine.close(tidegate_engine::Drain::Everything).await;
}

async fn what_went_wrong_with_the_tools_is_the_same_when_the_answer_is_read_back(bench: &Bench<'_>) {
    let calls = |name: &str, arguments| json!({"calls": [{"id": "c", "name": name, "arguments": arguments}]});
    let (missing, echo) =
        (calls("read", json!({"path": "nothing.txt"})), calls("tools.echo", json!({"message": "hi"})));
    for (round, begins) in [(echo, "tool call loop exceeded max steps (2)"), (missing, "nothing.txt")] {
        let turns = json!([round, round, round, {"say": "I give up"}]);
        let crew = crew(bench, turns, json!({"agents": {"defaults": {"maxToolSteps": 2}}}), 4).await;
        let keyed = || tidegate_engine::Request {
            idempotency: Some(begins.to_owned()),
            ..crew.request(begins, "read it")
        };
        let told = crew.engine.submit(keyed()).await.unwrap().follower.end().await.unwrap();
        let error = told.tool_error.clone().unwrap();
        assert!(error.message.starts_with(begins), "what went wrong first is told: {error:?}");
        assert_eq!(told.calls.len(), 2, "the one that was not run is not among them");
        let again = crew.engine.submit(keyed()).await.unwrap();
        assert!(again.replayed);
        let again = again.follower.end().await.unwrap();
        assert_eq!((again.tool_error, again.calls.len()), (Some(error), 2));
        crew.close().await;
    }
}

fn all() -> tidegate_storage::RunFilter {
    tidegate_storage::RunFilter { limit: 100, ..tidegate_storage::RunFilter::default() }
}
