//! Opening: what a reader may do, and what a release does with data that is too new for it.

use tidegate_protocol::{JoinMode, SendOutcome, SessionSettings, ToolRunState};
use tidegate_storage::{Absorb, Finish, Idempotency, MirrorPosition, SCHEMA, Store, StoreError};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::snapshot::{self, assert_same};
use tidegate_testkit::stores::{ScratchStore, with_place};

use crate::scene::{HOUR, converse, enlist, everything, next_send, start};

on_both_backends! {
    what_was_written_is_there_when_opened_again,
    a_reader_before_the_first_writer_finds_nothing,
    a_reader_reads_everything,
    a_reader_writes_nothing,
    data_that_a_newer_release_lets_us_write_is_written,
    data_that_a_newer_release_lets_us_read_is_read_only,
    data_of_a_release_too_new_is_refused,
}

async fn what_was_written_is_there_when_opened_again(store: &mut ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    converse(store, &make, &key, owner).await;
    let lease = start(store, owner, make.accept_from_channel(&key)).await;
    store.step(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    store.close().await;
    store.open().await;
    before.assert_same(&store.snapshot(make.tenant()).await);
    // The same process goes on: a lease outlives a lost connection.
    store.finish(&lease, make.completed()).await.unwrap();
}

async fn a_reader_before_the_first_writer_finds_nothing(store: &ScratchStore) {
    with_place(store.backend(), async |store| {
        for _ in 0..2 {
            // A reader makes nothing that a second one could mistake for a store.
            let error = store.location().open_for_reading().await.err();
            assert_eq!(error, Some(StoreError::Empty));
        }
        store.open().await;
        store.status(&Requests::new("local", 1).tenant().clone()).await.unwrap();
    })
    .await;
}

async fn a_reader_reads_everything(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    converse(store, &make, &make.key("work"), owner).await;
    let reader = store.location().open_for_reading().await.unwrap();
    // What is written after it was opened, too.
    start(store, owner, make.accept_from_channel(&make.key("other"))).await;
    let expected = snapshot::library(&**store, make.tenant()).await;
    assert_eq!(snapshot::library(&*reader, make.tenant()).await, expected);
    reader.close().await;
}

async fn a_reader_writes_nothing(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let ended = start(store, owner, make.accept_from_channel(&key)).await;
    store
        .finish(&ended, Finish { parts: vec![make.part("a", "1"), make.part("b", "2")], ..make.completed() })
        .await
        .unwrap();
    let sending = next_send(store, make.tenant(), &owner, make.now()).await.unwrap().unwrap();
    let lease = start(store, owner, make.accept(&make.key("other"))).await;
    let intent = make.intent(Vec::new());
    store.step(&lease, intent.clone()).await.unwrap();
    let reader = store.location().open_for_reading().await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    let reader_store: &dyn Store = &*reader;
    let outcome = make.outcome(&intent, &ToolRunState::Succeeded, Vec::new());
    let sent = SendOutcome::Sent { id: "remote".to_owned() };
    let position = MirrorPosition { seq: 1, bytes: 1, checksum: -1 };
    let errors = [
        ("accept", reader_store.accept(make.accept(&key)).await.err()),
        ("claim", reader_store.claim(&key, &owner, HOUR, make.now()).await.err()),
        ("step", reader_store.step(&lease, outcome).await.err()),
        ("compact", reader_store.compact(&lease, make.compaction(1)).await.err()),
        ("absorb", reader_store.absorb(&lease, Absorb::quietly(JoinMode::Steer, make.now())).await.err()),
        ("note_flush", reader_store.note_flush(&lease, make.now()).await.err()),
        ("fork", reader_store.fork(&make.principal(), make.fork(ended.session, 1, &key)).await.err()),
        ("set_title", reader_store.set_title(&make.principal(), ended.session, None, make.now()).await.err()),
        ("set_session_settings", {
            let settings = SessionSettings::default();
            reader_store.set_session_settings(&make.principal(), &key, settings, make.now()).await.err()
        }),
        ("finish", reader_store.finish(&lease, make.completed()).await.err()),
        ("abort", reader_store.abort(&make.principal(), lease.run, make.now()).await.err()),
        ("delete_session", reader_store.delete_session(&make.principal(), &key, make.now()).await.err()),
        ("claim_send", reader_store.claim_send(make.tenant(), &owner, "b", HOUR, make.now()).await.err()),
        ("settle_send", reader_store.settle_send(&sending, sent, make.now()).await.err()),
        ("enlist", reader_store.enlist(owner.instance, make.now()).await.err()),
        ("heartbeat", reader_store.heartbeat(&owner, make.now()).await.err()),
        ("recover", reader_store.recover(&owner, make.now()).await.err()),
        ("ingest", reader_store.ingest(make.ingest(&key, &[1], Some("1"))).await.err()),
        ("release", reader_store.release(&lease, make.now()).await.err()),
        ("retry_send", reader_store.retry_send(&make.principal(), sending.id, make.now()).await.err()),
        ("drop_send", reader_store.drop_send(&make.principal(), sending.id, make.now()).await.err()),
        ("note_told", reader_store.note_told(make.tenant(), &[sending.id], make.now()).await.err()),
        ("sweep", reader_store.sweep(make.tenant(), everything(make.now())).await.err()),
        ("seal", reader_store.seal(make.tenant(), 9, make.now()).await.err()),
        ("meter", reader_store.meter(make.tenant(), make.meter(None, vec![make.call(1)])).await.err()),
        ("note_standing", reader_store.note_standing(make.tenant(), make.standing("a", "b")).await.err()),
        ("keep_answer", {
            let key = Idempotency::new("k", b"r", i64::MAX);
            reader_store.keep_answer(make.tenant(), key, "a".to_owned(), make.now()).await.err()
        }),
        ("clear_standings", reader_store.clear_standings(make.tenant(), "a", None).await.err()),
        ("note_mirrored", reader_store.note_mirrored(make.tenant(), ended.session, position).await.err()),
    ];
    for (verb, error) in errors {
        assert!(matches!(error, Some(StoreError::ReadOnly(_))), "{verb}: {error:?}");
    }
    before.assert_same(&store.snapshot(make.tenant()).await);
    reader.close().await;
}

/// Data as a release with this schema would have left it.
async fn made_by(store: &mut ScratchStore, schema: u32, min_reader: u32, min_writer: u32) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    converse(store, &make, &make.key("work"), owner).await;
    store.close().await;
    let version = format!("schema = {schema}, min_reader = {min_reader}, min_writer = {min_writer}");
    store.execute(&format!("UPDATE meta SET {version}")).await;
}

