//! A conversation that one model began goes on with any other: what the next vendor refuses is not in it.

use std::collections::HashSet;

use serde_json::{Value, json};
use tidegate_models::Request;
use tidegate_protocol::{Block, Message, StopReason};
use tidegate_testkit::model_server::{Step, Turn};

use crate::faces::{self, Face, for_every_face};
use crate::house::{House, result_of, tool_question, user};

const PROOF: &str = "cHJvb2Y=";

for_every_face![a_conversation_of_any_other_model_goes_on];

/// Asks this model three times: for calls that are answered, for one that is cut off, and for one that nobody answers.
async fn begin(house: &House, face: Face) -> Vec<Message> {
    let ask = |messages: Vec<Message>| Request { messages, ..tool_question("") };
    let image = Block::Image { data: "AAAA".into(), mime_type: "image/png".into() };
    let seen =
        Message::User { content: vec![Block::text("When is it high here?"), image.clone()], timestamp: 1 };
    let mut said = vec![seen];
    let call =
        |id: &str, name: &str, arguments: Value| Step::Call { id: id.into(), name: name.into(), arguments };
    let turn = Turn::new([
        Step::Think { text: "They ask about the tide.".into(), signature: PROOF.into() },
        Step::Say("Let me look.".into()),
        call("call_1", "tide_at", json!({"place": "Brest"})),
        call("call_2", "now", json!({})),
    ]);
    let heard = house.hear(face, turn, ask(said.clone())).await;
    assert_eq!(heard.end, Ok(StopReason::ToolUse));
    let ids = heard.call_ids();
    let mut pictured = result_of(&ids[1], "now", "A clock:");
    if let Message::ToolResult { content, .. } = &mut pictured {
        content.push(image);
    }
    said.extend([heard.message(), result_of(&ids[0], "tide_at", "High at noon."), pictured]);

    let part = Step::PartOfCall { id: "call_3".into(), name: "now".into(), json: r#"{"zo"#.into() };
    let heard =
        house.hear(face, Turn::say("I look ag").then(part).then(Step::Reset), ask(said.clone())).await;
    assert!(heard.end.is_err());
    said.extend([heard.message(), user("You were interrupted. Once more?")]);

    let turn = Turn::say("Yes.").then(call("call_4", "tide_at", json!({"place": "Dover"})));
    let heard = house.hear(face, turn, ask(said.clone())).await;
    assert_eq!(heard.end, Ok(StopReason::ToolUse));
    said.extend([heard.message(), user("Never mind. Just tell me.")]);
    said
}

async fn a_conversation_of_any_other_model_goes_on(target: Face) {
    for source in faces::ALL {
        let house = House::new().await;
        let messages = begin(&house, source).await;
        let heard = house.ask(&[&target.reference()], Request { messages, ..tool_question("") }).await;
        assert_eq!(
            heard.text(),
            "You said: Never mind. Just tell me.",
            "{} to {}",
            source.model,
            target.model
        );
        let body = house.server.last_request().body;
        let same = source.reference() == target.reference();
        match target.api {
            "anthropic-messages" => anthropic(&body, same),
            "bedrock-converse-stream" => bedrock(&body, same),
            "google-generative-ai" => google(&body, same),
            "openai-completions" => completions(&body),
            "ollama" => ollama(&body),
            _ => responses(&body, same),
        }
        let text = body.to_string();
        for words in [
            "When is it high here?",
            "Let me look.",
            "High at noon.",
            "A clock:",
            "Once more?",
            "Yes.",
            "Dover",
        ] {
            assert!(text.contains(words), "{words:?} is lost from {} to {}", source.model, target.model);
        }
        assert_eq!(text.matches("AAAA").count(), 2, "both images are there");
        assert!(!text.contains("I look ag"), "what was cut off is no example to follow");
        assert_eq!(
            text.contains(PROOF),
            same && target.thoughts_go_back(),
            "a proof is its own model's only"
        );
    }
}

impl Face {
    fn thoughts_go_back(&self) -> bool {
        self.thoughts != faces::Thoughts::Open
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// Turns alternate, a person begins and asks last.
fn alternates(turns: &[Value], other: &str) {
    for (at, turn) in turns.iter().enumerate() {
        let expected = if at % 2 == 0 { "user" } else { other };
        assert_eq!(turn["role"], expected, "turn {at} of {turns:#?}");
    }
    assert_eq!(turns.len() % 2, 1, "the person asks last");
}

fn is_safe(id: &str, most: usize) -> bool {
    let safe = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=most).contains(&id.len()) && id.chars().all(safe)
}

fn ids_are_good(ids: &[String], most: usize) {
    assert_eq!(ids.len(), 3, "two calls that were answered and one that was not: {ids:?}");
    assert!(ids.iter().all(|id| is_safe(id, most)), "{ids:?}");
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "{ids:?}");
}

/// Each turn's calls are answered at the beginning of the next, in their order.
fn anthropic(body: &Value, same: bool) {
    let turns = list(&body["messages"]);
    alternates(&turns, "assistant");
    let ids = |turn: &Value, kind: &str, field: &str| -> Vec<String> {
        let blocks = list(&turn["content"]).into_iter().filter(|block| block["type"] == kind);
        blocks.map(|block| block[field].as_str().unwrap().to_owned()).collect()
    };
    let mut all = Vec::new();
    for pair in turns.windows(2).filter(|pair| pair[0]["role"] == "assistant") {
        let calls = ids(&pair[0], "tool_use", "id");
        assert_eq!(calls, ids(&pair[1], "tool_result", "tool_use_id"));
        let first: Vec<_> = list(&pair[1]["content"]).into_iter().take(calls.len()).collect();
        assert!(first.iter().all(|block| block["type"] == "tool_result"), "results come first: {first:?}");
        all.extend(calls);
    }
    ids_are_good(&all, 64);
    let thoughts = body.to_string().matches("\"type\":\"thinking\"").count();
    assert_eq!(thoughts, usize::from(same), "thoughts with a proof only");
}

fn bedrock(body: &Value, same: bool) {
    let turns = list(&body["messages"]);
    alternates(&turns, "assistant");
    let ids = |turn: &Value, kind: &str| -> Vec<String> {
        let blocks = list(&turn["content"]).into_iter();
        blocks.filter_map(|block| Some(block.get(kind)?["toolUseId"].as_str()?.to_owned())).collect()
    };
    let mut all = Vec::new();
    for pair in turns.windows(2).filter(|pair| pair[0]["role"] == "assistant") {
        let calls = ids(&pair[0], "toolUse");
        assert_eq!(calls, ids(&pair[1], "toolResult"));
        all.extend(calls);
    }
    ids_are_good(&all, 64);
    assert_eq!(body.to_string().contains("reasoningContent"), same);
}

fn google(body: &Value, same: bool) {
    let turns = list(&body["contents"]);
    alternates(&turns, "model");
    let names = |turn: &Value, kind: &str| -> Vec<String> {
        let parts = list(&turn["parts"]).into_iter();
        parts.filter_map(|part| Some(part.get(kind)?["name"].as_str()?.to_owned())).collect()
    };
    let mut calls = 0;
    for pair in turns.windows(2).filter(|pair| pair[0]["role"] == "model") {
        let called = names(&pair[0], "functionCall");
        assert_eq!(called, names(&pair[1], "functionResponse"));
        calls += called.len();
    }
    assert_eq!(calls, 3);
    assert_eq!(body.to_string().contains("thoughtSignature"), same);
}

/// Each call is answered directly behind its message.
fn completions(body: &Value) {
    let messages = list(&body["messages"]);
    let mut all = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let calls: Vec<_> = list(&message["tool_calls"]).iter().map(|call| call["id"].clone()).collect();
        let results: Vec<_> =
            messages[at + 1..].iter().take_while(|message| message["role"] == "tool").collect();
        if message["role"] == "assistant" {
            let answered: Vec<_> = results.iter().map(|result| result["tool_call_id"].clone()).collect();
            assert_eq!(calls, answered, "{messages:#?}");
        }
        all.extend(calls.iter().map(|id| id.as_str().unwrap().to_owned()));
    }
    ids_are_good(&all, 40);
    assert_eq!(messages.last().unwrap()["role"], "user");
}

