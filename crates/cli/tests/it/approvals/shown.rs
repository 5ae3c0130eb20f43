//! What a person reads before they answer: nothing in it can hide, move or colour text.

use serde_json::{Value, json};

use super::question;
use crate::home::Home;
use crate::process::Done;
use crate::terminal::on_terminal;
use crate::tools::workspace;

/// A right-to-left override, an escape that clears the screen, a zero-width space, a bell, a combining stack, and
/// padding that would push the rest out of sight.
fn trap() -> String {
    let padding = " ".repeat(200);
    format!("printf '%s' \u{202e}dlrow\u{202c} \u{1b}[2J\u{1b}[31m a\u{200b}b \u{7} '{padding}' end")
}

const RAW: [char; 5] = ['\u{202e}', '\u{202c}', '\u{1b}', '\u{200b}', '\u{7}'];

fn asking() -> Home {
    let home = Home::new();
    home.write_config("{ tools: { profile: 'coding', exec: { host: 'gateway' } } }");
    home
}

fn asked(home: &Home, command: &str, typed: &str) -> Done {
    let root = workspace(home);
    let args = json!({ "command": command }).to_string();
    let words = ["tools", "invoke", "exec", "--args", &args, "--root", root.to_str().unwrap()];
    on_terminal(home, &words, typed, &[("NO_COLOR", "1")])
}

/// What was shown before the answer, and the object after it.
fn parts(done: &Done) -> (&str, &str) {
    let begin = done.stdout.find("{\n").unwrap_or_else(|| panic!("no object: {done:?}"));
    done.stdout.split_at(begin)
}

/// The object at the end of what a terminal showed.
fn told(done: &Done) -> Value {
    let (_, object) = parts(done);
    serde_json::from_str(object).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

#[test]
fn a_command_that_would_hide_itself_is_spelled_out() {
    let home = asking();
    let done = asked(&home, &trap(), "n\n\n");
    assert_eq!(done.code, Some(1), "{done:?}");
    let (shown, _) = parts(&done);
    for mark in ["⟨U+202E⟩", "⟨U+202C⟩", "⟨U+001B⟩[2J", "⟨U+200B⟩", "⟨U+0007⟩", "⟨200 spaces⟩"]
    {
        assert!(shown.contains(mark), "{mark}: {shown:?}");
    }
    assert!(!shown.contains(RAW), "{shown:?}");
    assert!(!shown.contains("tenant:"), "a person is told the name of the conversation: {shown:?}");
}

#[test]
fn lists_sheets_and_json_of_questions_are_as_inert() {
    let home = asking();
    let root = workspace(&home);
    let args = json!({ "command": trap(), "env": { "NOTE": "\u{202e}x" } }).to_string();
    let call = home.call(&["tools", "invoke", "exec", "--wait", "--args", &args]).inside(&root).start();
    let asked = question(&home);
    let id = asked["id"].as_str().unwrap();
    for words in
        [["approvals", "list"].as_slice(), &["approvals", "show", id], &["approvals", "list", "--json"]]
    {
        for shown in
            [home.call(words).ok().stdout, on_terminal(&home, words, "", &[("NO_COLOR", "1")]).stdout]
        {
            assert!(shown.contains("⟨U+202E⟩") && !shown.contains(RAW), "{words:?}: {shown:?}");
        }
    }
    home.call(&["approvals", "deny", id, "--reason", "\u{1b}[2J\u{202e}no"]).ok();
    assert_eq!(call.wait().code, Some(1));
    let shown = on_terminal(&home, &["approvals", "show", id], "", &[("NO_COLOR", "1")]).stdout;
    assert!(shown.contains("⟨U+202E⟩no") && !shown.contains(RAW), "{shown:?}");
}

#[test]
fn y_runs_it_once_and_a_saves_the_rule_that_was_shown() {
    let home = asking();
    for _ in 0..2 {
        let once = asked(&home, "uname -s", "y\n");
        assert_eq!(told(&once)["result"]["data"]["stdout"], "Linux\n", "{once:?}");
        assert!(once.stdout.contains("/usr/bin/uname -s"), "asked every time: {once:?}");
    }
    let always = asked(&home, "uname -s", "a\n");
    assert_eq!(told(&always)["result"]["ok"], true, "{always:?}");
    let rules = home.call(&["approvals", "allowlist", "--json"]).json()["rules"].clone();
    assert!(always.stdout.contains(rules[0]["rule"].as_str().unwrap()), "{rules} {always:?}");
    let unasked = asked(&home, "uname -s", "");
    assert_eq!(told(&unasked)["result"]["ok"], true, "{unasked:?}");
    assert!(!unasked.stdout.contains("/usr/bin/uname"), "{unasked:?}");
}

#[test]
fn n_and_its_reason_are_told_and_anything_unclear_is_asked_again() {
    let home = asking();
    let done = asked(&home, "uname -s", "\nyeah\nn\nnot today\n");
    let error = told(&done)["result"]["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("denied: not today"), "{done:?}");
    let all = home.call(&["approvals", "list", "--all", "--json"]).json();
    let row = &all["approvals"][0];
    assert_eq!((&row["state"], &row["answerReason"]), (&json!("denied"), &json!("not today")), "{row}");
}

#[test]
fn a_terminal_that_goes_away_says_no() {
    let home = asking();
    let done = asked(&home, "uname -s", "");
    assert_eq!(told(&done)["result"]["ok"], false, "{done:?}");
    let all = home.call(&["approvals", "list", "--all", "--json"]).json();
    assert_eq!(all["approvals"][0]["state"], "denied", "{all}");
}
