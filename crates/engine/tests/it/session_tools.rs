//! Conversations that reach one another: who answers whom, who sees what, and that nobody waits for ever.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_engine::Invoke;
use tidegate_protocol::{Place, RunState, Scope, SessionKey};

use crate::subagents::{calls, crew, drags_on, main, says};
use crate::tools::{call, done};
use crate::vendor::{Bench, on_both_backends};

on_both_backends! {
    a_message_is_answered_even_when_there_is_one_lane_for_both,
    whoever_waits_for_an_answer_does_not_wait_for_ever,
    two_sessions_that_write_to_each_other_at_once_both_come_to_an_end,
    a_message_without_waiting_is_read_all_the_same,
    nobody_writes_to_itself_or_to_an_agent_out_of_reach,
    what_a_profile_does_not_have_is_not_there,
    sessions_are_listed_and_shown_inside_their_fence,
    the_sessions_of_other_agents_are_out_of_sight,
    a_subagent_sees_only_what_it_started,
    a_conversation_with_other_people_does_not_see_the_owners,
    a_session_is_told_where_it_stands_and_may_choose_its_model,
    what_must_not_leave_a_session_does_not_leave_it,
}

fn sends(when: &str, to: &str, message: &str, seconds: u32) -> Value {
    calls(when, "sessions_send", json!({"sessionKey": to, "message": message, "timeoutSeconds": seconds}))
}

async fn a_message_is_answered_even_when_there_is_one_lane_for_both(bench: &Bench<'_>) {
    let turns = json!([
        says("the answer is pong", "b says pong"),
        sends("ask b", "b", "ping", 60),
        says("ping", "the answer is pong"),
        says("hello", "hi"),
    ]);
    let crew = crew(bench, turns, json!({}), 1).await;
    crew.ask("b", "hello").await.unwrap();
    let answer = crew.ask("a", "ask b").await.unwrap();
    assert_eq!(answer.text, "b says pong");
    let (_, result) = &answer.calls[0];
    assert_eq!(result.data.as_ref().unwrap()["status"], "ok");
    assert!(result.text().contains("[outside "), "{}", result.text());
    let said = crew.said(&main("b")).await;
    assert!(said[2].starts_with("user: [Message from another agent session: a of agent main]"), "{said:?}");
    crew.close().await;
}

async fn whoever_waits_for_an_answer_does_not_wait_for_ever(bench: &Bench<'_>) {
    let turns = json!([
        says("timeout", "b is slow"),
        sends("ask b", "b", "ping", 1),
        drags_on("ping"),
        says("hello", "hi"),
    ]);
    let crew = crew(bench, turns, json!({}), 4).await;
    crew.ask("b", "hello").await.unwrap();
    let begin = Instant::now();
    assert_eq!(crew.ask("a", "ask b").await.unwrap().text, "b is slow");
    assert!(begin.elapsed() >= Duration::from_secs(1));
    let run = crew.runs().await.into_iter().find(|run| run.state == RunState::Running).unwrap();
    crew.engine.abort(&crate::tools::owner(), run.id).await.unwrap();
    crew.close().await;
}

async fn two_sessions_that_write_to_each_other_at_once_both_come_to_an_end(bench: &Bench<'_>) {
    let turns = json!([
        says("\"status\":", "that is all"),
        says("[outside ", "that is all"),
        says("Message from another", "heard"),
        sends("begin in a", "b", "from a", 2),
        sends("begin in b", "a", "from b", 2),
        says("hello", "hi"),
    ]);
    for (before, lanes) in [1, 4].into_iter().enumerate() {
        let crew = crew(bench, turns.clone(), json!({}), lanes).await;
        crew.ask("a", "hello").await.unwrap();
        crew.ask("b", "hello").await.unwrap();
        let (a, b) = tokio::join!(crew.ask("a", "begin in a"), crew.ask("b", "begin in b"));
        a.unwrap();
        b.unwrap();
        crate::until("every message was read", async || {
            let runs = crew.runs().await;
            runs.iter().all(|run| matches!(run.state, RunState::Completed | RunState::Joined))
        })
        .await;
        for (session, message) in [("a", "from b"), ("b", "from a")] {
            let said = crew.said(&main(session)).await;
            let count =
                said.iter().filter(|said| said.starts_with("user: ") && said.ends_with(message)).count();
            assert_eq!(count, before + 1, "read once each time: {said:?}");
        }
        crew.close().await;
    }
}

