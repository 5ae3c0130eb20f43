//! Connections that break, close or end too soon: what was said stays, and half a tool call is never a call.

use std::time::Duration;

use serde_json::json;
use tidegate_models::{BlockKind, CallOutcome, FailureKind};
use tidegate_protocol::StopReason;
use tidegate_testkit::model_server::{Step, Stop, Turn};

use crate::faces::{Face, for_every_face};
use crate::house::{House, question, tool_question};

for_every_face![
    a_call_cut_off_in_its_arguments_is_never_run,
    text_before_a_break_is_kept_once,
    a_break_before_any_word_is_a_failure_without_a_start,
    a_whole_call_before_a_break_has_its_end,
    a_call_that_reached_the_limit_is_not_run,
    a_connection_that_is_refused_is_broken,
];

fn breaks() -> [Step; 3] {
    [Step::Reset, Step::Close, Step::End]
}

fn half_a_call() -> Step {
    Step::PartOfCall { id: "call_1".into(), name: "tide_at".into(), json: r#"{"place":"Bre"#.into() }
}

async fn a_call_cut_off_in_its_arguments_is_never_run(face: Face) {
    for broken in breaks() {
        let house = House::new().await;
        let turn = Turn::say("Let me look.").then(half_a_call()).then(broken.clone());
        let heard = house.hear(face, turn, tool_question("When?")).await;
        assert_eq!(heard.text(), "Let me look.", "{broken:?}");
        assert_eq!(heard.calls(), [], "{broken:?}: a call that was cut off");
        assert_eq!(heard.failure().kind, FailureKind::Broken, "{broken:?}: {:?}", heard.failure());
        if face.pieces {
            assert!(matches!(heard.begun.last(), Some(BlockKind::ToolCall { .. })), "{broken:?}");
        }
    }
}

async fn text_before_a_break_is_kept_once(face: Face) {
    for broken in breaks() {
        let house = House::with(|config| config["models"]["retries"] = 3.into()).await;
        let turn = Turn::say("The tide rises and then it").then(broken.clone());
        let heard = house.hear(face, turn, question("When?")).await;
        assert_eq!(heard.text(), "The tide rises and then it", "{broken:?}");
        assert_eq!(heard.failure().kind, FailureKind::Broken, "{broken:?}: {:?}", heard.failure());
        assert_eq!(house.asked().len(), 1, "{broken:?}: what was shown is not asked for again");
        let calls = house.ledger.take();
        assert_eq!(calls[0].outcome, CallOutcome::Failed(FailureKind::Broken));
        assert!(calls[0].usage.output > 0, "what was said was paid for");
    }
}

async fn a_break_before_any_word_is_a_failure_without_a_start(face: Face) {
    for broken in breaks() {
        let house = House::new().await;
        let heard = house.hear(face, Turn::new([broken.clone()]), question("When?")).await;
        assert_eq!(heard.failure().kind, FailureKind::Broken, "{broken:?}: {:?}", heard.failure());
        assert!(heard.origin.is_none() && heard.begun.is_empty(), "{broken:?}");
    }
}

async fn a_whole_call_before_a_break_has_its_end(face: Face) {
    let house = House::new().await;
    let turn =
        Turn::call("call_1", "tide_at", json!({"place": "Brest"})).then(half_second_call()).then(Step::Reset);
    let heard = house.hear(face, turn, tool_question("When?")).await;
    // Some vendors say where a call ends, with others only the next block shows it; none may end the second.
    assert!(heard.calls().len() <= 1, "{:?}", heard.calls());
    for (name, arguments) in heard.calls() {
        assert_eq!((name.as_str(), arguments), ("tide_at", json!({"place": "Brest"})));
    }
    assert_eq!(heard.failure().kind, FailureKind::Broken);
}

fn half_second_call() -> Step {
    Step::PartOfCall { id: "call_2".into(), name: "now".into(), json: r#"{"zone":"U"#.into() }
}

async fn a_call_that_reached_the_limit_is_not_run(face: Face) {
    let house = House::new().await;
    // Who sends calls in one piece sends none that is cut: there it is the words that reached the limit.
    let call = if face.pieces { half_a_call() } else { Step::Pause(Duration::ZERO) };
    let turn = Turn::say("Let me look.").then(call).then(Step::Stop(Stop::Length));
    let heard = house.hear(face, turn, tool_question("When?")).await;
    assert_eq!((heard.text().as_str(), heard.calls()), ("Let me look.", Vec::new()));
    assert_eq!(heard.end, Ok(StopReason::Length));
    // A call that is whole is one, also when the limit came after it.
    let turn = Turn::call("call_1", "tide_at", json!({"place": "Brest"})).then(Step::Stop(Stop::Length));
    let heard = house.hear(face, turn, tool_question("When?")).await;
    assert_eq!(heard.calls(), [("tide_at".into(), json!({"place": "Brest"}))]);
}

async fn a_connection_that_is_refused_is_broken(face: Face) {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}{}", nobody.local_addr().unwrap(), face.prefix);
    drop(nobody);
    let dead = |config: &mut serde_json::Value| {
        config["models"]["providers"][face.provider]["baseUrl"] = address.clone().into();
        config["auth"]["clients"]["github-copilot"]["exchangeUrl"] = address.clone().into();
    };
    let house = House::with(dead).await;
    let heard = house.ask(&[&face.reference()], question("Hello?")).await;
    assert!(heard.begun.is_empty());
    assert_eq!(heard.failure().kind, FailureKind::Broken, "{:?}", heard.failure());
}

#[tokio::test]
async fn a_name_that_nobody_knows_is_broken_and_says_the_name() {
    let house = House::with(|config| {
        config["models"]["providers"]["anthropic"]["baseUrl"] = "http://no-such-host.invalid".into();
    })
    .await;
    let heard = house.ask(&["anthropic/claude-sonnet-4-5"], question("Hello?")).await;
    assert_eq!(heard.failure().kind, FailureKind::Broken, "{:?}", heard.failure());
    assert!(heard.failure().message.contains("no-such-host.invalid"), "{}", heard.failure().message);
}
