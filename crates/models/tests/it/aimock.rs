//! The same basic promises against a mock of the vendors that is not ours (`scripts/sdk/aimock.mjs`, started by
//! `scripts/test.sh`): what reads both was not fitted to one of them.

use serde_json::json;
use tidegate_models::{FailureKind, Purpose, Request};
use tidegate_protocol::StopReason;
use tidegate_testkit::skip::skip_loudly;

use crate::faces::{self, Face};
use crate::house::{House, agent, question, reference, result_of, tool_question};

const FACES: [Face; 7] = [
    faces::ANTHROPIC,
    faces::COMPLETIONS,
    faces::RESPONSES,
    faces::CODEX,
    faces::GOOGLE,
    faces::OLLAMA,
    faces::BEDROCK,
];

/// A house whose providers are the other mock, if it runs.
async fn at_aimock() -> Option<House> {
    let Ok(url) = std::env::var("TIDEGATE_AIMOCK") else {
        skip_loudly("TIDEGATE_AIMOCK names no address; scripts/test.sh starts the mock where npm is");
        return None;
    };
    let house = House::with(|config| {
        for face in FACES {
            let prefix = if face.api == "openai-completions" { "/v1" } else { face.prefix };
            config["models"]["providers"][face.provider]["baseUrl"] = format!("{url}{prefix}").into();
        }
    });
    Some(house.await)
}

#[tokio::test]
async fn text_is_read_in_every_format() {
    let Some(house) = at_aimock().await else { return };
    for face in FACES {
        let heard = house.ask(&[&face.reference()], question("Hello.")).await;
        assert_eq!(heard.text(), "Hello from the other mock.", "{}: {:?}", face.api, heard.end);
        assert_eq!(heard.end, Ok(StopReason::Stop), "{}", face.api);
    }
}

#[tokio::test]
async fn a_call_is_read_and_its_result_is_understood_in_every_format() {
    let Some(house) = at_aimock().await else { return };
    for face in FACES {
        let request = tool_question("Please call a tool.");
        let heard = house.ask(&[&face.reference()], request.clone()).await;
        assert_eq!(
            heard.calls(),
            [("tide_at".into(), json!({"place": "Brest"}))],
            "{}: {:?}",
            face.api,
            heard.end
        );
        if face.api == faces::GOOGLE.api {
            // The mock ends Google's calls for a reason that Google does not have.
            continue;
        }
        assert_eq!(heard.end, Ok(StopReason::ToolUse), "{}", face.api);
        let mut messages = request.messages.clone();
        messages.extend([heard.message(), result_of(&heard.call_ids()[0], "tide_at", "High at noon.")]);
        let heard = house.ask(&[&face.reference()], Request { messages, ..request }).await;
        assert_eq!(heard.text(), "The tide is high at noon.", "{}: {:?}", face.api, heard.end);
    }
}

#[tokio::test]
async fn a_refusal_is_read_in_every_format() {
    let Some(house) = at_aimock().await else { return };
    for face in FACES {
        let heard = house.ask(&[&face.reference()], question("I want to be refused.")).await;
        assert_eq!(heard.failure().kind, FailureKind::RateLimit, "{}: {:?}", face.api, heard.failure());
    }
}

#[tokio::test]
async fn vectors_are_read() {
    let Some(house) = at_aimock().await else { return };
    let texts = ["high tide".to_owned(), "low tide".to_owned()];
    let model = reference("openai/a-small-embedding");
    let embedded =
        house.registry.embed(&agent(), &model, &texts, Purpose::Stored, &house.ledger).await.unwrap();
    assert_eq!(embedded.vectors, vec![vec![0.5, -0.25, 0.125, 0.0]; 2]);
}
