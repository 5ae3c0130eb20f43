//! Questions to people through the whole engine: asked, answered once, used once, for exactly what was shown.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidegate_engine::{Answering, Engine, EngineEvent};
use tidegate_policy::Principal;
use tidegate_policy::approval::ApprovalState;
use tidegate_protocol::ApprovalId;
use tidegate_runtime::{Clock as _, SystemClock};
use tidegate_storage::DecidedApproval;

use crate::tools::{
    KEY, all, asking_for, asks, call, canary, canary_of, careful, done, on_record, owner, workshop, workspace,
};
use crate::vendor::{Bench, on_both_backends};
use crate::{close, scope};

on_both_backends! {
    nothing_starts_before_the_yes_and_then_exactly_what_was_shown,
    a_no_tells_its_reason_and_nothing_runs,
    a_question_past_its_time_is_a_no_and_never_runs,
    whoever_asked_may_not_approve_it_where_policy_says_so,
    of_two_answers_at_once_one_counts_and_the_other_is_told,
    a_yes_is_for_one_call_once,
    a_question_outlives_the_engine_and_a_late_yes_runs_nothing,
    a_question_outlives_a_kill_and_a_late_yes_runs_nothing,
    a_file_that_changed_since_the_question_stops_the_call,
    a_tool_that_cannot_be_prepared_again_does_not_run,
    whoever_stops_waiting_takes_the_question_back,
    nothing_that_is_kept_has_the_operators_keys_in_it,
}

async fn state(engine: &Engine, id: ApprovalId) -> ApprovalState {
    engine.approval(id).await.unwrap().unwrap().state
}

async fn approve(engine: &Engine, id: ApprovalId) -> DecidedApproval {
    engine.answer(&owner(), id, Answering::AllowOnce).await.unwrap()
}

fn somebody(name: &str) -> Principal {
    Principal::of_run(scope().tenant, name.to_owned())
}

async fn nothing_starts_before_the_yes_and_then_exactly_what_was_shown(bench: &Bench<'_>) {
    let engine = careful(bench).await;
    let mut events = engine.events();
    let waiting = asks(&engine, canary()).await;
    let (id, shown) = (waiting.approval.id, waiting.approval.clone());
    assert_eq!((shown.tool.as_str(), shown.state.as_str()), ("write", "pending"));
    assert_eq!(shown.args, json!({"path": "canary.txt", "content": "alive"}));
    assert_eq!(
        (shown.preview.as_deref(), shown.subjects),
        (Some("alive"), vec!["path canary.txt".to_owned()])
    );
    assert_eq!(shown.expires_at - shown.created_at, 300_000);
    let Some(Ok(EngineEvent::Approval(told))) = events.next().await else { panic!("nobody was told") };
    assert_eq!((told.id, &told.state), (id, &ApprovalState::Pending));
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!((canary_of(&engine), state(&engine, id).await), (None, ApprovalState::Pending));
    assert!(matches!(approve(&engine, id).await, DecidedApproval::Won(_)));
    assert!(waiting.end().await.unwrap().ok);
    assert_eq!(
        (canary_of(&engine).as_deref(), state(&engine, id).await),
        (Some("alive"), ApprovalState::Used)
    );
    let runs = on_record(&engine, "tool.run").await;
    let [row] = runs.as_slice() else { panic!("{runs:?}") };
    assert_eq!(row.metadata["approval"], id.to_string());
    assert_eq!(row.metadata["digest"], told.digest.as_str(), "what ran is what was asked about");
    close(engine).await;
}

async fn a_no_tells_its_reason_and_nothing_runs(bench: &Bench<'_>) {
    let engine = careful(bench).await;
    let waiting = asks(&engine, canary()).await;
    let no = Answering::Deny { reason: Some("not today".to_owned()) };
    engine.answer(&owner(), waiting.approval.id, no).await.unwrap();
    assert_eq!(waiting.refusal().await, "not permitted: denied: not today");
    assert_eq!(canary_of(&engine), None);
    assert_eq!(on_record(&engine, "tool.denied").await.len(), 1);
    close(engine).await;
}

