//! INGEST: what a network delivered at once and how far it was read, together or not at all.

use tidegate_protocol::SessionKey;
use tidegate_storage::{Accept, Admission, Claim, Idempotency, Ingest, Owner, RunFilter, StoreError};
use tidegate_testkit::requests::{Requests, parse};
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, claim, enlist, queue, restart, start};

on_both_backends! {
    messages_and_their_cursor_are_kept_together,
    a_message_that_fails_takes_everything_with_it,
    the_same_message_is_accepted_once_in_a_batch_and_across_batches,
    messages_keep_their_order,
    a_batch_without_messages_moves_the_cursor,
    a_batch_without_a_cursor_leaves_it,
    a_cursor_belongs_to_its_account,
    a_void_owner_ingests_nothing,
    a_message_of_another_tenant_is_refused,
}

async fn cursor(store: &ScratchStore, make: &Requests) -> Option<String> {
    store.cursor(make.tenant(), &parse("slack"), "T1").await.unwrap()
}

async fn accepted_runs(store: &ScratchStore, make: &Requests) -> usize {
    store.runs(make.tenant(), RunFilter { limit: ALL, ..RunFilter::default() }).await.unwrap().len()
}

async fn messages_and_their_cursor_are_kept_together(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    assert_eq!(cursor(store, &make).await, None);
    let mut ingest = make.ingest(&make.key("one"), &[1, 2], Some("2"));
    ingest.messages[1].key = make.key("two");
    ingest.messages[1].claim = true;
    let accepted = store.ingest(ingest.clone()).await.unwrap();
    assert_eq!(
        accepted.iter().map(|accepted| accepted.run).collect::<Vec<_>>(),
        ingest.messages.iter().map(|message| message.run.id).collect::<Vec<_>>()
    );
    assert_eq!(accepted[0].admission, Admission::Queued { ahead: 0 });
    assert!(matches!(accepted[1].admission, Admission::Claimed(_)), "{accepted:?}");
    assert_eq!(cursor(store, &make).await.as_deref(), Some("2"));
    let inbox = store.rows("inbox", "true").await;
    assert_eq!(inbox.len(), 2);
}

async fn a_message_that_fails_takes_everything_with_it(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let key = make.key("work");
    store.ingest(make.ingest(&key, &[1], Some("1"))).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    let mut ingest = make.ingest(&key, &[2, 3, 4], Some("4"));
    // Known already, and as something else.
    ingest.messages[1].idempotency = Some(Idempotency {
        fingerprint: "another".to_owned(),
        ..make.idempotency("slack T1 1", "message 1")
    });
    assert_eq!(store.ingest(ingest.clone()).await.unwrap_err(), StoreError::IdempotencyConflict);
    before.assert_same(&store.snapshot(make.tenant()).await);
    // Nothing was used up: without it the rest is accepted.
    ingest.messages.remove(1);
    assert_eq!(store.ingest(ingest).await.unwrap().len(), 2);
    assert_eq!(cursor(store, &make).await.as_deref(), Some("4"));
}

async fn the_same_message_is_accepted_once_in_a_batch_and_across_batches(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let key = make.key("work");
    let first = store.ingest(make.ingest(&key, &[1, 2, 1], Some("2"))).await.unwrap();
    assert_eq!((&first[2].admission, first[2].run), (&Admission::Replayed, first[0].run));
    assert_ne!(first[0].run, first[1].run);
    // The network did not hear that it was taken, and delivers it again.
    let second = store.ingest(make.ingest(&key, &[2, 3], Some("3"))).await.unwrap();
    assert_eq!((&second[0].admission, second[0].run), (&Admission::Replayed, first[1].run));
    assert_eq!(second[1].admission, Admission::Queued { ahead: 2 });
    assert_eq!(accepted_runs(store, &make).await, 3);
    assert_eq!(store.rows("inbox", "true").await.len(), 3);
}

async fn messages_keep_their_order(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let mut expected = Vec::new();
    for numbers in [[1, 2, 3], [4, 5, 6]] {
        let accepted = store.ingest(make.ingest(&key, &numbers, None)).await.unwrap();
        expected.extend(accepted.into_iter().map(|accepted| accepted.run));
    }
    let mut order = Vec::new();
    for _ in &expected {
        let lease = claim(store, &make, &key, owner).await;
        order.push(lease.run);
        store.finish(&lease, make.completed()).await.unwrap();
    }
    assert_eq!(order, expected);
}

