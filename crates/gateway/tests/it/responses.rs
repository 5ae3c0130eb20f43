//! The newer form of OpenAI's interface, and what belongs to both.

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::house::House;
use crate::wire::{EventReader, Reply};

async fn respond(house: &House, body: &Value) -> Reply {
    house.owner("POST", "/v1/responses").json(body).send().await
}

#[tokio::test]
async fn a_response_has_the_shape_the_sdks_read_under_both_addresses() {
    let house = House::open().await;
    let body = json!({"model": "tidegate:main", "input": "hi", "metadata": {"a": "b"}});
    for path in ["/v1/responses", "/responses"] {
        let reply = house.owner("POST", path).json(&body).send().await;
        assert_eq!(reply.status, StatusCode::OK);
        let response = reply.json();
        assert!(response["id"].as_str().unwrap().starts_with("resp_"));
        assert_eq!((&response["object"], &response["status"]), (&json!("response"), &json!("completed")));
        assert_eq!(response["metadata"], json!({"a": "b"}));
        let item = &response["output"][0];
        assert_eq!((&item["type"], &item["role"]), (&json!("message"), &json!("assistant")));
        assert!(item["content"][0]["text"].as_str().unwrap().ends_with("hi"));
        let usage = &response["usage"];
        let sum = usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap();
        assert!(sum > 0 && usage["total_tokens"] == sum);
    }
}

#[tokio::test]
async fn the_events_of_a_response_are_numbered_and_join_to_it() {
    let house = House::open().await;
    let body = json!({"model": "tidegate:main", "input": "hi", "stream": true});
    let mut events = EventReader::new(house.owner("POST", "/v1/responses").json(&body).open().await);
    let mut seen: Vec<Value> = Vec::new();
    loop {
        let (kind, data) = events.next().await.expect("the stream goes on");
        if data == "[DONE]" {
            break;
        }
        let event: Value = serde_json::from_str(&data).unwrap();
        assert_eq!((&event["type"], &event["sequence_number"]), (&json!(kind), &json!(seen.len())));
        seen.push(event);
    }
    let kinds: Vec<_> = seen.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let begin = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ];
    assert_eq!(kinds[..4], begin);
    let end = [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(kinds[kinds.len() - 4..], end);
    let text: String = seen
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(seen[seen.len() - 1]["response"]["output"][0]["content"][0]["text"], text);
}

#[tokio::test]
async fn a_conversation_goes_on_from_its_newest_response_only() {
    let house = House::open().await;
    let first = respond(&house, &json!({"input": "one"})).await.json()["id"].clone();
    let next = json!({"input": "two", "previous_response_id": first});
    let second = respond(&house, &next).await;
    assert_eq!(second.status, StatusCode::OK);
    assert!(second.json().to_string().contains("context=3条"), "{}", second.json());
    let again = respond(&house, &next).await;
    assert_eq!(
        (again.status, &again.json()["error"]["param"]),
        (StatusCode::BAD_REQUEST, &json!("previous_response_id"))
    );
    for unknown in ["resp_01890a5d-ac96-774b-bcce-b302099a8057", "what"] {
        let reply = respond(&house, &json!({"input": "x", "previous_response_id": unknown})).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{unknown}");
    }
    let list = house.owner("GET", "/api/v1/sessions").send().await.json();
    assert_eq!(list["sessions"], json!([]), "what no conversation was named for is none");
}

#[tokio::test]
async fn what_is_wrong_is_told_with_its_place() {
    let house = House::open().await;
    let user = json!([{"role": "user", "content": "hi"}]);
    let chat = "/v1/chat/completions";
    let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}]);
    for (path, body, status, param) in [
        (chat, json!({"messages": user, "n": 2}), 400, json!("n")),
        (chat, json!({"messages": user, "model": "nobody/x"}), 404, json!("model")),
        (chat, json!({"messages": user, "tools": [{"type": "web_search"}]}), 400, json!("tools[0].type")),
        (chat, json!({"messages": user, "tool_choice": "required"}), 400, json!("tool_choice")),
        (chat, json!({"messages": user, "max_tokens": 0}), 400, json!("max_tokens")),
        (chat, json!({"messages": image}), 400, Value::Null),
        ("/v1/responses", json!({"model": "tidegate"}), 400, Value::Null),
        ("/v1/responses", json!({"input": "x", "background": true}), 400, json!("background")),
        ("/v1/embeddings", json!({"model": "x/y", "input": []}), 400, json!("input")),
        ("/v1/embeddings", json!({"input": "x"}), 400, json!("model")),
        ("/v1/embeddings", json!({"model": "nobody/x", "input": "x"}), 404, json!("model")),
        ("/v1/embeddings", json!({"model": "unheard-of", "input": "x"}), 404, json!("model")),
    ] {
        let reply = house.owner("POST", path).json(&body).send().await;
        let error = &reply.json()["error"];
        assert_eq!((reply.status.as_u16(), &error["param"]), (status, &param), "{body}: {error}");
        assert!(error["message"].is_string() && error["type"].is_string());
    }
}

#[tokio::test]
async fn a_model_can_be_looked_at_alone() {
    let house = House::open().await;
    let one = house.owner("GET", "/v1/models/tidegate:main").send().await.json();
    assert_eq!((&one["id"], &one["object"]), (&json!("tidegate:main"), &json!("model")));
    let none = house.owner("GET", "/v1/models/nobody/none").send().await;
    assert_eq!((none.status, none.code().as_str()), (StatusCode::NOT_FOUND, "NOT_FOUND"));
}
