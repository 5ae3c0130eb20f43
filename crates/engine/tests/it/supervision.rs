//! One bad part does not stop the others (G6), and every run ends (G5).

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_engine::{ChannelState, Drain};
use tidegate_protocol::{Doubt, ErrorCode, RunState};
use tidegate_storage::{AuditTrail as _, RunFilter, check};

use crate::network::{Memory, Receive, wedged};
use crate::{ask, close, host, put, scope, start, until};

#[tokio::test]
async fn connectors_that_panic_loop_or_are_refused_are_tried_again_later_and_the_others_do_not_notice() {
    let folder = tempfile::tempdir().unwrap();
    let panics = Memory::that("panics", Doubt::Blind, Receive::Panic);
    let loops = Memory::that("loops", Doubt::Blind, Receive::ReturnAtOnce);
    let refused = Memory::that("refused", Doubt::Blind, Receive::Refused);
    let good = Memory::new("good", Doubt::Blind);
    let engine =
        host(folder.path(), vec![panics.clone(), loops.clone(), refused.clone(), good.clone()]).await;
    good.post("alice", "m1", "hello");
    until("the good one answers", async || good.visible().len() == 1).await;
    until("the loop is slowed down", async || loops.begun.load(Ordering::SeqCst) >= 2).await;
    // It would be thousands by now if nothing held it back.
    assert!(loops.begun.load(Ordering::SeqCst) < 10);
    let states: Vec<ChannelState> = engine.channels().iter().map(|status| status.state).collect();
    assert_eq!(states[2..], [ChannelState::Refused, ChannelState::Running]);
    assert!(engine.channels()[0].last_error.as_deref().unwrap().contains("fault"));
    close(engine).await;
}

#[tokio::test]
async fn a_wedged_run_ends_at_its_deadline_and_its_session_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    let mut request = wedged("main");
    request.spec.limits.deadline_ms = 200;
    let mut ignore = |_: &tidegate_protocol::RunEventBody| {};
    let wedged = put(&engine, request, &mut ignore);
    let other = ask(&engine, "other", "meanwhile");
    let (wedged, other) = Box::pin(futures_util::future::join(wedged, other)).await;
    assert_eq!(wedged.unwrap_err().body().code, ErrorCode::DeadlineExceeded);
    other.unwrap();
    ask(&engine, "main", "next").await.unwrap();
    close(engine).await;
}

#[tokio::test]
async fn a_panic_inside_a_run_fails_that_run_only() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    let mut request = wedged("main");
    request.spec.models[0].provider = "panicking".to_owned();
    let error = put(&engine, request, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.body().code, ErrorCode::Internal);
    ask(&engine, "main", "next").await.unwrap();
    let filter = RunFilter { state: Some(RunState::Failed), limit: 10, ..RunFilter::default() };
    assert_eq!(engine.library().runs(&scope().tenant, filter).await.unwrap().len(), 1);
    close(engine).await;
}

#[tokio::test]
async fn what_a_closed_engine_recorded_is_sealed_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start(folder.path()).await;
    for at in 0..3 {
        ask(&engine, "main", &format!("q{at}")).await.unwrap();
    }
    engine.close(Drain::Within(Duration::from_secs(5))).await;
    drop(engine);
    let place = tidegate_testkit::stores::Location::Sqlite { path: folder.path().join("tidegate.db") };
    let tidegate_testkit::stores::OpenStore::Sqlite(store) = place.open(1).await.unwrap() else {
        unreachable!("a SQLite place")
    };
    let tenant = scope().tenant;
    assert_eq!(store.unsealed(&tenant).await.unwrap(), 0);
    let mut before = None;
    let mut rows = 0;
    for seal in store.seals(&tenant, 0, 100).await.unwrap() {
        let sealed = store.sealed_rows(&tenant, seal.number).await.unwrap();
        assert_eq!(check(before.as_ref(), &seal, &sealed), []);
        rows += sealed.len();
        before = Some(seal);
    }
    assert_eq!(rows, 3);
}
