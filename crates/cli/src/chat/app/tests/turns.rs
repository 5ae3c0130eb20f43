//! Turns that are stopped, steered, tried again and failed.

use super::*;

#[test]
fn what_had_come_stays_when_the_terminal_is_left() {
    let mut driven = Driven::new();
    driven.ask("go", 1);
    driven.delta(1, "half an ans");
    driven.state.close();
    let kept: Vec<String> = driven.state.take_finished().iter().map(Line::text).collect();
    assert_eq!(kept.last().unwrap(), "half an ans");
}

#[test]
fn escape_stops_the_run_and_twice_what_waits_too() {
    let mut driven = Driven::new();
    driven.ask("long", 1);
    driven.ask("more", 2);
    assert!(driven.region_has("next: more"));
    assert_eq!(driven.press(Key::Esc), [Effect::Abort(run(1))]);
    assert!(driven.region_has("Stopping"));
    driven.now += 100;
    assert_eq!(driven.press(Key::Esc), [Effect::Abort(run(1)), Effect::Abort(run(2))]);
    let aborted = || ErrorBody::new(ErrorCode::Aborted, "aborted");
    driven.told(2, AskEvent::Error { error: aborted() });
    driven.told(1, AskEvent::Error { error: aborted() });
    assert_eq!(driven.scrollback, ["", "› long", "", "· Stopped."]);
    assert!(!driven.state.is_moving());
}

#[test]
fn stop_ends_the_run_and_with_all_what_waits_too() {
    let mut driven = Driven::new();
    driven.ask("long", 1);
    driven.ask("more", 2);
    assert_eq!(driven.enter("/stop"), [Effect::StopHelpers(vec![run(1)])]);
    assert_eq!(driven.enter("/stop all"), [Effect::StopHelpers(vec![run(1), run(2)])]);
}

#[test]
fn escape_before_the_run_is_known_stops_it_once_it_is() {
    let mut driven = Driven::new();
    driven.enter("long");
    assert_eq!(driven.press(Key::Esc), []);
    let accepted = AskEvent::Accepted { run_id: run(1), created_at: 0, replayed: false };
    assert_eq!(driven.told(1, accepted), [Effect::Abort(run(1))]);
}

#[test]
fn a_message_while_it_works_steers_and_is_shown_where_it_was_read() {
    let mut driven = Driven::new();
    driven.ask("build", 1);
    driven.delta(1, "Building");
    let effects = driven.enter("with tests");
    assert_eq!(effects, [Effect::Ask { turn: 2, text: "with tests".to_owned(), join: Join::Steer }]);
    driven.told(2, AskEvent::Accepted { run_id: run(2), created_at: 0, replayed: false });
    driven.notice(1, RunEventBody::Steered { run_id: run(2), text: "with tests".to_owned() });
    driven.delta(1, "Testing");
    // The one that was taken in ends with the same answer, which is shown once.
    driven.answered(2, "Testing");
    driven.answered(1, "Testing");
    assert_eq!(driven.scrollback, ["", "› build", "", "Building", "", "› with tests", "", "Testing"]);
    assert!(!driven.state.is_moving());
}

#[test]
fn a_message_is_shown_once_when_it_is_read_before_its_run_is_known() {
    let mut driven = Driven::new();
    driven.ask("build", 1);
    driven.enter("with tests");
    driven.notice(1, RunEventBody::Steered { run_id: run(2), text: "with tests".to_owned() });
    driven.told(2, AskEvent::Accepted { run_id: run(2), created_at: 0, replayed: false });
    driven.answered(1, "Done");
    driven.answered(2, "Done");
    assert_eq!(driven.scrollback, ["", "› build", "", "› with tests", "", "Done"]);
    assert!(!driven.state.is_moving());
    // The same words of somebody else are not this terminal's.
    let mut driven = Driven::new();
    driven.ask("build", 1);
    driven.enter("with tests");
    driven.notice(1, RunEventBody::Steered { run_id: run(3), text: "with tests".to_owned() });
    driven.told(2, AskEvent::Accepted { run_id: run(2), created_at: 0, replayed: false });
    driven.answered(1, "Done");
    driven.answered(2, "Mine");
    assert_eq!(driven.scrollback.last().unwrap(), "Mine", "{:?}", driven.scrollback);
}

