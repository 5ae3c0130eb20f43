//! Runs that start runs: what comes back, what ends with what, and how many there may be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_engine::{Answer, Engine, Request, StopFilter, Toolbox};
use tidegate_protocol::{ErrorBody, Message, Place, ReplyTarget, RunId, RunState, SessionKey};
use tidegate_storage::{AbortOutcome, RunFilter, RunRow};
use tidegate_tools::{ProcessLimits, Processes, Registry, basic_tools, file_tools};

use crate::tools::owner;
use crate::vendor::{Bench, on_both_backends, question};
use crate::{close, scope, until};

on_both_backends! {
    what_a_subagent_found_comes_back_as_a_message_and_is_answered,
    a_subagent_may_start_others_only_as_deep_as_configured,
    no_more_subagents_of_a_session_than_configured_are_under_way,
    aborting_a_run_ends_what_it_started_at_once,
    a_run_whose_time_is_over_takes_what_it_started_along,
    a_caller_who_gives_up_ends_what_the_run_started_too,
    a_subagent_that_somebody_ends_is_announced_as_ended,
    a_stop_ends_what_works_for_a_conversation_though_its_run_has_ended,
    a_subagent_that_fails_says_so_to_whoever_started_it,
    a_session_that_is_to_go_is_gone_once_its_result_is_told,
    an_agent_starts_others_only_if_it_may,
    a_subagent_has_no_more_tools_than_the_run_that_started_it,
}

/// An engine whose model plays a script.
pub(crate) struct Crew {
    pub(crate) engine: Engine,
    _script: TempDir,
}

/// With this on top of everything that sessions need.
pub(crate) async fn crew(bench: &Bench<'_>, turns: Value, more: Value, main_lane: usize) -> Crew {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.json");
    std::fs::write(&file, json!({ "turns": turns }).to_string()).unwrap();
    let mut config = json!({
        "agents": {"defaults": {"model": {"primary": "demo/m", "fallbacks": []}}},
        "models": {"providers": {"demo": {"api": "scripted", "script": file, "models": [{"id": "m"}]}}},
        "tools": {"profile": "full", "highRisk": "allow"},
    });
    crate::vendor::merge(&mut config, &more);
    let mut registry = Registry::default();
    for tool in basic_tools().into_iter().chain(file_tools()) {
        registry.add(tool).unwrap();
    }
    let processes = Processes::new(ProcessLimits::default(), Arc::new(tidegate_runtime::SystemClock));
    let toolbox = Toolbox { registry: Arc::new(registry), processes, ..Toolbox::empty() };
    let engine = bench
        .engine_with(config, |options| {
            options.toolbox = toolbox;
            options.stays = true;
            options.lanes.main = main_lane;
        })
        .await;
    Crew { engine, _script: folder }
}

impl Crew {
    pub(crate) fn request(&self, session: &str, text: &str) -> Request {
        Request { text: text.to_owned(), reply: ReplyTarget::Session, ..question(&self.engine, session) }
    }

    pub(crate) async fn begin(&self, session: &str, text: &str) -> RunId {
        self.engine.submit(self.request(session, text)).await.unwrap().run
    }

    pub(crate) async fn ask(&self, session: &str, text: &str) -> Result<Answer, ErrorBody> {
        let submitted = self.engine.submit(self.request(session, text)).await.unwrap();
        tokio::time::timeout(Duration::from_mins(1), submitted.follower.end()).await.unwrap()
    }

    /// All runs, the oldest first.
    pub(crate) async fn runs(&self) -> Vec<RunRow> {
        let all = RunFilter { limit: 100, ..RunFilter::default() };
        let mut runs = self.engine.library().runs(&scope().tenant, all).await.unwrap();
        runs.reverse();
        runs
    }

    pub(crate) async fn subs(&self) -> Vec<RunRow> {
        let mut runs = self.runs().await;
        runs.retain(|run| matches!(run.key.place, Place::Sub { .. }));
        runs
    }

    /// What was said in a conversation, each with whose words it was.
    pub(crate) async fn said(&self, key: &SessionKey) -> Vec<String> {
        let library = self.engine.library();
        let Some(row) = library.session(key).await.unwrap() else { return Vec::new() };
        let entries = library.entries(&scope().tenant, row.id, 0, 1_000).await.unwrap();
        let words = entries.iter().filter_map(|entry| entry.body.message()).map(|message| match message {
            Message::User { .. } => format!("user: {}", message.text()),
            Message::Assistant { .. } => format!("assistant: {}", message.text()),
            Message::ToolResult { .. } => format!("tool: {}", message.text()),
        });
        words.collect()
    }

