//! Servers that go silent are given up after the time the configuration gives them, and not much later.

use std::time::{Duration, Instant};

use tidegate_models::{CallOutcome, FailureKind};
use tidegate_testkit::model_server::{Step, Turn};

use crate::faces::{Face, for_every_face};
use crate::heard::Heard;
use crate::house::{House, question, tool_question};

/// The configuration's one second, and room for a slow machine.
const ENOUGH: Duration = Duration::from_secs(5);

for_every_face![
    silence_before_the_status_is_a_timeout,
    silence_after_the_status_is_a_timeout,
    silence_in_the_middle_keeps_the_text,
    silence_inside_a_call_leaves_no_call,
    a_slow_answer_that_keeps_coming_is_waited_for,
];

async fn impatient() -> House {
    House::with(|config| {
        config["models"]["connectTimeoutSeconds"] = 1.into();
        config["models"]["idleTimeoutSeconds"] = 1.into();
        config["models"]["retries"] = 3.into();
    })
    .await
}

async fn timed(face: Face, turn: Turn) -> (House, Heard) {
    let house = impatient().await;
    let begin = Instant::now();
    let heard = house.hear(face, turn, tool_question("When?")).await;
    assert!(begin.elapsed() < ENOUGH, "{:?}", begin.elapsed());
    assert!(begin.elapsed() > Duration::from_millis(900), "{:?}", begin.elapsed());
    assert_eq!(heard.failure().kind, FailureKind::Timeout, "{:?}", heard.failure());
    assert_eq!(house.asked().len(), 1, "it took long enough once");
    (house, heard)
}

async fn silence_before_the_status_is_a_timeout(face: Face) {
    let (house, heard) = timed(face, Turn::new([Step::HalfOpen])).await;
    assert!(heard.origin.is_none());
    let calls = house.ledger.take();
    assert_eq!(calls[0].outcome, CallOutcome::Failed(FailureKind::Timeout));
    assert!(calls[0].estimated && calls[0].usage.input > 0, "whoever is silent may be at work");
}

async fn silence_after_the_status_is_a_timeout(face: Face) {
    let (_, heard) = timed(face, Turn::new([Step::Silence])).await;
    assert!(heard.origin.is_none());
}

async fn silence_in_the_middle_keeps_the_text(face: Face) {
    let (house, heard) = timed(face, Turn::say("The tide rises").then(Step::Silence)).await;
    assert_eq!(heard.text(), "The tide rises");
    house.server.until_dropped(1).await;
}

async fn silence_inside_a_call_leaves_no_call(face: Face) {
    let json = r#"{"place":"Bre"#.into();
    let part = Step::PartOfCall { id: "call_1".into(), name: "tide_at".into(), json };
    let (_, heard) = timed(face, Turn::say("Let me look.").then(part).then(Step::Silence)).await;
    assert_eq!((heard.text().as_str(), heard.calls()), ("Let me look.", Vec::new()));
}

async fn a_slow_answer_that_keeps_coming_is_waited_for(face: Face) {
    let house = impatient().await;
    let pause = || Step::Pause(Duration::from_millis(600));
    let turn = Turn::say("one ").then(pause()).then(Step::Say("two ".into())).then(pause());
    let heard = house.hear(face, turn.then(Step::Say("three".into())), question("Count.")).await;
    assert_eq!(heard.text(), "one two three");
    assert!(heard.end.is_ok(), "{:?}", heard.end);
}

#[tokio::test]
async fn a_run_may_give_one_call_less_time_than_the_configuration() {
    let house = House::new().await;
    let steps: Vec<Step> =
        (0..100).flat_map(|_| [Step::Say("more ".into()), Step::Pause(Duration::from_millis(100))]).collect();
    house.server.push(Turn::new(steps));
    let mut spec = House::spec(&["anthropic/claude-sonnet-4-5"]);
    spec.limits.call_timeout_ms = Some(700);
    let begin = Instant::now();
    let heard = house.ask_as(&spec, question("Go on.")).await;
    assert!(begin.elapsed() < ENOUGH, "{:?}", begin.elapsed());
    assert_eq!(heard.failure().kind, FailureKind::Timeout);
    assert!(heard.text().starts_with("more more "), "{}", heard.text());
}