async fn a_question_past_its_time_is_a_no_and_never_runs(bench: &Bench<'_>) {
    let engine = careful(bench).await;
    let waiting = asks(&engine, canary()).await;
    let id = waiting.approval.id;
    bench.clock.set(SystemClock.now_ms() + 300_000);
    let refusal = waiting.refusal().await;
    assert!(refusal.contains("nobody answered in time"), "{refusal}");
    let late = approve(&engine, id).await;
    assert!(matches!(late, DecidedApproval::Settled(approval) if approval.state == ApprovalState::Expired));
    assert_eq!(canary_of(&engine), None);
    close(engine).await;
}

async fn whoever_asked_may_not_approve_it_where_policy_says_so(bench: &Bench<'_>) {
    let mut config = asking_for("write");
    config["approvals"] = json!({"selfApproval": "deny"});
    let engine = workshop(bench, config, &Arc::default()).await;
    let waiting = asks(&engine, canary()).await;
    let id = waiting.approval.id;
    assert_eq!(approve(&engine, id).await, DecidedApproval::Own);
    let always = Answering::AllowAlways { prefix: None };
    assert_eq!(engine.answer(&owner(), id, always).await.unwrap(), DecidedApproval::Own);
    assert_eq!((canary_of(&engine), engine.allow_rules(None).await.unwrap().len()), (None, 0));
    let other = engine.answer(&somebody("ann"), id, Answering::AllowOnce).await.unwrap();
    assert!(matches!(other, DecidedApproval::Won(_)), "{other:?}");
    assert!(waiting.end().await.unwrap().ok);
    let own = asks(&engine, canary()).await;
    let no = Answering::Deny { reason: None };
    assert!(matches!(engine.answer(&owner(), own.approval.id, no).await.unwrap(), DecidedApproval::Won(_)));
    assert_eq!(own.refusal().await, "not permitted: denied");
    close(engine).await;
}

async fn of_two_answers_at_once_one_counts_and_the_other_is_told(bench: &Bench<'_>) {
    let engine = careful(bench).await;
    let waiting = asks(&engine, canary()).await;
    let (id, ann, bob) = (waiting.approval.id, somebody("ann"), somebody("bob"));
    let (yes, no) = tokio::join!(
        engine.answer(&ann, id, Answering::AllowOnce),
        engine.answer(&bob, id, Answering::Deny { reason: None }),
    );
    let (winner, final_state) = match (yes.unwrap(), no.unwrap()) {
        (DecidedApproval::Won(_), DecidedApproval::Settled(told)) => ("ann", told),
        (DecidedApproval::Settled(told), DecidedApproval::Won(_)) => ("bob", told),
        other => panic!("one winner: {other:?}"),
    };
    assert_eq!(final_state.answered.unwrap().by, winner);
    assert_eq!(waiting.end().await.unwrap().ok, winner == "ann");
    assert_eq!(canary_of(&engine).is_some(), winner == "ann");
    close(engine).await;
}

async fn a_yes_is_for_one_call_once(bench: &Bench<'_>) {
    let engine = careful(bench).await;
    let first = asks(&engine, canary()).await;
    let same = asks(&engine, canary()).await;
    let other = asks(&engine, call("write", json!({"path": "b.txt", "content": "b"}))).await;
    approve(&engine, first.approval.id).await;
    let id = first.approval.id;
    assert!(first.end().await.unwrap().ok);
    for waiting in [&same, &other] {
        assert_eq!(state(&engine, waiting.approval.id).await, ApprovalState::Pending);
    }
    assert!(!workspace(&engine).join("b.txt").exists());
    let again = approve(&engine, id).await;
    assert!(matches!(again, DecidedApproval::Settled(approval) if approval.state == ApprovalState::Used));
    std::fs::remove_file(workspace(&engine).join("canary.txt")).unwrap();
    asks(&engine, canary()).await.cancel.cancel();
    assert_eq!(canary_of(&engine), None, "the next call asks again");
    for waiting in [same, other] {
        waiting.cancel.cancel();
        assert_eq!(waiting.refusal().await, "aborted");
    }
    close(engine).await;
}

/// Nobody waits for the answer any more: a yes changes a row and nothing else.
async fn answered_late(bench: &Bench<'_>, id: ApprovalId) {
    let engine = careful(bench).await;
    assert_eq!(state(&engine, id).await, ApprovalState::Pending);
    assert!(matches!(approve(&engine, id).await, DecidedApproval::Won(_)));
    assert!(matches!(approve(&engine, id).await, DecidedApproval::Settled(_)));
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!((canary_of(&engine), on_record(&engine, "tool.run").await.len()), (None, 0));
    // The same call, made anew, has to ask: the old yes is not its own.
    let again = asks(&engine, canary()).await;
    again.cancel.cancel();
    assert_eq!(again.refusal().await, "aborted");
    assert_eq!(canary_of(&engine), None);
    close(engine).await;
}

