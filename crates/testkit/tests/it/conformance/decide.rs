//! Parts that did not go out: the owner is told once, and a person decides.

use tidegate_protocol::{OutboxId, SendOutcome};
use tidegate_storage::{Decided, NextSend, OutboxFilter, OutboxState, StoreError};
use tidegate_testkit::requests::{Requests, parse};
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, audit_of, enlist, outbox_states, reply, restart, send};

on_both_backends! {
    what_may_be_retried_depends_on_its_state,
    what_may_be_given_up_depends_on_its_state,
    a_retry_begins_from_nothing_and_brings_the_rest_along,
    a_retry_leaves_the_beginning_and_other_replies_alone,
    giving_up_ends_the_rest_and_leaves_the_beginning,
    a_decision_is_in_the_audit_trail,
    another_tenants_part_is_not_found,
    the_owner_is_told_once,
    a_part_that_failed_again_is_told_again,
    parts_are_listed_newest_first_and_filtered,
}

const STATES: [&str; 7] = ["pending", "sending", "sent", "dead", "unknown", "dropped", "held"];

/// What a decision says about a part in each state.
async fn decided(store: &ScratchStore, retry: bool) -> Vec<(&'static str, Decided)> {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut found = Vec::new();
    for state in STATES {
        let part = make.part(state, "1");
        reply(store, &make, owner, state, std::slice::from_ref(&part)).await;
        store.execute(&format!("UPDATE outbox SET state = '{state}' WHERE id = '{}'", part.id)).await;
        let before = store.snapshot(make.tenant()).await;
        let decided = if retry {
            store.retry_send(&make.principal(), part.id, make.now()).await.unwrap()
        } else {
            store.drop_send(&make.principal(), part.id, make.now()).await.unwrap()
        };
        if matches!(decided, Decided::Refused(_)) {
            before.assert_same(&store.snapshot(make.tenant()).await);
        }
        found.push((state, decided));
    }
    let nowhere = make.id::<OutboxId>();
    let missing = if retry {
        store.retry_send(&make.principal(), nowhere, make.now()).await.unwrap()
    } else {
        store.drop_send(&make.principal(), nowhere, make.now()).await.unwrap()
    };
    assert_eq!(missing, Decided::NotFound);
    found
}

fn table(done: &[&str]) -> Vec<(&'static str, Decided)> {
    let decided = |state: &'static str| match done.contains(&state) {
        true => (state, Decided::Done { parts: 1 }),
        false => (state, Decided::Refused(OutboxState::parse(state))),
    };
    STATES.map(decided).to_vec()
}

async fn what_may_be_retried_depends_on_its_state(store: &ScratchStore) {
    assert_eq!(decided(store, true).await, table(&["unknown", "dead", "dropped"]));
}

async fn what_may_be_given_up_depends_on_its_state(store: &ScratchStore) {
    assert_eq!(decided(store, false).await, table(&["pending", "unknown", "dead"]));
}

fn rejected() -> SendOutcome {
    SendOutcome::Rejected { reason: "not allowed".to_owned() }
}

fn sent() -> SendOutcome {
    SendOutcome::Sent { id: "remote".to_owned() }
}

async fn a_retry_begins_from_nothing_and_brings_the_rest_along(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let parts = [make.part("a", "1"), make.part("a", "2"), make.part("a", "3")];
    let run = reply(store, &make, owner, "one", &parts).await;
    for retry_at in [0, 0] {
        let sending = send(store, &make, owner).await;
        let outcome = SendOutcome::NotSent { retry_at, reason: "later".to_owned() };
        store.settle_send(&sending, outcome, make.now()).await.unwrap();
    }
    let sending = send(store, &make, owner).await;
    store.settle_send(&sending, rejected(), make.now()).await.unwrap();
    let retried = store.retry_send(&make.principal(), parts[0].id, make.now()).await.unwrap();
    assert_eq!(retried, Decided::Done { parts: 3 });
    let rows = store.outbox_of(make.tenant(), run).await.unwrap();
    for row in &rows {
        assert_eq!(
            (&row.state, row.attempt, row.retry_at, &row.reason),
            (&OutboxState::Pending, 0, 0, &None)
        );
    }
    for part in &parts {
        let sending = send(store, &make, owner).await;
        assert_eq!((sending.id, sending.attempt, sending.doubtful), (part.id, 1, false));
        store.settle_send(&sending, sent(), make.now()).await.unwrap();
    }
}

