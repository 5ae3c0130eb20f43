//! SENDING and SENT: one part of a lane at a time, in the order of commits, each with one of four outcomes.

use tidegate_protocol::SendOutcome;
use tidegate_storage::{OutboxRow, OutboxState, Owner, Sending, StoreError};
use tidegate_testkit::requests::{EPOCH, Requests};
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{enlist, next_send, outbox_states, reply};

on_both_backends! {
    nothing_is_sent_where_nothing_waits,
    a_part_is_handed_out_whole,
    a_lane_goes_out_in_the_order_of_commits,
    a_lane_waits_for_the_part_that_is_being_sent,
    a_part_that_was_not_sent_is_tried_again_from_its_time_on,
    a_waiting_head_blocks_its_lane_and_no_other,
    a_sent_part_keeps_the_networks_id,
    a_rejected_part_ends_the_rest_of_its_reply,
    an_unknown_part_ends_the_rest_of_its_reply,
    parts_that_went_out_before_stay_sent,
    an_answer_that_is_not_the_owners_is_refused,
    a_part_is_settled_once,
    a_part_may_be_tried_more_often_than_a_run,
}

async fn next(store: &ScratchStore, make: &Requests, owner: Owner) -> Option<Sending> {
    next_send(store, make.tenant(), &owner, make.now()).await.unwrap()
}

async fn settle(
    store: &ScratchStore,
    make: &Requests,
    sending: &Sending,
    outcome: SendOutcome,
) -> OutboxState {
    store.settle_send(sending, outcome, make.now()).await.unwrap()
}

fn sent() -> SendOutcome {
    SendOutcome::Sent { id: "remote".to_owned() }
}

fn rejected() -> SendOutcome {
    SendOutcome::Rejected { reason: "not allowed".to_owned() }
}

async fn nothing_is_sent_where_nothing_waits(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    assert_eq!(next(store, &make, owner).await, None);
    reply(store, &make, owner, "work", &[]).await;
    assert_eq!(next(store, &make, owner).await, None);
}

async fn a_part_is_handed_out_whole(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let part = make.part("slack:T1:U1", "hello");
    let run = reply(store, &make, owner, "work", std::slice::from_ref(&part)).await;
    let expected = Sending {
        tenant: make.tenant().clone(),
        id: part.id,
        run,
        channel: part.channel.clone(),
        account_id: part.account_id.clone(),
        lane: part.lane.clone(),
        body: part.body.clone(),
        owner,
        attempt: 1,
        doubtful: false,
    };
    assert_eq!(next(store, &make, owner).await, Some(expected));
    let found = store.outbox_of(make.tenant(), run).await.unwrap();
    let row = OutboxRow {
        id: part.id,
        run,
        channel: part.channel,
        account_id: part.account_id,
        part: 1,
        lane: part.lane,
        body: part.body,
        state: OutboxState::Sending,
        attempt: 1,
        retry_at: 0,
        remote_id: None,
        reason: None,
        created_at: found[0].created_at,
        updated_at: found[0].updated_at,
    };
    assert!(row.created_at > EPOCH && row.updated_at > row.created_at);
    assert_eq!(found, [row]);
}

async fn a_lane_goes_out_in_the_order_of_commits(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut expected = Vec::new();
    for name in ["one", "two", "three"] {
        let parts = [make.part("lane", name), make.part("lane", name)];
        expected.extend(parts.each_ref().map(|part| part.id));
        reply(store, &make, owner, name, &parts).await;
    }
    let mut order = Vec::new();
    while let Some(sending) = next(store, &make, owner).await {
        order.push(sending.id);
        settle(store, &make, &sending, sent()).await;
    }
    assert_eq!(order, expected);
}

async fn a_lane_waits_for_the_part_that_is_being_sent(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    reply(store, &make, owner, "one", &[make.part("a", "1"), make.part("a", "2"), make.part("b", "3")]).await;
    let first = next(store, &make, owner).await.unwrap();
    let second = next(store, &make, other).await.unwrap();
    assert_eq!((first.lane.as_str(), second.lane.as_str()), ("a", "b"));
    for claimant in [owner, other] {
        assert_eq!(next(store, &make, claimant).await, None);
    }
    settle(store, &make, &first, sent()).await;
    let third = next(store, &make, other).await.unwrap();
    assert_eq!((third.lane.as_str(), third.body.as_str(), third.owner), ("a", "2", other));
}

async fn a_part_that_was_not_sent_is_tried_again_from_its_time_on(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let run = reply(store, &make, owner, "work", &[make.part("a", "1"), make.part("a", "2")]).await;
    let first = next(store, &make, owner).await.unwrap();
    let retry_at = make.now() + 60_000;
    let outcome = SendOutcome::NotSent { retry_at, reason: "slow down".to_owned() };
    assert_eq!(settle(store, &make, &first, outcome).await, OutboxState::Pending);
    let rows = store.outbox_of(make.tenant(), run).await.unwrap();
    assert_eq!((rows[0].attempt, rows[0].reason.as_deref()), (1, Some("slow down")));
    assert_eq!(next_send(store, make.tenant(), &owner, retry_at - 1).await.unwrap(), None);
    let again = next_send(store, make.tenant(), &owner, retry_at).await.unwrap();
    assert_eq!(again, Some(Sending { attempt: 2, ..first }));
}