async fn a_question_outlives_the_engine_and_a_late_yes_runs_nothing(bench: &Bench<'_>) {
    let engine = careful(bench).await;
    let waiting = asks(&engine, canary()).await;
    let id = waiting.approval.id;
    close(engine).await;
    let told = waiting.end().await.unwrap_err();
    assert_eq!(told.body().code, tidegate_protocol::ErrorCode::Closing);
    answered_late(bench, id).await;
}

async fn a_question_outlives_a_kill_and_a_late_yes_runs_nothing(bench: &Bench<'_>) {
    let lived = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let id = runtime.block_on(async { asks(&careful(bench).await, canary()).await.approval.id });
        runtime.shutdown_timeout(Duration::from_secs(5));
        id
    };
    let id = std::thread::scope(|scope| scope.spawn(lived).join().unwrap());
    answered_late(bench, id).await;
}

async fn a_file_that_changed_since_the_question_stops_the_call(bench: &Bench<'_>) {
    let engine = workshop(bench, asking_for("edit"), &Arc::default()).await;
    assert!(done(&engine, canary()).await.ok);
    let edit = json!({"path": "canary.txt", "oldText": "alive", "newText": "well"});
    let waiting = asks(&engine, call("edit", edit)).await;
    std::fs::write(workspace(&engine).join("canary.txt"), "alive, and more").unwrap();
    approve(&engine, waiting.approval.id).await;
    assert_eq!(waiting.refusal().await, "not permitted: the approval was given for another call");
    assert_eq!(canary_of(&engine).as_deref(), Some("alive, and more"));
    close(engine).await;
}

async fn a_tool_that_cannot_be_prepared_again_does_not_run(bench: &Bench<'_>) {
    let engine = workshop(bench, asking_for("edit"), &Arc::default()).await;
    assert!(done(&engine, canary()).await.ok);
    let edit = json!({"path": "canary.txt", "oldText": "alive", "newText": "well"});
    let waiting = asks(&engine, call("edit", edit)).await;
    let id = waiting.approval.id;
    std::fs::remove_file(workspace(&engine).join("canary.txt")).unwrap();
    approve(&engine, id).await;
    assert!(waiting.refusal().await.contains("canary.txt"));
    assert_eq!((canary_of(&engine), state(&engine, id).await), (None, ApprovalState::Approved));
    close(engine).await;
}

async fn whoever_stops_waiting_takes_the_question_back(bench: &Bench<'_>) {
    let engine = careful(bench).await;
    let waiting = asks(&engine, canary()).await;
    let (id, mut events) = (waiting.approval.id, engine.events());
    waiting.cancel.cancel();
    assert_eq!(waiting.refusal().await, "aborted");
    let told = loop {
        let Some(Ok(EngineEvent::Approval(told))) = events.next().await else { panic!("nobody was told") };
        // That it was asked may be told after the caller was.
        if told.state != ApprovalState::Pending {
            break told;
        }
    };
    assert_eq!((told.id, told.state), (id, ApprovalState::Cancelled));
    let late = approve(&engine, id).await;
    assert!(matches!(late, DecidedApproval::Settled(approval) if approval.state == ApprovalState::Cancelled));
    assert_eq!(canary_of(&engine), None);
    close(engine).await;
}

async fn nothing_that_is_kept_has_the_operators_keys_in_it(bench: &Bench<'_>) {
    let engine = workshop(bench, asking_for("exec"), &Arc::default()).await;
    let waiting = asks(&engine, call("exec", json!({"command": "ls -l"}))).await;
    assert!(!format!("{:?}", waiting.approval).contains(KEY));
    approve(&engine, waiting.approval.id).await;
    assert!(waiting.end().await.unwrap().ok);
    let kept = engine.approvals(all()).await.unwrap();
    assert_eq!(kept.len(), 1);
    assert!(!serde_json::to_string(&kept[0].question).unwrap().contains(KEY));
    let audit = engine.library().audit(&scope().tenant, 100).await.unwrap();
    assert!(!audit.is_empty() && !format!("{audit:?}").contains(KEY));
    close(engine).await;
}
