//! A clock that jumps changes labels, never an order.

use tidegate_protocol::{SendOutcome, ToolRunState};
use tidegate_storage::Finish;
use tidegate_testkit::requests::{EPOCH, Requests};
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, claim, context, enlist, log, next_send, queue, start};

on_both_backends! {
    runs_are_served_in_the_order_of_acceptance,
    lines_and_tools_keep_the_order_of_commits,
    a_lane_keeps_the_order_of_commits,
    a_part_is_not_held_back_by_a_clock_that_went_back,
}

async fn runs_are_served_in_the_order_of_acceptance(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let mut expected = Vec::new();
    for hours in [5, 3, 1, 4, 2] {
        make.set_now(EPOCH + hours * HOUR);
        expected.push(queue(store, make.accept(&key)).await);
    }
    for run in expected {
        let lease = claim(store, &make, &key, owner).await;
        assert_eq!(lease.run, run);
        store.finish(&lease, make.completed()).await.unwrap();
    }
}

async fn lines_and_tools_keep_the_order_of_commits(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let (mut lines, mut tools) = (Vec::new(), Vec::new());
    for hours in [5, 3, 1, 4, 2] {
        make.set_now(EPOCH + hours * HOUR);
        let intent = make.intent(vec![make.user("question")]);
        lines.extend(intent.entries.iter().map(|entry| entry.id));
        tools.push(intent.begun[0].id);
        store.step(&lease, intent.clone()).await.unwrap();
        let outcome = make.outcome(&intent, &ToolRunState::Succeeded, Vec::new());
        store.step(&lease, outcome).await.unwrap();
    }
    let stored = log(store, &lease).await;
    assert_eq!(stored.iter().map(|line| line.id).collect::<Vec<_>>(), lines);
    assert!(stored.iter().map(|line| line.seq).eq(1..=5));
    let stored = store.tool_runs(make.tenant(), lease.run).await.unwrap();
    assert_eq!(stored.iter().map(|tool| tool.id).collect::<Vec<_>>(), tools);
    store.finish(&lease, Finish { entries: Vec::new(), ..make.completed() }).await.unwrap();
    let next = start(store, owner, make.accept(&lease.key)).await;
    assert_eq!(context(store, &next, 2).await.iter().map(|line| line.id).collect::<Vec<_>>(), lines[3..]);
}

async fn a_lane_keeps_the_order_of_commits(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut expected = Vec::new();
    for hours in [5, 3, 1, 4, 2] {
        make.set_now(EPOCH + hours * HOUR);
        let lease = start(store, owner, make.accept_from_channel(&make.key(&format!("s{hours}")))).await;
        let parts = vec![make.part("lane", "1"), make.part("lane", "2")];
        expected.extend(parts.iter().map(|part| part.id));
        store.finish(&lease, Finish { parts, ..make.completed() }).await.unwrap();
    }
    let mut order = Vec::new();
    while let Some(sending) = next_send(store, make.tenant(), &owner, make.now()).await.unwrap() {
        order.push(sending.id);
        let outcome = SendOutcome::Sent { id: "remote".to_owned() };
        store.settle_send(&sending, outcome, make.now()).await.unwrap();
    }
    assert_eq!(order, expected);
}

async fn a_part_is_not_held_back_by_a_clock_that_went_back(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    make.set_now(EPOCH + 5 * HOUR);
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    store.finish(&lease, Finish { parts: vec![make.part("a", "1")], ..make.completed() }).await.unwrap();
    // Nobody said that it should wait, so it does not.
    let sending = next_send(store, make.tenant(), &owner, EPOCH - HOUR).await.unwrap();
    assert!(sending.is_some());
}
