//! What OpenClaw's own clients were seen to send, against a real gateway: every request goes well, every answer has what it
//! had when the client was seen to work with it, and a message's events come in the order in which it waits for them.
//!
//! The recordings are made by `make compat COMPAT=--record`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::client::{Client, Device};
use crate::house::House;

/// The clients of which there is a recording.
const CLIENTS: [&str; 4] = ["cli", "gateway-client", "openclaw-tui", "openclaw-control-ui"];

fn recorded(client: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/openclaw");
    let text = std::fs::read_to_string(folder.join(format!("{client}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What is missing or of another type than it was, place by place.
fn differences(shape: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    match (shape, value) {
        (Value::Object(keys), Value::Object(fields)) => {
            for (key, inner) in keys {
                match fields.get(key) {
                    Some(field) => differences(inner, field, &format!("{at}.{key}"), found),
                    None => found.push(format!("{at}.{key} is gone")),
                }
            }
        }
        (Value::Array(shapes), Value::Array(items)) => {
            if let Some(shape) = shapes.first() {
                // What was under way in the recording is over by the time of the replayed question.
                let under_way = at.ends_with(".runIds") || at.ends_with(".activeRunIds");
                // The engine of these tests has no tools.
                let tools = at.ends_with("].tools");
                if items.is_empty() && !under_way && !tools {
                    found.push(format!("{at} has nothing in it"));
                }
                for (index, item) in items.iter().enumerate() {
                    differences(shape, item, &format!("{at}[{index}]"), found);
                }
            }
        }
        (Value::String(kinds), value) => {
            let kind = kind(value);
            // Where nothing stood nobody saw what may stand there.
            let anything = kinds == "null" || kinds == "any";
            if !anything && !kinds.split('|').any(|allowed| allowed == kind) {
                found.push(format!("{at} is {kind} and was {kinds}"));
            }
        }
        (shape, value) => found.push(format!("{at} is {} and was {}", kind(value), kind(shape))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn assert_shape(what: &str, shape: &Value, value: &Value) {
    let mut found = Vec::new();
    differences(shape, value, "", &mut found);
    assert!(found.is_empty(), "{what}: {found:#?} in {value:#}");
}

/// A client as it was recorded, with a token and a device of this house.
struct Replayed {
    client: Client,
    recording: Value,
    /// The run that it began last.
    run: String,
    session: String,
}

impl Replayed {
    async fn enter(house: &House, name: &str) -> Self {
        let recording = recorded(name);
        let mut params = recording["connect"].clone();
        let signs = params["device"] == "$device";
        params.as_object_mut().unwrap().remove("device");
        for secret in params["auth"].as_object_mut().unwrap().values_mut() {
            *secret = json!(house.token);
        }
        let origin = format!("http://{}", house.address());
        let headers: &[(&str, &str)] =
            if name.ends_with("control-ui") { &[("origin", origin.as_str())] } else { &[] };
        let mut client = Client::open(house, "/", headers).await.unwrap();
        let challenge = client.frame().await;
        if signs {
            let nonce = challenge["payload"]["nonce"].as_str().unwrap();
            let at = challenge["payload"]["ts"].as_i64().unwrap();
            params = Device::new(9).sign(params, 3, nonce, at);
        }
        let hello = client.payload("connect", params).await;
        assert_shape("hello", &recording["hello"], &hello);
        Self { client, recording, run: String::new(), session: String::new() }
    }

    /// Puts this run's own ids where the recording had others.
    fn with_own_ids(&mut self, params: &Map<String, Value>, number: usize) -> Value {
        let mut own = params.clone();
        for (key, value) in &mut own {
            match key.as_str() {
                "idempotencyKey" => {
                    self.run = format!("replayed-{number}");
                    *value = json!(self.run);
                }
                "runId" => *value = json!(self.run),
                "inputRunIds" => *value = json!([self.run]),
                "sessionId" => *value = json!(self.session),
                // A name that the client made up for itself.
                "progressId" => {}
                _ => assert!(!value.to_string().contains("$id"), "nobody knows what to put for {key}"),
            }
        }
        Value::Object(own)
    }

    async fn replay(&mut self) {
        let requests = self.recording["requests"].as_array().unwrap().clone();
        assert!(!requests.is_empty());
        for (number, request) in requests.iter().enumerate() {
            let method = request["method"].as_str().unwrap();
            let params = self.with_own_ids(request["params"].as_object().unwrap(), number);
            let id = self.client.ask(method, params).await;
            for shape in request["answers"].as_array().unwrap() {
                let answer = self.client.answer(&id).await;
                assert_eq!(answer["ok"], true, "{method}: {answer}");
                assert_shape(method, shape, &answer["payload"]);
                if let Some(session) = answer["payload"]["sessionId"].as_str() {
                    session.clone_into(&mut self.session);
                }
            }
            if method == "chat.send" {
                let run = self.run.clone();
                let ended = |event: &Value| {
                    event["event"] == "sessions.changed"
                        && event["payload"]["phase"] != "start"
                        && event["payload"]["runId"] == run.as_str()
                };
                self.client.event(ended).await;
            }
        }
    }
}

/// A house in which somebody has talked: lists have something in them.
async fn lived_in() -> House {
    let house = House::open().await;
    let mut client = super::client::operator(&house).await;
    for (number, key) in ["agent:main:main", "agent:main:work"].iter().enumerate() {
        let params =
            json!({ "message": "hello", "sessionKey": key, "idempotencyKey": format!("before-{number}") });
        let id = client.ask("agent", params).await;
        for _ in 0..2 {
            assert_eq!(client.answer(&id).await["ok"], true);
        }
    }
    // How the house stands may be told as it was a moment ago, before its first conversation.
    while client.payload("health", json!({})).await["sessions"]["recent"] == json!([]) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    house
}

#[tokio::test]
async fn every_request_of_openclaws_clients_is_answered_as_when_they_were_seen_to_work() {
    for name in CLIENTS {
        let house = lived_in().await;
        Replayed::enter(&house, name).await.replay().await;
    }
}

#[tokio::test]
async fn the_events_of_a_message_come_in_the_order_in_which_openclaws_clients_wait_for_them() {
    for name in ["openclaw-tui", "openclaw-control-ui"] {
        let house = lived_in().await;
        let mut replayed = Replayed::enter(&house, name).await;
        let send = replayed.recording["send"].clone();
        let watched =
            send["events"].as_object().unwrap().keys().any(|event| event.starts_with("session.message"));
        let client = &mut replayed.client;
        client.payload("sessions.subscribe", json!({})).await;
        if watched {
            client.payload("sessions.messages.subscribe", json!({ "key": "agent:main:main" })).await;
        }
        let params = json!({ "sessionKey": "agent:main:main", "message": "one two three", "idempotencyKey": "ordered" });
        let id = client.ask("chat.send", params).await;
        let mut order: Vec<String> = Vec::new();
        while order.last().is_none_or(|last| last != "sessions.changed:end") {
            let frame = client.frame().await;
            let event = frame["type"] == "event";
            if frame["id"] != id.as_str() && !(event && frame["payload"]["runId"] == "ordered") {
                continue;
            }
            let happened = if event { event_name(&frame) } else { "res".to_owned() };
            if let Some(shape) = send["events"].get(&happened) {
                assert_shape(&happened, shape, &frame["payload"]);
            }
            if !order.contains(&happened) {
                order.push(happened);
            }
        }
        let wanted: Vec<&str> = send["order"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(order, wanted, "{name}");
    }
}

fn event_name(frame: &Value) -> String {
    let payload = &frame["payload"];
    let name = frame["event"].as_str().unwrap();
    let details: &[&Value] = match name {
        "agent" => &[&payload["stream"], &payload["data"]["phase"]],
        "chat" => &[&payload["state"]],
        "session.message" => &[&payload["message"]["role"]],
        "sessions.changed" => &[&payload["phase"]],
        _ => &[],
    };
    let details = details.iter().filter_map(|detail| detail.as_str());
    std::iter::once(name).chain(details).collect::<Vec<_>>().join(":")
}

#[test]
fn an_answer_that_loses_a_key_or_changes_a_type_is_noticed() {
    let shape = json!({ "key": "string", "rows": [{ "at": "null|number" }], "any": "object" });
    let look = |value: Value| {
        let mut found = Vec::new();
        differences(&shape, &value, "", &mut found);
        found
    };
    assert!(
        look(json!({ "key": "k", "rows": [{ "at": 1 }, { "at": null, "more": 1 }], "any": {} })).is_empty()
    );
    assert_eq!(look(json!({ "rows": [{ "at": 1 }], "any": {} })), [".key is gone"]);
    assert_eq!(
        look(json!({ "key": 1, "rows": [{ "at": "x" }, {}], "any": [] })),
        [
            ".key is number and was string",
            ".rows[0].at is string and was null|number",
            ".rows[1].at is gone",
            ".any is array and was object"
        ]
    );
    assert_eq!(look(json!({ "key": "k", "rows": [], "any": {} })), [".rows has nothing in it"]);
}
