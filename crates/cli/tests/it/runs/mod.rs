//! `runs list|show|replay|abort` and `stop`: every request, whatever became of it, and how one is ended.

mod killed;
pub(crate) mod replay;
mod stop;

use serde_json::{Value, json};

use crate::gateway::live::{Live, eventually};
use crate::home::Home;

const HANG: (&str, &str) = ("TIDEGATE_FAULT", "models.offline.start=hang");

fn fail_one(home: &Home) {
    let call = home.call(&["ask", "--timeout", "0.2", "too slow"]).env(HANG.0, HANG.1);
    call.fails("DEADLINE_EXCEEDED");
}

#[test]
fn a_home_without_runs_says_so() {
    let home = Home::new();
    assert_eq!(home.call(&["runs", "list"]).ok().stdout, "No runs.\n");
    assert_eq!(home.call(&["runs", "list", "--json"]).json(), json!({ "runs": [] }));
    for words in [["runs", "show", "lc-1-abcd"], ["runs", "replay", "lc-1-abcd"]] {
        let failed = home.call(&words).fails("NOT_FOUND");
        assert_eq!(failed.message, "there is no run lc-1-abcd; see: tidegate runs list");
    }
    assert!(!home.root().exists(), "looking makes no home");
}

#[test]
fn the_newest_run_is_first() {
    let home = Home::new();
    for text in ["one", "two", "three"] {
        home.ask(text);
    }
    let listed = home.call(&["runs", "list", "--json"]).json();
    let inputs: Vec<_> = listed["runs"].as_array().unwrap().iter().map(|run| run["input"].clone()).collect();
    assert_eq!(inputs, ["three", "two", "one"]);
    let table = home.call(&["runs", "list", "--limit", "2"]).ok().stdout;
    assert_eq!(table.lines().count(), 3, "the titles and two runs: {table}");
}

#[test]
fn runs_are_chosen_by_state_and_by_session() {
    let home = Home::new();
    home.ask("fine");
    home.ask_in("other", "elsewhere");
    fail_one(&home);
    let inputs = |words: &[&str]| -> Vec<String> {
        let listed = home.call(&[&["runs", "list", "--json"], words].concat()).json();
        let runs = listed["runs"].as_array().unwrap();
        runs.iter().map(|run| run["input"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(inputs(&["--state", "failed"]), ["too slow"]);
    assert_eq!(inputs(&["--state=completed", "--session", "main"]), ["fine"]);
    assert_eq!(inputs(&["--session", "other"]), ["elsewhere"]);
    assert_eq!(inputs(&["--state", "aborted"]), [""; 0]);
    let failed = home.call(&["runs", "list", "--state", "done"]).fails("INVALID_VALUE");
    for state in ["queued", "running", "completed", "failed", "aborted", "interrupted"] {
        assert!(failed.message.contains(state), "{failed:?}");
    }
}

#[test]
fn a_run_is_shown_with_its_question_and_its_answer() {
    let home = Home::new();
    let answer = home.ask("hello");
    let request = answer["requestId"].as_str().unwrap();
    let shown = home.call(&["runs", "show", request, "--json"]).json();
    assert_eq!((&shown["requestId"], &shown["result"]), (&answer["requestId"], &answer["result"]));
    assert_eq!(
        (&shown["state"], &shown["input"], &shown["error"]),
        (&json!("completed"), &json!("hello"), &Value::Null)
    );
    assert_eq!(shown["createdAt"], answer["createdAt"]);
    let by_id = home.call(&["runs", "show", shown["id"].as_str().unwrap(), "--json"]).json();
    assert_eq!(by_id, shown, "by either name");
    let page = home.call(&["runs", "show", request]).ok().stdout;
    assert!(page.contains("hello") && page.contains(answer["result"].as_str().unwrap()), "{page}");
}

#[test]
fn a_failed_run_is_shown_with_its_error_and_is_not_in_the_conversation() {
    let home = Home::new();
    fail_one(&home);
    let run = &home.runs()[0];
    assert_eq!((&run["state"], &run["error"]["code"]), (&json!("failed"), &json!("DEADLINE_EXCEEDED")));
    assert!(!run["finishedAt"].is_null(), "{run}");
    let page = home.call(&["runs", "show", run["requestId"].as_str().unwrap()]).ok().stdout;
    assert!(page.contains("[DEADLINE_EXCEEDED] the model gave no complete answer within 0.2 s"), "{page}");
    assert!(page.contains("too slow"), "the question is not lost: {page}");
    home.call(&["sessions", "show", "main"]).fails("NOT_FOUND");
}

#[test]
fn a_replay_tells_the_steps_and_asks_nothing_again() {
    let home = Home::new();
    let answer = home.ask("hello");
    let request = answer["requestId"].as_str().unwrap();
    let story = home.call(&["runs", "replay", request, "--json"]).json();
    let steps: Vec<_> = story["steps"].as_array().unwrap().iter().map(|step| step["step"].clone()).collect();
    assert_eq!(steps, ["accepted", "started", "user", "model", "assistant", "completed"]);
    let words = home.call(&["runs", "replay", request]).ok().stdout;
    assert_eq!(words.lines().count(), 6, "{words}");
    assert_eq!(home.runs().len(), 1, "a replay is no run");
    fail_one(&home);
    let failed = home.runs()[1]["requestId"].as_str().unwrap().to_owned();
    let story = home.call(&["runs", "replay", &failed]).ok().stdout;
    assert!(story.lines().last().unwrap().contains("[DEADLINE_EXCEEDED]"), "{story}");
}

#[test]
fn a_key_of_a_request_cannot_turn_what_is_read_around() {
    let home = Home::new();
    let live = Live::start(&home);
    assert!(live.post("main", "hello", "k\u{202e}1").is_some());
    eventually("it is answered", || home.runs()[0]["finishedAt"].as_str().map(drop));
    let listed = home.call(&["runs", "list"]).ok().stdout;
    assert!(listed.contains("k\u{fffd}1") && !listed.contains('\u{202e}'), "{listed:?}");
    live.end();
}
