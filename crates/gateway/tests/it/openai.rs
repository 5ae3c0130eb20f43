//! The dialect of OpenAI's interface.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidegate_protocol::RunState;

use crate::house::{House, is, until};
use crate::wire::{Call, EventReader};

fn chat(house: &House, body: &Value) -> Call {
    house.owner("POST", "/v1/chat/completions").json(body)
}

fn hello() -> Value {
    json!({"model": "tidegate:main", "messages": [{"role": "user", "content": "hi"}]})
}

fn streamed() -> Value {
    let mut body = hello();
    body["stream"] = true.into();
    body
}

async fn data(events: &mut EventReader) -> String {
    events.next().await.expect("the stream goes on").1
}

#[tokio::test]
async fn a_completion_has_the_shape_the_sdks_read() {
    let house = House::open().await;
    let reply = chat(&house, &hello()).send().await;
    assert_eq!(reply.status, StatusCode::OK);
    let body = reply.json();
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!("tidegate:main")));
    assert!(body["created"].as_i64().unwrap() > 1_700_000_000);
    let choice = &body["choices"][0];
    assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(0), &json!("stop")));
    assert_eq!(choice["message"]["role"], "assistant");
    assert!(choice["message"]["content"].as_str().unwrap().ends_with("hi"));
    let usage = &body["usage"];
    let sum = usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap();
    assert!(sum > 0 && usage["total_tokens"] == sum);
}

#[tokio::test]
async fn a_stream_joins_to_the_answer_and_is_done_after_its_end() {
    let house = House::open().await;
    let mut body = streamed();
    body["stream_options"] = json!({"include_usage": true});
    let mut events = EventReader::new(chat(&house, &body).open().await);
    let mut chunks: Vec<Value> = Vec::new();
    loop {
        let data = data(&mut events).await;
        if data == "[DONE]" {
            break;
        }
        chunks.push(serde_json::from_str(&data).unwrap());
    }
    assert_eq!(events.next().await, None);
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"])
    );
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert!(text.starts_with("[stub-echo]") && text.ends_with("hi"), "{text}");
    let [.., stop, usage] = chunks.as_slice() else { panic!("too few chunks") };
    assert_eq!((&stop["choices"][0]["finish_reason"], &stop["usage"]), (&json!("stop"), &Value::Null));
    assert_eq!(usage["choices"], json!([]));
    assert!(usage["usage"]["total_tokens"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn the_first_byte_comes_after_acceptance_and_before_the_answer() {
    let house = House::held().await;
    let mut events = EventReader::new(chat(&house, &streamed()).open().await);
    let first: Value = serde_json::from_str(&data(&mut events).await).unwrap();
    let run = first["id"].as_str().unwrap().strip_prefix("chatcmpl-").unwrap().to_owned();
    let lookup = tidegate_storage::RunLookup::Id(run.parse().unwrap());
    let row = house.engine.library().run(house.engine.tenant(), &lookup).await.unwrap().unwrap();
    assert!(!row.state.is_terminal());
}

#[tokio::test]
async fn a_caller_that_goes_away_ends_its_one_off_run() {
    for body in [streamed(), hello()] {
        let house = House::held().await;
        let mut bus = house.engine.events();
        let call = chat(&house, &body);
        let calling = tidegate_runtime::spawn("test.call", async move {
            tokio::select! {
                () = async { drop(call.send().await) } => panic!("the answer is held"),
                change = until(&mut bus, is(&RunState::Running)) => (change, bus),
            }
        });
        let (change, mut bus) = calling.join().await.unwrap();
        assert_eq!(until(&mut bus, is(&RunState::Aborted)).await.run, change.run);
    }
}

#[tokio::test]
async fn a_user_keeps_a_conversation_and_nobody_gets_a_fresh_one() {
    let house = House::open().await;
    let context = async |body: &Value| {
        let reply = chat(&house, body).send().await.json();
        let text = reply["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        text.split_once("context=").unwrap().1.split_once('条').unwrap().0.to_owned()
    };
    let mut named = hello();
    named["user"] = "Ann".into();
    assert_eq!([context(&named).await, context(&named).await], ["1", "3"]);
    assert_eq!([context(&hello()).await, context(&hello()).await], ["1", "1"]);
    let list = house.owner("GET", "/api/v1/sessions").send().await.json();
    let names: Vec<_> =
        list["sessions"].as_array().unwrap().iter().map(|item| item["name"].clone()).collect();
    assert_eq!(names, ["openai-user:ann"], "what served one request is not a conversation");
}

#[tokio::test]
async fn an_idempotency_key_gets_the_same_answer_again() {
    let house = House::open().await;
    let id = async || {
        let reply = chat(&house, &hello()).with("idempotency-key", "k1").send().await.json();
        (reply["id"].clone(), reply["choices"].clone())
    };
    assert_eq!(id().await, id().await);
    let mut other = hello();
    other["messages"][0]["content"] = "another".into();
    let conflict = chat(&house, &other).with("idempotency-key", "k1").send().await;
    assert_eq!((conflict.status, conflict.code().as_str()), (StatusCode::CONFLICT, "IDEMPOTENCY_CONFLICT"));
}

#[tokio::test]
async fn errors_have_the_shape_the_sdks_read() {
    let house = House::open().await;
    let error = |reply: crate::wire::Reply| (reply.status.as_u16(), reply.json()["error"].clone());
    let (status, body) = error(house.call("GET", "/v1/models").send().await);
    assert_eq!(
        (status, &body["type"], &body["code"]),
        (401, &json!("authentication_error"), &json!("UNAUTHORIZED"))
    );
    let (status, body) = error(chat(&house, &json!({"messages": []})).send().await);
    assert_eq!(status, 400);
    let message = "Missing user message in `messages`.";
    assert_eq!(
        body,
        json!({"message": message, "type": "invalid_request_error", "param": null, "code": "BAD_REQUEST"})
    );
    let (status, body) =
        error(chat(&house, &json!({"model": "agent:nobody", "messages": hello()["messages"]})).send().await);
    assert_eq!((status, &body["code"]), (404, &json!("NOT_FOUND")));
}

#[tokio::test]
async fn a_stream_that_fails_says_so() {
    let house = House::held().await;
    let mut bus = house.engine.events();
    let mut events = EventReader::new(chat(&house, &streamed()).open().await);
    data(&mut events).await;
    let run = until(&mut bus, |_| true).await.run;
    house.owner("POST", &format!("/api/v1/runs/{run}/abort")).send().await;
    let failed: Value = serde_json::from_str(&data(&mut events).await).unwrap();
    assert_eq!(failed["error"]["code"], "ABORTED");
    assert_eq!(data(&mut events).await, "[DONE]");
}

#[tokio::test]
async fn agents_are_the_models() {
    let house = House::open().await;
    let list = house.owner("GET", "/v1/models").send().await.json();
    assert_eq!((&list["object"], &list["data"][0]["id"]), (&json!("list"), &json!("tidegate:main")));
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
}