async fn a_message_without_waiting_is_read_all_the_same(bench: &Bench<'_>) {
    let turns = json!([
        says("\"status\":\"accepted\"", "sent"),
        sends("ask b", "b", "ping", 0),
        says("ping", "pong"),
        says("hello", "hi"),
    ]);
    let crew = crew(bench, turns, json!({}), 4).await;
    crew.ask("b", "hello").await.unwrap();
    assert_eq!(crew.ask("a", "ask b").await.unwrap().text, "sent");
    crew.until_said("b", "pong").await;
    crew.close().await;
}

async fn nobody_writes_to_itself_or_to_an_agent_out_of_reach(bench: &Bench<'_>) {
    let other = SessionKey::named(Scope::personal("other".parse().unwrap()), "main").to_string();
    let turns = json!([
        says("this very session", "not to myself"),
        says("agentToAgent", "out of reach"),
        says("there is no session", "nobody there"),
        sends("myself", "a", "hi", 5),
        sends("other", &other, "hi", 5),
        sends("nobody", "nowhere", "hi", 5),
        says("hello", "hi"),
    ]);
    let agents = json!({"agents": {"list": [{"id": "main"}, {"id": "other"}]}});
    let crew = crew(bench, turns, agents, 4).await;
    crew.ask("a", "hello").await.unwrap();
    assert_eq!(crew.ask("a", "to myself").await.unwrap().text, "not to myself");
    assert_eq!(crew.ask("a", "to the other").await.unwrap().text, "out of reach");
    assert_eq!(crew.ask("a", "to nobody").await.unwrap().text, "nobody there");
    crew.close().await;
}

async fn what_a_profile_does_not_have_is_not_there(bench: &Bench<'_>) {
    let turns = json!([
        says("not allowed", "I may not"),
        calls("go", "sessions_spawn", json!({"task": "look"})),
        sends("write", "b", "hi", 5),
    ]);
    let crew = crew(bench, turns, json!({"tools": {"profile": "safe"}}), 4).await;
    assert_eq!(crew.ask("a", "go").await.unwrap().text, "I may not");
    assert_eq!(crew.ask("a", "write").await.unwrap().text, "I may not");
    assert!(crew.subs().await.is_empty());
    crew.close().await;
}

/// A call from a conversation, though not from a run of it.
fn from(key: &SessionKey, tool: &str, args: Value) -> Invoke {
    let subagent = matches!(key.place, Place::Sub { .. });
    Invoke { session: key.to_string(), scope: key.scope.clone(), subagent, ..call(tool, args) }
}

fn keys(data: &Value) -> Vec<String> {
    let sessions = data["sessions"].as_array().unwrap().iter();
    let mut keys: Vec<String> = sessions
        .map(|session| session["sessionKey"].as_str().unwrap().parse::<SessionKey>().unwrap().label())
        .collect();
    keys.sort();
    keys
}

