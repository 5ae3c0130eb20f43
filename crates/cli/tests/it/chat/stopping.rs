//! Ending what is under way: a question that is put, and subagents that outlive the turn that began them.

use serde_json::json;
use tidegate_testkit::model_server::Turn;

use super::pty::{Pty, plain};
use super::subagents::sends_somebody;
use super::{CTRL_C, asking_home, leave};
use crate::talking::Vendor;

#[test]
fn an_interrupt_at_a_question_ends_the_run_without_another_call_of_the_model() {
    let vendor = Vendor::open();
    let home = asking_home(&vendor);
    vendor.push(Turn::call("c1", "exec", json!({"command": "touch a.txt"})));
    vendor.push(Turn::say("nobody should pay for this"));
    let mut pty = Pty::command(&home, &["ask", "make it"]);
    pty.until("touch a.txt");
    pty.until("n for no: ");
    pty.press(CTRL_C);
    pty.until("[ABORTED]");
    let shown = plain(&pty.raw());
    assert!(!shown.contains("nobody should pay"), "{shown}");
    assert_eq!(pty.ended(), Some(130));
    assert_eq!(vendor.requests().len(), 1, "the model was asked once");
    assert_eq!(home.runs()[0]["state"], "aborted");
}

#[test]
fn a_question_goes_when_its_run_is_stopped_from_elsewhere() {
    let vendor = Vendor::open();
    let home = asking_home(&vendor);
    vendor.push(Turn::call("c1", "exec", json!({"command": "touch a.txt"})));
    let mut pty = Pty::command(&home, &["ask", "make it"]);
    pty.until("touch a.txt");
    pty.until("n for no: ");
    home.call(&["stop", "--all"]).ok();
    pty.until("[ABORTED]");
    assert_eq!(pty.ended(), Some(1));
    assert_eq!(vendor.requests().len(), 1, "the model was asked once");
}

#[test]
fn subagents_that_outlive_their_turn_are_stopped() {
    let home = sends_somebody();
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.press("how many?\r");
    pty.until("I have sent somebody.");
    pty.press("/stop\r");
    pty.until("Stopped 1 subagent.");
    leave(pty);
    let states: Vec<_> = home.runs().iter().map(|run| run["state"].clone()).collect();
    assert!(states.contains(&json!("aborted")), "{states:?}");
}