async fn a_retry_leaves_the_beginning_and_other_replies_alone(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let parts = [make.part("a", "1"), make.part("a", "2"), make.part("a", "3")];
    let one = reply(store, &make, owner, "one", &parts).await;
    let two = reply(store, &make, owner, "two", &[make.part("a", "4"), make.part("a", "5")]).await;
    for _ in 0..2 {
        let sending = send(store, &make, owner).await;
        store.settle_send(&sending, rejected(), make.now()).await.unwrap();
    }
    // Only the last part is wanted.
    let retried = store.retry_send(&make.principal(), parts[2].id, make.now()).await.unwrap();
    assert_eq!(retried, Decided::Done { parts: 1 });
    assert_eq!(
        outbox_states(store, &make, one).await,
        [OutboxState::Dead, OutboxState::Dropped, OutboxState::Pending]
    );
    assert_eq!(outbox_states(store, &make, two).await, [OutboxState::Dead, OutboxState::Dropped]);
}

async fn giving_up_ends_the_rest_and_leaves_the_beginning(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let parts = [make.part("a", "1"), make.part("a", "2"), make.part("a", "3"), make.part("b", "4")];
    let one = reply(store, &make, owner, "one", &parts).await;
    let two = reply(store, &make, owner, "two", &[make.part("a", "5")]).await;
    let dropped = store.drop_send(&make.principal(), parts[1].id, make.now()).await.unwrap();
    assert_eq!(dropped, Decided::Done { parts: 3 });
    let rest = OutboxState::Dropped;
    assert_eq!(
        outbox_states(store, &make, one).await,
        [OutboxState::Pending, rest.clone(), rest.clone(), rest]
    );
    assert_eq!(outbox_states(store, &make, two).await, [OutboxState::Pending]);
    let rows = store.outbox_of(make.tenant(), one).await.unwrap();
    assert!(rows[1].reason.is_some() && rows[2].reason.is_some(), "{rows:?}");
    // The head of a lane may be given up too: the lane goes on.
    store.drop_send(&make.principal(), parts[0].id, make.now()).await.unwrap();
    assert_eq!(send(store, &make, owner).await.body, "5");
}

async fn a_decision_is_in_the_audit_trail(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let parts = [make.part("a", "1"), make.part("a", "2")];
    let run = reply(store, &make, owner, "one", &parts).await;
    store.drop_send(&make.principal(), parts[0].id, make.now()).await.unwrap();
    store.retry_send(&make.principal(), parts[0].id, make.now()).await.unwrap();
    let rows = audit_of(store, &make, &parts[0].id.to_string()).await;
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row.actor.as_str(), row.action.as_str(), row.resource_type.as_str(), &row.metadata))
        .collect();
    let actor = make.principal().actor().to_owned();
    let metadata =
        |was: &str| serde_json::json!({"runId": run.to_string(), "part": 1, "was": was, "parts": 2});
    assert_eq!(
        told,
        [
            (actor.as_str(), "outbox.retry", "outbox", &metadata("dropped")),
            (actor.as_str(), "outbox.drop", "outbox", &metadata("pending")),
        ]
    );
}

