//! What an answer holds, whichever format it came in.

use std::collections::BTreeSet;

use serde_json::json;
use tidegate_models::{BlockKind, CallOutcome, FailureKind, ModelEvent};
use tidegate_protocol::{Origin, StopReason, Usage};
use tidegate_testkit::model_server::{Step, Stop, Tokens, Turn};

use crate::faces::{Face, for_every_face};
use crate::house::{House, question, tool_question};

const WORDS: &str = "The tide rises, 潮が満ちる, 🌊 naïvely, and falls.";

for_every_face![
    a_text_arrives_whole_and_says_who_answered,
    a_text_cut_at_every_byte_is_the_same_text,
    a_tool_call_arrives_in_pieces_and_whole,
    two_calls_after_text_keep_their_order,
    a_call_without_arguments_has_an_empty_object,
    tokens_are_counted_once_and_priced,
    an_answer_that_reaches_its_limit_says_so,
    a_declined_answer_is_a_refusal,
    an_answer_without_a_word_is_a_failure,
    a_thought_comes_before_the_words,
];

fn call(id: &str, name: &str, arguments: serde_json::Value) -> Step {
    Step::Call { id: id.into(), name: name.into(), arguments }
}

async fn a_text_arrives_whole_and_says_who_answered(face: Face) {
    let house = House::new().await;
    let heard = house.hear(face, Turn::say(WORDS), question("Tell me of the tide.")).await;
    assert_eq!(heard.text(), WORDS);
    assert_eq!(heard.begun, [BlockKind::Text]);
    assert_eq!(heard.end, Ok(StopReason::Stop));
    assert!(heard.switched.is_empty());
    let pieces = heard.events.iter().filter(|event| matches!(event, ModelEvent::TextDelta { .. })).count();
    assert!(pieces > 1, "the words come as they are said");
    let expected = Origin {
        api: face.api.into(),
        provider: face.provider.into(),
        model: face.model.into(),
        profile_id: Some(face.profile.into()),
        route: face.provider.into(),
        stage: format!("adapter.{}.{}", face.api, face.profile),
    };
    assert_eq!(heard.origin, Some(expected));
}

async fn a_text_cut_at_every_byte_is_the_same_text(face: Face) {
    let house = House::new().await;
    let turn = Turn::say(WORDS).then(call("call_1", "tide_at", json!({"place": "Île-de-Bréhat 潮"})));
    let heard = house.hear(face, turn.then(Step::SplitEvery(1)), tool_question("When?")).await;
    assert_eq!(heard.text(), WORDS);
    assert_eq!(heard.calls(), [("tide_at".into(), json!({"place": "Île-de-Bréhat 潮"}))]);
    assert_eq!(heard.end, Ok(StopReason::ToolUse));
}

async fn a_tool_call_arrives_in_pieces_and_whole(face: Face) {
    let house = House::new().await;
    let arguments = json!({"place": "Brest", "days": [1, 2], "units": {"height": "m"}});
    let turn = Turn::call("call_1", "tide_at", arguments.clone());
    let heard = house.hear(face, turn, tool_question("When?")).await;
    assert_eq!(heard.calls(), [("tide_at".into(), arguments)]);
    assert_eq!(heard.call_ids(), [face.call_ids[0]]);
    assert_eq!(heard.end, Ok(StopReason::ToolUse));
    let is_piece = |event: &&ModelEvent| matches!(event, ModelEvent::ArgumentsDelta { .. });
    let pieces = heard.events.iter().filter(is_piece).count();
    assert!(if face.pieces { pieces > 1 } else { pieces == 1 }, "{pieces} pieces");
}

