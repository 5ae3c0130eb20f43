//! What happens after a failure: the same again, the next model, or the end.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_models::{CallOutcome, FailureKind, Request};
use tidegate_protocol::ThinkingLevel;
use tidegate_testkit::model_server::{Kind, Step, Turn};

use crate::house::{House, question, reference};

const FIRST: &str = "anthropic/claude-sonnet-4-5";
const SECOND: &str = "openai/gpt-5.2";

async fn with_retries(retries: u32) -> House {
    House::with(|config| config["models"]["retries"] = retries.into()).await
}

fn models_asked(house: &House) -> Vec<String> {
    house.asked().iter().map(|request| request.body["model"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn what_passes_is_tried_again_and_then_the_next_model_is_asked() {
    for turn in [
        Turn::refuse(Kind::Server),
        Turn::refuse(Kind::Overloaded),
        Turn::json(529, json!({})),
        Turn::new([Step::Reset]),
        Turn::default(),
    ] {
        let house = with_retries(1).await;
        house.server.always_for("claude-sonnet-4-5", turn.clone());
        house.server.push_for("gpt-5.2", Turn::say("High at noon."));
        let begin = Instant::now();
        let heard = house.ask(&[FIRST, SECOND], question("When?")).await;
        assert!(begin.elapsed() >= Duration::from_millis(500), "a pause before the repetition");
        assert_eq!(heard.text(), "High at noon.", "{turn:?}");
        assert_eq!(models_asked(&house), ["claude-sonnet-4-5", "claude-sonnet-4-5", "gpt-5.2"], "{turn:?}");
        assert_eq!(heard.switched.len(), 1, "{turn:?}");
        let (from, profile, failure) = &heard.switched[0];
        assert_eq!((from, profile.as_deref()), (&reference(FIRST), Some("anthropic/config")));
        assert!(
            matches!(failure.kind, FailureKind::Broken | FailureKind::Overloaded | FailureKind::Empty),
            "{failure:?}"
        );
        assert_eq!(heard.origin.unwrap().provider, "openai");
        assert_eq!(house.ledger.take().len(), 3, "every call is in the ledger");
    }
}

#[tokio::test]
async fn a_repetition_that_succeeds_needs_nobody_else() {
    let house = with_retries(1).await;
    house.server.push(Turn::refuse(Kind::Server)).push(Turn::say("High at noon."));
    let heard = house.ask(&[FIRST, SECOND], question("When?")).await;
    assert_eq!((heard.text().as_str(), heard.switched.len()), ("High at noon.", 0));
    let outcomes: Vec<_> = house.ledger.take().iter().map(|call| call.outcome).collect();
    assert_eq!(outcomes, [CallOutcome::Failed(FailureKind::Broken), CallOutcome::Answered]);
}

#[tokio::test]
async fn what_we_sent_wrong_is_sent_to_nobody_else() {
    for (kind, expected) in
        [(Kind::BadRequest, FailureKind::Format), (Kind::TooLong, FailureKind::ContextOverflow)]
    {
        let house = with_retries(3).await;
        house.server.always_for("claude-sonnet-4-5", Turn::refuse(kind));
        let heard = house.ask(&[FIRST, SECOND], question("When?")).await;
        assert_eq!(heard.failure().kind, expected);
        assert_eq!(house.asked().len(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn a_model_that_is_silent_or_unknown_is_left_for_the_next_without_repetition() {
    for turn in [Turn::new([Step::HalfOpen]), Turn::new([Step::Silence]), Turn::refuse(Kind::NoSuchModel)] {
        let house = House::with(|config| {
            config["models"]["retries"] = 3.into();
            config["models"]["connectTimeoutSeconds"] = 1.into();
            config["models"]["idleTimeoutSeconds"] = 1.into();
        })
        .await;
        house.server.push_for("claude-sonnet-4-5", turn);
        let heard = house.ask(&[FIRST, SECOND], question("When?")).await;
        assert_eq!(heard.text(), "You said: When?");
        assert_eq!(models_asked(&house), ["claude-sonnet-4-5", "gpt-5.2"]);
    }
}

#[tokio::test]
async fn nothing_is_tried_again_once_a_word_was_shown() {
    for broken in [Step::Reset, Step::ErrorInside(Kind::Overloaded), Step::ErrorInside(Kind::RateLimit)] {
        let house = with_retries(3).await;
        house.store_key("anthropic/other", "key-two");
        house.server.push(Turn::say("The tide").then(broken.clone()));
        let heard = house.ask(&[FIRST, SECOND], question("When?")).await;
        assert_eq!(heard.text(), "The tide");
        assert!(heard.end.is_err() && heard.switched.is_empty());
        assert_eq!(house.asked().len(), 1, "{broken:?}");
    }
}

#[tokio::test]
async fn a_thought_counts_as_shown() {
    let house = with_retries(3).await;
    let think = Step::Think { text: "They ask".into(), signature: "c2ln".into() };
    house.server.push(Turn::new([think, Step::Reset]));
    let heard = house.ask(&[FIRST, SECOND], question("When?")).await;
    assert_eq!((heard.thinking().as_str(), house.asked().len()), ("They ask", 1));
}

#[tokio::test]
async fn when_everything_fails_one_word_names_every_try() {
    let house = House::new().await;
    house.store_key("anthropic/other", "key-two");
    house.server.always_for("claude-sonnet-4-5", Turn::json(401, json!({"error": {"message": "a bad key"}})));
    house.server.always_for("gpt-5.2", Turn::json(500, json!({"error": {"message": "a bad day"}})));
    let heard = house.ask(&[FIRST, SECOND], question("When?")).await;
    let message = &heard.failure().message;
    assert_eq!(message.matches("anthropic/claude-sonnet-4-5: a bad key").count(), 2, "{message}");
    assert!(message.contains("openai/gpt-5.2: a bad day") && message.contains("3 tries"), "{message}");
    assert_eq!(heard.failure().kind, FailureKind::Broken, "the last one's class");
    let switched: Vec<_> = heard.switched.iter().map(|(_, profile, _)| profile.clone().unwrap()).collect();
    assert_eq!(switched, ["anthropic/other", "anthropic/config"]);
}

#[tokio::test]
async fn one_try_that_fails_is_told_in_the_vendors_own_words() {
    let house = House::new().await;
    house.server.push(Turn::json(500, json!({"error": {"message": "a bad day"}})));
    let heard = house.ask(&[FIRST], question("When?")).await;
    assert_eq!(heard.failure().message, "anthropic/claude-sonnet-4-5: a bad day");
    assert!(heard.switched.is_empty(), "there was nobody to switch to");
}

#[tokio::test]
async fn a_short_wait_is_waited_out_and_a_long_one_is_not() {
    let house = with_retries(2).await;
    house.store_key("anthropic/other", "key-two");
    house.server.push(Turn::refuse_for(Kind::RateLimit, 1));
    let begin = Instant::now();
    let heard = house.ask(&[FIRST], question("When?")).await;
    assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
    assert!(heard.end.is_ok() && heard.switched.is_empty());
    assert_eq!(heard.origin.unwrap().profile_id.as_deref(), Some("anthropic/other"));

    house.server.push(Turn::refuse_for(Kind::RateLimit, 60));
    let begin = Instant::now();
    let heard = house.ask(&[FIRST], question("When?")).await;
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert_eq!(heard.switched.len(), 1);
    assert_eq!(heard.origin.unwrap().profile_id.as_deref(), Some("anthropic/config"));
}

#[tokio::test]
async fn a_level_the_model_refuses_is_replaced_by_one_it_names() {
    let house = House::new().await;
    let words = "Unsupported value: 'high' is not supported with this model. Supported values are: 'low', and 'medium'.";
    let refusal = json!({"error": {
        "message": words, "type": "invalid_request_error", "param": "reasoning.effort", "code": "unsupported_value",
    }});
    house.server.push(Turn::json(400, refusal.clone()));
    let mut request: Request = question("When?");
    request.options.thinking = ThinkingLevel::High;
    let heard = house.ask(&[SECOND], request.clone()).await;
    assert!(heard.end.is_ok(), "{:?}", heard.end);
    let efforts: Vec<Value> =
        house.asked().iter().map(|asked| asked.body["reasoning"]["effort"].clone()).collect();
    assert_eq!(efforts, ["high", "low"]);

    house.server.push(Turn::json(400, refusal.clone())).push(Turn::json(400, refusal));
    let heard = house.ask(&[SECOND], request).await;
    assert_eq!(heard.failure().kind, FailureKind::Format, "once is enough");
    assert_eq!(house.asked().len(), 4);
}

#[tokio::test]
async fn a_provider_without_a_credential_gives_way_to_the_next() {
    let house = House::new().await;
    let heard = house.ask(&["groq/llama-3.3-70b-versatile", FIRST], question("When?")).await;
    assert_eq!(heard.text(), "You said: When?");
    assert_eq!((heard.switched[0].1.clone(), heard.switched[0].2.kind), (None, FailureKind::Auth));
}
