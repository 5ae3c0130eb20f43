//! What people write while a run is under way.

use super::*;

#[tokio::test]
async fn somebody_who_writes_meanwhile_is_read_before_the_next_tool() {
    let world = World::new(|request| match request.messages.last() {
        Some(Message::User { .. }) if request.messages.len() == 1 => {
            calls(&[("write", "a"), ("write", "b"), ("write", "c")])
        }
        Some(message @ Message::User { .. }) => {
            assert_eq!(message.text(), "stop that");
            says("stopped")
        }
        _ => says("went on"),
    });
    world.state().queued.push_back((Some(JoinMode::Steer), "stop that"));
    let outcome = world.attempt(1).await.unwrap();
    assert_eq!(world.finish(&outcome), "stopped");
    assert_eq!(world.state().effects, ["a"]);
    let log = world.log();
    assert!(log[3].starts_with("result b: skipped") && log[4].starts_with("result c: skipped"), "{log:?}");
    assert_eq!(log[5], "user stop that");
}

#[tokio::test]
async fn what_follows_up_is_read_when_the_run_would_stop() {
    let world = World::new(|request| match request.messages.len() {
        1 => says("first"),
        _ => says("second"),
    });
    world.state().queued.push_back((Some(JoinMode::FollowUp), "and then?"));
    let outcome = world.attempt(1).await.unwrap();
    assert_eq!(world.finish(&outcome), "second");
    assert_eq!(world.state().parts, ["first"], "what was said first is sent first");
    assert_eq!(world.log(), ["user do it", "agent first[]", "user and then?", "agent second[]"]);
}

#[tokio::test]
async fn what_follows_up_does_not_break_into_the_tools() {
    let world = World::new(|request| match results_since_user(request) {
        0 if request.messages.len() == 1 => calls(&[("write", "a"), ("write", "b")]),
        _ => says("done"),
    });
    world.state().queued.push_back((Some(JoinMode::FollowUp), "and then?"));
    let outcome = world.attempt(1).await.unwrap();
    world.finish(&outcome);
    assert_eq!(world.state().effects, ["a", "b"]);
    assert_eq!(world.log()[5..], ["user and then?", "agent done[]"]);
}

#[tokio::test]
async fn an_answer_that_nothing_follows_is_sent_with_its_end_only() {
    let world = World::new(|_| says("first"));
    // Somebody waits behind a message that has a turn of its own.
    world.state().queued.extend([(None, "later"), (Some(JoinMode::FollowUp), "and then?")]);
    let outcome = world.attempt(1).await.unwrap();
    assert_eq!(world.finish(&outcome), "first");
    assert!(world.state().parts.is_empty(), "{:?}", world.state().parts);
}

#[tokio::test]
async fn a_message_that_waits_behind_another_one_skips_no_tool() {
    let world = World::new(|request| match results_since_user(request) {
        0 => calls(&[("write", "a"), ("write", "b")]),
        _ => says("done"),
    });
    world.state().queued.extend([(None, "later"), (Some(JoinMode::Steer), "stop that")]);
    let outcome = world.attempt(1).await.unwrap();
    world.finish(&outcome);
    assert_eq!(world.state().effects, ["a", "b"]);
}

#[tokio::test]
async fn a_note_is_read_after_the_round_and_breaks_into_nothing() {
    let world = World::new(|request| match request.messages.last() {
        Some(Message::User { .. }) if request.messages.len() == 1 => calls(&[("write", "a"), ("write", "b")]),
        Some(message @ Message::User { .. }) => {
            assert_eq!(message.text(), "the child is done");
            says("heard")
        }
        _ => says("not heard"),
    });
    world.state().queued.push_back((Some(JoinMode::Note), "the child is done"));
    let outcome = world.attempt(1).await.unwrap();
    assert_eq!(world.finish(&outcome), "heard");
    assert_eq!(world.state().effects, ["a", "b"]);
}