fn ollama(body: &Value) {
    let messages = list(&body["messages"]);
    let mut calls = 0;
    for (at, message) in messages.iter().enumerate().filter(|(_, message)| message["role"] == "assistant") {
        let called: Vec<_> =
            list(&message["tool_calls"]).iter().map(|call| call["function"]["name"].clone()).collect();
        calls += called.len();
        // Pictures of a result are shown by the person, behind it.
        let until_next = messages[at + 1..].iter().take_while(|message| message["role"] != "assistant");
        let answered: Vec<_> = until_next
            .filter(|message| message["role"] == "tool")
            .map(|result| result["tool_name"].clone())
            .collect();
        assert_eq!(called, answered, "{messages:#?}");
    }
    assert_eq!(calls, 3);
}

fn responses(body: &Value, same: bool) {
    let items = list(&body["input"]);
    let ids = |kind: &str| -> Vec<String> {
        let of_kind = items.iter().filter(|item| item["type"] == kind);
        of_kind.map(|item| item["call_id"].as_str().unwrap().to_owned()).collect()
    };
    let calls = ids("function_call");
    ids_are_good(&calls, 64);
    assert_eq!(calls, ids("function_call_output"), "each call has its output");
    for (at, item) in items.iter().enumerate() {
        let named = item["type"] == "function_call" || item["type"] == "message";
        assert!(!named || same || item.get("id").is_none(), "an item of another model is named: {item}");
        if item["type"] == "reasoning" {
            assert!(same && items[at + 1]["role"] != "user", "a thought belongs to what follows it");
        }
    }
}
