//! Lanes: which have something to send, and what claiming one of them finds.

use std::time::Duration;

use tidegate_protocol::SendOutcome;
use tidegate_storage::{Lane, NewPart, NextSend, OutboxState, Owner, Sending, StoreError};
use tidegate_testkit::requests::{Requests, parse};
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, enlist, outbox_states, reply, restart};

on_both_backends! {
    lanes_are_listed_with_their_account_those_due_first,
    a_lane_is_busy_while_somebody_alive_sends,
    a_lane_says_until_when_its_head_waits,
    a_lane_without_parts_is_empty,
    a_send_of_an_earlier_incarnation_is_taken_over_in_doubt,
    a_send_of_a_silent_owner_is_taken_over_after_the_ttl,
    the_former_owner_settles_nothing_after_a_takeover,
    doubt_ends_when_it_is_known_that_nothing_went_out,
    a_retried_part_waits_for_the_one_that_is_being_sent,
    a_part_without_a_channel_is_not_sent,
}

async fn claim(store: &ScratchStore, make: &Requests, owner: Owner, lane: &str) -> NextSend {
    store.claim_send(make.tenant(), &owner, lane, HOUR, make.now()).await.unwrap()
}

async fn granted(store: &ScratchStore, make: &Requests, owner: Owner, lane: &str) -> Sending {
    match claim(store, make, owner, lane).await {
        NextSend::Granted(sending) => sending,
        other => panic!("a part waits, and yet: {other:?}"),
    }
}

async fn settle(store: &ScratchStore, make: &Requests, sending: &Sending, outcome: SendOutcome) {
    store.settle_send(sending, outcome, make.now()).await.unwrap();
}

fn sent() -> SendOutcome {
    SendOutcome::Sent { id: "remote".to_owned() }
}

fn not_sent(retry_at: i64) -> SendOutcome {
    SendOutcome::NotSent { retry_at, reason: "later".to_owned() }
}

async fn lanes_are_listed_with_their_account_those_due_first(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    assert_eq!(store.lanes(make.tenant(), 10).await.unwrap(), []);
    let elsewhere =
        NewPart { channel: parse("matrix"), account_id: "@bot \u{1}".to_owned(), ..make.part("c \0", "1") };
    reply(store, &make, owner, "one", &[make.part("b", "1"), make.part("b", "2"), make.part("a", "3")]).await;
    reply(store, &make, owner, "two", &[elsewhere]).await;
    let lane = |name: &str, due_at: i64| Lane {
        name: name.to_owned(),
        channel: parse("slack"),
        account_id: "T1".to_owned(),
        due_at,
    };
    let other = Lane { channel: parse("matrix"), account_id: "@bot \u{1}".to_owned(), ..lane("c \0", 0) };
    let lanes = store.lanes(make.tenant(), 10).await.unwrap();
    assert_eq!(lanes, [lane("b", 0), lane("a", 0), other.clone()]);
    let head = granted(store, &make, owner, "b").await;
    let retry_at = make.now() + HOUR;
    settle(store, &make, &head, not_sent(retry_at)).await;
    let lanes = store.lanes(make.tenant(), 10).await.unwrap();
    assert_eq!(lanes, [lane("a", 0), other, lane("b", retry_at)]);
    assert_eq!(store.lanes(make.tenant(), 1).await.unwrap(), [lane("a", 0)]);
    let last = granted(store, &make, owner, "a").await;
    settle(store, &make, &last, sent()).await;
    let names: Vec<_> =
        store.lanes(make.tenant(), 10).await.unwrap().into_iter().map(|lane| lane.name).collect();
    assert_eq!(names, ["c \0", "b"], "a lane without open parts is not one");
}

async fn a_lane_is_busy_while_somebody_alive_sends(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    reply(store, &make, owner, "one", &[make.part("a", "1"), make.part("a", "2")]).await;
    let first = granted(store, &make, owner, "a").await;
    assert!(!first.doubtful);
    for claimant in [owner, other] {
        assert_eq!(claim(store, &make, claimant, "a").await, NextSend::Busy);
    }
    settle(store, &make, &first, sent()).await;
    assert_eq!(granted(store, &make, other, "a").await.body, "2");
}

async fn a_lane_says_until_when_its_head_waits(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    reply(store, &make, owner, "one", &[make.part("a", "1"), make.part("a", "2")]).await;
    let first = granted(store, &make, owner, "a").await;
    let retry_at = make.now() + HOUR;
    settle(store, &make, &first, not_sent(retry_at)).await;
    assert_eq!(claim(store, &make, owner, "a").await, NextSend::Later(retry_at));
    make.set_now(retry_at - 1_000);
    assert_eq!(granted(store, &make, owner, "a").await, Sending { attempt: 2, ..first });
}

