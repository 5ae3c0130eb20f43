//! Servers that repeat themselves, mix up their order, or send noise: never a panic, never a doubled call, and an end.

use serde_json::json;
use tidegate_models::FailureKind;
use tidegate_protocol::StopReason;
use tidegate_testkit::model_server::{Step, Turn};

use crate::faces::{Face, for_every_face};
use crate::heard::Heard;
use crate::house::{House, LONG, tool_question};

for_every_face![
    a_server_that_says_everything_twice_makes_no_panic,
    a_server_that_mixes_up_its_order_makes_no_panic,
    noise_between_events_is_passed_over_or_fails,
    a_model_that_wrote_no_json_is_shown_as_it_wrote,
];

fn talk() -> Turn {
    Turn::say("Let me look at the tide.").then(Step::Call {
        id: "call_1".into(),
        name: "tide_at".into(),
        arguments: json!({"place": "Brest", "days": [1, 2, 3]}),
    })
}

async fn disordered(face: Face, turn: Turn) -> Heard {
    let house = House::new().await;
    house.server.push_for(face.model, turn);
    let stream = house.open(&House::spec(&[&face.reference()])).stream(tool_question("When?"));
    tokio::time::timeout(LONG, Heard::read_disordered(stream)).await.expect("an end")
}

/// Either the call is the one that was meant, or the answer failed, or its arguments are no object and no tool takes them.
fn no_other_call(heard: &Heard) {
    for (name, arguments) in heard.calls() {
        assert_eq!(name, "tide_at");
        let meant = arguments == json!({"place": "Brest", "days": [1, 2, 3]});
        assert!(meant || !arguments.is_object() || heard.end.is_err(), "{arguments}");
    }
}

async fn a_server_that_says_everything_twice_makes_no_panic(face: Face) {
    let heard = disordered(face, talk().then(Step::Duplicate)).await;
    no_other_call(&heard);
    let ids = heard.call_ids();
    assert!(ids.iter().enumerate().all(|(at, id)| !ids[..at].contains(id)), "one id for two calls: {ids:?}");
}

async fn a_server_that_mixes_up_its_order_makes_no_panic(face: Face) {
    let heard = disordered(face, talk().then(Step::OutOfOrder)).await;
    no_other_call(&heard);
    assert!(heard.calls().len() <= 1, "{:?}", heard.calls());
}

async fn noise_between_events_is_passed_over_or_fails(face: Face) {
    let comment = Step::Raw(b": keep-alive\n\n".to_vec());
    let turn = Turn::say("The tide").then(comment).then(Step::Say(" rises.".into()));
    let heard = disordered(face, turn).await;
    let is_sse = !matches!(face.api, "ollama" | "bedrock-converse-stream");
    if is_sse {
        assert_eq!(
            (heard.text().as_str(), heard.end.is_ok()),
            ("The tide rises.", true),
            "comments are no events"
        );
    } else {
        assert_eq!((heard.text().as_str(), heard.failure().kind), ("The tide", FailureKind::Broken));
    }
    let garbage = Step::Raw(b"data: {\"type\": \"\x00\xff\n\nevent: \xfe\n\n".to_vec());
    let heard = disordered(face, Turn::say("The tide").then(garbage).then(Step::Say(" rises.".into()))).await;
    assert!(heard.text().starts_with("The tide"), "{}", heard.text());
}

async fn a_model_that_wrote_no_json_is_shown_as_it_wrote(face: Face) {
    let part =
        Step::PartOfCall { id: "call_1".into(), name: "tide_at".into(), json: r#"{"place": Brest}"#.into() };
    let heard = disordered(face, Turn::new([part])).await;
    // Those who send objects only have read what their model wrote, and send what they could read of it.
    let written = if face.pieces { json!(r#"{"place": Brest}"#) } else { json!({}) };
    assert_eq!(heard.calls(), [("tide_at".into(), written)]);
    assert_eq!(heard.end, Ok(StopReason::ToolUse));
}