async fn a_batch_without_messages_moves_the_cursor(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    for value in ["7", "9", "line\nbreak \u{1} and \0 too"] {
        let answers = store.ingest(make.ingest(&make.key("work"), &[], Some(value))).await.unwrap();
        assert_eq!(answers, []);
        assert_eq!(cursor(store, &make).await.as_deref(), Some(value));
    }
}

async fn a_batch_without_a_cursor_leaves_it(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let key = make.key("work");
    store.ingest(make.ingest(&key, &[1], Some("1"))).await.unwrap();
    store.ingest(make.ingest(&key, &[2], None)).await.unwrap();
    assert_eq!(cursor(store, &make).await.as_deref(), Some("1"));
}

async fn a_cursor_belongs_to_its_account(store: &ScratchStore) {
    let (make, other) = (Requests::new("local", 1), Requests::new("other", 1));
    let owner = enlist(store, &make).await;
    other.set_owner(owner);
    let empty = |make: &Requests, value: &str| make.ingest(&make.key("work"), &[], Some(value));
    store.ingest(empty(&make, "slack T1")).await.unwrap();
    store.ingest(Ingest { account_id: "T2".to_owned(), ..empty(&make, "slack T2") }).await.unwrap();
    store.ingest(Ingest { channel: parse("matrix"), ..empty(&make, "matrix T1") }).await.unwrap();
    store.ingest(empty(&other, "other slack T1")).await.unwrap();
    for (tenant, channel, account, expected) in [
        (&make, "slack", "T1", Some("slack T1")),
        (&make, "slack", "T2", Some("slack T2")),
        (&make, "matrix", "T1", Some("matrix T1")),
        (&make, "matrix", "T2", None),
        (&other, "slack", "T1", Some("other slack T1")),
        (&other, "slack", "T2", None),
    ] {
        let found = store.cursor(tenant.tenant(), &parse(channel), account).await.unwrap();
        assert_eq!(found.as_deref(), expected, "{channel} {account}");
    }
}

async fn a_void_owner_ingests_nothing(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (new, _) = restart(store, &make, owner).await;
    let before = store.snapshot(make.tenant()).await;
    let stale = |ingest: Ingest| async { store.ingest(ingest).await.unwrap_err() };
    let key = make.key("work");
    let old = Ingest { owner, ..make.ingest(&key, &[1], Some("1")) };
    assert_eq!(stale(old).await, StoreError::StaleFence);
    let nobody = Owner { instance: make.id(), incarnation: 1 };
    assert_eq!(
        stale(Ingest { owner: nobody, ..make.ingest(&key, &[], Some("1")) }).await,
        StoreError::StaleFence
    );
    // A message of a void owner in a batch of a living one.
    let mut mixed = make.ingest(&key, &[1, 2], Some("2"));
    mixed.messages[1].owner = owner;
    assert_eq!(stale(mixed).await, StoreError::StaleFence);
    before.assert_same(&store.snapshot(make.tenant()).await);
    make.set_owner(new);
    store.ingest(make.ingest(&key, &[1], Some("1"))).await.unwrap();
}

async fn a_message_of_another_tenant_is_refused(store: &ScratchStore) {
    let (make, other) = (Requests::new("local", 1), Requests::new("other", 1));
    let owner = enlist(store, &make).await;
    let (mine, theirs) = (make.key("work"), other.key("work"));
    let before = [store.snapshot(make.tenant()).await, store.snapshot(other.tenant()).await];
    let foreign = |key: &SessionKey, from: &Requests| Accept { owner, ..from.accept_from_channel(key) };
    for message in [
        foreign(&theirs, &other),
        Accept { principal: other.principal(), ..foreign(&mine, &make) },
        Accept { principal: make.principal(), ..foreign(&theirs, &other) },
    ] {
        let mut ingest = make.ingest(&mine, &[1], Some("1"));
        ingest.messages.push(message);
        let error = store.ingest(ingest).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
    }
    before[0].assert_same(&store.snapshot(make.tenant()).await);
    before[1].assert_same(&store.snapshot(other.tenant()).await);
    // Beside what waits for a caller, a delivered message waits its turn.
    let lease = start(store, owner, make.accept(&mine)).await;
    queue(store, make.accept_from_channel(&mine)).await;
    let claimed = store.claim(&mine, &owner, HOUR, make.now()).await.unwrap();
    assert_eq!(claimed, Claim::Busy { run: lease.run });
}
