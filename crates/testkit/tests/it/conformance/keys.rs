//! Callers' keys for requests that are no runs: the first answer stays, for as long as the key does.

use tidegate_storage::{Idempotency, StoreError, Sweep};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{enlist, everything};

on_both_backends! {
    an_answer_is_kept_until_its_key_ends,
    another_request_under_the_key_is_a_conflict,
    the_first_answer_stays_whoever_comes_at_the_same_time,
    a_key_of_a_run_is_no_key_of_an_answer,
    answers_stay_in_their_tenant_and_go_with_their_time,
}

const END: i64 = 5_000;

fn key(name: &str, request: &str) -> Idempotency {
    Idempotency::new(name, request.as_bytes(), END)
}

async fn an_answer_is_kept_until_its_key_ends(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let tenant = make.tenant();
    assert_eq!(store.answered(tenant, &key("k", "r"), 1).await.unwrap(), None);
    let text = "{\"a\":\"\u{0}ä\"}".to_owned();
    assert_eq!(store.keep_answer(tenant, key("k", "r"), text.clone(), 1).await.unwrap(), text);
    assert_eq!(store.answered(tenant, &key("k", "r"), END - 1).await.unwrap(), Some(text));
    assert_eq!(store.answered(tenant, &key("k", "r"), END).await.unwrap(), None);
    // Its time is over: it may stand for something else.
    let later = Idempotency::new("k", b"other", 2 * END);
    assert_eq!(store.keep_answer(tenant, later, "new".into(), END).await.unwrap(), "new");
}

async fn another_request_under_the_key_is_a_conflict(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let tenant = make.tenant();
    store.keep_answer(tenant, key("k", "r"), "first".into(), 1).await.unwrap();
    let read = store.answered(tenant, &key("k", "other"), 2).await;
    assert!(matches!(read, Err(StoreError::IdempotencyConflict)), "{read:?}");
    let kept = store.keep_answer(tenant, key("k", "other"), "second".into(), 2).await;
    assert!(matches!(kept, Err(StoreError::IdempotencyConflict)), "{kept:?}");
    assert_eq!(store.answered(tenant, &key("k", "r"), 2).await.unwrap().as_deref(), Some("first"));
}

async fn the_first_answer_stays_whoever_comes_at_the_same_time(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let keep = |answer: &str| store.keep_answer(make.tenant(), key("k", "r"), answer.to_owned(), 1);
    let (one, two, three) = tokio::join!(keep("1"), keep("2"), keep("3"));
    let told = [one.unwrap(), two.unwrap(), three.unwrap()];
    assert!(told.iter().all(|answer| *answer == told[0]), "{told:?}");
    assert_eq!(store.answered(make.tenant(), &key("k", "r"), 2).await.unwrap().as_ref(), Some(&told[0]));
}

async fn a_key_of_a_run_is_no_key_of_an_answer(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut accept = make.accept(&make.key("work"));
    accept.owner = owner;
    accept.idempotency = Some(Idempotency::new("k", b"r", i64::MAX));
    store.accept(accept).await.unwrap();
    let read = store.answered(make.tenant(), &Idempotency::new("k", b"r", i64::MAX), 2).await;
    assert!(matches!(read, Err(StoreError::IdempotencyConflict)), "{read:?}");
}

async fn answers_stay_in_their_tenant_and_go_with_their_time(store: &ScratchStore) {
    let (make, other) = (Requests::new("local", 1), Requests::new("other", 2));
    store.keep_answer(make.tenant(), key("k", "r"), "ours".into(), 1).await.unwrap();
    assert_eq!(store.answered(other.tenant(), &key("k", "r"), 2).await.unwrap(), None);
    store.keep_answer(other.tenant(), key("k", "x"), "theirs".into(), 1).await.unwrap();
    let swept = store.sweep(make.tenant(), Sweep { now: END, ..everything(END) }).await.unwrap();
    assert_eq!(swept.idempotency, 1);
    assert_eq!(store.answered(other.tenant(), &key("k", "x"), 2).await.unwrap().as_deref(), Some("theirs"));
}