    pub(crate) async fn until_said(&self, session: &str, words: &str) {
        let key = main(session);
        until(words, async || self.said(&key).await.iter().any(|said| said.contains(words))).await;
    }

    pub(crate) async fn close(self) {
        close(self.engine).await;
    }
}

pub(crate) fn main(session: &str) -> SessionKey {
    SessionKey::named(scope(), session)
}

pub(crate) fn calls(when: &str, tool: &str, arguments: Value) -> Value {
    let mut turn = json!({"when": when, "calls": [{"id": "c1", "name": tool}]});
    turn["calls"][0]["arguments"] = arguments;
    turn
}

pub(crate) fn says(when: &str, words: &str) -> Value {
    json!({"when": when, "say": words})
}

/// Says something, and takes longer than any test.
pub(crate) fn drags_on(when: &str) -> Value {
    json!({"when": when, "say": "this takes much longer than anybody waits", "delayMs": 60_000})
}

async fn what_a_subagent_found_comes_back_as_a_message_and_is_answered(bench: &Bench<'_>) {
    let turns = json!([
        says("that you started", "There are seven boats."),
        says("accepted", "I have sent somebody."),
        calls("how many boats", "sessions_spawn", json!({"task": "go and look", "label": "boats"})),
        says("go and look", "I saw seven."),
    ]);
    let crew = crew(bench, turns, json!({}), 4).await;
    // It may be back before the run that sent it has said anything; then that one reads what it found.
    crew.ask("main", "how many boats?").await.unwrap();
    crew.until_said("main", "There are seven boats.").await;
    let runs = crew.runs().await;
    let [parent, child, announced] = runs.as_slice() else { panic!("{runs:?}") };
    assert_eq!((child.parent, child.spec.depth, &child.state), (Some(parent.id), 1, &RunState::Completed));
    assert!(matches!(child.key.place, Place::Sub { .. }));
    let told = announced.input.text();
    assert!(told.contains("\"boats\"") && told.contains("has completed (runtime "), "{told}");
    assert!(told.contains("[outside ") && told.contains("I saw seven."), "{told}");
    assert_eq!(announced.parent, None);
    let said = crew.said(&child.key).await;
    assert_eq!(said, ["user: go and look", "assistant: I saw seven."]);
    crew.close().await;
}

async fn a_subagent_may_start_others_only_as_deep_as_configured(bench: &Bench<'_>) {
    let turns = json!([
        says("maxDepth is 2", "no deeper than this"),
        says("that you started", "heard of it"),
        says("accepted", "begun"),
        says("tool not allowed", "I cannot"),
        calls("level one", "sessions_spawn", json!({"task": "level two"})),
        calls("level two", "sessions_spawn", json!({"task": "level three"})),
        calls("go", "sessions_spawn", json!({"task": "level one"})),
    ]);
    let deep = json!({"agents": {"defaults": {"subagents": {"maxDepth": 2}}}});
    let crew_of_two = crew(bench, turns.clone(), deep, 4).await;
    crew_of_two.ask("main", "go").await.unwrap();
    crew_of_two.until_said("main", "heard of it").await;
    until("the second one is done", async || {
        let subs = crew_of_two.subs().await;
        subs.iter().any(|run| run.spec.depth == 2 && run.state == RunState::Completed)
    })
    .await;
    let subs = crew_of_two.subs().await;
    assert!(subs.iter().all(|run| run.spec.depth <= 2), "{subs:?}");
    let second = subs.iter().find(|run| run.spec.depth == 2).unwrap();
    assert!(crew_of_two.said(&second.key).await.contains(&"assistant: no deeper than this".to_owned()));
    crew_of_two.close().await;
}

async fn no_more_subagents_of_a_session_than_configured_are_under_way(bench: &Bench<'_>) {
    let two = |at: u32| json!({"id": format!("c{at}"), "name": "sessions_spawn", "arguments": {"task": format!("slow {at}")}});
    let turns = json!([
        says("maxChildren", "that was one too many"),
        says("was ended by somebody", "then not"),
        drags_on("slow"),
        {"when": "go", "calls": [two(1), two(2)]},
    ]);
    let few = json!({"agents": {"defaults": {"subagents": {"maxChildren": 1}}}});
    let crew = crew(bench, turns, few, 4).await;
    let answer = crew.ask("main", "go").await.unwrap();
    assert_eq!(answer.text, "that was one too many");
    let oks: Vec<bool> = answer.calls.iter().map(|(_, result)| result.ok).collect();
    assert_eq!(oks, [true, false]);
    assert_eq!(crew.subs().await.len(), 1);
    let child = crew.subs().await[0].id;
    crew.engine.abort(&owner(), child).await.unwrap();
    crew.close().await;
}