#[test]
fn a_message_that_was_not_read_is_the_next_turn_whatever_comes_first() {
    let mut driven = Driven::new();
    driven.ask("one", 1);
    driven.ask("two", 2);
    // The next run's first words overtake the end of the one before.
    driven.delta(2, "B");
    driven.answered(1, "A");
    driven.answered(2, "B");
    assert_eq!(driven.scrollback, ["", "› one", "", "A", "", "› two", "", "B"]);
    assert!(!driven.state.is_moving());
}

#[test]
fn a_turn_that_waits_ends_however_much_it_told_before() {
    let mut driven = Driven::new();
    driven.ask("one", 1);
    driven.ask("two", 2);
    for _ in 0..20_000 {
        driven.delta(2, "B ");
        driven.notice(2, RunEventBody::ToolUpdate { call_id: "c".to_owned(), text: "news\n".to_owned() });
    }
    driven.answered(2, &"B ".repeat(20_000));
    driven.answered(1, "A");
    assert!(!driven.state.is_moving(), "{:?}", driven.region());
    let shown = driven.scrollback.concat();
    assert_eq!(shown.matches('B').count(), 20_000, "nothing of the text is lost");
}

#[test]
fn an_answer_without_a_stream_is_shown_after_another_attempt_too() {
    let mut driven = Driven::new();
    driven.ask("go", 1);
    driven.delta(1, "half");
    driven.told(1, AskEvent::Restarted);
    driven.answered(1, "whole");
    assert_eq!(driven.scrollback.last().unwrap(), "whole");
}

#[test]
fn a_failure_is_told_with_its_code_and_what_still_ran_is_over() {
    let mut driven = Driven::new();
    driven.ask("go", 1);
    driven.notice(1, started("c1"));
    let error = ErrorBody::new(ErrorCode::ContextOverflow, "too long\x1b[2J");
    driven.told(1, AskEvent::Error { error });
    let shown = driven.scrollback.join("\n");
    assert!(shown.contains("✗ [CONTEXT_OVERFLOW] too long\u{fffd}[2J"), "{shown}");
    assert!(shown.contains("⊘ exec  ls  (interrupted)"), "{shown}");
}

#[test]
fn another_attempt_replaces_what_was_coming() {
    let mut driven = Driven::new();
    driven.ask("go", 1);
    driven.delta(1, "half an ans");
    driven.told(1, AskEvent::Restarted);
    driven.delta(1, "whole answer");
    driven.answered(1, "whole answer");
    assert_eq!(driven.scrollback, ["", "› go", "", "· The answer begins again.", "", "whole answer"]);
}

#[test]
fn what_a_tool_says_is_shown_as_much_as_is_wanted() {
    let long = (1..=9).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
    for (level, shown) in [("off", 0), ("on", 7), ("full", 10)] {
        let mut driven = Driven::new();
        driven.ask(&format!("/verbose {level}"), 1);
        driven.answered_by(1, "command", "so it is");
        driven.ask("look", 2);
        driven.notice(2, RunEventBody::ThinkingDelta { text: "I could\nlook".to_owned() });
        driven.notice(2, started("c1"));
        assert_eq!(driven.region_has("exec  ls"), level != "off");
        driven.notice(2, ended("c1", &long));
        driven.answered(2, "Done.");
        let rows =
            |driven: &Driven, text: &str| driven.scrollback.iter().filter(|row| row.contains(text)).count();
        let card = rows(&driven, "line") + rows(&driven, "exec");
        assert_eq!(card, shown, "{level}: {:?}", driven.scrollback);
        assert_eq!(rows(&driven, "I could"), usize::from(level == "full"));
        driven.press(Key::Ctrl('o'));
        assert_eq!(rows(&driven, "line 9"), 1, "{level}: {:?}", driven.scrollback);
    }
}

#[test]
fn what_was_interrupted_is_told_before_that_it_was_stopped() {
    for (stops, word) in [(true, "· Stopped."), (false, "· Stopped from elsewhere.")] {
        let mut driven = Driven::new();
        driven.ask("look", 1);
        driven.notice(1, started("c1"));
        if stops {
            driven.press(Key::Esc);
        }
        driven.told(1, AskEvent::Error { error: ErrorBody::new(ErrorCode::Aborted, "aborted") });
        let last = driven.scrollback.iter().rev().take(3).rev().cloned().collect::<Vec<_>>();
        assert_eq!(last, ["⊘ exec  ls  (interrupted)", "", word]);
    }
}
