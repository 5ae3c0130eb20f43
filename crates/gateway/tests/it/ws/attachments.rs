//! Images that come with a message.

use serde_json::{Value, json};

use super::client::{chat, operator};
use crate::house::House;

/// A dot.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn send(key: &str, text: &str, attachments: &Value) -> Value {
    json!({ "sessionKey": "main", "message": text, "idempotencyKey": key, "attachments": attachments })
}

#[tokio::test]
async fn an_image_joins_its_message_and_is_in_the_history() {
    let house = House::open().await;
    let mut client = operator(&house).await;
    let as_address = format!("data:image/jpeg;base64,{PICTURE}");
    let attached =
        json!([{ "type": "image", "mimeType": "image/png", "content": PICTURE }, { "content": as_address }]);
    assert_eq!(client.payload("chat.send", send("a", "what is this", &attached)).await["status"], "started");
    client.event(chat("final")).await;
    let history = client.payload("chat.history", json!({ "sessionKey": "main" })).await;
    let content = history["messages"][0]["content"].as_array().unwrap().clone();
    let kinds: Vec<_> = content.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "image", "image"]);
    // What it is says the picture, not who sent it.
    assert!(
        content[1..].iter().all(|block| block["mimeType"] == "image/png" && block["data"] == PICTURE),
        "{content:?}"
    );
    // An image needs no words, and the same key with another one is another message.
    assert_eq!(
        client.payload("chat.send", send("b", "", &json!([{ "content": PICTURE }]))).await["status"],
        "started"
    );
    assert_eq!(
        client.refusal("chat.send", send("a", "what is this", &json!([{ "content": PICTURE }]))).await.0,
        "INVALID_REQUEST"
    );
    let asked =
        json!({ "message": "and this", "idempotencyKey": "c", "attachments": [{ "content": PICTURE }] });
    assert_eq!(client.payload("agent", asked).await["status"], "accepted");
}

#[tokio::test]
async fn what_is_no_image_or_too_large_is_refused_by_name() {
    let house = House::open().await;
    let mut client = operator(&house).await;
    let large = "A".repeat(6_666_672);
    for (attachment, said) in [
        (json!({ "fileName": "notes.txt", "content": "aGVsbG8=" }), "attachment notes.txt: an image: "),
        (json!({ "content": "no base64 ***" }), "attachment #1: "),
        (json!({ "fileName": "x.png" }), "attachment x.png: content must be a base64 string"),
        (
            json!({ "fileName": "huge.png", "content": large }),
            "attachment huge.png: exceeds size limit (5000004 > 5000000 bytes)",
        ),
    ] {
        let (code, message) = client.refusal("chat.send", send("k", "look", &json!([attachment]))).await;
        assert_eq!(code, "INVALID_REQUEST");
        assert!(message.starts_with(said), "{message}");
    }
    let many: Vec<Value> = vec![json!({ "content": PICTURE }); 17];
    let (_, message) = client.refusal("chat.send", send("k", "look", &json!(many))).await;
    assert_eq!(message, "a message may have 16 attachments");
    assert_eq!(
        client.refusal("chat.send", send("k", " ", &json!([]))).await.1,
        "message or attachment required"
    );
}

#[tokio::test]
async fn a_stranger_is_not_read_for_long() {
    use super::client::{Client, Read};
    let house = House::open().await;
    let mut stranger = Client::open(&house, "/", &[]).await.unwrap();
    stranger.frame().await;
    stranger.try_send("x".repeat(4 * 1024 * 1024)).await;
    assert!(matches!(stranger.read().await, Read::Closed(..)));
}
