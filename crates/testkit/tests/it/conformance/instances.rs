//! Incarnations: each start of an installation voids the one before.

use futures_util::future::join_all;
use tidegate_protocol::InstanceId;
use tidegate_storage::{Accept, Admission, Claim, Owner, StoreError};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, enlist, next_send, queue, restart, start};

on_both_backends! {
    every_start_is_a_new_incarnation,
    incarnations_that_begin_at_once_are_told_apart,
    a_heartbeat_of_an_old_incarnation_is_refused,
    an_instance_that_never_began_has_no_heartbeat,
    an_owner_that_never_enlisted_claims_nothing,
    an_old_incarnation_claims_no_run,
    an_old_incarnation_claims_nothing_with_an_acceptance,
    an_old_incarnation_claims_no_send,
}

async fn every_start_is_a_new_incarnation(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (one, two) = (make.id::<InstanceId>(), make.id::<InstanceId>());
    for (instance, incarnation) in [(one, 1), (one, 2), (two, 1), (one, 3), (two, 2)] {
        let owner = store.enlist(instance, make.now()).await.unwrap();
        assert_eq!(owner, Owner { instance, incarnation });
        store.heartbeat(&owner, make.now()).await.unwrap();
    }
}

async fn incarnations_that_begin_at_once_are_told_apart(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let instance = make.id::<InstanceId>();
    let owners = join_all((0..8).map(|_| store.enlist(instance, make.now()))).await;
    let mut incarnations: Vec<_> = owners.into_iter().map(|owner| owner.unwrap().incarnation).collect();
    incarnations.sort_unstable();
    assert_eq!(incarnations, (1..=8).collect::<Vec<_>>());
}

async fn a_heartbeat_of_an_old_incarnation_is_refused(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let old = enlist(store, &make).await;
    let new = store.enlist(old.instance, make.now()).await.unwrap();
    assert_eq!(store.heartbeat(&old, make.now()).await.unwrap_err(), StoreError::StaleFence);
    store.heartbeat(&new, make.now()).await.unwrap();
}

async fn an_instance_that_never_began_has_no_heartbeat(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let stranger = Owner { instance: make.id(), incarnation: 1 };
    store.heartbeat(&stranger, make.now()).await.unwrap_err();
    // Nor did the try make it one.
    assert_eq!(store.enlist(stranger.instance, make.now()).await.unwrap(), stranger);
}

/// An owner and the incarnation that voided it.
async fn voided(store: &ScratchStore, make: &Requests) -> Owner {
    let old = enlist(store, make).await;
    restart(store, make, old).await;
    old
}

async fn an_old_incarnation_claims_no_run(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let old = voided(store, &make).await;
    let key = make.key("work");
    queue(store, make.accept(&key)).await;
    let claimed = store.claim(&key, &old, HOUR, make.now()).await;
    assert!(!matches!(claimed, Ok(Claim::Granted(_))), "void from the next incarnation on: {claimed:?}");
}

async fn an_old_incarnation_claims_nothing_with_an_acceptance(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let old = voided(store, &make).await;
    let accept = Accept { owner: old, claim: true, ..make.accept(&make.key("work")) };
    let accepted = store.accept(accept).await.map(|accepted| accepted.admission);
    assert!(
        !matches!(accepted, Ok(Admission::Claimed(_))),
        "void from the next incarnation on: {accepted:?}"
    );
}

async fn an_old_incarnation_claims_no_send(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let old = voided(store, &make).await;
    let other = enlist(store, &make).await;
    let lease = start(store, other, make.accept_from_channel(&make.key("work"))).await;
    let mut finish = make.completed();
    finish.parts = vec![make.part("a", "one")];
    store.finish(&lease, finish).await.unwrap();
    let claimed = next_send(store, make.tenant(), &old, make.now()).await;
    assert!(!matches!(claimed, Ok(Some(_))), "void from the next incarnation on: {claimed:?}");
}

async fn an_owner_that_never_enlisted_claims_nothing(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let nobody = Owner { instance: make.id(), incarnation: 1 };
    let key = make.key("work");
    let accept = Accept { owner: nobody, claim: true, ..make.accept(&key) };
    assert_eq!(store.accept(accept).await.unwrap_err(), StoreError::StaleFence);
    let owner = enlist(store, &make).await;
    queue(store, Accept { owner, ..make.accept(&key) }).await;
    assert_eq!(store.claim(&key, &nobody, 0, make.now()).await.unwrap_err(), StoreError::StaleFence);
    // Also where it would only be queued.
    let accept = Accept { owner: nobody, claim: true, ..make.accept(&key) };
    assert_eq!(store.accept(accept).await.unwrap_err(), StoreError::StaleFence);
    let claimed = store.claim_send(make.tenant(), &nobody, "a", HOUR, make.now()).await;
    assert_eq!(claimed.unwrap_err(), StoreError::StaleFence);
}
