//! What happened without this terminal.

use super::*;
use tidegate_protocol::ErrorBody;

const ANNOUNCED: &str = "The task \"boats\" that you started (session sub:7) has completed (runtime 1s). What it found is \
    below.\n\n[outside]\nI saw seven.";

fn told(run: RunId, asked: &str, said: &str) -> Elsewhere {
    Elsewhere { run, asked: asked.to_owned(), said: Some(said.to_owned()), error: None }
}

fn count(driven: &Driven, text: &str) -> usize {
    driven.scrollback.iter().filter(|row| row.contains(text)).count()
}

#[test]
fn what_a_subagent_found_is_shown_without_the_words_the_model_got() {
    let mut driven = Driven::new();
    driven.event(Event::Elsewhere(vec![told(run(3), ANNOUNCED, "There are **seven**.")], 0));
    assert_eq!(driven.scrollback, ["· subagent \"boats\" has finished", "", "There are seven."]);
    driven.event(Event::Elsewhere(vec![told(run(2), "hi\nthere", "Hello.")], 0));
    assert_eq!(count(&driven, "· from elsewhere: hi"), 1);
    let silent = Elsewhere { said: None, ..told(run(1), ANNOUNCED, "") };
    driven.scrollback.clear();
    driven.event(Event::Elsewhere(vec![silent], 0));
    assert_eq!(driven.scrollback, ["", "· subagent \"boats\" has finished"]);
}

#[test]
fn an_announcement_that_joined_a_turn_is_shown_once() {
    let mut driven = Driven::new();
    driven.ask("go", 1);
    driven.notice(1, RunEventBody::Steered { run_id: run(3), text: ANNOUNCED.to_owned() });
    driven.answered(1, "Seven.");
    // Of the two only the turn that read it has an end of its own.
    driven.event(Event::Elsewhere(vec![told(run(1), "go", "Seven.")], 0));
    assert_eq!(count(&driven, "subagent \"boats\" has finished"), 1, "{:?}", driven.scrollback);
    assert_eq!((count(&driven, "Seven."), count(&driven, "that you started")), (1, 0));
}

#[test]
fn it_waits_until_nothing_is_torn_apart_and_until_it_is_known_whose_it_is() {
    let mut driven = Driven::new();
    driven.enter("mine");
    driven.event(Event::Elsewhere(vec![told(run(1), "mine", "one"), told(run(3), "theirs", "two")], 0));
    assert_eq!((count(&driven, "one"), count(&driven, "two")), (0, 0));
    driven.told(1, AskEvent::Accepted { run_id: run(1), created_at: 0, replayed: false });
    assert_eq!((count(&driven, "one"), count(&driven, "two")), (0, 1));
    driven.delta(1, "half");
    driven.event(Event::Elsewhere(vec![told(run(2), "theirs", "three")], 0));
    assert_eq!(count(&driven, "three"), 0);
    driven.delta(1, " and half");
    driven.answered(1, "half and half");
    let at = |text: &str| driven.scrollback.iter().position(|row| row == text).unwrap();
    assert!(at("half and half") < at("three"), "{:?}", driven.scrollback);
}

#[test]
fn a_failure_elsewhere_is_told_and_those_at_work_are_counted() {
    let mut driven = Driven::new();
    let error = Some(ErrorBody::new(ErrorCode::Internal, "broken"));
    driven.event(Event::Elsewhere(vec![Elsewhere { said: None, error, ..told(run(3), "hi", "") }], 1));
    assert_eq!(count(&driven, "✗ [INTERNAL] broken"), 1);
    assert!(driven.region_has("1 subagent at work"));
    driven.event(Event::Elsewhere(Vec::new(), 2));
    assert!(driven.region_has("2 subagents at work"));
    driven.event(Event::Elsewhere(Vec::new(), 0));
    assert!(!driven.region_has("at work"));
}

#[test]
fn those_at_work_are_stopped_with_what_is_under_way_and_without_it() {
    let mut driven = Driven::new();
    assert_eq!(
        driven.enter("/stop"),
        [Effect::StopHelpers(Vec::new())],
        "what is not known here may be known there"
    );
    driven.event(Event::Stopped(Ok(0)));
    assert_eq!(driven.scrollback.last().unwrap(), "· Nothing is under way.");
    assert_eq!(driven.press(Key::Esc), []);
    driven.event(Event::Elsewhere(Vec::new(), 2));
    driven.now += 1_000;
    assert_eq!(driven.press(Key::Esc), [Effect::StopHelpers(Vec::new())]);
    driven.event(Event::Stopped(Ok(2)));
    assert_eq!(driven.scrollback.last().unwrap(), "· Stopped 2 subagents.");
    driven.ask("go", 1);
    assert_eq!(driven.enter("/stop"), [Effect::StopHelpers(vec![run(1)])]);
    let before = driven.scrollback.len();
    driven.event(Event::Stopped(Ok(0)));
    assert_eq!(driven.scrollback.len(), before, "the turn tells its own end");
}
