//! Deleting a session: all of it or nothing, and the audit trail stays.

use tidegate_protocol::{RunState, SendOutcome};
use tidegate_storage::{Accept, Finish, RunLookup, SessionChoice, StoreError};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{audit_of, converse, enlist, next_send, queue, start, state};

on_both_backends! {
    a_session_that_does_not_exist_is_not_found,
    a_session_with_an_open_run_is_busy,
    everything_of_a_session_goes_and_its_audit_stays,
    a_session_without_a_log_can_be_deleted,
    other_sessions_are_left_alone,
    a_deleted_key_begins_again,
}

async fn a_session_that_does_not_exist_is_not_found(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let before = store.snapshot(make.tenant()).await;
    let error = store.delete_session(&make.principal(), &make.key("work"), make.now()).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn a_session_with_an_open_run_is_busy(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (waiting, running) = (make.key("waiting"), make.key("running"));
    converse(store, &make, &waiting, owner).await;
    let queued = queue(store, make.accept(&waiting)).await;
    let lease = start(store, owner, make.accept(&running)).await;
    let before = store.snapshot(make.tenant()).await;
    for key in [&waiting, &running] {
        let error = store.delete_session(&make.principal(), key, make.now()).await.unwrap_err();
        assert_eq!(error, StoreError::SessionBusy);
    }
    before.assert_same(&store.snapshot(make.tenant()).await);
    assert_eq!(state(store, &make, queued).await, RunState::Queued);
    store.finish(&lease, make.completed()).await.unwrap();
    store.delete_session(&make.principal(), &running, make.now()).await.unwrap();
}

async fn everything_of_a_session_goes_and_its_audit_stays(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let mut first = make.accept_from_channel(&key);
    first.new_session.alias = Some("lc-1-abcd".to_owned());
    let first = start(store, owner, first).await;
    store.step(&first, make.intent(vec![make.user("question")])).await.unwrap();
    let parts = vec![make.part("a", "1"), make.part("a", "2"), make.part("b", "3")];
    store.finish(&first, Finish { parts, ..make.completed() }).await.unwrap();
    let sending = next_send(store, make.tenant(), &owner, make.now()).await.unwrap().unwrap();
    let fresh = Accept { session: SessionChoice::Fresh, ..make.accept_from_channel(&key) };
    let fresh = start(store, owner, fresh).await;
    store.finish(&fresh, make.completed()).await.unwrap();
    // A log that never became the conversation goes too.
    let failed = Accept { session: SessionChoice::Fresh, ..make.accept(&key) };
    let failed = start(store, owner, failed).await;
    store.finish(&failed, Finish { entries: vec![make.user("question")], ..make.failed() }).await.unwrap();
    let audit = store.audit(make.tenant(), 100).await.unwrap();

    let now = make.now();
    let mut names = store.delete_session(&make.principal(), &key, now).await.unwrap();
    names.sort();
    let mut expected = vec!["lc-1-abcd".to_owned(), fresh.session.to_string(), failed.session.to_string()];
    expected.sort();
    assert_eq!(names, expected);

    let mut after = store.snapshot(make.tenant()).await;
    let trail = after.tables.remove("audit_logs").unwrap();
    assert_eq!(trail.len(), audit.len() + 1);
    // What a client's key stood for is forgotten by its own time, not here.
    after.tables.remove("idempotency");
    for (table, rows) in &after.tables {
        assert!(rows.is_empty(), "{table} still has {rows:?}");
    }
    assert_eq!(store.run(make.tenant(), &RunLookup::Id(first.run)).await.unwrap(), None);
    assert_eq!(store.session(&key).await.unwrap(), None);
    assert_eq!(store.session_by_name(make.tenant(), "lc-1-abcd").await.unwrap(), None);
    assert_eq!(store.mirror_backlog(make.tenant(), 10).await.unwrap(), []);
    assert_eq!(next_send(store, make.tenant(), &owner, make.now()).await.unwrap(), None);
    let late = store.settle_send(&sending, SendOutcome::Sent { id: "late".to_owned() }, make.now()).await;
    assert_eq!(late.unwrap_err(), StoreError::StaleFence);
    let rows = audit_of(store, &make, &key.to_string()).await;
    let [row] = rows.as_slice() else { panic!("one deletion, {} audit rows", rows.len()) };
    assert_eq!(
        (row.action.as_str(), row.actor.as_str(), row.resource_type.as_str(), row.created_at),
        ("session.delete", make.principal().actor(), "session", now)
    );
}

async fn a_session_without_a_log_can_be_deleted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    store.finish(&lease, make.failed()).await.unwrap();
    let names = store.delete_session(&make.principal(), &lease.key, make.now()).await.unwrap();
    assert_eq!(names, Vec::<String>::new());
    let error = store.delete_session(&make.principal(), &lease.key, make.now()).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
}

async fn other_sessions_are_left_alone(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let kept = make.key("kept");
    converse(store, &make, &kept, owner).await;
    let open = start(store, owner, make.accept_from_channel(&kept)).await;
    let before = store.snapshot(make.tenant()).await;
    let gone = make.key("gone");
    converse(store, &make, &gone, owner).await;
    store.delete_session(&make.principal(), &gone, make.now()).await.unwrap();
    let mut after = store.snapshot(make.tenant()).await;
    let trail = before.tables["audit_logs"].clone();
    after.tables.insert("audit_logs".to_owned(), trail);
    assert_eq!(after.tables, before.tables);
    store.finish(&open, make.completed()).await.unwrap();
}

async fn a_deleted_key_begins_again(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let old = converse(store, &make, &key, owner).await;
    store.delete_session(&make.principal(), &key, make.now()).await.unwrap();
    let new = converse(store, &make, &key, owner).await;
    assert_ne!(new.session, old.session);
    let session = store.session(&key).await.unwrap().unwrap();
    assert_eq!((session.id, session.head_seq), (new.session, 2));
    assert_eq!(store.entries(make.tenant(), old.session, 0, 10).await.unwrap(), []);
}
