//! Keys: the same key is the same request, at the same time, later, and after a restart.

use std::collections::HashMap;

use serde_json::{Value, json};
use tidegate_gateway::{METHODS, Repeat};
use tidegate_storage::RunFilter;
use tidegate_testkit::network::Dice;

use super::client::{Client, operator};
use super::foal::foal;
use crate::house::House;

async fn runs(house: &House) -> usize {
    let filter = RunFilter { limit: 1000, ..RunFilter::default() };
    house.engine.library().runs(house.engine.tenant(), filter).await.unwrap().len()
}

fn conflict(answer: &Value) -> bool {
    answer["error"]["details"]["code"] == "IDEMPOTENCY_CONFLICT"
        || answer["error"]["code"] == "IDEMPOTENCY_CONFLICT"
}

#[tokio::test]
async fn of_many_who_ask_the_same_at_once_one_run_comes() {
    let house = House::open().await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(operator(&house).await);
    }
    let sent = json!({ "sessionKey": "main", "message": "once", "idempotencyKey": "k" });
    let mut asked = Vec::new();
    for client in &mut clients {
        asked.push(client.ask("chat.send", sent.clone()).await);
        client.ask("chat.send", sent.clone()).await;
    }
    for (client, id) in clients.iter_mut().zip(&asked) {
        let answer = client.answer(id).await;
        assert_eq!(answer["payload"]["runId"], "k", "{answer}");
    }
    assert_eq!(runs(&house).await, 1);
}

/// Every order of asking, asking again, asking something else under the key and starting anew.
#[tokio::test]
async fn whatever_comes_in_whichever_order_a_key_means_what_it_first_meant() {
    for seed in 1..=4 {
        let mut dice = Dice::new(seed, 0);
        let mut house = House::open().await;
        let mut client = foal(&house).await;
        // What each key stands for, and what it was answered.
        let mut meant: HashMap<(&str, String), (String, Value)> = HashMap::new();
        let mut expected = 0;
        for _ in 0..40 {
            if dice.below(12) == 0 {
                drop(client);
                house = house.reopened().await;
                client = foal(&house).await;
            }
            let method = *dice.pick(&["agent.run", "sessions.create", "runtime.setMode", "budget.update"]);
            let key = format!("k{}", dice.below(4));
            let word = format!("w{}", dice.below(2));
            let answer = client.call(method, call(method, &key, &word)).await;
            match meant.get(&(method, key.clone())) {
                Some((first, told)) if *first == word => {
                    assert_eq!(&answer["payload"], told, "seed {seed}: {method} {key} {word}");
                }
                Some(_) => assert!(conflict(&answer), "seed {seed}: {method} {key} {word}: {answer}"),
                None => {
                    assert_eq!(answer["ok"], true, "seed {seed}: {method} {key} {word}: {answer}");
                    expected += usize::from(method == "agent.run");
                    meant.insert((method, key), (word, answer["payload"].clone()));
                }
            }
            assert_eq!(runs(&house).await, expected, "seed {seed}");
        }
    }
}

fn call(method: &str, key: &str, word: &str) -> Value {
    match method {
        "agent.run" => json!({ "idempotencyKey": key, "sessionId": "s", "input": word }),
        "sessions.create" => json!({ "idempotencyKey": key, "title": word }),
        "runtime.setMode" => json!({ "idempotencyKey": key, "sessionId": word, "runtimeMode": "local" }),
        _ => {
            let limit = if word == "w0" { 1_000_000 } else { 2_000_000 };
            json!({ "idempotencyKey": key, "patch": { "tokenDailyLimit": limit } })
        }
    }
}

#[tokio::test]
async fn a_call_that_failed_has_done_nothing_and_may_be_mended_under_its_key() {
    let house = House::open().await;
    let mut client = foal(&house).await;
    let mode = |mode: &str| json!({ "idempotencyKey": "m", "sessionId": "s", "runtimeMode": mode });
    for _ in 0..2 {
        assert_eq!(client.refusal("runtime.setMode", mode("cloud")).await.0, "INVALID_REQUEST");
    }
    assert_eq!(client.payload("runtime.setMode", mode("local")).await["status"], "applied");
    assert!(conflict(&client.call("runtime.setMode", mode("cloud")).await));
}

#[tokio::test]
async fn a_key_stands_for_a_day_and_the_order_of_fields_is_no_other_request() {
    let house = House::open().await;
    let mut client = foal(&house).await;
    let ask = async |client: &mut Client, text: &str| {
        client.send(format!(r#"{{"type":"req","id":"x","method":"sessions.create","params":{text}}}"#)).await;
        client.answer("x").await
    };
    let first = ask(&mut client, r#"{"title":"a","idempotencyKey":"k"}"#).await;
    let turned = ask(&mut client, r#"{"idempotencyKey":"k","title":"a"}"#).await;
    assert_eq!(first["payload"], turned["payload"]);
    house.clock.pass(24 * 3600 * 1000 - 60_000);
    assert!(conflict(&ask(&mut client, r#"{"title":"b","idempotencyKey":"k"}"#).await));
    house.clock.pass(2 * 60_000);
    assert_eq!(ask(&mut client, r#"{"title":"b","idempotencyKey":"k"}"#).await["ok"], true);
}

#[test]
fn what_runs_keep_themselves_is_the_runs() {
    let of = |repeat: Repeat| -> Vec<&str> {
        METHODS.iter().filter(|row| row.repeat == repeat).map(|row| row.name).collect()
    };
    assert_eq!(of(Repeat::Run), ["message.send", "agent", "chat.send", "send", "agent.run"]);
    assert!(of(Repeat::Keyed).contains(&"node.invoke"));
}
