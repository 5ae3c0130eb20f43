//! What people write comes back as they wrote it.

use serde_json::json;
use tidegate_protocol::{
    Block, Cost, EntryBody, ErrorBody, ErrorCode, Message, Place, SendOutcome, SessionKey, ToolRunState,
    Usage,
};
use tidegate_storage::{Ending, Finish, NewCall, NewEntry, OutboxState, RunLookup};
use tidegate_testkit::requests::{Requests, parse};
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{audit_of, enlist, lines, log, next_send, run, start};

on_both_backends! {
    odd_text_comes_back_everywhere,
    even_the_null_character_comes_back,
    a_megabyte_comes_back,
    every_kind_of_key_and_block_comes_back,
    the_largest_numbers_come_back,
    lines_of_a_newer_release_come_back_as_they_are,
}

/// Every control character but NUL, quotes of SQL and JSON, and what Unicode has to offer.
fn odd() -> String {
    let controls: String = (1_u8..32).chain([127]).map(char::from).collect();
    format!(
        "{controls} ' '' \" \\ \\u0000 \\x00 -- /* */ ; $1 ?1 %s {{}} \u{80}\u{a0}\u{200b}\u{2028}\u{2029}\u{feff}\u{fffd}\u{ffff} \
         你好 😀 👩\u{200d}👩\u{200d}👧 e\u{301} \u{202e}abc\u{202c} \u{10ffff}"
    )
}

async fn odd_text_comes_back_everywhere(store: &ScratchStore) {
    comes_back_everywhere(store, odd()).await;
}

async fn even_the_null_character_comes_back(store: &ScratchStore) {
    comes_back_everywhere(store, "\0a\0\0b\u{1}0\u{2400}\0".to_owned()).await;
}

async fn comes_back_everywhere(store: &ScratchStore, odd: String) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key(&odd);
    let mut accept = make.accept_from_channel(&key);
    accept.run.client_key = Some(odd.clone());
    accept.run.input = Message::user(&odd, 5);
    accept.new_session.alias = Some(odd.clone());
    accept.run.spec.models[0].model.clone_from(&odd);
    accept.inbound = Some(make.inbound(&odd));
    let lease = start(store, owner, accept.clone()).await;
    assert_eq!(lease.key, key);
    let mut intent = make.intent(vec![make.user(&odd)]);
    intent.begun[0].call_id.clone_from(&odd);
    intent.begun[0].tool_name.clone_from(&odd);
    intent.begun[0].args = json!({odd.clone(): [odd.clone()]});
    store.step(&lease, intent.clone()).await.unwrap();
    let mut outcome = make.outcome(&intent, &ToolRunState::Succeeded, vec![make.assistant(&odd)]);
    outcome.ended[0].result = json!({"text": odd});
    store.step(&lease, outcome.clone()).await.unwrap();
    let finish = Finish { parts: vec![make.part(&odd, &odd)], ..make.completed() };
    store.finish(&lease, finish.clone()).await.unwrap();
    let sending = next_send(store, make.tenant(), &owner, make.now()).await.unwrap().unwrap();
    assert_eq!((sending.lane.as_str(), sending.body.as_str()), (odd.as_str(), odd.as_str()));
    let settled =
        store.settle_send(&sending, SendOutcome::Sent { id: odd.clone() }, make.now()).await.unwrap();
    assert_eq!(settled, OutboxState::Sent);

    let row = store.run(make.tenant(), &RunLookup::ClientKey(odd.clone())).await.unwrap().unwrap();
    assert_eq!(
        (row.id, row.input, row.spec, row.key),
        (lease.run, accept.run.input, accept.run.spec, key.clone())
    );
    let tools = store.tool_runs(make.tenant(), lease.run).await.unwrap();
    assert_eq!((tools[0].call_id.clone(), tools[0].tool_name.clone()), (odd.clone(), odd.clone()));
    assert_eq!(
        (tools[0].args.clone(), tools[0].result.clone()),
        (intent.begun[0].args.clone(), Some(outcome.ended[0].result.clone()))
    );
    let expected = lines(&[], &lease, &intent.entries, intent.now);
    let expected = lines(&expected, &lease, &outcome.entries, outcome.now);
    let expected = lines(&expected, &lease, &finish.entries, finish.now);
    assert_eq!(log(store, &lease).await, expected);
    let session = store.session_by_name(make.tenant(), &odd).await.unwrap();
    assert_eq!(session, store.session(&key).await.unwrap());
    assert_eq!(session.and_then(|session| session.alias), Some(odd.clone()));
    let parts = store.outbox_of(make.tenant(), lease.run).await.unwrap();
    assert_eq!(parts[0].remote_id, Some(odd.clone()));
    let audit = audit_of(store, &make, &lease.run.to_string()).await;
    assert_eq!(audit[0].metadata["sessionKey"], key.to_string());
    let failed = start(store, owner, make.accept(&key)).await;
    let error = ErrorBody { details: Some(json!([odd])), ..ErrorBody::new(ErrorCode::Internal, &odd) };
    store.finish(&failed, make.ending(Ending::Failed(error.clone()))).await.unwrap();
    assert_eq!(run(store, &make, failed.run).await.error, Some(error));
    store.delete_session(&make.principal(), &key, make.now()).await.unwrap();
}

