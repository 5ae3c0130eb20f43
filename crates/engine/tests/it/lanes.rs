//! Who gets a place, and when: lanes beside one another, turns inside one, and what is told of those who wait.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tidegate_engine::{
    Engine, EngineEvent, Events, LaneLimits, LaneReport, LaneWait, Options, Request, Submitted,
};
use tidegate_protocol::{Lane, ReplyTarget, RunId, RunState, SessionKey};
use tidegate_storage::{AbortOutcome, RunFilter};

use crate::network::wedged;
use crate::subagents::{Crew, calls, crew, drags_on, main, says};
use crate::tools::owner;
use crate::vendor::{Bench, on_both_backends};
use crate::{ask, close, narrow, request, scope, start_with, until};

on_both_backends! {
    lanes_full_of_parents_never_keep_their_children_from_beginning,
    a_parent_that_is_ended_before_it_goes_on_leaves_the_queue_at_once,
    a_run_waits_in_its_lane_also_behind_another_of_its_session,
}

fn of(engine: &Engine, lane: Lane) -> LaneReport {
    engine.lanes().into_iter().find(|report| report.lane == lane).unwrap()
}

fn in_lane(lane: Lane, mut request: Request) -> Request {
    request.spec.lane = Some(lane);
    request
}

/// A request that nobody waits for.
fn posted(session: &str) -> Request {
    Request { reply: ReplyTarget::Session, ..request(session, "hi") }
}

/// The conversations whose runs began, in that order.
async fn begun(events: &mut Events, count: usize) -> Vec<String> {
    let mut begun = Vec::new();
    while begun.len() < count {
        let event = tokio::time::timeout(Duration::from_mins(1), events.next()).await.unwrap();
        if let EngineEvent::Run(change) = event.unwrap().unwrap()
            && change.state == RunState::Running
        {
            begun.push(format!("{}/{}", change.key.scope.agent, change.key.label()));
        }
    }
    begun
}

/// An engine with one place in the main lane, and whoever holds it.
async fn full(root: &std::path::Path, change: impl FnOnce(&mut Options)) -> (Engine, RunId) {
    let mut options = narrow(1);
    change(&mut options);
    let engine = start_with(root, options).await;
    let holder = engine.submit(wedged("holder")).await.unwrap().run;
    until("the place is taken", async || of(&engine, Lane::Main).running == 1).await;
    (engine, holder)
}

async fn lanes_full_of_parents_never_keep_their_children_from_beginning(bench: &Bench<'_>) {
    const PARENTS: usize = 3;
    let names: Vec<(Lane, String)> = Lane::ALL
        .into_iter()
        .flat_map(|lane| (0..PARENTS).map(move |at| (lane, format!("{lane}{at}"))))
        .collect();
    let mut turns = vec![says("the answer is pong", "it says pong")];
    for (_, name) in &names {
        let child = json!({"sessionKey": format!("child-{name}"), "message": "ping", "timeoutSeconds": 60});
        turns.push(calls(&format!("ask child-{name}"), "sessions_send", child));
    }
    turns.push(says("ping", "the answer is pong"));
    turns.push(says("hello", "hi"));
    let narrow = json!({"lanes": {"cron": 1, "subagent": 1, "nested": 1}});
    let crew = crew(bench, json!(turns), narrow, 1).await;
    for (_, name) in &names {
        crew.ask(&format!("child-{name}"), "hello").await.unwrap();
    }
    let parents = names.iter().map(async |(lane, name)| {
        let asks = crew.request(&format!("parent-{name}"), &format!("ask child-{name}"));
        let Submitted { follower, .. } = crew.engine.submit(in_lane(*lane, asks)).await.unwrap();
        tokio::time::timeout(Duration::from_mins(2), follower.end()).await.unwrap().unwrap().text
    });
    let answers = join_all(parents).await;
    assert_eq!(answers, vec!["it says pong"; names.len()]);
    let children = crew.runs().await.into_iter().filter(|run| run.spec.depth == 1);
    let lanes: Vec<_> = children.map(|run| run.spec.lane).collect();
    assert_eq!(lanes, vec![Some(Lane::Nested); names.len()]);
    let nested = of(&crew.engine, Lane::Nested);
    assert_eq!((nested.limit, nested.waiting), (1, 0));
    let expected = u64::try_from(PARENTS + names.len()).unwrap();
    assert_eq!(nested.waits.count(), expected, "parents in the lane, and all children");
    crew.close().await;
}

