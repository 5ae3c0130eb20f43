//! Our own dialect: following a conversation, hearing what happens, and coming back without losing anything.

use serde_json::{Value, json};

use super::client::{Client, Read, named};
use super::native::native;
use crate::house::House;

async fn subscribed(client: &mut Client, params: Value) -> String {
    client.payload("session.subscribe", params).await["sub"].as_str().unwrap().to_owned()
}

async fn send(client: &mut Client, session: &str, text: &str) -> String {
    let key: String = text.chars().take(40).collect();
    let sent = client.payload("message.send", json!({ "session": session, "text": text, "key": key })).await;
    sent["runId"].as_str().unwrap().to_owned()
}

/// Everything that a subscription tells up to the first event of a kind.
async fn told(client: &mut Client, sub: &str, until: &'static str) -> Vec<Value> {
    let mut all = client.until(|event| event["sub"] == sub && event["event"] == until).await;
    all.retain(|event| event["sub"] == sub);
    all
}

fn lines(payload: &Value) -> Vec<(i64, String)> {
    let text = |line: &Value| (line["seq"].as_i64().unwrap(), line["text"].as_str().unwrap().to_owned());
    payload["messages"].as_array().unwrap().iter().map(text).collect()
}

fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["n"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_conversation_is_told_from_a_snapshot_on_without_a_gap() {
    let house = House::open().await;
    let (mut client, _) = native(&house).await;
    let sub = subscribed(&mut client, json!({ "session": "main" })).await;
    let run = send(&mut client, "main", "hi").await;
    // A run elsewhere is not told here.
    send(&mut client, "elsewhere", "not here").await;
    let events = told(&mut client, &sub, "session.done").await;
    assert_eq!(numbers(&events), (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!(events[0]["event"], "session.snapshot");
    assert_eq!(events[0]["payload"], json!({ "session": "main", "messages": [], "runs": [] }));
    assert!(events[1..].iter().all(|event| event["payload"]["runId"] == run.as_str()));
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    let spoken: String =
        of("session.delta").iter().map(|event| event["payload"]["text"].as_str().unwrap()).collect();
    assert_eq!(of("session.run").last().unwrap()["payload"]["state"], "completed");
    let done = &events.last().unwrap()["payload"];
    assert_eq!(lines(done), [(1, "hi".to_owned()), (2, spoken)]);
    assert!(done["sessionId"].is_string(), "a reader has a cursor from here on");

    client.payload("session.unsubscribe", json!({ "sub": sub })).await;
    let second = subscribed(&mut client, json!({ "session": "main" })).await;
    assert_ne!(second, sub, "a name is never used twice");
    send(&mut client, "main", "again").await;
    let until_done = client.until(|event| event["event"] == "session.done").await;
    assert!(until_done.iter().all(|event| event["sub"] != sub.as_str()), "nobody is told any more");
}

#[tokio::test]
async fn a_reader_that_comes_back_with_its_cursor_gets_only_what_came_after_it() {
    let house = House::open().await;
    let (mut client, _) = native(&house).await;
    let sub = subscribed(&mut client, json!({ "session": "main" })).await;
    send(&mut client, "main", "one").await;
    let done = told(&mut client, &sub, "session.done").await.pop().unwrap()["payload"].clone();
    drop(client);
    let (mut witness, _) = native(&house).await;
    let watching = subscribed(&mut witness, json!({ "session": "main" })).await;
    send(&mut witness, "main", "two").await;
    told(&mut witness, &watching, "session.done").await;

    let snapshot_for = async |cursor: Value| {
        let (mut back, _) = native(&house).await;
        let sub = subscribed(&mut back, json!({ "session": "main", "cursor": cursor })).await;
        told(&mut back, &sub, "session.snapshot").await.pop().unwrap()["payload"].clone()
    };
    let cursor = json!({ "sessionId": done["sessionId"], "seq": 2 });
    let missed = snapshot_for(cursor).await;
    assert_eq!((&missed["partial"], lines(&missed)[0].1.as_str()), (&json!(true), "two"));
    assert_eq!(lines(&missed).iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [3, 4]);
    // A cursor of another log says nothing about this one.
    let other = json!({ "sessionId": "01890a5d-ac96-774b-bcce-b302099a8057", "seq": 2 });
    let whole = snapshot_for(other).await;
    assert_eq!((whole.get("partial"), lines(&whole).len()), (None, 4));
}

#[tokio::test]
async fn whoever_comes_in_the_middle_of_an_answer_gets_what_there_is_and_then_the_rest() {
    let house = House::held().await;
    let (mut first, _) = native(&house).await;
    let sub = subscribed(&mut first, json!({ "session": "main" })).await;
    send(&mut first, "main", "hi").await;
    house.models.let_through(2);
    let mut heard = String::new();
    while heard.chars().count() < 24 {
        let delta = first.event(named("session.delta")).await;
        heard.push_str(delta["payload"]["text"].as_str().unwrap());
    }
    let (mut second, _) = native(&house).await;
    let late = subscribed(&mut second, json!({ "session": "main" })).await;
    let snapshot = told(&mut second, &late, "session.snapshot").await.pop().unwrap();
    let run = &snapshot["payload"]["runs"][0];
    assert_eq!(run["partial"]["text"], heard.as_str());
    let mut seq = run["partial"]["seq"].as_u64().unwrap();
    house.models.open();
    let rest = told(&mut second, &late, "session.done").await;
    for delta in rest.iter().filter(|event| event["event"] == "session.delta") {
        seq += 1;
        assert_eq!(delta["payload"]["seq"], seq, "no piece is missing or told twice");
        heard.push_str(delta["payload"]["text"].as_str().unwrap());
    }
    assert_eq!(lines(&rest.last().unwrap()["payload"])[1].1, heard);
    told(&mut first, &sub, "session.done").await;
}

#[tokio::test]
async fn broadcasts_are_counted_without_a_gap_and_told_again_to_who_missed_them() {
    let house = House::open().await;
    let (mut witness, _) = native(&house).await;
    let (client, hello) = native(&house).await;
    drop(client);
    send(&mut witness, "main", "while you were away").await;
    let heard = witness
        .until(|event| event["event"] == "sessions.changed" && event["payload"]["reason"] == "ended")
        .await;
    let numbered: Vec<&Value> = heard.iter().filter(|event| event.get("seq").is_some()).collect();
    let seqs: Vec<u64> = numbered.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (hello.seq + 1..=hello.seq + seqs.len() as u64).collect::<Vec<_>>());

    let (mut back, newer) = native(&house).await;
    assert_eq!(newer.server.boot_id, hello.server.boot_id);
    let resume = json!({ "bootId": hello.server.boot_id, "afterSeq": hello.seq });
    let asked = back.ask("events.resume", resume).await;
    let last = *seqs.last().unwrap();
    let again = back.until(|event| event["seq"] == last).await;
    assert_eq!(again.iter().collect::<Vec<_>>(), numbered, "the same, in the same order");
    assert_eq!(back.answer(&asked).await["payload"], json!({ "resumed": true, "seq": last }));
    let other = back.payload("events.resume", json!({ "bootId": "another", "afterSeq": 0 })).await;
    assert_eq!(other["resumed"], false, "numbers of another process mean nothing");
}

#[tokio::test]
async fn what_happened_while_nobody_was_there_is_never_passed_over_in_silence() {
    let house = House::open().await;
    let (mut client, hello) = native(&house).await;
    client.payload("me.get", json!({})).await;
    drop(client);
    // Until the gateway has seen that nobody is there any more, and heard nothing of what happens then.
    house.nobody_connected().await;
    let post = house.owner("POST", "/api/v1/sessions/main/messages");
    post.json(&json!({ "text": "into the dark", "key": "k" })).send().await;
    let (mut back, _) = native(&house).await;
    let resume = json!({ "bootId": hello.server.boot_id, "afterSeq": hello.seq });
    assert_eq!(back.payload("events.resume", resume).await["resumed"], false);
}

#[tokio::test]
async fn clients_of_the_other_dialect_see_no_gap_because_of_ours() {
    let house = House::open().await;
    let mut other = super::client::operator(&house).await;
    let (mut client, _) = native(&house).await;
    send(&mut client, "main", "hi").await;
    let heard = other.until(super::client::chat("final")).await;
    let seqs: Vec<u64> = heard.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seqs:?}");
    assert!(heard.iter().all(|event| event["event"] != "run.changed"));
}

#[tokio::test]
async fn a_slow_reader_may_lose_words_and_never_an_end() {
    let house = House::open().await;
    let (mut slow, _) = native(&house).await;
    let sub = subscribed(&mut slow, json!({ "session": "main" })).await;
    let (mut fast, _) = native(&house).await;
    let watching = subscribed(&mut fast, json!({ "session": "main" })).await;
    // Nobody reads on the slow one while others talk: much more than the system and the queue hold of words.
    let long = "tide ".repeat(20_000);
    let mut runs = Vec::new();
    for turn in 0..24 {
        runs.push(send(&mut fast, "main", &format!("{turn} {long}")).await);
        told(&mut fast, &watching, "session.done").await;
    }
    let (mut done, mut last, mut jumped) = (Vec::new(), 0, false);
    let end = loop {
        match slow.read().await {
            Read::Frame(frame) if frame["sub"] == sub.as_str() => {
                let n = frame["n"].as_u64().unwrap();
                assert!(n > last, "never back");
                jumped |= n != last + 1;
                last = n;
                if frame["event"] == "session.done" {
                    done.push(frame["payload"]["runId"].as_str().unwrap().to_owned());
                }
                if done.len() == runs.len() {
                    break None;
                }
            }
            Read::Frame(_) => {}
            Read::Closed(code, reason) => break Some((code, reason)),
        }
    };
    assert_eq!(done, runs[..done.len()], "ends come in order and none is left out");
    match end {
        None => {}
        // It was let go, and knows it; coming back it has everything.
        Some((code, _)) => {
            assert!(code == 1008 || code == 0, "{code}");
            let (mut back, _) = native(&house).await;
            let sub = subscribed(&mut back, json!({ "session": "main" })).await;
            let snapshot = told(&mut back, &sub, "session.snapshot").await.pop().unwrap();
            assert_eq!(lines(&snapshot["payload"]).len(), runs.len() * 2);
        }
    }
    assert!(jumped || done.len() < runs.len(), "it was so slow that something could not be kept for it");
}

#[tokio::test]
async fn a_run_is_ended_by_its_id_and_everybody_hears_it() {
    let house = House::held().await;
    let (mut client, _) = native(&house).await;
    let run = send(&mut client, "main", "never ends").await;
    client
        .event(|event| event["event"] == "run.changed" && event["payload"]["run"]["state"] == "running")
        .await;
    client.payload("run.abort", json!({ "runId": run })).await;
    let ended = client
        .event(|event| event["event"] == "run.changed" && event["payload"]["run"]["error"].is_object())
        .await;
    assert_eq!(ended["payload"]["run"]["error"]["code"], "ABORTED");
    assert_eq!(ended["payload"]["session"], "main");
}

#[tokio::test]
async fn the_end_of_a_run_under_way_is_told_before_a_stopping_gateway_hangs_up() {
    let house = House::held().await;
    let (mut client, _) = native(&house).await;
    let sub = subscribed(&mut client, json!({ "session": "main" })).await;
    send(&mut client, "main", "hi").await;
    house.models.let_through(1);
    client.event(named("session.delta")).await;
    house.port.stop_listening();
    client.event(named("shutdown")).await;
    house.models.open();
    told(&mut client, &sub, "session.done").await;
    loop {
        match client.read().await {
            Read::Frame(_) => {}
            end @ Read::Closed(..) => {
                assert_eq!(end, Read::Closed(1012, "service restart".to_owned()));
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_client_follows_so_many_conversations_and_no_more() {
    let house = House::open().await;
    let (mut client, _) = native(&house).await;
    let mut subs = Vec::new();
    for number in 0..64 {
        subs.push(subscribed(&mut client, json!({ "session": format!("s-{number}") })).await);
    }
    let (code, _) = client.refusal("session.subscribe", json!({ "session": "one more" })).await;
    assert_eq!(code, "TOO_MANY_REQUESTS");
    client.payload("session.unsubscribe", json!({ "sub": subs[0] })).await;
    subscribed(&mut client, json!({ "session": "one more" })).await;
}