/// Rows as they are, for a store that cannot be opened.
async fn rows(store: &ScratchStore) -> String {
    format!("{:#?}", store.tables(Requests::new("local", 1).tenant()).await)
}

async fn data_that_a_newer_release_lets_us_write_is_written(store: &mut ScratchStore) {
    made_by(store, SCHEMA + 7, 1, SCHEMA).await;
    store.open().await;
    let make = Requests::new("local", 2);
    assert_eq!(store.status(make.tenant()).await.unwrap().schema, SCHEMA + 7, "nothing is migrated back");
    let owner = enlist(store, &make).await;
    converse(store, &make, &make.key("work"), owner).await;
}

async fn data_that_a_newer_release_lets_us_read_is_read_only(store: &mut ScratchStore) {
    made_by(store, SCHEMA + 7, SCHEMA, SCHEMA + 3).await;
    let before = rows(store).await;
    let newer = StoreError::Newer { found: SCHEMA + 7, needed: SCHEMA + 3, known: SCHEMA };
    assert_eq!(store.location().open(2).await.err(), Some(newer));
    assert_same(&before, &rows(store).await);
    let reader = store.location().open_for_reading().await.unwrap();
    let make = Requests::new("local", 1);
    assert!(reader.session(&make.key("work")).await.unwrap().is_some());
    reader.close().await;
}

async fn data_of_a_release_too_new_is_refused(store: &mut ScratchStore) {
    made_by(store, SCHEMA + 7, SCHEMA + 2, SCHEMA + 3).await;
    let before = rows(store).await;
    let newer = |needed| Some(StoreError::Newer { found: SCHEMA + 7, needed, known: SCHEMA });
    assert_eq!(store.location().open(2).await.err(), newer(SCHEMA + 3));
    assert_eq!(store.location().open_for_reading().await.err(), newer(SCHEMA + 2));
    assert_same(&before, &rows(store).await);
}