async fn a_parent_that_is_ended_before_it_goes_on_leaves_the_queue_at_once(bench: &Bench<'_>) {
    let turns = json!([
        says("the answer is pong", "too late"),
        calls("ask b", "sessions_send", json!({"sessionKey": "b", "message": "ping", "timeoutSeconds": 60})),
        json!({"when": "ping", "say": "the answer is pong", "delayMs": 1_000}),
        drags_on("drag on"),
        says("hello", "hi"),
    ]);
    let crew = crew(bench, turns, json!({}), 1).await;
    crew.ask("b", "hello").await.unwrap();
    let parent = crew.begin("a", "ask b").await;
    until("the child began", async || running(&crew, "b").await).await;
    let holder = crew.begin("c", "drag on").await;
    until("the parent's place is another's", async || running(&crew, "c").await).await;
    until("the parent waits to go on", async || of(&crew.engine, Lane::Main).waiting == 1).await;
    assert_eq!(crew.engine.abort(&owner(), parent).await.unwrap(), AbortOutcome::Aborted);
    until("it waits no more", async || of(&crew.engine, Lane::Main).waiting == 0).await;
    let main = of(&crew.engine, Lane::Main);
    assert_eq!(main.running, 1, "the place is the holder's: {main:?}");
    crew.engine.abort(&owner(), holder).await.unwrap();
    crew.ask("a", "hello").await.unwrap();
    crew.close().await;
}

async fn running(crew: &Crew, session: &str) -> bool {
    let runs = crew.runs().await;
    runs.iter().any(|run| run.key == main(session) && run.state == RunState::Running)
}

async fn a_run_waits_in_its_lane_also_behind_another_of_its_session(bench: &Bench<'_>) {
    let turns = json!([drags_on("drag on"), says("hello", "hi")]);
    let crew = crew(bench, turns, json!({"lanes": {"cron": 1}}), 1).await;
    let first = crew.begin("a", "drag on").await;
    let cron = in_lane(Lane::Cron, crew.request("b", "drag on"));
    let holder = crew.engine.submit(cron).await.unwrap().run;
    let behind = crew.engine.submit(in_lane(Lane::Cron, crew.request("a", "hello"))).await.unwrap();
    assert_eq!(of(&crew.engine, Lane::Cron).waiting, 0, "it waits for its session, not for a place");
    crew.engine.abort(&owner(), first).await.unwrap();
    until("it waits for a place", async || of(&crew.engine, Lane::Cron).waiting == 1).await;
    crew.ask("c", "hello").await.unwrap();
    crew.engine.abort(&owner(), holder).await.unwrap();
    assert_eq!(behind.follower.end().await.unwrap().text, "hi");
    crew.close().await;
}

#[tokio::test]
async fn a_full_lane_does_not_keep_another_from_working() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, holder) = full(folder.path(), |options| options.lanes.cron = 1).await;
    let cron = engine.submit(in_lane(Lane::Cron, wedged("cron"))).await.unwrap().run;
    let waiting = engine.submit(in_lane(Lane::Cron, request("more cron", "hi"))).await.unwrap();
    let nested = engine.submit(in_lane(Lane::Nested, request("nested", "hi"))).await.unwrap();
    nested.follower.end().await.unwrap();
    let reports: Vec<_> =
        engine.lanes().iter().map(|lane| (lane.lane, lane.limit, lane.running, lane.waiting)).collect();
    assert_eq!(
        reports,
        [(Lane::Main, 1, 1, 0), (Lane::Cron, 1, 1, 1), (Lane::Subagent, 3, 0, 0), (Lane::Nested, 2, 0, 0)]
    );
    engine.abort(&owner(), cron).await.unwrap();
    waiting.follower.end().await.unwrap();
    engine.abort(&owner(), holder).await.unwrap();
    close(engine).await;
}

#[tokio::test]
async fn a_session_with_many_runs_delays_anothers_first_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, holder) = full(folder.path(), |_| {}).await;
    for _ in 0..30 {
        engine.submit(posted("crowd")).await.unwrap();
    }
    engine.submit(posted("late")).await.unwrap();
    let mut events = engine.events();
    engine.abort(&owner(), holder).await.unwrap();
    let order = begun(&mut events, 31).await;
    assert_eq!(order[..2], ["main/crowd", "main/late"]);
    close(engine).await;
}