/// A run that started another one, with both under way.
async fn two_at_work(crew: &Crew) -> (RunId, RunId) {
    let parent = crew.begin("main", "go").await;
    until("the subagent works", async || {
        crew.subs().await.iter().any(|run| run.state == RunState::Running)
            && crew.engine.partial(parent).is_some()
    })
    .await;
    (parent, crew.subs().await[0].id)
}

fn slow_pair() -> Value {
    json!([
        drags_on("that you started"),
        drags_on("accepted"),
        calls("go", "sessions_spawn", json!({"task": "slow"})),
        drags_on("slow"),
    ])
}

async fn aborting_a_run_ends_what_it_started_at_once(bench: &Bench<'_>) {
    let crew = crew(bench, slow_pair(), json!({}), 4).await;
    let (parent, child) = two_at_work(&crew).await;
    let follower = crew.engine.follow(child).await.unwrap();
    let begin = Instant::now();
    assert_eq!(crew.engine.abort(&owner(), parent).await.unwrap(), AbortOutcome::Aborted);
    let ended = tokio::time::timeout(Duration::from_secs(5), follower.end()).await.unwrap();
    assert_eq!(ended.unwrap_err().code, tidegate_protocol::ErrorCode::Aborted);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let states: Vec<RunState> = crew.runs().await.into_iter().map(|run| run.state).collect();
    assert_eq!(states, [RunState::Aborted, RunState::Aborted], "and nothing is announced");
    crew.close().await;
}

async fn a_run_whose_time_is_over_takes_what_it_started_along(bench: &Bench<'_>) {
    let crew = crew(bench, slow_pair(), json!({}), 4).await;
    let mut request = crew.request("main", "go");
    request.spec.limits.deadline_ms = 3_000;
    let ended = crew.engine.submit(request).await.unwrap().follower.end().await;
    assert_eq!(ended.unwrap_err().code, tidegate_protocol::ErrorCode::DeadlineExceeded);
    let states: Vec<RunState> = crew.runs().await.into_iter().map(|run| run.state).collect();
    assert_eq!(states, [RunState::Failed, RunState::Aborted], "and nothing is announced");
    crew.close().await;
}

async fn a_caller_who_gives_up_ends_what_the_run_started_too(bench: &Bench<'_>) {
    let crew = crew(bench, slow_pair(), json!({}), 4).await;
    let cancel = tidegate_runtime::Shutdown::new();
    let request = Request { reply: ReplyTarget::Caller, ..crew.request("main", "go") };
    let mut nothing = |_: &tidegate_protocol::RunEventBody| {};
    let asking = crew.engine.ask(request, &cancel, &mut nothing);
    let giving_up = async {
        until("the subagent works", async || {
            crew.subs().await.iter().any(|run| run.state == RunState::Running)
        })
        .await;
        cancel.request();
    };
    let (ended, ()) = tokio::join!(asking, giving_up);
    assert_eq!(ended.unwrap_err().body().code, tidegate_protocol::ErrorCode::Aborted);
    until("the subagent is ended", async || {
        crew.subs().await.iter().all(|run| run.state == RunState::Aborted)
    })
    .await;
    crew.close().await;
}

async fn a_subagent_that_somebody_ends_is_announced_as_ended(bench: &Bench<'_>) {
    let turns = json!([
        says("was ended by somebody", "then not"),
        says("accepted", "begun"),
        calls("go", "sessions_spawn", json!({"task": "slow"})),
        drags_on("slow"),
    ]);
    let crew = crew(bench, turns, json!({}), 4).await;
    crew.ask("main", "go").await.unwrap();
    let child = crew.subs().await[0].id;
    crew.engine.abort(&owner(), child).await.unwrap();
    crew.until_said("main", "then not").await;
    crew.close().await;
}

