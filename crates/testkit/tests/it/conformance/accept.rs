//! ACCEPT: what is durable before anything is acknowledged.

use tidegate_protocol::ErrorCode;
use tidegate_storage::{
    Accept, Accepted, Admission, Fence, Idempotency, Lease, NewSession, RunLookup, StoreError,
};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{claim, converse, enlist, queue, run, running_row, start, waiting_row};

on_both_backends! {
    a_request_waits_as_it_was_sent,
    an_idle_session_is_claimed_with_the_acceptance,
    a_claim_with_the_acceptance_goes_on_in_the_current_log,
    a_session_with_a_run_under_way_is_not_claimed_again,
    a_run_that_waits_goes_before_a_later_claim,
    what_a_network_delivered_is_kept_with_the_run,
    the_same_request_twice_is_one_run,
    the_same_request_is_one_run_even_after_it_ended,
    the_same_key_with_another_request_is_a_conflict,
    an_expired_key_begins_a_new_run,
    a_run_is_found_by_its_idempotency_key_as_long_as_that_holds,
    a_run_id_that_exists_is_refused_and_nothing_is_left,
    sessions_do_not_wait_for_each_other,
}

async fn a_request_waits_as_it_was_sent(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let mut accept = make.accept_from_channel(&make.key("work"));
    accept.run.client_key = Some("my-run".to_owned());
    let accepted = store.accept(accept.clone()).await.unwrap();
    assert_eq!(accepted, Accepted { run: accept.run.id, admission: Admission::Queued { ahead: 0 } });
    assert_eq!(run(store, &make, accept.run.id).await, waiting_row(&accept));
}

async fn an_idle_session_is_claimed_with_the_acceptance(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let accept = Accept {
        owner,
        claim: true,
        new_session: NewSession { id: make.id(), alias: Some("lc-1-abcd".to_owned()) },
        ..make.accept(&make.key("work"))
    };
    let accepted = store.accept(accept.clone()).await.unwrap();
    let lease = Lease {
        key: accept.key.clone(),
        run: accept.run.id,
        session: accept.new_session.id,
        alias: Some("lc-1-abcd".to_owned()),
        owner,
        fence: Fence(1),
        attempt: 1,
        worked_ms: 0,
        refusal: None,
        over_budget: Vec::new(),
    };
    assert_eq!(accepted, Accepted { run: accept.run.id, admission: Admission::Claimed(lease.clone()) });
    assert_eq!(run(store, &make, accept.run.id).await, running_row(&accept, &lease, accept.now));
    // The log begins with its first line, not with a run.
    assert_eq!(store.session(&accept.key).await.unwrap(), None);
}

async fn a_claim_with_the_acceptance_goes_on_in_the_current_log(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let mut first = make.accept(&key);
    first.new_session.alias = Some("lc-1-abcd".to_owned());
    let first = start(store, owner, first).await;
    store.finish(&first, make.completed()).await.unwrap();
    let second = start(store, owner, make.accept(&key)).await;
    let expected = Lease { run: second.run, fence: Fence(first.fence.0 + 1), ..first };
    assert_eq!(second, expected);
}

async fn a_session_with_a_run_under_way_is_not_claimed_again(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    start(store, owner, make.accept(&key)).await;
    for ahead in 1..4 {
        let accept = Accept { owner, claim: true, ..make.accept(&key) };
        let accepted = store.accept(accept.clone()).await.unwrap();
        assert_eq!(accepted, Accepted { run: accept.run.id, admission: Admission::Queued { ahead } });
        assert_eq!(run(store, &make, accept.run.id).await, waiting_row(&accept));
    }
}

async fn a_run_that_waits_goes_before_a_later_claim(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let lease = start(store, owner, make.accept(&key)).await;
    let second = queue(store, make.accept(&key)).await;
    let third = queue(store, make.accept(&key)).await;
    store.finish(&lease, make.completed()).await.unwrap();
    // Nothing is under way now, but two runs came before.
    let accept = Accept { owner, claim: true, ..make.accept(&key) };
    let accepted = store.accept(accept.clone()).await.unwrap();
    assert_eq!(accepted, Accepted { run: accept.run.id, admission: Admission::Queued { ahead: 2 } });
    for expected in [second, third, accept.run.id] {
        let lease = claim(store, &make, &key, owner).await;
        assert_eq!(lease.run, expected);
        store.finish(&lease, make.completed()).await.unwrap();
    }
}

async fn what_a_network_delivered_is_kept_with_the_run(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let accept = make.accept_from_channel(&make.key("work"));
    let (id, inbound) = accept.inbound.clone().unwrap();
    store.accept(accept.clone()).await.unwrap();
    let rows = store.tables(make.tenant()).await.remove("inbox").unwrap();
    let [row] = rows.as_slice() else { panic!("one message, {} rows", rows.len()) };
    assert_eq!(row["id"], id.to_string());
    assert_eq!(row["run_id"], accept.run.id.to_string());
    assert_eq!(row["channel"], "slack");
    assert_eq!(row["message_id"], inbound.message.id);
    let body = serde_json::to_value(&inbound).unwrap();
    let stored = match &row["body_json"] {
        serde_json::Value::String(text) => serde_json::from_str(text).unwrap(),
        value => value.clone(),
    };
    assert_eq!(stored, body);
}

