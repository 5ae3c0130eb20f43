//! How far the transcript files follow the log.

use tidegate_protocol::SessionId;
use tidegate_storage::{Accept, Lease, MirrorPosition, MirrorTask, SessionChoice};
use tidegate_testkit::requests::{Requests, parse};
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{converse, enlist, start};

on_both_backends! {
    a_log_with_new_lines_is_in_the_backlog,
    a_noted_position_is_remembered,
    a_log_that_grows_comes_back_from_its_position,
    the_backlog_is_bounded,
    closed_and_unfinished_logs_are_mirrored_too,
    a_position_of_an_unknown_log_makes_nothing,
}

fn task(lease: &Lease, created_at: i64, position: MirrorPosition) -> MirrorTask {
    MirrorTask {
        session: lease.session,
        alias: lease.alias.clone(),
        agent: parse("main"),
        created_at,
        parent: None,
        position,
    }
}

async fn backlog(store: &ScratchStore, make: &Requests) -> Vec<MirrorTask> {
    let mut tasks = store.mirror_backlog(make.tenant(), 100).await.unwrap();
    tasks.sort_by_key(|task| task.created_at);
    tasks
}

async fn a_log_with_new_lines_is_in_the_backlog(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    assert_eq!(backlog(store, &make).await, []);
    let mut named = make.accept(&make.key("named"));
    named.new_session.alias = Some("lc-1-abcd".to_owned());
    let named = start(store, owner, named).await;
    assert_eq!(backlog(store, &make).await, [], "a log begins with its first line");
    let finish = make.completed();
    let first_at = finish.now;
    store.finish(&named, finish).await.unwrap();
    let plain = start(store, owner, make.accept(&make.key("plain"))).await;
    let finish = make.completed();
    let second_at = finish.now;
    store.finish(&plain, finish).await.unwrap();
    let none = MirrorPosition::default();
    assert_eq!(backlog(store, &make).await, [task(&named, first_at, none), task(&plain, second_at, none)]);
}

async fn a_noted_position_is_remembered(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = converse(store, &make, &make.key("work"), owner).await;
    let half = MirrorPosition { seq: 1, bytes: 120, checksum: -120 };
    store.note_mirrored(make.tenant(), lease.session, half).await.unwrap();
    assert_eq!(backlog(store, &make).await.iter().map(|task| task.position).collect::<Vec<_>>(), [half]);
    let whole = MirrorPosition { seq: 2, bytes: 250, checksum: -250 };
    store.note_mirrored(make.tenant(), lease.session, whole).await.unwrap();
    assert_eq!(backlog(store, &make).await, []);
}

async fn a_log_that_grows_comes_back_from_its_position(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let lease = converse(store, &make, &key, owner).await;
    let position = MirrorPosition { seq: 2, bytes: 250, checksum: -250 };
    store.note_mirrored(make.tenant(), lease.session, position).await.unwrap();
    let created_at = store.session(&key).await.unwrap().unwrap().created_at;
    let next = start(store, owner, make.accept(&key)).await;
    assert_eq!(backlog(store, &make).await, []);
    store.step(&next, make.intent(vec![make.user("question")])).await.unwrap();
    assert_eq!(backlog(store, &make).await, [task(&lease, created_at, position)]);
}

async fn the_backlog_is_bounded(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for name in ["one", "two", "three"] {
        converse(store, &make, &make.key(name), owner).await;
    }
    // Whoever works it off gets to all of them.
    let mut seen = Vec::new();
    loop {
        let tasks = store.mirror_backlog(make.tenant(), 2).await.unwrap();
        assert!(tasks.len() <= 2);
        let Some(task) = tasks.first() else { break };
        seen.push(task.session);
        let whole = MirrorPosition { seq: 2, bytes: 10, checksum: -10 };
        store.note_mirrored(make.tenant(), task.session, whole).await.unwrap();
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

async fn closed_and_unfinished_logs_are_mirrored_too(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let closed = converse(store, &make, &key, owner).await;
    let fresh = || Accept { session: SessionChoice::Fresh, ..make.accept(&key) };
    let current = start(store, owner, fresh()).await;
    store.finish(&current, make.completed()).await.unwrap();
    let open = start(store, owner, fresh()).await;
    store.step(&open, make.intent(vec![make.user("question")])).await.unwrap();
    let logs: Vec<_> = backlog(store, &make).await.into_iter().map(|task| task.session).collect();
    assert_eq!(logs, [closed.session, current.session, open.session]);
}

async fn a_position_of_an_unknown_log_makes_nothing(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let before = store.snapshot(make.tenant()).await;
    // Whether that is an error is open; the log may just have been deleted.
    let _ = store
        .note_mirrored(
            make.tenant(),
            make.id::<SessionId>(),
            MirrorPosition { seq: 1, bytes: 1, checksum: -1 },
        )
        .await;
    before.assert_same(&store.snapshot(make.tenant()).await);
}
