//! Commands and directives in messages: what they change, when, and what nobody is asked for.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_engine::{Answer, Engine, NewBranch, Request, Submitted, Wish};
use tidegate_policy::Principal;
use tidegate_protocol::{Doubt, ErrorCode, ModelRef, PeerKind, RunState, SessionKey};
use tidegate_storage::{RunFilter, RunRow};
use tidegate_testkit::model_server::{Step, Turn};

use crate::network::Memory;
use crate::vendor::{Bench, on_both_backends};
use crate::{close, put, request, scope, until};

on_both_backends! {
    a_model_in_a_message_is_asked_for_that_message_and_alone_for_all_that_follow,
    a_new_conversation_waits_for_the_answer_under_way_and_begins_with_the_words_behind_it,
    a_new_conversation_can_end_the_answer_under_way,
    stop_ends_what_is_under_way_at_once_and_what_waits_only_when_asked_to,
    the_same_request_again_resets_once_and_stops_nothing_new,
    the_same_choice_again_does_not_undo_a_later_one,
    the_same_choice_delivered_again_does_not_undo_a_later_one,
    a_word_that_stops_is_a_word_while_nothing_is_under_way,
    commands_answer_without_a_model,
    more_kept_free_than_the_window_has_is_a_quarter_of_it,
    a_fork_shares_what_came_before_and_the_other_log_stays,
    a_command_on_a_network_is_answered_there_once,
    a_member_of_a_group_cannot_begin_its_conversation_anew,
    a_member_of_a_group_ends_what_they_asked_and_nothing_else,
    a_member_of_a_group_is_not_told_what_it_costs_nor_who_could_answer,
}

fn key(session: &str) -> SessionKey {
    SessionKey::named(scope(), session)
}

fn owner() -> Principal {
    Principal::local_owner(scope().tenant)
}

async fn message(engine: &Engine, session: &str, text: &str) -> Request {
    let spec = engine.asked_spec(&key(session), &Wish::default()).await.unwrap();
    Request { spec, commands: true, ..request(session, text) }
}

async fn say(engine: &Engine, session: &str, text: &str) -> Answer {
    put(engine, message(engine, session, text).await, &mut |_| {}).await.unwrap()
}

async fn post(engine: &Engine, text: &str) -> Submitted {
    engine.submit(message(engine, "main", text).await).await.unwrap()
}