async fn the_same_request_twice_is_one_run(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let idempotency = Some(make.idempotency("key", "request"));
    let first = Accept { idempotency: idempotency.clone(), ..make.accept_from_channel(&key) };
    store.accept(first.clone()).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    let again = Accept { idempotency, owner, claim: true, ..make.accept_from_channel(&key) };
    let accepted = store.accept(again).await.unwrap();
    assert_eq!(accepted, Accepted { run: first.run.id, admission: Admission::Replayed });
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn the_same_request_is_one_run_even_after_it_ended(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let idempotency = Some(make.idempotency("key", "request"));
    let first = Accept { idempotency: idempotency.clone(), ..make.accept(&make.key("work")) };
    let lease = start(store, owner, first).await;
    store.finish(&lease, make.failed()).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    // In another session, too: the key stands for the request, wherever it was sent.
    let again = Accept { idempotency, owner, claim: true, ..make.accept(&make.key("other")) };
    let accepted = store.accept(again).await.unwrap();
    assert_eq!(accepted, Accepted { run: lease.run, admission: Admission::Replayed });
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn the_same_key_with_another_request_is_a_conflict(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let key = make.key("work");
    let first = Accept { idempotency: Some(make.idempotency("key", "request")), ..make.accept(&key) };
    store.accept(first).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    let other = Accept { idempotency: Some(make.idempotency("key", "another")), ..make.accept(&key) };
    let error = store.accept(other).await.unwrap_err();
    assert_eq!(error, StoreError::IdempotencyConflict);
    assert_eq!(error.code(), ErrorCode::IdempotencyConflict);
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn an_expired_key_begins_a_new_run(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let key = make.key("work");
    let first = make.accept(&key);
    let short = Idempotency::new("key", b"request", first.now + 10);
    store.accept(Accept { idempotency: Some(short), ..first.clone() }).await.unwrap();
    // Even with another fingerprint: the promise has ended.
    let long = make.idempotency("key", "another");
    let second = Accept { idempotency: Some(long.clone()), ..make.accept(&key) };
    assert!(second.now > first.now + 10);
    let accepted = store.accept(second.clone()).await.unwrap();
    assert_eq!(accepted, Accepted { run: second.run.id, admission: Admission::Queued { ahead: 1 } });
    let replay = Accept { idempotency: Some(long), ..make.accept(&key) };
    let accepted = store.accept(replay).await.unwrap();
    assert_eq!(accepted, Accepted { run: second.run.id, admission: Admission::Replayed });
}

async fn a_run_is_found_by_its_idempotency_key_as_long_as_that_holds(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let foreign = Requests::new("elsewhere", 2);
    enlist(store, &make).await;
    enlist(store, &foreign).await;
    let accept = make.accept(&make.key("work"));
    let until = accept.now + 10;
    let idempotency = Idempotency::new("key", b"request", until);
    let hash = idempotency.key.clone();
    store.accept(Accept { idempotency: Some(idempotency), ..accept.clone() }).await.unwrap();
    let found = async |make: &Requests, key: &str, now| {
        let lookup = RunLookup::Idempotency { key: key.to_owned(), now };
        store.run(make.tenant(), &lookup).await.unwrap().map(|row| row.id)
    };
    assert_eq!(found(&make, &hash, until - 1).await, Some(accept.run.id));
    assert_eq!(found(&make, &hash, until).await, None);
    assert_eq!(found(&make, "key", until - 1).await, None, "the key itself is not kept");
    assert_eq!(found(&foreign, &hash, until - 1).await, None);
}

async fn a_run_id_that_exists_is_refused_and_nothing_is_left(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let first = make.accept(&make.key("work"));
    store.accept(first.clone()).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    let mut second = make.accept_from_channel(&make.key("new"));
    second.run.id = first.run.id;
    (second.owner, second.claim) = (owner, true);
    second.idempotency = Some(make.idempotency("key", "request"));
    store.accept(second.clone()).await.unwrap_err();
    before.assert_same(&store.snapshot(make.tenant()).await);
    // The idempotency key was not used up either.
    second.run.id = make.id();
    let accepted = store.accept(second.clone()).await.unwrap();
    assert!(matches!(accepted.admission, Admission::Claimed(_)), "{accepted:?}");
}

async fn sessions_do_not_wait_for_each_other(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    converse(store, &make, &make.key("first"), owner).await;
    start(store, owner, make.accept(&make.key("second"))).await;
    queue(store, make.accept(&make.key("second"))).await;
    let mut third = make.accept(&make.key("third"));
    third.run.client_key = Some("third".to_owned());
    let lease = start(store, owner, third.clone()).await;
    assert_eq!(lease.fence, Fence(1));
    let found = store.run(make.tenant(), &RunLookup::ClientKey("third".to_owned())).await.unwrap();
    assert_eq!(found, Some(running_row(&third, &lease, third.now)));
}
