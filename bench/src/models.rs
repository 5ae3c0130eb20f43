//! Reading a model's answer: CPU a token of a long stream, against `serde_json` over the same bytes, and the memory.

use std::error::Error;

use serde_json::{Value, json};
use tidegate_models::testing::{Decoding, sse_frames};
use tidegate_models::{Api, ModelEvent};

use crate::machine::{Cpu, own_cpu_seconds, resident_mb};
use crate::stats::{median, rounded};

const TOKENS: usize = 100_000;
/// As much as a socket hands over at once.
const CHUNK: usize = 4096;
const ROUNDS: usize = 5;

/// A body in one format, and its JSON alone.
struct Body {
    api: Api,
    bytes: Vec<u8>,
    documents: Vec<Vec<u8>>,
}

pub(crate) fn run() -> Result<Value, Box<dyn Error>> {
    let others = Cpu::now();
    let mut report = serde_json::Map::new();
    for body in bodies()? {
        report.insert(body.api.as_str().to_owned(), measure(&body)?);
    }
    Ok(json!({
        "bench": "models",
        "tokens": TOKENS,
        "goal": "at most 2 over serde_json, memory constant",
        "formats": report,
        "others_cpu_share": rounded(others.others_since()),
    }))
}

fn measure(body: &Body) -> Result<Value, Box<dyn Error>> {
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    let before = resident_mb();
    // By turns, so that a busy machine is busy for both.
    for _ in 0..ROUNDS {
        let start = own_cpu_seconds();
        let deltas = decode(body);
        ours.push(own_cpu_seconds() - start);
        if deltas < TOKENS {
            return Err(format!("{}: {deltas} deltas of {TOKENS}", body.api.as_str()).into());
        }
        let start = own_cpu_seconds();
        for document in &body.documents {
            std::hint::black_box(serde_json::from_slice::<Value>(document)?);
        }
        floor.push(own_cpu_seconds() - start);
    }
    let grown = resident_mb() - before;
    let (ours, floor) = (median(ours), median(floor));
    Ok(json!({
        "bytes": body.bytes.len(),
        "ns_a_token": rounded(ours * 1e9 / TOKENS as f64),
        "serde_json_ns_a_token": rounded(floor * 1e9 / TOKENS as f64),
        "over_serde_json": rounded(ours / floor),
        "resident_mb_grown": rounded(grown),
    }))
}

fn decode(body: &Body) -> usize {
    let mut decoding = Decoding::new(body.api);
    let mut deltas = 0;
    let mut count = |decoding: &mut Decoding| {
        while let Some(event) = decoding.next_event() {
            deltas += usize::from(matches!(event, ModelEvent::TextDelta { .. }));
        }
    };
    for chunk in body.bytes.chunks(CHUNK) {
        decoding.feed(chunk);
        count(&mut decoding);
    }
    decoding.end();
    count(&mut decoding);
    deltas
}

fn bodies() -> Result<Vec<Body>, Box<dyn Error>> {
    let anthropic = stream(
        Api::AnthropicMessages,
        &[
            json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": {"input_tokens": 9, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ],
        |_, word| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}),
        &[
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": TOKENS}}),
            json!({"type": "message_stop"}),
        ],
    );
    let completions = stream(
        Api::OpenaiCompletions,
        &[],
        |_, word| json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m", "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": null}]}),
        &[
            json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        ],
    );
    let responses = stream(
        Api::OpenaiResponses,
        &[
            json!({"type": "response.created", "response": {"id": "r", "status": "in_progress"}}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "msg_1", "role": "assistant", "content": []}}),
        ],
        |at, word| json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": word, "sequence_number": at + 2}),
        &[
            json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "message", "id": "msg_1", "role": "assistant", "content": []}}),
            json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "usage": {"input_tokens": 9, "output_tokens": TOKENS}}}),
        ],
    );
    let google = stream(
        Api::GoogleGenerativeAi,
        &[],
        |_, word| json!({"candidates": [{"content": {"parts": [{"text": word}], "role": "model"}, "index": 0}], "modelVersion": "m"}),
        &[
            json!({"candidates": [{"content": {"parts": [{"text": "."}], "role": "model"}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": TOKENS}}),
        ],
    );
    [anthropic, completions, responses, google].into_iter().collect()
}

fn stream(
    api: Api,
    head: &[Value],
    token: impl Fn(usize, &str) -> Value,
    tail: &[Value],
) -> Result<Body, Box<dyn Error>> {
    let words = ["high ", "water ", "is ", "at ", "seven, ", "潮 ", "\"so\" ", "it turns\n"];
    let tokens = words.iter().cycle().take(TOKENS).enumerate().map(|(at, word)| token(at, word));
    let mut bytes = Vec::new();
    for event in head.iter().cloned().chain(tokens).chain(tail.iter().cloned()) {
        if let Some(name) = event["type"].as_str() {
            bytes.extend(format!("event: {name}\n").bytes());
        }
        bytes.extend(format!("data: {event}\n\n").bytes());
    }
    let documents = sse_frames([bytes.as_slice()])?.into_iter().map(|(_, data)| data).collect();
    Ok(Body { api, bytes, documents })
}
