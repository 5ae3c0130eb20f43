//! A link is kept: whatever the gateway leaves out, cuts or says twice, its holder hears everything once.

use serde_json::{Value, json};
use tidegate_client::{ClientError, Following, Heard, LinkEvent};
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::SubscribeSession;
use tokio::sync::mpsc::Receiver;

use crate::played::{LONG, Played, SESSION, delta, done, snapshot, soon};

/// No tick is missed in a test.
const NEVER: u64 = 600_000;

fn main_session() -> SubscribeSession {
    SubscribeSession { session: "main".to_owned(), agent: None, cursor: None }
}

/// The numbers of the broadcasts up to one, and whether something had to be read again meanwhile.
async fn news_to(events: &mut Receiver<LinkEvent>, last: u64) -> (Vec<u64>, bool) {
    let (mut heard, mut stale) = (Vec::new(), false);
    while heard.last() != Some(&last) {
        match soon(events.recv()).await.expect("the link is there") {
            LinkEvent::News { payload, .. } => heard.push(payload["number"].as_u64().unwrap()),
            LinkEvent::Stale => stale = true,
            LinkEvent::Up(_) | LinkEvent::Down(_) => {}
            LinkEvent::Ended(error) => panic!("{error}"),
        }
    }
    (heard, stale)
}

/// The lines that a reader has after the next event with lines.
async fn lines(following: &mut Following) -> (&'static str, Vec<i64>) {
    loop {
        let seqs = |lines: &[tidegate_protocol::api::LogLine]| lines.iter().map(|line| line.seq).collect();
        match soon(following.next()).await.expect("the link is there") {
            Heard::Snapshot(snapshot) if snapshot.partial => return ("more", seqs(&snapshot.messages)),
            Heard::Snapshot(snapshot) => return ("whole", seqs(&snapshot.messages)),
            Heard::Done(done) => return ("done", seqs(&done.messages)),
            Heard::Refused(error) => panic!("{error}"),
            Heard::Run(_) | Heard::Delta(_) | Heard::Tool(_) | Heard::Note(_) | Heard::Waits(_) => {}
        }
    }
}

#[tokio::test]
async fn a_gateway_that_falls_silent_is_connected_to_again() {
    let played = Played::open().await;
    let client = played.client();
    let (linked, mute) = tokio::join!(client.link(LONG), played.greet("a", 0, 50));
    let (_link, mut events) = linked.unwrap();
    let again = played.greet("a", 0, 50).await;
    let third = played.greet("a", 0, NEVER).await;
    let mut silent = 0;
    while silent < 2 {
        if let LinkEvent::Down(error) = soon(events.recv()).await.unwrap() {
            assert!(matches!(error, ClientError::Deadline(_)), "{error}");
            silent += 1;
        }
    }
    drop((mute, again, third));
}

#[tokio::test]
async fn a_jump_in_the_count_is_seen_and_the_conversation_asked_for_after_the_last_line() {
    let played = Played::open().await;
    let client = played.client();
    let (linked, mut gateway) = tokio::join!(client.link(LONG), played.greet("a", 0, NEVER));
    let (link, _events) = linked.unwrap();
    let mut following = link.follow(main_session()).await.unwrap();
    assert_eq!(gateway.subscribed("s1").await, json!({ "session": "main" }));
    gateway.told("s1", 1, "session.snapshot", snapshot(false, &[1, 2])).await;
    gateway.told("s1", 2, "session.delta", delta(1)).await;
    // The third was left out.
    gateway.told("s1", 4, "session.delta", delta(3)).await;
    let given_up = gateway.asked_for("session.unsubscribe").await;
    assert_eq!(given_up["params"], json!({ "sub": "s1" }));
    let asked = gateway.subscribed("s2").await;
    assert_eq!(asked["cursor"], json!({ "sessionId": SESSION, "seq": 2 }));
    // What still comes under the old name belongs to nobody.
    gateway.told("s1", 5, "session.done", done(&[3])).await;
    gateway.told("s2", 1, "session.snapshot", snapshot(true, &[3])).await;
    gateway.told("s2", 2, "session.done", done(&[4, 5])).await;
    assert_eq!(lines(&mut following).await, ("whole", vec![1, 2]));
    assert_eq!(lines(&mut following).await, ("more", vec![3]));
    assert_eq!(lines(&mut following).await, ("done", vec![4, 5]));
}