async fn sessions_are_listed_and_shown_inside_their_fence(bench: &Bench<'_>) {
    let turns = json!([says("hello", "hi there"), says("again", "once more")]);
    let crew = crew(bench, turns, json!({}), 4).await;
    for session in ["a", "b"] {
        crew.ask(session, "hello").await.unwrap();
    }
    crew.ask("b", "again").await.unwrap();
    let listed = done(&crew.engine, from(&main("a"), "sessions_list", json!({"messageLimit": 1}))).await;
    assert!(listed.text().contains("[outside "), "{}", listed.text());
    let data = listed.data.unwrap();
    assert_eq!(keys(&data), ["a", "b"]);
    assert_eq!(data["sessions"][0]["messages"], json!(["assistant: once more"]));
    let whole = |row: &Value| row["model"].as_str().is_some_and(|model| model.contains('/'));
    assert!(data["sessions"].as_array().unwrap().iter().all(whole), "{data}");
    let kinds = done(&crew.engine, from(&main("a"), "sessions_list", json!({"kinds": ["main"]}))).await;
    assert_eq!(kinds.data.unwrap()["count"], 0);
    let args = json!({"sessionKey": "b", "limit": 3});
    let shown = done(&crew.engine, from(&main("a"), "sessions_history", args)).await.text();
    assert!(shown.contains("[outside ") && shown.contains("user: again"), "{shown}");
    assert!(shown.contains("assistant: hi there") && !shown.contains("user: hello"), "{shown}");
    crew.close().await;
}

async fn the_sessions_of_other_agents_are_out_of_sight(bench: &Bench<'_>) {
    let other = SessionKey::named(Scope::personal("other".parse().unwrap()), "main");
    for reach in [false, true] {
        let config = json!({
            "agents": {"list": [{"id": "main"}, {"id": "other"}]},
            "tools": {"agentToAgent": {"enabled": reach}},
        });
        let crew = crew(bench, json!([says("hello", "hi")]), config, 4).await;
        crew.ask("a", "hello").await.unwrap();
        let request = tidegate_engine::Request { key: other.clone(), ..crew.request("x", "hello") };
        crew.engine.submit(request).await.unwrap().follower.end().await.unwrap();
        let listed = done(&crew.engine, from(&main("a"), "sessions_list", json!({}))).await.data.unwrap();
        assert_eq!(keys(&listed).contains(&"main".to_owned()), reach);
        let args = json!({"sessionKey": other.to_string()});
        let shown = done(&crew.engine, from(&main("a"), "sessions_history", args)).await;
        assert_eq!(shown.ok, reach, "{}", shown.text());
        crew.close().await;
    }
}

async fn a_subagent_sees_only_what_it_started(bench: &Bench<'_>) {
    let turns = json!([
        says("that you started", "heard of it"),
        says("accepted", "begun"),
        calls("go", "sessions_spawn", json!({"task": "first"})),
        calls("first", "sessions_spawn", json!({"task": "second"})),
        says("second", "done"),
        says("hello", "hi"),
    ]);
    let config = json!({
        "agents": {"defaults": {"subagents": {"maxDepth": 2}}},
        "tools": {"subagents": {"tools": {"allow": ["sessions_spawn", "sessions_list", "sessions_history"]}}},
    });
    let crew = crew(bench, turns, config, 4).await;
    crew.ask("a", "hello").await.unwrap();
    crew.ask("main", "go").await.unwrap();
    crate::until("both have answered", async || {
        let subs = crew.subs().await;
        subs.len() >= 2 && subs.iter().all(|run| run.state.is_terminal())
    })
    .await;
    let subs = crew.subs().await;
    let first = subs.iter().find(|run| run.spec.depth == 1).unwrap().key.clone();
    let second = subs.iter().find(|run| run.spec.depth == 2).unwrap().key.clone();
    let seen = async |key: &SessionKey| {
        keys(&done(&crew.engine, from(key, "sessions_list", json!({}))).await.data.unwrap())
    };
    let mut both = vec![first.label(), second.label()];
    both.sort();
    assert_eq!(seen(&first).await, both);
    assert_eq!(seen(&second).await, [second.label()]);
    let args = |key: &SessionKey| json!({"sessionKey": key.to_string()});
    assert!(done(&crew.engine, from(&first, "sessions_history", args(&second))).await.ok);
    assert!(!done(&crew.engine, from(&first, "sessions_history", args(&main("a")))).await.ok);
    crew.close().await;
}

