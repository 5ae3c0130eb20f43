//! Finding the sessions in which something can be claimed.

use std::time::Duration;

use tidegate_protocol::{Lane, SessionKey};
use tidegate_storage::{Accept, Claim, Owner, Waiting};
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
    every_session_is_listed_with_the_lane_of_its_next_run,
    no_lane_and_no_agent_hides_another_however_short_the_list,
    the_next_run_of_an_idle_session_is_its_oldest_that_waits,
}

async fn listed(store: &ScratchStore, make: &Requests, owner: Owner) -> Vec<SessionKey> {
    keys(store.waiting(make.tenant(), &owner, HOUR, make.now(), 100).await.unwrap())
}

fn keys(waiting: Vec<Waiting>) -> Vec<SessionKey> {
    waiting.into_iter().map(|waiting| waiting.key).collect()
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
    assert_eq!(keys(waiting), [key]);
    // Whoever asks is not silent.
    assert_eq!(store.waiting(make.tenant(), &owner, 0, make.now(), 100).await.unwrap(), []);
}

async fn a_callers_run_elsewhere_is_listed_once_its_process_is_void(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let key = make.key("work");
    queue(store, make.accept(&key)).await;
    queue(store, make.accept_from_channel(&key)).await;
    assert_eq!(listed(store, &make, owner).await, std::slice::from_ref(&key));
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
    assert_eq!(keys(waiting), [make.key("c"), make.key("b")]);
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

/// A request from a channel in this lane.
fn in_lane(make: &Requests, key: &SessionKey, lane: Lane) -> Accept {
    let mut accept = make.accept_from_channel(key);
    accept.run.spec.lane = Some(lane);
    accept
}

async fn every_session_is_listed_with_the_lane_of_its_next_run(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut expected = Vec::new();
    for lane in Lane::ALL {
        let accept = in_lane(&make, &make.key(lane.as_str()), lane);
        expected.push(Waiting { key: accept.key.clone(), run: accept.run.id, lane });
        queue(store, accept).await;
    }
    // The first one counts.
    queue(store, in_lane(&make, &make.key("cron"), Lane::Main)).await;
    let (plain, mut sub) = (make.accept_from_channel(&make.key("plain")), make.key("sub"));
    sub.place = tidegate_protocol::Place::Sub { id: "s".to_owned() };
    let sub = make.accept_from_channel(&sub);
    expected.push(Waiting { key: plain.key.clone(), run: plain.run.id, lane: Lane::Main });
    expected.push(Waiting { key: sub.key.clone(), run: sub.run.id, lane: Lane::Subagent });
    queue(store, plain).await;
    queue(store, sub).await;
    let mut waiting = store.waiting(make.tenant(), &owner, HOUR, make.now(), 100).await.unwrap();
    waiting.sort_by_key(|waiting| waiting.run);
    assert_eq!(waiting, expected);
}

async fn no_lane_and_no_agent_hides_another_however_short_the_list(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for at in 0..20 {
        queue(store, make.accept_from_channel(&make.key(&format!("crowd {at}")))).await;
        queue(store, in_lane(&make, &make.key(&format!("nested {at}")), Lane::Nested)).await;
    }
    let mut other = make.key("late");
    other.scope.agent = "other".parse().unwrap();
    queue(store, make.accept_from_channel(&other)).await;
    let waiting = store.waiting(make.tenant(), &owner, HOUR, make.now(), 4).await.unwrap();
    assert_eq!(keys(waiting), [make.key("crowd 0"), make.key("nested 0"), other, make.key("crowd 1")]);
}

async fn the_next_run_of_an_idle_session_is_its_oldest_that_waits(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    assert_eq!(store.next(&key).await.unwrap(), None);
    let lease = start(store, owner, make.accept_from_channel(&key)).await;
    let (second, third) = (in_lane(&make, &key, Lane::Cron), make.accept_from_channel(&key));
    let next = Waiting { key: key.clone(), run: second.run.id, lane: Lane::Cron };
    let last = Waiting { key: key.clone(), run: third.run.id, lane: Lane::Main };
    queue(store, second).await;
    queue(store, third).await;
    assert_eq!(store.next(&key).await.unwrap(), None, "one is under way");
    store.finish(&lease, make.completed()).await.unwrap();
    assert_eq!(store.next(&key).await.unwrap(), Some(next.clone()));
    store.abort_queued(&make.principal(), next.run, make.now()).await.unwrap();
    assert_eq!(store.next(&key).await.unwrap(), Some(last.clone()));
    let claimed = store.claim(&key, &owner, HOUR, make.now()).await.unwrap();
    assert!(matches!(claimed, Claim::Granted(lease) if lease.run == last.run));
    assert_eq!(store.next(&key).await.unwrap(), None);
}