async fn a_lane_without_parts_is_empty(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    assert_eq!(claim(store, &make, owner, "a").await, NextSend::Empty);
    reply(store, &make, owner, "one", &[make.part("a", "1"), make.part("b", "2")]).await;
    let first = granted(store, &make, owner, "a").await;
    settle(store, &make, &first, sent()).await;
    assert_eq!(claim(store, &make, owner, "a").await, NextSend::Empty);
}

async fn a_send_of_an_earlier_incarnation_is_taken_over_in_doubt(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let run = reply(store, &make, owner, "one", &[make.part("a", "1"), make.part("a", "2")]).await;
    let lost = granted(store, &make, owner, "a").await;
    let (successor, _) = restart(store, &make, owner).await;
    let names: Vec<_> =
        store.lanes(make.tenant(), 10).await.unwrap().into_iter().map(|lane| lane.name).collect();
    assert_eq!(names, ["a"], "whoever looks for work finds it");
    let taken = granted(store, &make, other, "a").await;
    assert_eq!(taken, Sending { owner: other, attempt: 2, doubtful: true, ..lost });
    assert_eq!(claim(store, &make, successor, "a").await, NextSend::Busy);
    // The one that took it over dies too.
    let (other, _) = restart(store, &make, other).await;
    let again = granted(store, &make, successor, "a").await;
    assert_eq!(again, Sending { owner: successor, attempt: 3, ..taken });
    assert_eq!(claim(store, &make, other, "a").await, NextSend::Busy);
    assert_eq!(outbox_states(store, &make, run).await, [OutboxState::Sending, OutboxState::Pending]);
}

async fn a_send_of_a_silent_owner_is_taken_over_after_the_ttl(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    reply(store, &make, owner, "one", &[make.part("a", "1")]).await;
    let lost = granted(store, &make, owner, "a").await;
    // Any database clock shows that this went by.
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(claim(store, &make, other, "a").await, NextSend::Busy);
    let taken = store.claim_send(make.tenant(), &other, "a", 20, make.now()).await.unwrap();
    assert_eq!(taken, NextSend::Granted(Sending { owner: other, attempt: 2, doubtful: true, ..lost }));
}

async fn the_former_owner_settles_nothing_after_a_takeover(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    reply(store, &make, owner, "one", &[make.part("a", "1"), make.part("a", "2")]).await;
    let lost = granted(store, &make, owner, "a").await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    let taken = store.claim_send(make.tenant(), &other, "a", 0, make.now()).await.unwrap();
    let NextSend::Granted(taken) = taken else { panic!("the owner is silent, and yet: {taken:?}") };
    let before = store.snapshot(make.tenant()).await;
    for outcome in [sent(), not_sent(0), SendOutcome::Rejected { reason: "no".to_owned() }] {
        let error = store.settle_send(&lost, outcome, make.now()).await.unwrap_err();
        assert_eq!(error, StoreError::StaleFence);
    }
    before.assert_same(&store.snapshot(make.tenant()).await);
    settle(store, &make, &taken, sent()).await;
}

async fn doubt_ends_when_it_is_known_that_nothing_went_out(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    reply(store, &make, owner, "one", &[make.part("a", "1")]).await;
    granted(store, &make, owner, "a").await;
    let (owner, _) = restart(store, &make, owner).await;
    let doubtful = granted(store, &make, owner, "a").await;
    assert!(doubtful.doubtful);
    settle(store, &make, &doubtful, not_sent(0)).await;
    let again = granted(store, &make, owner, "a").await;
    assert_eq!(again, Sending { attempt: 3, doubtful: false, ..doubtful });
}

async fn a_retried_part_waits_for_the_one_that_is_being_sent(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    reply(store, &make, owner, "one", &[make.part("a", "1")]).await;
    reply(store, &make, owner, "two", &[make.part("a", "2")]).await;
    let first = granted(store, &make, owner, "a").await;
    settle(store, &make, &first, SendOutcome::Rejected { reason: "no".to_owned() }).await;
    let second = granted(store, &make, owner, "a").await;
    store.retry_send(&make.principal(), first.id, make.now()).await.unwrap();
    // It comes before in the lane, and yet nothing goes out beside what is being sent.
    assert_eq!(claim(store, &make, other, "a").await, NextSend::Busy);
    settle(store, &make, &second, not_sent(0)).await;
    assert_eq!(granted(store, &make, other, "a").await.id, first.id);
}

async fn a_part_without_a_channel_is_not_sent(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    reply(store, &make, owner, "one", &[make.part("a", "1")]).await;
    store.execute("UPDATE outbox SET channel = ''").await;
    assert_eq!(store.lanes(make.tenant(), 10).await.unwrap(), []);
    assert_eq!(claim(store, &make, owner, "a").await, NextSend::Empty);
}