async fn another_tenants_part_is_not_found(store: &ScratchStore) {
    let (make, other) = (Requests::new("local", 1), Requests::new("other", 1));
    let owner = enlist(store, &make).await;
    let part = make.part("a", "1");
    reply(store, &make, owner, "one", std::slice::from_ref(&part)).await;
    let sending = send(store, &make, owner).await;
    store.settle_send(&sending, rejected(), make.now()).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    assert_eq!(store.retry_send(&other.principal(), part.id, 1).await.unwrap(), Decided::NotFound);
    assert_eq!(store.drop_send(&other.principal(), part.id, 1).await.unwrap(), Decided::NotFound);
    assert_eq!(store.undelivered(other.tenant(), 10).await.unwrap(), []);
    store.note_told(other.tenant(), &[part.id], 1).await.unwrap();
    assert_eq!(store.lanes(other.tenant(), 10).await.unwrap(), []);
    assert_eq!(
        store.outbox(other.tenant(), OutboxFilter { limit: 9, ..OutboxFilter::default() }).await,
        Ok(vec![])
    );
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn untold(store: &ScratchStore, make: &Requests) -> Vec<OutboxId> {
    store.undelivered(make.tenant(), 100).await.unwrap().into_iter().map(|row| row.id).collect()
}

async fn the_owner_is_told_once(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let outcomes = [
        rejected(),
        SendOutcome::Unknown { reason: "connection lost".to_owned() },
        sent(),
        rejected(),
        SendOutcome::NotSent { retry_at: i64::MAX, reason: "later".to_owned() },
    ];
    let mut ids = Vec::new();
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let lane = format!("lane {number}");
        reply(store, &make, owner, &lane, &[make.part(&lane, "1"), make.part(&lane, "2")]).await;
        let sending = match store.claim_send(make.tenant(), &owner, &lane, HOUR, make.now()).await.unwrap() {
            NextSend::Granted(sending) => sending,
            other => panic!("{other:?}"),
        };
        store.settle_send(&sending, outcome, make.now()).await.unwrap();
        ids.push(sending.id);
    }
    let failed = vec![ids[0], ids[1], ids[3]];
    assert_eq!(untold(store, &make).await, failed, "the oldest first; not what was dropped with it");
    assert_eq!(store.undelivered(make.tenant(), 2).await.unwrap().len(), 2);
    let rows = store.undelivered(make.tenant(), 1).await.unwrap();
    assert_eq!(rows[0], store.outbox_of(make.tenant(), rows[0].run).await.unwrap()[0]);
    // What did not fail is not marked.
    store.note_told(make.tenant(), &[ids[0], ids[2], ids[4]], make.now()).await.unwrap();
    assert_eq!(untold(store, &make).await, [ids[1], ids[3]]);
    store.note_told(make.tenant(), &[], make.now()).await.unwrap();
    store.note_told(make.tenant(), &failed, make.now()).await.unwrap();
    assert_eq!(untold(store, &make).await, []);
}

async fn a_part_that_failed_again_is_told_again(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    reply(store, &make, owner, "one", &[make.part("a", "1")]).await;
    for _ in 0..2 {
        let sending = send(store, &make, owner).await;
        store.settle_send(&sending, rejected(), make.now()).await.unwrap();
        assert_eq!(untold(store, &make).await, [sending.id]);
        store.note_told(make.tenant(), &[sending.id], make.now()).await.unwrap();
        assert_eq!(untold(store, &make).await, []);
        store.retry_send(&make.principal(), sending.id, make.now()).await.unwrap();
    }
    // The retry of a part in doubt is in doubt no more: a person decided.
    let lost = send(store, &make, owner).await;
    let (owner, _) = restart(store, &make, owner).await;
    let doubtful = send(store, &make, owner).await;
    assert!(doubtful.doubtful);
    assert_eq!(store.settle_send(&lost, sent(), make.now()).await.unwrap_err(), StoreError::StaleFence);
    let unknown = SendOutcome::Unknown { reason: "nobody knows".to_owned() };
    store.settle_send(&doubtful, unknown, make.now()).await.unwrap();
    store.retry_send(&make.principal(), doubtful.id, make.now()).await.unwrap();
    let again = send(store, &make, owner).await;
    assert_eq!((again.attempt, again.doubtful), (1, false));
}

async fn parts_are_listed_newest_first_and_filtered(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut elsewhere = make.part("m", "3");
    elsewhere.channel = parse("matrix");
    let parts = [make.part("a", "1"), make.part("b", "2"), elsewhere];
    for (part, name) in parts.iter().zip(["one", "two", "three"]) {
        reply(store, &make, owner, name, std::slice::from_ref(part)).await;
    }
    let sending = send(store, &make, owner).await;
    store.settle_send(&sending, sent(), make.now()).await.unwrap();
    let listed = async |filter: OutboxFilter| {
        let rows = store.outbox(make.tenant(), filter).await.unwrap();
        rows.into_iter().map(|row| row.body).collect::<Vec<_>>()
    };
    let all = OutboxFilter { limit: 10, ..OutboxFilter::default() };
    assert_eq!(listed(all.clone()).await, ["3", "2", "1"]);
    assert_eq!(listed(OutboxFilter { limit: 2, ..all.clone() }).await, ["3", "2"]);
    let states = vec![OutboxState::Pending];
    assert_eq!(listed(OutboxFilter { states, ..all.clone() }).await, ["3", "2"]);
    let states = vec![OutboxState::Sent, OutboxState::Dead];
    assert_eq!(listed(OutboxFilter { states, ..all.clone() }).await, ["1"]);
    assert_eq!(listed(OutboxFilter { channel: Some(parse("matrix")), ..all.clone() }).await, ["3"]);
    let (states, channel) = (vec![OutboxState::Sent], Some(parse("matrix")));
    assert_eq!(listed(OutboxFilter { states, channel, ..all }).await, Vec::<String>::new());
}