async fn a_megabyte_comes_back(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let large = "0123456789 好😀'\\\"\n".repeat(1 << 16);
    assert!(large.len() > 1 << 20);
    let mut accept = make.accept_from_channel(&make.key("work"));
    accept.run.input = Message::user(&large, 5);
    accept.inbound = Some(make.inbound(&large));
    let lease = start(store, owner, accept.clone()).await;
    let intent = make.intent(vec![make.user(&large)]);
    store.step(&lease, intent.clone()).await.unwrap();
    let mut outcome = make.outcome(&intent, &ToolRunState::Succeeded, Vec::new());
    outcome.ended[0].result = json!({"text": large});
    store.step(&lease, outcome.clone()).await.unwrap();
    let finish = Finish { parts: vec![make.part("a", &large)], ..make.completed() };
    store.finish(&lease, finish).await.unwrap();
    assert_eq!(run(store, &make, lease.run).await.input, accept.run.input);
    assert_eq!(log(store, &lease).await[0].body, intent.entries[0].body);
    assert_eq!(
        store.tool_runs(make.tenant(), lease.run).await.unwrap()[0].result,
        Some(outcome.ended[0].result.clone())
    );
    let sending = next_send(store, make.tenant(), &owner, make.now()).await.unwrap().unwrap();
    assert!(sending.body == large, "the part is {} bytes long", sending.body.len());
}

async fn every_kind_of_key_and_block_comes_back(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let places = [
        Place::Main,
        Place::Named { name: "dm:slack::U1".to_owned() },
        Place::Dm { channel: None, account: None, peer: "U1".to_owned() },
        Place::Dm { channel: Some(parse("slack")), account: None, peer: "U1".to_owned() },
        Place::Dm { channel: Some(parse("slack")), account: Some("T1".to_owned()), peer: "U1".to_owned() },
        Place::Group { channel: parse("slack"), id: "U1".to_owned() },
    ];
    let blocks = vec![
        Block::text(""),
        Block::Thinking {
            thinking: "hm".to_owned(),
            thinking_signature: Some("sig".to_owned()),
            redacted: true,
        },
        Block::Thinking { thinking: "hm".to_owned(), thinking_signature: None, redacted: false },
        Block::Image { data: "aGk=".to_owned(), mime_type: "image/png".to_owned() },
        Block::ToolCall {
            id: "c1".to_owned(),
            name: "t".to_owned(),
            arguments: json!({"a": null, "b": [{}, -1.5]}),
            thought_signature: Some("th".to_owned()),
        },
    ];
    for place in places {
        for thread in [None, Some("17.5".to_owned())] {
            let key = SessionKey { scope: make.scope(), place: place.clone(), thread };
            let lease = start(store, owner, make.accept(&key)).await;
            assert_eq!(lease.fence.0, 1, "{key} is a session of its own");
            let message = Message::ToolResult {
                tool_call_id: "c1".to_owned(),
                tool_name: "t".to_owned(),
                content: blocks.clone(),
                is_error: true,
                details: Some(json!({"exit": 1})),
                timestamp: -1,
            };
            let entries = vec![NewEntry { id: make.id(), body: EntryBody::Message(message) }];
            let finish = Finish { entries, ..make.completed() };
            store.finish(&lease, finish.clone()).await.unwrap();
            assert_eq!(log(store, &lease).await, lines(&[], &lease, &finish.entries, finish.now));
            assert_eq!(
                store.session(&key).await.unwrap().map(|row| (row.key, row.id)),
                Some((key, lease.session))
            );
        }
    }
}

async fn the_largest_numbers_come_back(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    // What is counted at most: a million dollars, and tokens that nobody has.
    let most = 1_000_000_000_000_000;
    let whole = Usage { input: most, output: most, cache_read: most, cache_write: most, cost: Cost(most) };
    let call = |usage| NewCall { usage, ..make.call(0) };
    let calls = vec![call(whole)];
    store.finish(&lease, Finish { calls, ..make.completed() }).await.unwrap();
    assert_eq!(run(store, &make, lease.run).await.usage, whole);
    // More is kept as that much, never turned into something else.
    let lease = start(store, owner, make.accept(&lease.key)).await;
    let calls = vec![call(Usage { input: u64::MAX, ..Usage::default() })];
    store.finish(&lease, Finish { calls, ..make.completed() }).await.unwrap();
    assert_eq!(run(store, &make, lease.run).await.usage.input, most);
    assert_eq!(store.session(&lease.key).await.unwrap().unwrap().usage.input, 2 * most);
}

async fn lines_of_a_newer_release_come_back_as_they_are(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let body = EntryBody::Unknown(json!({"summary": {"z": 1, "a": [true]}, "role": "narrator"}));
    let entries = vec![NewEntry { id: make.id(), body }, make.user("question")];
    let finish = Finish { entries, ..make.completed() };
    store.finish(&lease, finish.clone()).await.unwrap();
    assert_eq!(log(store, &lease).await, lines(&[], &lease, &finish.entries, finish.now));
}
