//! A run that may cost so much asks for no longer answers than it can pay, and for none when nothing is left.

use serde_json::Value;
use tidegate_models::{CallOutcome, FailureKind};
use tidegate_testkit::model_server::{Step, Tokens, Turn};

use crate::faces::{self, Face};
use crate::house::{House, question};

/// Where each format says how long an answer may be.
fn limit(face: Face, body: &Value) -> Option<u64> {
    let place = match face.api {
        "anthropic-messages" | "openai-completions" => "/max_tokens",
        "openai-responses" => "/max_output_tokens",
        "google-generative-ai" => "/generationConfig/maxOutputTokens",
        "ollama" => "/options/num_predict",
        "bedrock-converse-stream" => "/inferenceConfig/maxTokens",
        _ => return None,
    };
    body.pointer(place).and_then(Value::as_u64)
}

const CAPPED: [Face; 6] =
    [faces::ANTHROPIC, faces::COMPLETIONS, faces::RESPONSES, faces::GOOGLE, faces::OLLAMA, faces::BEDROCK];

#[tokio::test]
async fn an_answer_is_asked_for_that_the_run_can_pay() {
    for face in CAPPED {
        let house = House::new().await;
        // A token sent is a dollar a million, one said is two: 2 are sent, 1000 can be said.
        let spec = House::paid(&[&face.reference()], 0.002_002);
        house.ask_as(&spec, question("12345678")).await;
        assert_eq!(limit(face, &house.server.last_request().body), Some(1000), "{}", face.api);
    }
}

#[tokio::test]
async fn who_asks_for_less_gets_less_and_who_has_enough_gets_all() {
    for face in CAPPED {
        let house = House::new().await;
        let mut request = question("12345678");
        request.options.max_tokens = Some(77);
        house.ask_as(&House::paid(&[&face.reference()], 0.002_002), request.clone()).await;
        assert_eq!(limit(face, &house.server.last_request().body), Some(77), "{}", face.api);
        request.options.max_tokens = Some(5000);
        house.ask_as(&House::paid(&[&face.reference()], 10.0), request).await;
        assert_eq!(limit(face, &house.server.last_request().body), Some(5000), "{}", face.api);
    }
}

#[tokio::test]
async fn a_run_that_has_spent_all_asks_nobody() {
    let house = House::new().await;
    let spec = House::paid(&["anthropic/claude-sonnet-4-5", "openai/gpt-5.2"], 0.001);
    let tokens = Tokens { input: 100, output: 500, cache_read: 0, cache_write: 0 };
    house.server.push(Turn::say("All of it.").then(Step::Usage(tokens)));
    assert!(house.ask_as(&spec, question("When?")).await.end.is_ok());
    let heard = house.ask_as(&spec, question("When?")).await;
    assert_eq!(heard.failure().kind, FailureKind::CostLimit);
    let message = &heard.failure().message;
    assert!(message.contains("$0.0010") && message.contains("$0.0011 spent"), "{message}");
    assert_eq!(house.asked().len(), 1, "nobody was asked");
    let calls = house.ledger.take();
    assert_eq!((calls.len(), calls[0].outcome), (1, CallOutcome::Answered));
}

#[tokio::test]
async fn a_question_that_alone_costs_too_much_is_not_asked() {
    let house = House::new().await;
    let heard = house
        .ask_as(&House::paid(&["anthropic/claude-sonnet-4-5"], 0.001), question(&"x".repeat(4000)))
        .await;
    assert_eq!((heard.failure().kind, house.asked().len()), (FailureKind::CostLimit, 0));
}

#[tokio::test]
async fn what_a_failed_call_cost_counts() {
    let house = House::with(|config| config["models"]["retries"] = 1.into()).await;
    // The first answer is empty and costs half of what there is.
    let tokens = Tokens { input: 1000, output: 0, cache_read: 0, cache_write: 0 };
    house.server.push(Turn::new([Step::Usage(tokens)]));
    house.ask_as(&House::paid(&["anthropic/claude-sonnet-4-5"], 0.003_005), question("12345678")).await;
    let limits: Vec<_> =
        house.asked().iter().map(|asked| limit(faces::ANTHROPIC, &asked.body).unwrap()).collect();
    assert_eq!(limits, [1501, 1001]);
}
