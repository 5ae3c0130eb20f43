//! What a person sees of tools and thoughts while they wait, and what they are asked.

use serde_json::json;
use tidegate_testkit::model_server::{Step, Turn};

use super::Desk;
use crate::process::Done;
use crate::runs::replay::is_in_order_of_time;
use crate::terminal::on_terminal_in;

const PLAIN: [(&str, &str); 1] = [("NO_COLOR", "1")];

/// `ask` on a terminal, in the folder of the test.
fn seen(desk: &Desk, words: &[&str], typed: &str, env: &[(&str, &str)]) -> Done {
    let done = on_terminal_in(&desk.home, &desk.root, &[&["ask"], words].concat(), typed, env);
    assert_eq!(done.code, Some(0), "{done:?}");
    done
}

fn reads(desk: &Desk) {
    let call = Step::Call { id: "c1".into(), name: "read".into(), arguments: json!({"path": "six.txt"}) };
    desk.vendor.push(Turn::say("Let me look.").then(call));
    desk.vendor.push(Turn::say("six bytes"));
}

#[test]
fn a_person_sees_which_tools_run_and_a_pipe_does_not() {
    let desk = Desk::with(&json!(null));
    reads(&desk);
    let done = seen(&desk, &["how long?"], "", &PLAIN);
    assert_eq!(done.stdout, "Let me look.\n● read six.txt\nsix bytes\n");
    desk.vendor.push(Turn::call("c2", "read", json!({"path": "nowhere.txt"})));
    desk.vendor.push(Turn::say("it is not there"));
    let done = seen(&desk, &["and that?"], "", &PLAIN);
    assert!(done.stdout.starts_with("● read nowhere.txt\n✗ read "), "{done:?}");
    reads(&desk);
    let piped = desk.call(&["how long?"]).ok();
    assert_eq!((piped.json()["result"].as_str(), piped.stderr.as_str()), (Some("six bytes"), ""));
}

#[test]
fn what_the_agent_does_stands_back() {
    let desk = Desk::with(&json!(null));
    reads(&desk);
    let done = seen(&desk, &["how long?"], "", &[]);
    assert!(done.stdout.contains("\u{1b}[2m● read six.txt\u{1b}[0m"), "{done:?}");
}

#[test]
fn thoughts_are_for_those_who_want_to_see_them() {
    let desk = Desk::with(&json!(null));
    let thinks = || Turn::say("<think>the moon pulls</think>at six");
    desk.vendor.push(thinks());
    let done = seen(&desk, &["when?"], "", &PLAIN);
    assert_eq!(done.stdout, "at six\n");
    desk.vendor.push(thinks());
    let done = seen(&desk, &["--verbose", "when?"], "", &PLAIN);
    assert_eq!(done.stdout, "the moon pulls\nat six\n");
    desk.vendor.push(thinks());
    let piped = desk.call(&["--verbose", "when?"]).ok();
    assert_eq!(
        (piped.json()["result"].as_str(), piped.stderr.as_str()),
        (Some("at six"), "the moon pulls\n")
    );
}

#[test]
fn what_came_of_a_tool_is_for_those_who_want_to_see_it() {
    let desk = Desk::with(&json!(null));
    reads(&desk);
    let piped = desk.call(&["--verbose", "how long?"]).ok();
    assert!(piped.stderr.starts_with("● read six.txt\n✓ read ("), "{piped:?}");
    assert!(piped.stderr.contains("sixsix"), "{piped:?}");
}

#[test]
fn whoever_asks_is_asked() {
    for (typed, ran) in [("y\n", true), ("n\nnot today\n", false)] {
        let desk = Desk::with(&json!({"profile": "coding", "modes": {"write": "approval-required"}}));
        desk.vendor.push(Turn::call("c1", "write", json!({"path": "asked.txt", "content": "x"})));
        desk.vendor.push(Turn::say("so be it"));
        let done = seen(&desk, &["write a file"], typed, &PLAIN);
        assert!(done.stdout.contains("so be it"), "{done:?}");
        assert_eq!(desk.root.join("asked.txt").exists(), ran, "{done:?}");
        if !ran {
            let said = desk.vendor.last_request().body.to_string();
            assert!(said.contains("not today"), "the model is told why: {said}");
        }
        let run = desk.home.runs()[0]["id"].as_str().unwrap().to_owned();
        let story = desk.home.call(&["runs", "replay", &run, "--json"]).json();
        let asked =
            story["steps"].as_array().unwrap().iter().find(|step| step["step"] == "approval").unwrap();
        let state = if ran { "used" } else { "denied" };
        assert_eq!((&asked["state"], asked["answeredBy"].is_string()), (&json!(state), true), "{asked}");
        is_in_order_of_time(&story);
        let told = desk.home.call(&["runs", "replay", &run]).ok().stdout;
        let by =
            if ran { "write allowed by local:owner\n" } else { "write denied by local:owner: not today\n" };
        assert!(told.contains("approval  write asked a person: ") && told.contains(by), "{told}");
        let decisions = story["steps"].as_array().unwrap().iter().filter(|step| step["step"] == "decision");
        assert_eq!(decisions.count(), 1, "one decided: {told}");
        let shown = desk.home.call(&["runs", "show", &run]).ok().stdout;
        let state = if ran { "write (approved by local:owner)" } else { "write (denied by local:owner)" };
        assert!(shown.contains(state), "{shown}");
    }
}

#[test]
fn a_person_is_told_that_ask_takes_no_commands() {
    let desk = Desk::with(&json!(null));
    desk.vendor.push(Turn::say("as it is"));
    let done = seen(&desk, &["/new", "idea"], "", &PLAIN);
    assert!(done.stdout.contains("note: ask takes no commands, /new goes to the model as it is"), "{done:?}");
    assert!(desk.vendor.last_request().body.to_string().contains("/new idea"));
    for text in ["/new", "/etc/hosts"] {
        desk.vendor.push(Turn::say("as it is"));
        assert_eq!(desk.call(&[text]).ok().stderr, "", "a program is told nothing");
    }
    desk.vendor.push(Turn::say("as it is"));
    assert!(!seen(&desk, &["/etc/hosts?"], "", &PLAIN).stdout.contains("note:"));
}
