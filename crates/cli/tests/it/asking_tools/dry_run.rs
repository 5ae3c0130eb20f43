//! A dry run decides, records and shows, and does nothing.

use serde_json::json;
use tidegate_testkit::model_server::Turn;

use super::Desk;
use crate::terminal::on_terminal_in;

fn writes_and_reads(desk: &Desk) {
    desk.vendor.push(Turn::call("c1", "read", json!({"path": "six.txt"})));
    desk.vendor.push(Turn::call("c2", "write", json!({"path": "new.txt", "content": "x"})));
    desk.vendor.push(Turn::call("c3", "exec", json!({"command": "touch ran.txt"})));
    desk.vendor.push(Turn::say("all done"));
}

#[test]
fn a_dry_run_leaves_no_file_and_says_so() {
    let desk = Desk::trusting();
    writes_and_reads(&desk);
    let answer = desk.ask(&["--dry-run", "write a file"]);
    assert_eq!((&answer["dryRun"], &answer["result"]), (&json!(true), &json!("all done")));
    let results = answer["toolResults"].as_array().unwrap();
    assert!(
        results[0]["result"]["content"].as_str().unwrap().contains("sixsix"),
        "looking is done: {answer}"
    );
    for result in &results[1..] {
        assert_eq!(result["result"]["data"]["shadow"], true, "{result}");
    }
    assert!(!desk.root.join("new.txt").exists() && !desk.root.join("ran.txt").exists());
    let request = answer["requestId"].as_str().unwrap();
    let story = desk.home.call(&["runs", "replay", request]).ok().stdout;
    assert!(story.contains("shadow: whatever would change something is not done"), "{story}");
    assert!(
        story.contains("write would have run") && story.contains("write would have been allowed by"),
        "{story}"
    );
    let told = desk.home.call(&["runs", "replay", request, "--json"]).json();
    assert_eq!(told["shadow"], true, "{told}");
    let shown = desk.home.call(&["runs", "show", request]).ok().stdout;
    assert!(shown.contains("completed (dry run)") && shown.contains("read (succeeded), write ("), "{shown}");
    assert!(desk.home.call(&["runs", "list"]).ok().stdout.contains("completed (dry run)"));
}

#[test]
fn a_dry_run_tells_when_a_person_would_be_asked() {
    let desk = Desk::with(&json!({"profile": "coding", "modes": {"write": "approval-required"}}));
    desk.vendor.push(Turn::call("c1", "write", json!({"path": "new.txt", "content": "x"})));
    desk.vendor.push(Turn::say("done"));
    let answer = desk.ask(&["--dry-run", "write a file"]);
    let story = desk.home.call(&["runs", "replay", answer["requestId"].as_str().unwrap()]).ok().stdout;
    assert!(story.contains("write would ask a person ("), "{story}");
    let shown = desk.home.call(&["runs", "show", answer["requestId"].as_str().unwrap()]).ok().stdout;
    assert!(shown.contains("write (would ask)"), "{shown}");
    assert!(!story.contains("would have run") && !story.contains("would have been allowed"), "{story}");
}

#[test]
fn whoever_looks_sees_what_is_not_run() {
    let desk = Desk::trusting();
    writes_and_reads(&desk);
    let words = ["ask", "--dry-run", "write a file"];
    let done = on_terminal_in(&desk.home, &desk.root, &words, "", &[("NO_COLOR", "1")]);
    assert_eq!(done.code, Some(0), "{done:?}");
    for line in [
        "● write new.txt",
        "○ write: not run, only shown",
        "○ exec: not run, only shown",
        "note: this was a dry run",
    ] {
        assert!(done.stdout.contains(line), "{line}: {done:?}");
    }
}

#[test]
fn an_agent_that_only_shadows_never_does_more() {
    let desk = Desk::trusting();
    desk.home
        .call(&["config", "set", "agents.list", r#"[{"id": "main", "default": true, "shadow": true}]"#])
        .ok();
    writes_and_reads(&desk);
    let answer = desk.ask(&["write a file"]);
    assert_eq!(answer["dryRun"], true);
    assert!(!desk.root.join("new.txt").exists() && !desk.root.join("ran.txt").exists());
}
