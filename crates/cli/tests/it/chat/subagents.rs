//! What subagents find, and what others write, reaches whoever has the conversation open.

use serde_json::{Value, json};

use super::leave;
use super::pty::{Pty, plain};
use crate::gateway::live::{Live, eventually};
use crate::home::Home;
use crate::terminal::on_terminal;

/// A home whose model plays a script about boats: it sends somebody, and does `meanwhile` long before they are
/// back.
fn boats(meanwhile: Value) -> Home {
    let home = Home::new();
    let script = home.around().join("script.json");
    let spawn = json!({"task": "go and look", "label": "boats"});
    let mut turns = vec![meanwhile];
    let always = json!([
        {"when": "that you started", "say": "There are **seven** boats."},
        {"when": "how many", "calls": [{"id": "c1", "name": "sessions_spawn", "arguments": spawn}]},
        {"when": "go and look", "say": "seven", "delayMs": 2_000},
        {"when": "thanks", "say": "You are welcome."},
    ]);
    turns.splice(0..0, always.as_array().cloned().unwrap_or_default());
    std::fs::write(&script, json!({ "turns": turns }).to_string()).expect("the script is written");
    let config = json!({
        "agents": {"defaults": {"model": {"primary": "demo/m", "fallbacks": []}}},
        "models": {"providers": {"demo": {"api": "scripted", "script": script, "models": [{"id": "m"}]}}},
        "tools": {"profile": "full", "highRisk": "allow", "exec": {"ask": "always"}},
    });
    home.write_config(&config.to_string());
    home
}

pub(crate) fn sends_somebody() -> Home {
    boats(json!({"when": "accepted", "say": "I have sent somebody."}))
}

fn is_shown_once(home: &Home) {
    let mut pty = Pty::chat(home, &[], &[]);
    pty.press("how many?\r");
    pty.until("I have sent somebody.");
    pty.until("· subagent \"boats\" has finished");
    pty.until("There are seven boats.");
    pty.press("thanks\r");
    pty.until("You are welcome.");
    assert_eq!(plain(&pty.raw()).matches("seven boats.").count(), 1, "{}", pty.raw());
    leave_once(pty);
}

/// Leaves after another look at the conversation, so that what would be shown twice is.
fn leave_once(pty: Pty) {
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let shown = plain(&pty.raw());
    assert_eq!(shown.matches("has finished").count(), 1, "{shown}");
    assert!(!shown.contains("that you started") && !shown.contains("from elsewhere"), "{shown}");
    leave(pty);
}

#[test]
fn what_a_subagent_found_is_shown_once() {
    is_shown_once(&sends_somebody());
}

#[test]
fn what_a_subagent_found_is_shown_once_with_a_gateway() {
    let home = sends_somebody();
    let _gateway = Live::start(&home);
    is_shown_once(&home);
}

#[test]
fn what_a_turn_that_is_under_way_reads_of_a_subagent_is_shown_once() {
    let command = json!({"command": "touch a.txt"});
    let call = json!({"when": "accepted", "calls": [{"id": "c2", "name": "exec", "arguments": command}]});
    let home = boats(call);
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.press("how many?\r");
    pty.until("to answer");
    // What it found waits in the conversation: the question, the subagent, and the message.
    eventually("the message of the subagent", || (home.runs().len() == 3).then_some(()));
    std::thread::sleep(std::time::Duration::from_millis(700));
    pty.press("y");
    pty.until("· subagent \"boats\" has finished");
    pty.until("There are seven boats.");
    leave_once(pty);
}

#[test]
fn what_others_write_into_the_conversation_is_shown_with_its_answer() {
    let home = Home::new();
    let mut pty = Pty::chat(&home, &[], &[]);
    home.ask("hi from there");
    pty.until("· from elsewhere: hi from there");
    pty.until("已接收到输入：hi from there");
    home.ask_in("other", "not here");
    pty.press("mine\r");
    pty.until("已接收到输入：mine");
    assert!(!plain(&pty.raw()).contains("not here"));
    leave(pty);
}

#[test]
fn a_question_waits_for_its_subagents_and_prints_what_they_found() {
    let home = sends_somebody();
    let done = on_terminal(&home, &["ask", "how many?"], "", &[("NO_COLOR", "1")]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let lines: Vec<&str> = done.stdout.lines().collect();
    let told = ["I have sent somebody.", "· subagent \"boats\" has finished", "There are **seven** boats."];
    assert!(lines.ends_with(&told), "{done:?}");
    let done = home.call(&["ask", "--json", "--session", "other", "how many?"]).ok();
    assert_eq!(done.json()["result"], "I have sent somebody.", "one object and nothing else");
}