async fn a_stop_ends_what_works_for_a_conversation_though_its_run_has_ended(bench: &Bench<'_>) {
    for stops in ["command", "filter", "abort"] {
        let turns = json!([
            says("accepted", "begun"),
            calls("go", "sessions_spawn", json!({"task": "slow"})),
            drags_on("slow"),
        ]);
        let crew = crew(bench, turns, json!({}), 4).await;
        let key = main(stops);
        crew.ask(stops, "go").await.unwrap();
        let of_this = async || {
            let runs = crew.subs().await;
            runs.into_iter().find(|run| run.reply.announces_to(&key)).unwrap()
        };
        until("the subagent works", async || of_this().await.state == RunState::Running).await;
        match stops {
            "command" => {
                let request = Request { commands: true, ..crew.request(stops, "/stop") };
                crew.engine.submit(request).await.unwrap().follower.end().await.unwrap();
            }
            "filter" => {
                let filter = StopFilter { session: Some(key.clone()), ..StopFilter::default() };
                assert_eq!(crew.engine.stop_all(&owner(), &filter).await.unwrap().len(), 1);
            }
            _ => {
                let parent = crew.runs().await.into_iter().find(|run| run.key == key).unwrap();
                crew.engine.abort(&owner(), parent.id).await.unwrap();
            }
        }
        until("it is ended", async || of_this().await.state == RunState::Aborted).await;
        let said = crew.said(&key).await;
        assert!(
            !said.iter().any(|line| line.contains("ended by somebody")),
            "nothing is announced: {said:?}"
        );
        crew.close().await;
    }
}

async fn a_subagent_that_fails_says_so_to_whoever_started_it(bench: &Bench<'_>) {
    let turns = json!([
        says("has failed", "it did not work"),
        says("accepted", "begun"),
        calls("go", "sessions_spawn", json!({"task": "break"})),
        {"when": "break", "fail": "broken"},
    ]);
    let crew = crew(bench, turns, json!({}), 4).await;
    crew.ask("main", "go").await.unwrap();
    crew.until_said("main", "it did not work").await;
    assert_eq!(crew.subs().await[0].state, RunState::Failed);
    crew.close().await;
}

async fn a_session_that_is_to_go_is_gone_once_its_result_is_told(bench: &Bench<'_>) {
    let turns = json!([
        says("that you started", "heard of it"),
        says("accepted", "begun"),
        calls("go", "sessions_spawn", json!({"task": "look", "cleanup": "delete"})),
        says("look", "seen"),
    ]);
    let crew = crew(bench, turns, json!({}), 4).await;
    crew.ask("main", "go").await.unwrap();
    crew.until_said("main", "heard of it").await;
    until("its session is gone", async || crew.subs().await.is_empty()).await;
    assert_eq!(crew.runs().await.len(), 2, "the run that started it, and its result");
    crew.close().await;
}

async fn an_agent_starts_others_only_if_it_may(bench: &Bench<'_>) {
    let turns = json!([
        says("allowAgents", "I may not"),
        says("that you started", "heard of it"),
        says("accepted", "begun"),
        calls("the other", "sessions_spawn", json!({"task": "look", "agentId": "other"})),
        calls("the third", "sessions_spawn", json!({"task": "look", "agentId": "third"})),
        says("look", "seen"),
    ]);
    let list =
        json!([{"id": "main", "subagents": {"allowAgents": ["other"]}}, {"id": "other"}, {"id": "third"}]);
    let crew = crew(bench, turns, json!({"agents": {"list": list}}), 4).await;
    assert_eq!(crew.ask("main", "the third").await.unwrap().text, "I may not");
    crew.ask("main", "the other").await.unwrap();
    crew.until_said("main", "heard of it").await;
    let subs = crew.subs().await;
    assert_eq!(subs.iter().map(|run| run.key.scope.agent.as_str()).collect::<Vec<_>>(), ["other"]);
    crew.close().await;
}

async fn a_subagent_has_no_more_tools_than_the_run_that_started_it(bench: &Bench<'_>) {
    let turns = json!([
        says("not allowed", "it is not there"),
        says("accepted", "begun"),
        says("that you started", "heard of it"),
        calls("go", "sessions_spawn", json!({"task": "tell the time"})),
        calls("tell the time", "time.now", json!({})),
    ]);
    let crew = crew(bench, turns, json!({}), 4).await;
    let mut request = crew.request("main", "go");
    request.spec.tools.allow = Some(vec!["sessions_spawn".to_owned()]);
    crew.engine.submit(request).await.unwrap().follower.end().await.unwrap();
    until("it is done", async || crew.subs().await.iter().all(|run| run.state == RunState::Completed)).await;
    let child = crew.subs().await[0].key.clone();
    assert!(crew.said(&child).await.contains(&"assistant: it is not there".to_owned()));
    crew.close().await;
}
