//! One turn, seven formats: each says the same in its own words.

use serde_json::{Value, json};

use super::client::{ask, ask_whole, get, post};
use super::reading::{Seen, events, seen};
use crate::model_server::{Format, Kind, ModelServer, Step, Stop, Tokens, Turn};

const TEXT: &str = "The tide rises: über 3 m, 潮が満ちる, and falls again.";

fn full_turn() -> Turn {
    Turn::new([
        Step::Think { text: "They ask about the tide.".into(), signature: "c2lnbmVk".into() },
        Step::Say(TEXT.into()),
        Step::Call {
            id: "call_1".into(),
            name: "look".into(),
            arguments: json!({"place": "Brest", "n": [1, 2]}),
        },
        Step::Call { id: "call_2".into(), name: "wait".into(), arguments: json!({}) },
        Step::Usage(Tokens { input: 100, output: 20, cache_read: 30, cache_write: 5 }),
    ])
}

fn stop_for_tools(format: Format) -> &'static str {
    match format {
        Format::Anthropic | Format::Bedrock => "tool_use",
        Format::Completions => "tool_calls",
        Format::Responses | Format::Codex => "completed",
        Format::Google => "STOP",
        Format::Ollama => "stop",
    }
}

/// What of a signature reaches the reader: two formats have none.
fn signature(format: Format) -> &'static str {
    if matches!(format, Format::Completions | Format::Ollama) { "" } else { "c2lnbmVk" }
}

#[tokio::test]
async fn a_turn_streams_the_same_in_every_format() {
    let server = ModelServer::start().await;
    for format in Format::ALL {
        server.push(full_turn());
        let came = ask(&server, format).await;
        assert_eq!((came.status, came.whole), (200, true), "{format:?}");
        let told = seen(format, &events(format, &came));
        let wanted = Seen {
            text: TEXT.into(),
            thinking: "They ask about the tide.".into(),
            signature: signature(format).into(),
            calls: vec![
                ("call_1".into(), "look".into(), json!({"place": "Brest", "n": [1, 2]})),
                ("call_2".into(), "wait".into(), json!({})),
            ],
            stop: stop_for_tools(format).into(),
            tokens: (135, 20),
        };
        assert_eq!(told, wanted, "{format:?}");
    }
}

#[tokio::test]
async fn anthropic_says_every_event_of_a_block() {
    let server = ModelServer::start().await;
    server.push(Turn::new([Step::Redacted("b3BhcXVl".into()), Step::Say("Hi.".into())]));
    let came = ask(&server, Format::Anthropic).await;
    assert_eq!(came.content_type, "text/event-stream");
    let usage = json!({
        "input_tokens": 12, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 7,
    });
    let mut first_usage = usage.clone();
    first_usage["output_tokens"] = 1.into();
    let message = json!({
        "id": "msg_0001", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": first_usage,
    });
    let data: Vec<Value> = events(Format::Anthropic, &came)
        .into_iter()
        .inspect(|(name, data)| assert_eq!(data["type"], name.as_str()))
        .map(|(_, data)| data)
        .collect();
    assert_eq!(
        data,
        [
            json!({"type": "message_start", "message": message}),
            json!({"type": "ping"}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "redacted_thinking", "data": "b3BhcXVl"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi."}}),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": usage}),
            json!({"type": "message_stop"}),
        ]
    );
}

#[tokio::test]
async fn responses_are_numbered_and_end_with_everything_they_said() {
    let server = ModelServer::start().await;
    server.push(full_turn());
    server.push(full_turn());
    let came = events(Format::Responses, &ask(&server, Format::Responses).await);
    for (number, (name, data)) in came.iter().enumerate() {
        assert_eq!((&data["type"], &data["sequence_number"]), (&json!(name), &json!(number)));
    }
    let (_, last) = came.last().unwrap();
    let done = came.iter().filter(|(name, _)| name == "response.output_item.done");
    let items: Vec<_> = done.map(|(_, data)| data["item"].clone()).collect();
    assert_eq!(last["response"]["output"], json!(items));
    let whole = ask_whole(&server, Format::Responses).await.json();
    assert_eq!(whole["output"], json!(items), "a whole answer has the same items");
}

#[tokio::test]
async fn completions_say_their_usage_only_to_who_asked_and_end_with_done() {
    let server = ModelServer::start().await;
    let asked = ask(&server, Format::Completions).await.text();
    assert!(asked.ends_with("data: [DONE]\n\n") && asked.contains("prompt_tokens"), "{asked}");
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let silent = post(&server, "/v1/chat/completions", &body).await.all().await.text();
    assert!(silent.ends_with("data: [DONE]\n\n") && !silent.contains("usage"), "{silent}");
}

#[tokio::test]
async fn google_streams_a_json_list_to_who_did_not_ask_for_events() {
    let server = ModelServer::start().await;
    server.push(full_turn());
    let came =
        post(&server, "/v1beta/models/m:streamGenerateContent", &json!({"contents": []})).await.all().await;
    assert_eq!(came.content_type, "application/json");
    let chunks: Vec<Value> = serde_json::from_value(came.json()).unwrap();
    let events: Vec<_> = chunks.into_iter().map(|chunk| (String::new(), chunk)).collect();
    assert_eq!(seen(Format::Google, &events).text, TEXT);
}