#[tokio::test]
async fn an_agent_with_many_sessions_delays_anothers_first_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, holder) = full(folder.path(), |_| {}).await;
    for at in 0..30 {
        engine.submit(posted(&format!("crowd {at}"))).await.unwrap();
    }
    let other = tidegate_protocol::Scope::personal("other".parse().unwrap());
    let late = Request { key: SessionKey::named(other, "late"), ..posted("late") };
    engine.submit(late).await.unwrap();
    let mut events = engine.events();
    engine.abort(&owner(), holder).await.unwrap();
    let order = begun(&mut events, 31).await;
    assert_eq!(order[..3], ["main/crowd 0", "other/late", "main/crowd 1"]);
    let expected: Vec<_> = (0..30).map(|at| format!("main/crowd {at}")).collect();
    let crowd: Vec<_> = order.into_iter().filter(|name| name != "other/late").collect();
    assert_eq!(crowd, expected, "in the order of coming");
    close(engine).await;
}

#[tokio::test]
async fn what_has_no_room_in_memory_waits_in_the_store_and_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, holder) = full(folder.path(), |options| {
        options.stays = true;
        options.lanes.remembered = 4;
    })
    .await;
    let mut runs = Vec::new();
    for at in 0..40 {
        runs.push(engine.submit(posted(&format!("s{at}"))).await.unwrap());
    }
    let main = of(&engine, Lane::Main);
    assert_eq!((main.waiting, main.spilled), (4, 36), "no more than that are in memory");
    engine.abort(&owner(), holder).await.unwrap();
    for run in runs {
        let end = tokio::time::timeout(Duration::from_mins(1), run.follower.end()).await;
        end.expect("found again").unwrap();
    }
    close(engine).await;
}

#[tokio::test]
async fn aborting_a_run_that_waits_takes_it_out_of_the_queue_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, holder) = full(folder.path(), |_| {}).await;
    let waiting = engine.submit(posted("a")).await.unwrap().run;
    assert_eq!(of(&engine, Lane::Main).waiting, 1);
    engine.abort(&owner(), waiting).await.unwrap();
    assert_eq!(of(&engine, Lane::Main).waiting, 0);
    // Where another of the session waits behind it, that one waits in its place.
    let first = engine.submit(posted("b")).await.unwrap().run;
    let second = engine.submit(posted("b")).await.unwrap();
    engine.abort(&owner(), first).await.unwrap();
    assert_eq!(of(&engine, Lane::Main).waiting, 1);
    engine.abort(&owner(), holder).await.unwrap();
    second.follower.end().await.unwrap();
    close(engine).await;
}

#[tokio::test]
async fn whoever_watches_is_told_once_that_a_run_waits_and_behind_how_many() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, holder) = full(folder.path(), |options| {
        options.lanes = LaneLimits { warn_after: Some(Duration::from_millis(100)), ..options.lanes };
    })
    .await;
    let mut events = engine.events();
    let mut runs = Vec::new();
    for name in ["a", "b", "c"] {
        runs.push(engine.submit(posted(name)).await.unwrap().run);
    }
    let mut told = Vec::new();
    while told.len() < 3 {
        let event = tokio::time::timeout(Duration::from_mins(1), events.next()).await.unwrap();
        if let EngineEvent::Waits(LaneWait { run, lane, ahead, waited_ms, .. }) = event.unwrap().unwrap() {
            assert!(waited_ms >= 100, "{waited_ms}");
            told.push((run, lane, ahead));
        }
    }
    let expected: Vec<_> = runs.iter().enumerate().map(|(at, run)| (*run, Lane::Main, at)).collect();
    assert_eq!(told, expected);
    let main = of(&engine, Lane::Main);
    assert_eq!((main.warnings, main.waiting), (3, 3));
    assert!(main.oldest_wait.unwrap() >= Duration::from_millis(100));
    engine.abort(&owner(), holder).await.unwrap();
    let ended = RunFilter { state: Some(RunState::Completed), limit: 100, ..RunFilter::default() };
    until("all are through", async || {
        engine.library().runs(&scope().tenant, ended.clone()).await.unwrap().len() == 3
    })
    .await;
    let main = of(&engine, Lane::Main);
    assert_eq!((main.warnings, main.waits.count()), (3, 4));
    assert!(main.waits.longest_ms >= 100 && main.waits.percentile_ms(99) >= Some(100), "{main:?}");
    close(engine).await;
}

#[tokio::test]
async fn runs_that_find_a_place_at_once_wait_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = start_with(folder.path(), narrow(2)).await;
    for at in 0..3 {
        ask(&engine, &format!("s{at}"), "hi").await.unwrap();
    }
    let main = of(&engine, Lane::Main);
    assert_eq!((main.waits.count(), main.waits.sum_ms, main.warnings, main.spilled), (3, 0, 0, 0));
    until("the places are free again", async || of(&engine, Lane::Main).running == 0).await;
    close(engine).await;
}
