//! What a model said goes back to it as it was: its thought with the proof byte for byte, its calls, and their results.

use serde_json::{Value, json};
use tidegate_models::Request;
use tidegate_protocol::{Block, Message, StopReason};
use tidegate_testkit::model_server::{Step, Turn};

use crate::faces::{self, Face};
use crate::house::{House, result_of, tool_question};

const THOUGHT: &str = "They ask about 潮, \"at noon\"?\n";
const PROOF: &str = "cHJvb2YvKys9PQ==";

/// The conversation after a thought, words, two calls and their results, as it is sent to the same model.
async fn sent_back(face: Face) -> Value {
    let house = House::new().await;
    let call =
        |id: &str, name: &str, arguments: Value| Step::Call { id: id.into(), name: name.into(), arguments };
    let turn = Turn::new([
        Step::Think { text: THOUGHT.into(), signature: PROOF.into() },
        Step::Say("Let me look.".into()),
        call("call_1", "tide_at", json!({"place": "Brest"})),
        call("call_2", "now", json!({})),
    ]);
    let request = tool_question("When is it high?");
    let heard = house.hear(face, turn, request.clone()).await;
    assert_eq!(heard.end, Ok(StopReason::ToolUse));
    let ids = heard.call_ids();
    let failed = match result_of(&ids[1], "now", "no clock") {
        Message::ToolResult { tool_call_id, tool_name, content, details, timestamp, .. } => {
            Message::ToolResult { tool_call_id, tool_name, content, is_error: true, details, timestamp }
        }
        other => other,
    };
    let mut messages = request.messages.clone();
    messages.extend([heard.message(), result_of(&ids[0], "tide_at", "High at noon."), failed]);
    let heard = house.ask(&[&face.reference()], Request { messages, ..request }).await;
    assert!(heard.end.is_ok(), "{:?}", heard.end);
    house.server.last_request().body
}

#[tokio::test]
async fn to_anthropic() {
    for face in [faces::ANTHROPIC, faces::COPILOT_CLAUDE] {
        let result = |id: &str, text: &str, is_error: bool| {
            let content = json!([{"type": "text", "text": text}]);
            json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error})
        };
        let mut last = result("call_2", "no clock", true);
        last["cache_control"] = json!({"type": "ephemeral"});
        let expected = json!([
            {"role": "user", "content": [{"type": "text", "text": "When is it high?"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": THOUGHT, "signature": PROOF},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "call_1", "name": "tide_at", "input": {"place": "Brest"}},
                {"type": "tool_use", "id": "call_2", "name": "now", "input": {}},
            ]},
            {"role": "user", "content": [result("call_1", "High at noon.", false), last]},
        ]);
        assert_eq!(sent_back(face).await["messages"], expected);
    }
}

