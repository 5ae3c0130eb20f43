//! Finding the sessions in which something can be claimed.

use std::time::Duration;

use tidegate_protocol::SessionKey;
use tidegate_storage::{Accept, Claim, Owner};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, converse, enlist, queue, start};

on_both_backends! {
    idle_sessions_with_a_run_are_listed_oldest_first,
    a_session_under_way_is_not_listed,
    a_session_held_by_a_void_owner_is_listed,
    a_session_held_by_a_silent_owner_is_listed_after_the_ttl,
    a_callers_run_elsewhere_is_listed_once_its_process_is_void,
    the_list_is_bounded,
    every_session_listed_can_be_claimed_and_is_gone_then,
    another_tenants_sessions_are_not_listed,
}

async fn listed(store: &ScratchStore, make: &Requests, owner: Owner) -> Vec<SessionKey> {
    store.waiting(make.tenant(), &owner, HOUR, make.now(), 100).await.unwrap()
}

async fn idle_sessions_with_a_run_are_listed_oldest_first(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    assert_eq!(listed(store, &make, owner).await, []);
    let [b, a, c] = ["b", "a", "c"].map(|name| make.key(name));
    for key in [&b, &a, &c, &b, &a] {
        queue(store, make.accept_from_channel(key)).await;
    }
    converse(store, &make, &make.key("ended"), owner).await;
    assert_eq!(listed(store, &make, owner).await, [b, a, c]);
}

async fn a_session_under_way_is_not_listed(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let key = make.key("work");
    let lease = start(store, other, make.accept_from_channel(&key)).await;
    queue(store, make.accept_from_channel(&key)).await;
    for asking in [owner, other] {
        assert_eq!(listed(store, &make, asking).await, []);
    }
    store.finish(&lease, make.completed()).await.unwrap();
    assert_eq!(listed(store, &make, owner).await, [key]);
}

async fn a_session_held_by_a_void_owner_is_listed(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let [held, idle] = ["held", "idle"].map(|name| make.key(name));
    start(store, owner, make.accept_from_channel(&held)).await;
    queue(store, Accept { owner: other, ..make.accept_from_channel(&idle) }).await;
    let successor = store.enlist(owner.instance, make.now()).await.unwrap();
    for asking in [successor, other] {
        assert_eq!(listed(store, &make, asking).await, [held.clone(), idle.clone()]);
    }
}

async fn a_session_held_by_a_silent_owner_is_listed_after_the_ttl(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let key = make.key("work");
    start(store, owner, make.accept_from_channel(&key)).await;
    // Any database clock shows that this went by.
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(listed(store, &make, other).await, []);
    let waiting = store.waiting(make.tenant(), &other, 20, make.now(), 100).await.unwrap();
    assert_eq!(waiting, [key]);
    // Whoever asks is not silent.
    assert_eq!(store.waiting(make.tenant(), &owner, 0, make.now(), 100).await.unwrap(), []);
}

async fn a_callers_run_elsewhere_is_listed_once_its_process_is_void(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let key = make.key("work");
    queue(store, make.accept(&key)).await;
    queue(store, make.accept_from_channel(&key)).await;
    assert_eq!(listed(store, &make, owner).await, [key.clone()]);
    assert_eq!(listed(store, &make, other).await, [], "it would find the session busy");
    store.enlist(owner.instance, make.now()).await.unwrap();
    assert_eq!(listed(store, &make, other).await, [key]);
}

async fn the_list_is_bounded(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for name in ["c", "b", "a"] {
        queue(store, make.accept_from_channel(&make.key(name))).await;
    }
    let waiting = store.waiting(make.tenant(), &owner, HOUR, make.now(), 2).await.unwrap();
    assert_eq!(waiting, [make.key("c"), make.key("b")]);
}

async fn every_session_listed_can_be_claimed_and_is_gone_then(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    start(store, owner, make.accept(&make.key("caller under way"))).await;
    start(store, owner, make.accept_from_channel(&make.key("channel under way"))).await;
    queue(store, make.accept(&make.key("caller waits"))).await;
    queue(store, make.accept_from_channel(&make.key("channel waits"))).await;
    store.enlist(owner.instance, make.now()).await.unwrap();
    let waiting = listed(store, &make, other).await;
    assert_eq!(waiting.len(), 4);
    for key in waiting {
        let claimed = store.claim(&key, &other, HOUR, make.now()).await.unwrap();
        assert!(!matches!(claimed, Claim::Busy { .. }), "{key}: {claimed:?}");
    }
    assert_eq!(listed(store, &make, other).await, []);
}

async fn another_tenants_sessions_are_not_listed(store: &ScratchStore) {
    let (make, two) = (Requests::new("local", 1), Requests::new("two", 1));
    let owner = enlist(store, &make).await;
    queue(store, make.accept_from_channel(&make.key("work"))).await;
    start(store, owner, make.accept_from_channel(&make.key("held"))).await;
    let owner = store.enlist(owner.instance, make.now()).await.unwrap();
    assert_eq!(listed(store, &two, owner).await, []);
    assert_eq!(listed(store, &make, owner).await.len(), 2);
}