#[tokio::test]
async fn a_conversation_goes_on_over_a_new_connection_after_the_last_line() {
    let played = Played::open().await;
    let client = played.client();
    let (linked, mut gateway) = tokio::join!(client.link(LONG), played.greet("a", 0, NEVER));
    let (link, _events) = linked.unwrap();
    let mut following = link.follow(main_session()).await.unwrap();
    gateway.subscribed("s1").await;
    gateway.told("s1", 1, "session.snapshot", snapshot(false, &[])).await;
    gateway.told("s1", 2, "session.done", done(&[1, 2])).await;
    assert_eq!(lines(&mut following).await, ("whole", vec![]));
    assert_eq!(lines(&mut following).await, ("done", vec![1, 2]));
    drop(gateway);
    let mut gateway = played.greet("b", 0, NEVER).await;
    assert_eq!(gateway.subscribed("s1").await["cursor"]["seq"], 2);
    gateway.told("s1", 1, "session.snapshot", snapshot(true, &[3, 4])).await;
    assert_eq!(lines(&mut following).await, ("more", vec![3, 4]));
    drop(following);
    assert_eq!(gateway.asked_for("session.unsubscribe").await["params"]["sub"], "s1");
}

#[tokio::test]
async fn broadcasts_are_heard_once_and_in_order_whatever_is_missing_or_said_twice() {
    let played = Played::open().await;
    let client = played.client();
    let (linked, mut gateway) = tokio::join!(client.link(LONG), played.greet("a", 7, NEVER));
    let (_link, mut events) = linked.unwrap();
    for seq in [8, 8, 10] {
        gateway.news(seq).await;
    }
    let asked = gateway.asked_for("events.resume").await;
    assert_eq!(asked["params"], json!({ "bootId": "a", "afterSeq": 8 }));
    for seq in [11, 9, 10, 11] {
        gateway.news(seq).await;
    }
    gateway.answer(&asked, json!({ "resumed": true, "seq": 11 })).await;
    assert_eq!(news_to(&mut events, 11).await, (vec![8, 9, 10, 11], false));

    // The same process again: what was told meanwhile is asked for.
    drop(gateway);
    let mut gateway = played.greet("a", 13, NEVER).await;
    let asked = gateway.asked_for("events.resume").await;
    assert_eq!(asked["params"]["afterSeq"], 11);
    gateway.answer(&asked, json!({ "resumed": false, "seq": 13 })).await;
    gateway.news(14).await;
    assert_eq!(news_to(&mut events, 14).await, (vec![14], true), "it cannot be told again");

    // Another process: there is nothing to ask for.
    drop(gateway);
    let mut gateway = played.greet("b", 2, NEVER).await;
    gateway.news(3).await;
    assert_eq!(news_to(&mut events, 3).await, (vec![3], true));
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_told_what_it_missed_and_loses_no_line() {
    let played = Played::open().await;
    let client = played.client();
    let (linked, mut gateway) = tokio::join!(client.link(LONG), played.greet("a", 0, NEVER));
    let (link, mut events) = linked.unwrap();
    let mut following = link.follow(main_session()).await.unwrap();
    gateway.subscribed("s1").await;
    gateway.told("s1", 1, "session.snapshot", snapshot(false, &[1])).await;
    for n in 2..1500 {
        gateway.told("s1", n, "session.delta", delta(n)).await;
    }
    gateway.told("s1", 1500, "session.done", done(&[2])).await;
    assert_eq!(gateway.asked_for("session.unsubscribe").await["params"]["sub"], "s1");
    for seq in 1..1500 {
        gateway.news(seq).await;
    }
    let nothing = json!({});
    let asked = link.call::<_, Value>("me.get", &nothing, LONG);
    let answered = async {
        let asked = gateway.asked_for("me.get").await;
        gateway.answer(&asked, json!({ "there": true })).await;
    };
    let (answer, ()) = tokio::join!(asked, answered);
    assert_eq!(answer.unwrap(), json!({ "there": true }), "calls are answered all the same");

    assert_eq!(lines(&mut following).await, ("whole", vec![1]));
    let reading = async {
        // Everything that waits, and then what is asked for when there is room again.
        lines(&mut following).await
    };
    let resumed = async {
        let asked = gateway.subscribed("s2").await;
        assert_eq!(asked["cursor"]["seq"], 1, "the line that did not fit is not taken for read");
        gateway.told("s2", 1, "session.snapshot", snapshot(true, &[2])).await;
    };
    assert_eq!(tokio::join!(reading, resumed).0, ("more", vec![2]));
    loop {
        match soon(events.recv()).await.unwrap() {
            LinkEvent::Stale => break,
            LinkEvent::Ended(error) => panic!("{error}"),
            LinkEvent::Up(_) | LinkEvent::Down(_) | LinkEvent::News { .. } => {}
        }
    }
}

#[tokio::test]
async fn a_call_says_what_its_caller_can_do() {
    let played = Played::open().await;
    let client = played.client();
    let (linked, mut gateway) = tokio::join!(client.link(LONG), played.greet("a", 0, NEVER));
    let (link, _events) = linked.unwrap();
    let call = async |patience| link.call::<_, Value>("run.get", &json!({ "runId": "x" }), patience).await;

    let refusing = async {
        let asked = gateway.asked_for("run.get").await;
        assert_eq!(asked["params"], json!({ "runId": "x" }));
        let error = json!({ "code": "SESSION_BUSY", "message": "later", "hint": "wait", "retryable": true });
        gateway.send(json!({ "type": "res", "id": asked["id"], "ok": false, "error": error })).await;
    };
    let (refused, ()) = tokio::join!(call(LONG), refusing);
    let refused = refused.unwrap_err();
    assert_eq!((refused.body().code, refused.hint()), (ErrorCode::SessionBusy, Some("wait")));
    assert!(refused.is_retryable());

    let late = call(std::time::Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(late, ClientError::Deadline(_)));
    gateway.asked_for("run.get").await;

    let cut = async {
        gateway.asked_for("run.get").await;
        drop(gateway);
    };
    let (broken, ()) = tokio::join!(call(LONG), cut);
    assert!(matches!(broken, Err(ClientError::Closing { .. })), "nobody knows whether it was heard");

    // One that is made while the link is down waits for it.
    let answering = async {
        let mut gateway = played.greet("a", 0, NEVER).await;
        let asked = gateway.asked_for("run.get").await;
        gateway.answer(&asked, json!(7)).await;
        gateway
    };
    let (answer, _gateway) = tokio::join!(call(LONG), answering);
    assert_eq!(answer.unwrap(), json!(7));
}

#[tokio::test]
async fn who_may_not_enter_is_told_so_and_does_not_knock_for_ever() {
    let played = Played::open().await;
    let client = played.client();
    let (linked, ()) = tokio::join!(client.link(LONG), played.refuse("401 Unauthorized", "UNAUTHORIZED"));
    assert_eq!(linked.err().unwrap().body().code, ErrorCode::Unauthorized);

    let (linked, gateway) = tokio::join!(client.link(LONG), played.greet("a", 0, NEVER));
    let (link, mut events) = linked.unwrap();
    drop(gateway);
    played.refuse("401 Unauthorized", "UNAUTHORIZED").await;
    loop {
        match soon(events.recv()).await.unwrap() {
            LinkEvent::Ended(error) => break assert_eq!(error.body().code, ErrorCode::Unauthorized),
            LinkEvent::Up(_) | LinkEvent::Down(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let gone = link.call::<_, Value>("me.get", &json!({}), LONG).await;
    assert!(matches!(gone, Err(ClientError::Closing { .. })));
}

#[tokio::test]
async fn dropping_a_link_hangs_up() {
    let played = Played::open().await;
    let client = played.client();
    let (linked, mut gateway) = tokio::join!(client.link(LONG), played.greet("a", 0, NEVER));
    drop(linked.unwrap());
    assert_eq!(gateway.asked().await, None);
}