async fn a_waiting_head_blocks_its_lane_and_no_other(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    reply(store, &make, owner, "one", &[make.part("a", "a1")]).await;
    reply(store, &make, owner, "two", &[make.part("a", "a2")]).await;
    let head = next(store, &make, owner).await.unwrap();
    let retry_at = make.now() + 60_000;
    settle(store, &make, &head, SendOutcome::NotSent { retry_at, reason: "later".to_owned() }).await;
    reply(store, &make, owner, "three", &[make.part("b", "b1")]).await;
    // Another reply in the same lane does not overtake; another lane does.
    let other = next(store, &make, owner).await.unwrap();
    assert_eq!(other.body, "b1");
    assert_eq!(next(store, &make, owner).await, None);
    make.set_now(retry_at);
    for body in ["a1", "a2"] {
        let sending = next(store, &make, owner).await.unwrap();
        assert_eq!(sending.body, body);
        settle(store, &make, &sending, sent()).await;
    }
}

async fn a_sent_part_keeps_the_networks_id(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let run = reply(store, &make, owner, "work", &[make.part("a", "1")]).await;
    let sending = next(store, &make, owner).await.unwrap();
    assert_eq!(settle(store, &make, &sending, sent()).await, OutboxState::Sent);
    let found = store.outbox_of(make.tenant(), run).await.unwrap();
    assert_eq!((&found[0].state, found[0].attempt), (&OutboxState::Sent, 1));
    assert_eq!((found[0].remote_id.as_deref(), &found[0].reason), (Some("remote"), &None));
    assert_eq!(next(store, &make, owner).await, None);
}

async fn ends_the_rest(store: &ScratchStore, outcome: SendOutcome, state: OutboxState) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let first =
        reply(store, &make, owner, "one", &[make.part("a", "1"), make.part("a", "2"), make.part("b", "3")])
            .await;
    let second = reply(store, &make, owner, "two", &[make.part("a", "4")]).await;
    let sending = next(store, &make, owner).await.unwrap();
    assert_eq!(settle(store, &make, &sending, outcome).await, state);
    assert_eq!(
        outbox_states(store, &make, first).await,
        [state, OutboxState::Dropped, OutboxState::Dropped],
        "a reply with a hole in it does not go on"
    );
    // The lane goes on with the next reply.
    let sending = next(store, &make, owner).await.unwrap();
    assert_eq!((sending.run, sending.body.as_str()), (second, "4"));
}

async fn a_rejected_part_ends_the_rest_of_its_reply(store: &ScratchStore) {
    ends_the_rest(store, rejected(), OutboxState::Dead).await;
}

async fn an_unknown_part_ends_the_rest_of_its_reply(store: &ScratchStore) {
    let outcome = SendOutcome::Unknown { reason: "connection lost".to_owned() };
    ends_the_rest(store, outcome, OutboxState::Unknown).await;
}

async fn parts_that_went_out_before_stay_sent(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let parts = [make.part("a", "1"), make.part("a", "2"), make.part("a", "3")];
    let run = reply(store, &make, owner, "work", &parts).await;
    for outcome in [sent(), rejected()] {
        let sending = next(store, &make, owner).await.unwrap();
        settle(store, &make, &sending, outcome).await;
    }
    let rows = store.outbox_of(make.tenant(), run).await.unwrap();
    let states: Vec<_> = rows.iter().map(|row| row.state.clone()).collect();
    assert_eq!(states, [OutboxState::Sent, OutboxState::Dead, OutboxState::Dropped]);
    assert_eq!(
        (rows[0].remote_id.as_deref(), rows[1].reason.as_deref()),
        (Some("remote"), Some("not allowed"))
    );
}

async fn an_answer_that_is_not_the_owners_is_refused(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    reply(store, &make, owner, "work", &[make.part("a", "1"), make.part("a", "2")]).await;
    let sending = next(store, &make, owner).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    for wrong in [other, Owner { incarnation: owner.incarnation + 1, ..owner }] {
        for outcome in [sent(), rejected()] {
            let error =
                store.settle_send(&Sending { owner: wrong, ..sending.clone() }, outcome, make.now()).await;
            assert_eq!(error.unwrap_err(), StoreError::StaleFence);
        }
    }
    before.assert_same(&store.snapshot(make.tenant()).await);
    settle(store, &make, &sending, sent()).await;
}

async fn a_part_is_settled_once(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    reply(store, &make, owner, "work", &[make.part("a", "1"), make.part("a", "2")]).await;
    for first in [
        SendOutcome::NotSent { retry_at: 0, reason: "later".to_owned() },
        sent(),
        SendOutcome::Unknown { reason: "lost".to_owned() },
    ] {
        let sending = next(store, &make, owner).await.unwrap();
        settle(store, &make, &sending, first).await;
        let before = store.snapshot(make.tenant()).await;
        for again in [sent(), rejected()] {
            let error = store.settle_send(&sending, again, make.now()).await.unwrap_err();
            assert_eq!(error, StoreError::StaleFence);
        }
        before.assert_same(&store.snapshot(make.tenant()).await);
    }
}

async fn a_part_may_be_tried_more_often_than_a_run(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    reply(store, &make, owner, "work", &[make.part("a", "1")]).await;
    for attempt in 1..=6 {
        let sending = next(store, &make, owner).await.unwrap();
        assert_eq!(sending.attempt, attempt);
        let outcome = SendOutcome::NotSent { retry_at: 0, reason: "later".to_owned() };
        assert_eq!(settle(store, &make, &sending, outcome).await, OutboxState::Pending);
    }
}