#[tokio::test]
async fn a_turn_is_whole_for_who_does_not_stream() {
    let server = ModelServer::start().await;
    for (format, text, arguments) in [
        (Format::Anthropic, "/content/1/text", "/content/2/input"),
        (
            Format::Completions,
            "/choices/0/message/content",
            "/choices/0/message/tool_calls/0/function/arguments",
        ),
        (Format::Responses, "/output/1/content/0/text", "/output/2/arguments"),
        (
            Format::Google,
            "/candidates/0/content/parts/1/text",
            "/candidates/0/content/parts/2/functionCall/args",
        ),
        (Format::Ollama, "/message/content", "/message/tool_calls/0/function/arguments"),
        (Format::Bedrock, "/output/message/content/1/text", "/output/message/content/2/toolUse/input"),
    ] {
        server.push(full_turn());
        let whole = ask_whole(&server, format).await.json();
        assert_eq!(whole.pointer(text), Some(&json!(TEXT)), "{format:?}: {whole}");
        let told = whole.pointer(arguments).unwrap();
        let told = told.as_str().map_or_else(|| told.clone(), |json| serde_json::from_str(json).unwrap());
        assert_eq!(told, json!({"place": "Brest", "n": [1, 2]}), "{format:?}");
    }
}

#[tokio::test]
async fn every_reason_to_stop_has_its_word() {
    let server = ModelServer::start().await;
    for (format, length, refused) in [
        (Format::Anthropic, "max_tokens", "refusal"),
        (Format::Completions, "length", "content_filter"),
        (Format::Responses, "incomplete", "incomplete"),
        (Format::Google, "MAX_TOKENS", "SAFETY"),
        (Format::Ollama, "length", "stop"),
        (Format::Bedrock, "max_tokens", "content_filtered"),
    ] {
        for (stop, word) in [(Stop::Length, length), (Stop::Refused, refused)] {
            server.push(Turn::say("a").then(Step::Stop(stop)));
            let came = ask(&server, format).await;
            assert_eq!(seen(format, &events(format, &came)).stop, word, "{format:?}");
        }
    }
}

#[tokio::test]
async fn every_refusal_has_the_vendors_shape() {
    let server = ModelServer::start().await;
    for format in Format::ALL {
        let words = match format {
            Format::Anthropic | Format::Completions | Format::Responses | Format::Google => "/error/message",
            Format::Codex => "",
            Format::Ollama => "/error",
            Format::Bedrock => "/message",
        };
        for kind in Kind::ALL {
            server.push(Turn::refuse_for(kind, 7));
            let (path, body) = super::client::question(format, "m", true);
            let coming = post(&server, &path, &body).await;
            assert_eq!(coming.head.headers()["retry-after"], "7");
            let named = coming.head.headers().contains_key("x-amzn-errortype");
            assert_eq!(named, format == Format::Bedrock, "{format:?}");
            let came = coming.all().await;
            assert!(came.status >= 400, "{format:?} {kind:?}");
            assert_eq!(came.content_type, "application/json");
            assert!(came.json().pointer(words).is_some(), "{format:?} {kind:?}: {}", came.text());
        }
    }
}

#[tokio::test]
async fn who_is_not_told_anything_echoes() {
    let server = ModelServer::start().await;
    for format in Format::ALL {
        let came = ask(&server, format).await;
        assert_eq!(seen(format, &events(format, &came)).text, "You said: hi", "{format:?}");
    }
}

#[tokio::test]
async fn embeddings_come_in_each_vendors_shape() {
    let server = ModelServer::start().await;
    server.push(Turn::say("not for embeddings"));
    let vectors = vec![vec![0.5, -1.0], vec![0.0, 2.0]];
    for (path, body, wanted) in [
        (
            "/v1/embeddings",
            json!({"model": "e", "input": ["a", "b"]}),
            json!({
                "object": "list", "model": "e", "usage": {"prompt_tokens": 2, "total_tokens": 2},
                "data": [
                    {"object": "embedding", "index": 0, "embedding": [0.5, -1.0]},
                    {"object": "embedding", "index": 1, "embedding": [0.0, 2.0]},
                ],
            }),
        ),
        (
            "/v1beta/models/e:batchEmbedContents",
            json!({"requests": [{"content": {"parts": [{"text": "a"}]}}, {"content": {"parts": [{"text": "b"}]}}]}),
            json!({"embeddings": [{"values": [0.5, -1.0]}, {"values": [0.0, 2.0]}]}),
        ),
        (
            "/api/embed",
            json!({"model": "e", "input": ["a", "b"]}),
            json!({
                "model": "e", "embeddings": [[0.5, -1.0], [0.0, 2.0]], "total_duration": 2_000_000,
                "load_duration": 1_000_000, "prompt_eval_count": 2,
            }),
        ),
    ] {
        server.push_for("e", Turn::new([Step::Vectors(vectors.clone())]));
        assert_eq!(post(&server, path, &body).await.all().await.json(), wanted, "{path}");
    }
    assert_eq!(server.turns_left(), 1, "the turn for answers is still there");
    server.push_for("e", Turn::refuse(Kind::RateLimit));
    assert_eq!(
        post(&server, "/v1/embeddings", &json!({"model": "e", "input": "a"})).await.all().await.status,
        429
    );
}

#[tokio::test]
async fn models_are_listed_in_each_vendors_shape() {
    let server = ModelServer::start().await;
    server.set_models(&["one", "two"]);
    for (path, place) in
        [("/v1/models", "/data/1/id"), ("/v1beta/models", "/models/1/name"), ("/api/tags", "/models/1/name")]
    {
        let list = get(&server, path).await.json();
        let name = list.pointer(place).and_then(Value::as_str).unwrap();
        assert_eq!(name.trim_start_matches("models/"), "two", "{path}");
    }
}