async fn a_conversation_with_other_people_does_not_see_the_owners(bench: &Bench<'_>) {
    let group: SessionKey = {
        let place = Place::Group { channel: "local".parse().unwrap(), id: "family".to_owned() };
        SessionKey { place, ..main("a") }
    };
    let seen = async |visibility: &str, from_key: &SessionKey| {
        let config = json!({"tools": {"sessions": {"visibility": visibility}}});
        let crew = crew(bench, json!([says("hello", "a secret")]), config, 4).await;
        crew.ask("a", "hello").await.unwrap();
        let request = tidegate_engine::Request { key: group.clone(), ..crew.request("x", "hello") };
        crew.engine.submit(request).await.unwrap().follower.end().await.unwrap();
        let listed = done(&crew.engine, from(from_key, "sessions_list", json!({}))).await.data.unwrap();
        let args = json!({"sessionKey": main("a").to_string()});
        let shown = done(&crew.engine, from(from_key, "sessions_history", args)).await;
        crew.close().await;
        (keys(&listed), shown.ok)
    };
    let both = vec!["a".to_owned(), group.label()];
    assert_eq!(seen("place", &group).await, (vec![group.label()], false));
    assert_eq!(seen("place", &main("a")).await, (both.clone(), true));
    assert_eq!(seen("place", &main("c")).await, (both.clone(), true));
    assert_eq!(seen("tree", &main("c")).await, (vec![], false));
    assert_eq!(seen("agent", &group).await, (both, true));
}

async fn a_session_is_told_where_it_stands_and_may_choose_its_model(bench: &Bench<'_>) {
    let crew = crew(bench, json!([says("hello", "hi")]), json!({}), 4).await;
    crew.ask("a", "hello").await.unwrap();
    let status = async |args: Value| done(&crew.engine, from(&main("a"), "session_status", args)).await;
    let card = status(json!({})).await.data.unwrap();
    assert_eq!((&card["model"], &card["chosenModel"]), (&json!("demo/m"), &Value::Null));
    assert!(!status(json!({"model": "nobody/knows"})).await.ok);
    let card = status(json!({"model": "anthropic/first"})).await.data.unwrap();
    assert_eq!(
        (&card["model"], &card["chosenModel"]),
        (&json!("anthropic/first"), &json!("anthropic/first"))
    );
    let card = status(json!({"model": "default"})).await.data.unwrap();
    assert_eq!((&card["model"], &card["chosenModel"]), (&json!("demo/m"), &Value::Null));
    let agents = done(&crew.engine, from(&main("a"), "agents_list", json!({}))).await.data.unwrap();
    assert_eq!(agents["agents"], json!([{"id": "main", "name": "main"}]));
    crew.close().await;
}

async fn what_must_not_leave_a_session_does_not_leave_it(bench: &Bench<'_>) {
    let turns = json!([
        says("must not leave", "it stays here"),
        calls("go", "sessions_spawn", json!({"task": "look"})),
        sends("tell", "b", "the secret", 5),
        says("hello", "hi"),
    ]);
    let config = json!({"tools": {"sensitiveSessions": ["*name:secret"]}});
    let crew = crew(bench, turns, config, 4).await;
    crew.ask("b", "hello").await.unwrap();
    assert_eq!(crew.ask("secret", "go").await.unwrap().text, "it stays here");
    assert_eq!(crew.ask("secret", "tell").await.unwrap().text, "it stays here");
    assert!(crew.subs().await.is_empty());
    let args = json!({"sessionKey": "secret"});
    assert!(!done(&crew.engine, from(&main("b"), "sessions_history", args)).await.ok);
    let listed = done(&crew.engine, from(&main("b"), "sessions_list", json!({}))).await.data.unwrap();
    assert_eq!(keys(&listed), ["b"]);
    crew.close().await;
}
