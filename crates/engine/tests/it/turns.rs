//! Turns through the engine.

use tidegate_protocol::{ErrorCode, RunEventBody};
use tidegate_storage::SessionChoice;

use crate::{ask, request, start};

#[tokio::test]
async fn deltas_join_to_the_committed_answer() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    let mut streamed = String::new();
    let answer = engine
        .ask(request("main", "你好"), &mut |event| {
            if let RunEventBody::TextDelta { text } = event {
                streamed.push_str(&text);
            }
        })
        .await
        .unwrap();
    assert_eq!(streamed, answer.text);
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
    // Each turn sees every earlier one, up to the twelve messages the contract shows.
    assert_eq!(contexts, [1, 3, 5, 7, 9, 11, 13, 13, 13, 13]);
}

#[tokio::test]
async fn a_run_that_names_no_usable_model_fails_and_keeps_the_session_free() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    let mut bad = request("main", "hi");
    bad.spec.models[0].provider = "nowhere".to_owned();
    bad.session = SessionChoice::Fresh;
    let error = engine.ask(bad, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.body().code, ErrorCode::ModelUnavailable);
    let answer = ask(&engine, "main", "hi").await.unwrap();
    assert!(answer.text.contains("context=1条"), "{}", answer.text);
}

#[tokio::test]
async fn a_cancelled_run_ends_as_aborted() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    let cancelled = request("main", "hi");
    cancelled.cancel.request();
    // The offline model may win the race; then the answer stands.
    if let Err(error) = engine.ask(cancelled, &mut |_| {}).await {
        assert_eq!(error.body().code, ErrorCode::Aborted);
    }
    ask(&engine, "main", "again").await.unwrap();
}