/// The models that were asked, in order.
fn asked(bench: &Bench<'_>) -> Vec<String> {
    let requests = bench.vendor.requests();
    requests.iter().map(|request| request.body["model"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn runs(engine: &Engine) -> Vec<RunRow> {
    let filter = RunFilter { limit: 100, ..RunFilter::default() };
    let mut rows = engine.library().runs(&scope().tenant, filter).await.unwrap();
    rows.reverse();
    rows
}

async fn a_model_in_a_message_is_asked_for_that_message_and_alone_for_all_that_follow(bench: &Bench<'_>) {
    let engine = bench.engine(json!({})).await;
    say(&engine, "main", "@openai/second why?").await;
    let sent = bench.vendor.last_request().body.to_string();
    assert!(sent.contains("why?") && !sent.contains("@openai"), "{sent}");
    say(&engine, "main", "and now?").await;
    let chosen = say(&engine, "main", "/model openai/second").await;
    assert!(chosen.text.contains("openai/second"), "{}", chosen.text);
    say(&engine, "main", "again").await;
    say(&engine, "other", "elsewhere").await;
    say(&engine, "main", "/model default").await;
    say(&engine, "main", "back").await;
    assert_eq!(asked(bench), ["second", "first", "second", "first", "first"]);
    let refused = say(&engine, "main", "/model nowhere/x").await;
    assert!(
        refused.text.contains("no provider is called nowhere") && refused.text.contains("anthropic/first"),
        "{}",
        refused.text
    );
    close(engine).await;
}

/// An answer that takes a moment.
fn slow() -> Turn {
    Turn::new([Step::Pause(Duration::from_millis(300)), Step::Say("at last".to_owned())])
}

async fn a_new_conversation_waits_for_the_answer_under_way_and_begins_with_the_words_behind_it(
    bench: &Bench<'_>,
) {
    let engine = bench.engine(json!({})).await;
    let old = say(&engine, "main", "one").await;
    bench.vendor.next_request().await;
    bench.vendor.push(slow());
    let under_way = post(&engine, "two").await;
    bench.vendor.next_request().await;
    let fresh = post(&engine, "/new three").await;
    let fresh = fresh.follower.end().await.unwrap();
    let two = under_way.follower.end().await.unwrap();
    assert_eq!((two.text.as_str(), &two.session_name), ("at last", &old.session_name));
    assert_ne!(fresh.session_name, old.session_name);
    let sent = &bench.vendor.last_request().body["messages"];
    assert_eq!(sent.as_array().unwrap().len(), 1, "{sent}");
    let rows = runs(&engine).await;
    let texts: Vec<String> = rows.iter().map(|row| row.input.text()).collect();
    assert_eq!(texts, ["one", "two", "/new three", "three"]);
    assert!(rows.iter().all(|row| row.state == RunState::Completed));
    assert_eq!(asked(bench).len(), 3, "the command asks nobody");
    close(engine).await;
}

async fn a_new_conversation_can_end_the_answer_under_way(bench: &Bench<'_>) {
    let engine = bench.engine(json!({"session": {"resetDuringRun": "abort"}})).await;
    bench.vendor.push(Turn::new([Step::Silence]));
    let under_way = post(&engine, "one").await;
    bench.vendor.next_request().await;
    post(&engine, "/new").await.follower.end().await.unwrap();
    assert_eq!(under_way.follower.end().await.unwrap_err().code, ErrorCode::Aborted);
    assert!(engine.library().session(&key("main")).await.unwrap().is_none());
    close(engine).await;
}

async fn stop_ends_what_is_under_way_at_once_and_what_waits_only_when_asked_to(bench: &Bench<'_>) {
    let engine = bench.engine(json!({})).await;
    bench.vendor.push(Turn::new([Step::Silence])).push(Turn::new([Step::Silence]));
    let first = post(&engine, "one").await;
    bench.vendor.next_request().await;
    let second = post(&engine, "two").await;
    let began = Instant::now();
    let stop = post(&engine, "/stop").await;
    assert_eq!(first.follower.end().await.unwrap_err().code, ErrorCode::Aborted);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // The next one begins, and the word about the end waits behind it.
    bench.vendor.next_request().await;
    let third = post(&engine, "three").await;
    let all = post(&engine, "/stop all").await;
    for ended in [second, stop, third] {
        assert_eq!(ended.follower.end().await.unwrap_err().code, ErrorCode::Aborted);
    }
    assert_eq!(all.follower.end().await.unwrap().text, "Stopped, with 2 that waited.");
    assert_eq!(say(&engine, "main", "/stop").await.text, "Nothing is under way.");
    close(engine).await;
}

async fn the_same_request_again_resets_once_and_stops_nothing_new(bench: &Bench<'_>) {
    let engine = bench.engine(json!({})).await;
    let keyed = async |text: &str, key: &str| {
        let request = message(&engine, "main", text).await;
        engine.submit(Request { idempotency: Some(key.to_owned()), ..request }).await.unwrap()
    };
    let first = keyed("/new one", "a").await;
    let run = first.run;
    first.follower.end().await.unwrap();
    say(&engine, "main", "two").await;
    let again = keyed("/new one", "a").await;
    assert!(again.replayed && again.run == run);
    assert_eq!(runs(&engine).await.len(), 3, "the reset, its words and the message after them");
    keyed("/stop", "b").await.follower.end().await.unwrap();
    bench.vendor.next_request().await;
    bench.vendor.next_request().await;
    bench.vendor.push(slow());
    let later = post(&engine, "three").await;
    bench.vendor.next_request().await;
    assert!(keyed("/stop", "b").await.replayed);
    assert_eq!(later.follower.end().await.unwrap().text, "at last");
    close(engine).await;
}

async fn the_same_choice_again_does_not_undo_a_later_one(bench: &Bench<'_>) {
    let engine = bench.engine(json!({})).await;
    say(&engine, "main", "hello").await;
    let keyed = async |text: &str, key: &str| {
        let request = message(&engine, "main", text).await;
        engine.submit(Request { idempotency: Some(key.to_owned()), ..request }).await.unwrap()
    };
    for (text, other) in [
        ("/model openai/second", "/model default"),
        ("/think high", "/think low"),
        ("/title A trip", "/title Home"),
        ("/new /think off", "/think low"),
    ] {
        let first = keyed(text, text).await;
        let (run, said) = (first.run, first.follower.end().await.unwrap().text);
        say(&engine, "main", "on").await;
        say(&engine, "main", other).await;
        let before = engine.library().session(&key("main")).await.unwrap().unwrap();
        let again = keyed(text, text).await;
        assert!(again.replayed && again.run == run, "{text}");
        assert_eq!(again.follower.end().await.unwrap().text, said, "{text}");
        let row = engine.library().session(&key("main")).await.unwrap().unwrap();
        assert_eq!((row.settings, row.title), (before.settings, before.title), "{text}");
    }
    close(engine).await;
}

async fn the_same_choice_delivered_again_does_not_undo_a_later_one(bench: &Bench<'_>) {
    let (engine, network) = on_a_network(bench, json!({})).await;
    for (id, text) in [("1", "/verbose on"), ("2", "/verbose full"), ("1", "/verbose on"), ("3", "/verbose")]
    {
        network.post("alice", id, text);
    }
    until("three replies", async || network.visible().len() == 3).await;
    assert!(network.visible()[2].contains("reply: full"), "{:?}", network.visible());
    close(engine).await;
}

async fn a_word_that_stops_is_a_word_while_nothing_is_under_way(bench: &Bench<'_>) {
    let engine = bench.engine(json!({})).await;
    say(&engine, "main", "stop").await;
    assert_eq!(asked(bench), ["first"]);
    bench.vendor.next_request().await;
    bench.vendor.push(Turn::new([Step::Silence]));
    let under_way = post(&engine, "go on for ever").await;
    bench.vendor.next_request().await;
    assert_eq!(say(&engine, "main", "Stop").await.text, "Stopped.");
    assert_eq!(under_way.follower.end().await.unwrap_err().code, ErrorCode::Aborted);
    close(engine).await;
}

async fn commands_answer_without_a_model(bench: &Bench<'_>) {
    let engine = bench.engine(json!({})).await;
    assert!(say(&engine, "main", "/title A trip").await.text.contains("Nothing was said"));
    say(&engine, "main", "hello").await;
    for (command, expected) in [
        ("/title A trip", "Title: A trip"),
        ("/title", "Title: A trip"),
        ("/think high", "Thinking from now on: high"),
        ("/think", "Thinking: high"),
        ("/status", "main, A trip (2 messages)"),
        ("/status", "Model: anthropic/first"),
        ("/context", "Messages: "),
        ("/compact", "There is nothing to sum up yet."),
        ("/context", "as the model counted them last"),
        ("/context", "by estimate:"),
        ("/status", "as the model counted them last"),
        ("/help", "/compact [instructions]"),
        ("/verbose loud", "loud is none of"),
        ("/nosuch", "There is no command /nosuch"),
    ] {
        let answer = say(&engine, "main", command).await;
        assert!(answer.text.contains(expected), "{command}: {}", answer.text);
        assert_eq!(answer.usage.total(), 0);
    }
    assert_eq!(asked(bench), ["first"]);
    let row = engine.library().session(&key("main")).await.unwrap().unwrap();
    assert_eq!((row.head_seq, row.route.as_deref()), (2, Some("anthropic")), "no command is in the log");
    // Whoever asks literally is asked literally.
    let literal = Request { commands: false, ..message(&engine, "main", "/status").await };
    put(&engine, literal, &mut |_| {}).await.unwrap();
    assert!(bench.vendor.last_request().body.to_string().contains("/status"));
    close(engine).await;
}

async fn more_kept_free_than_the_window_has_is_a_quarter_of_it(bench: &Bench<'_>) {
    let floor = json!({"agents": {"defaults": {"compaction": {"reserveTokensFloor": 900_000}}}});
    let engine = bench.engine(floor).await;
    let told = say(&engine, "main", "/context").await.text;
    let model = ModelRef { provider: "anthropic".to_owned(), model: "first".to_owned() };
    let window = engine.settings().catalogue().model(&model).unwrap().context_window;
    let limit = format!("{}k", u64::from(window) * 3 / 4 / 1_000);
    assert!(told.lines().last().unwrap().contains(&limit), "{limit}: {told}");
    close(engine).await;
}

async fn a_fork_shares_what_came_before_and_the_other_log_stays(bench: &Bench<'_>) {
    let engine = bench.engine(json!({})).await;
    say(&engine, "main", "one").await;
    say(&engine, "main", "two").await;
    let before = engine.library().session(&key("main")).await.unwrap().unwrap();
    let wanted = NewBranch { source: before.id, after_seq: Some(2), key: key("main") };
    let branch = engine.fork(&owner(), wanted).await.unwrap();
    assert_eq!(branch.before, Some(before.id));
    let three = say(&engine, "main", "three").await;
    assert_eq!(three.session_name, branch.name);
    let sent = bench.vendor.last_request().body["messages"].to_string();
    assert!(sent.contains("one") && sent.contains("three") && !sent.contains("two"), "{sent}");
    let branches = engine.branches(&key("main")).await.unwrap();
    let shown: Vec<_> = branches.iter().map(|row| (row.id, row.current, row.head_seq)).collect();
    assert_eq!(shown, [(branch.id, true, 4), (before.id, false, 4)]);
    // Back to the first one, and on to a conversation of its own.
    let back = NewBranch { source: before.id, after_seq: None, key: key("main") };
    engine.fork(&owner(), back).await.unwrap();
    say(&engine, "main", "four").await;
    assert!(bench.vendor.last_request().body["messages"].to_string().contains("two"));
    let away = NewBranch { source: branch.id, after_seq: None, key: key("away") };
    engine.fork(&owner(), away).await.unwrap();
    let entries = engine.branches(&key("away")).await.unwrap();
    assert_eq!(entries.len(), 1);
    let nowhere = NewBranch { source: before.id, after_seq: Some(99), key: key("main") };
    assert_eq!(engine.fork(&owner(), nowhere).await.unwrap_err().body().code, ErrorCode::NotFound);
    close(engine).await;
}

async fn on_a_network(bench: &Bench<'_>, more: Value) -> (Engine, std::sync::Arc<Memory>) {
    let network = Memory::new("a", Doubt::Blind);
    let connectors = vec![network.clone() as std::sync::Arc<dyn tidegate_protocol::Connector>];
    let engine = bench
        .engine_with(more, |options| {
            options.stays = true;
            options.connectors = connectors;
        })
        .await;
    (engine, network)
}

async fn a_command_on_a_network_is_answered_there_once(bench: &Bench<'_>) {
    let (engine, network) = on_a_network(bench, json!({})).await;
    for _ in 0..2 {
        network.post("alice", "1", "/verbose on");
        network.post("alice", "2", "/new hello");
    }
    network.post("alice", "3", "/new");
    until("three replies", async || network.visible().len() == 3).await;
    let visible = network.visible();
    assert_eq!(visible[0], "Tools in the reply from now on: on");
    assert!(visible[1].contains("hello"), "{visible:?}");
    assert_eq!(visible[2], "A new conversation begins.");
    assert_eq!(runs(&engine).await.len(), 4);
    assert_eq!(asked(bench), ["first"]);
    close(engine).await;
}

async fn a_member_of_a_group_cannot_begin_its_conversation_anew(bench: &Bench<'_>) {
    let (engine, network) = on_a_network(bench, json!({})).await;
    let write = |id: &str, text: &str| network.post_as(PeerKind::Group, "room", id, text);
    write("1", "hello");
    write("2", "/new");
    write("3", "@openai/second still there?");
    until("two replies", async || network.visible().len() == 2).await;
    let row = &engine.branches(&runs(&engine).await[0].key).await.unwrap()[0];
    assert_eq!((row.head_seq, row.current), (4, true));
    assert_eq!(asked(bench), ["first", "first"], "nor choose who answers");
    close(engine).await;
    let (engine, network) = on_a_network(bench, json!({"session": {"groupCommands": "everyone"}})).await;
    network.post_as(PeerKind::Group, "room", "4", "/new");
    until("a reply", async || network.visible().len() == 1).await;
    assert_eq!(network.visible(), ["A new conversation begins."]);
    close(engine).await;
}

async fn a_member_of_a_group_ends_what_they_asked_and_nothing_else(bench: &Bench<'_>) {
    let (engine, network) = on_a_network(bench, json!({})).await;
    bench.vendor.push(Turn::new([Step::Silence])).push(Turn::say("and on it goes"));
    network.post_in("room", "anna", "1", "take your time");
    bench.vendor.next_request().await;
    network.post_in("room", "ben", "2", "/stop all");
    network.post_in("room", "ben", "3", "/stop");
    network.post_in("room", "ben", "4", "wait");
    network.post_as(PeerKind::Group, "room", "5", "/stop");
    until("all are heard", async || runs(&engine).await.len() == 5).await;
    assert_eq!(runs(&engine).await[0].state, RunState::Running, "it is another member's");
    network.post_in("room", "anna", "6", "wait");
    until("the rest is answered", async || network.visible().len() == 2).await;
    let rows = runs(&engine).await;
    assert_eq!((&rows[0].state, rows[0].actor.as_str()), (&RunState::Aborted, "memory:a:anna"));
    assert!(rows[1..].iter().all(|row| row.state == RunState::Completed));
    assert_eq!(network.visible(), ["and on it goes", "Stopped."], "a word that ends nothing is a word");
    let trail = engine.library().audit_of(&scope().tenant, rows[0].id).await.unwrap();
    let ended = trail.iter().find(|row| row.action == "agent.run.aborted").expect("the end is in the trail");
    assert_eq!(ended.actor, "memory:a:anna");
    close(engine).await;
}

async fn a_member_of_a_group_is_not_told_what_it_costs_nor_who_could_answer(bench: &Bench<'_>) {
    let (engine, network) = on_a_network(bench, json!({})).await;
    for (id, text) in [("1", "/context"), ("2", "/model"), ("3", "/model nowhere/x"), ("4", "/status")] {
        network.post_in("room", "ben", id, text);
    }
    until("a reply", async || !network.visible().is_empty()).await;
    let visible = network.visible();
    assert!(visible.len() == 1 && visible[0].contains("room") && !visible[0].contains('$'), "{visible:?}");
    network.post("ben", "5", "/status");
    until("another", async || network.visible().len() == 2).await;
    assert!(network.visible()[1].contains("$0.0000"), "{:?}", network.visible());
    close(engine).await;
}