#[tokio::test]
async fn to_completions() {
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let calls = [call("call_1", "tide_at", r#"{"place":"Brest"}"#), call("call_2", "now", "{}")];
    let expected = json!([
        {"role": "user", "content": "When is it high?"},
        {"role": "assistant", "content": "Let me look.", "reasoning_content": THOUGHT, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_1", "content": "High at noon."},
        {"role": "tool", "tool_call_id": "call_2", "content": "no clock"},
    ]);
    assert_eq!(sent_back(faces::COMPLETIONS).await["messages"], expected);
}

#[tokio::test]
async fn to_responses() {
    for face in [faces::RESPONSES, faces::CODEX, faces::COPILOT_GPT] {
        let call = |id: &str, call_id: &str, name: &str, arguments: &str| json!({"type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": arguments});
        let expected = json!([
            {"role": "user", "content": [{"type": "input_text", "text": "When is it high?"}]},
            {
                "id": "rs_0000", "type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}],
                "encrypted_content": PROOF,
            },
            {
                "type": "message", "role": "assistant", "id": "msg_0001", "status": "completed",
                "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}],
            },
            call("fc_0002", "call_1", "tide_at", r#"{"place":"Brest"}"#),
            call("fc_0003", "call_2", "now", "{}"),
            {"type": "function_call_output", "call_id": "call_1", "output": "High at noon."},
            {"type": "function_call_output", "call_id": "call_2", "output": "no clock"},
        ]);
        assert_eq!(sent_back(face).await["input"], expected);
    }
}

#[tokio::test]
async fn to_google() {
    let expected = json!([
        {"role": "user", "parts": [{"text": "When is it high?"}]},
        {"role": "model", "parts": [
            {"text": THOUGHT, "thought": true},
            {"text": "Let me look.", "thoughtSignature": PROOF},
            {"functionCall": {"name": "tide_at", "args": {"place": "Brest"}}},
            {"functionCall": {"name": "now", "args": {}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "tide_at", "response": {"output": "High at noon."}}},
            {"functionResponse": {"name": "now", "response": {"error": "no clock"}}},
        ]},
    ]);
    assert_eq!(sent_back(faces::GOOGLE).await["contents"], expected);
}

#[tokio::test]
async fn to_ollama() {
    let call = |name: &str, arguments: Value| json!({"function": {"name": name, "arguments": arguments}});
    let calls = [call("tide_at", json!({"place": "Brest"})), call("now", json!({}))];
    let expected = json!([
        {"role": "user", "content": "When is it high?"},
        {"role": "assistant", "content": "Let me look.", "thinking": THOUGHT, "tool_calls": calls},
        {"role": "tool", "tool_name": "tide_at", "content": "High at noon."},
        {"role": "tool", "tool_name": "now", "content": "no clock"},
    ]);
    assert_eq!(sent_back(faces::OLLAMA).await["messages"], expected);
}

#[tokio::test]
async fn to_bedrock() {
    let result = |id: &str, text: &str, status: &str| json!({"toolResult": {"toolUseId": id, "content": [{"text": text}], "status": status}});
    let expected = json!([
        {"role": "user", "content": [{"text": "When is it high?"}]},
        {"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": PROOF}}},
            {"text": "Let me look."},
            {"toolUse": {"toolUseId": "call_1", "name": "tide_at", "input": {"place": "Brest"}}},
            {"toolUse": {"toolUseId": "call_2", "name": "now", "input": {}}},
        ]},
        {"role": "user", "content": [
            result("call_1", "High at noon.", "success"),
            result("call_2", "no clock", "error"),
            {"cachePoint": {"type": "default"}},
        ]},
    ]);
    assert_eq!(sent_back(faces::BEDROCK).await["messages"], expected);
}

/// A thought that nobody may read goes back as it came, to the model that thought it.
#[tokio::test]
async fn a_hidden_thought_goes_back_as_it_came() {
    let cases = [
        (faces::ANTHROPIC, "/messages/1/content/0", json!({"type": "redacted_thinking", "data": PROOF})),
        (
            faces::RESPONSES,
            "/input/1",
            json!({"id": "rs_0000", "type": "reasoning", "summary": [], "encrypted_content": PROOF}),
        ),
        (faces::BEDROCK, "/messages/1/content/0", json!({"reasoningContent": {"redactedContent": PROOF}})),
    ];
    for (face, pointer, expected) in cases {
        let house = House::new().await;
        let turn = Turn::new([Step::Redacted(PROOF.into()), Step::Say("Noon.".into())]);
        let mut request = tool_question("When?");
        let heard = house.hear(face, turn, request.clone()).await;
        let hidden = matches!(&heard.blocks[0], Block::Thinking { thinking, .. } if thinking.is_empty());
        assert!(hidden, "{:?}", heard.blocks);
        request.messages.extend([heard.message(), Message::user("And tomorrow?", 4)]);
        house.ask(&[&face.reference()], request).await;
        assert_eq!(house.server.last_request().body.pointer(pointer), Some(&expected), "{}", face.api);
    }
}