async fn two_calls_after_text_keep_their_order(face: Face) {
    let house = House::new().await;
    let turn = Turn::say("Let me look.")
        .then(call("call_1", "tide_at", json!({"place": "Brest"})))
        .then(call("call_2", "now", json!({"zone": "UTC"})));
    let heard = house.hear(face, turn, tool_question("When?")).await;
    assert_eq!(heard.text(), "Let me look.");
    let calls = [("tide_at".into(), json!({"place": "Brest"})), ("now".into(), json!({"zone": "UTC"}))];
    assert_eq!(heard.calls(), calls);
    assert!(matches!(heard.begun[0], BlockKind::Text));
    let ids: BTreeSet<String> = heard.call_ids().into_iter().collect();
    assert_eq!(ids.len(), 2, "each call has an id of its own");
    assert_eq!(heard.end, Ok(StopReason::ToolUse));
}

async fn a_call_without_arguments_has_an_empty_object(face: Face) {
    let house = House::new().await;
    let heard = house.hear(face, Turn::call("call_1", "now", json!({})), tool_question("When?")).await;
    assert_eq!(heard.calls(), [("now".into(), json!({}))]);
}

async fn tokens_are_counted_once_and_priced(face: Face) {
    let house = House::new().await;
    let tokens = Tokens { input: 1000, output: 200, cache_read: 300, cache_write: 50 };
    let heard = house.hear(face, Turn::say("Noon.").then(Step::Usage(tokens)), question("When?")).await;
    // What a provider does not tell apart is in what was sent.
    let (cache_read, cache_write) = (if face.cache[0] { 300 } else { 0 }, if face.cache[1] { 50 } else { 0 });
    let input = 1350 - cache_read - cache_write;
    // A token sent is a dollar a million, one said two, one read from the cache half of one, one written to it four.
    let millionths = input + 2 * 200 + cache_read / 2 + 4 * cache_write;
    let dollars = f64::from(u32::try_from(millionths).unwrap()) / 1e6;
    let cost = tidegate_protocol::Cost::from_usd(dollars);
    let expected = Usage { input, output: 200, cache_read, cache_write, cost };
    assert_eq!(heard.usage, Some(expected));
    let calls = house.ledger.take();
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (calls[0].usage, calls[0].estimated, calls[0].outcome),
        (expected, false, CallOutcome::Answered)
    );
    assert_eq!(calls[0].profile_id.as_deref(), Some(face.profile));
}

async fn an_answer_that_reaches_its_limit_says_so(face: Face) {
    let house = House::new().await;
    let heard =
        house.hear(face, Turn::say("And then").then(Step::Stop(Stop::Length)), question("Go on.")).await;
    assert_eq!((heard.text().as_str(), heard.end), ("And then", Ok(StopReason::Length)));
}

async fn a_declined_answer_is_a_refusal(face: Face) {
    let house = House::new().await;
    let heard = house.hear(face, Turn::say("I ca").then(Step::Stop(Stop::Refused)), question("Do it.")).await;
    assert_eq!(heard.text(), "I ca", "what was said stays");
    if face.refuses {
        assert_eq!(heard.failure().kind, FailureKind::Refused);
    } else {
        assert_eq!(heard.end, Ok(StopReason::Stop));
    }
}

async fn an_answer_without_a_word_is_a_failure(face: Face) {
    let house = House::new().await;
    let heard = house.hear(face, Turn::default(), question("Hello?")).await;
    assert_eq!(heard.failure().kind, FailureKind::Empty);
    assert!(heard.begun.is_empty());
    let calls = house.ledger.take();
    assert_eq!(calls[0].outcome, CallOutcome::Failed(FailureKind::Empty));
    assert!(calls[0].usage.input > 0, "it was paid for");
}

async fn a_thought_comes_before_the_words(face: Face) {
    let house = House::new().await;
    let think = Step::Think { text: "They ask about 潮, and I know.".into(), signature: "c2lnbmVk".into() };
    let turn = Turn::new([think, Step::Say("High at noon.".into())]);
    let heard = house.hear(face, turn, question("When?")).await;
    assert_eq!(heard.thinking(), "They ask about 潮, and I know.");
    assert_eq!(heard.text(), "High at noon.");
    assert_eq!(heard.begun, [BlockKind::Thinking, BlockKind::Text]);
    assert_eq!(heard.end, Ok(StopReason::Stop));
}
