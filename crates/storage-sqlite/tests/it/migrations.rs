//! Upgrades: copied first, resumable, safe when two processes start at once.

use std::path::Path;

use tidegate_storage::{Library as _, RunFilter, SCHEMA, StoreError};
use tidegate_storage_sqlite::{Mode, SqliteOptions, SqliteStore};
use tidegate_testkit::requests::Requests;

use crate::{integrity, open};

fn at_schema(folder: &Path, schema: u32) -> SqliteOptions {
    SqliteOptions { schema, ..SqliteOptions::new(folder.join("tidegate.db"), Mode::ReadWrite) }
}

fn schema_of(file: &Path) -> u32 {
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.query_row("SELECT schema FROM meta", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn data_of_the_previous_schema_is_copied_then_migrated_and_all_there() {
    let folder = tempfile::tempdir().unwrap();
    let requests = Requests::new("local", 1);
    drop(SqliteStore::open(&at_schema(folder.path(), 1)).unwrap());
    let accept = requests.accept(&requests.key("main"));
    let json = |value: serde_json::Result<String>| value.unwrap();
    rusqlite::Connection::open(folder.path().join("tidegate.db"))
        .unwrap()
        .execute(
            "INSERT INTO runs (tenant_id, id, session_key, new_session_id, fresh, state, queue, attempt, actor,
               spec_json, input_json, reply_json, created_at)
             VALUES ('local', ?1, ?2, ?3, 0, 'queued', 1, 0, 'local:owner', ?4, ?5, ?6, 0)",
            [
                accept.run.id.to_string(),
                accept.key.to_string(),
                accept.new_session.id.to_string(),
                json(serde_json::to_string(&accept.run.spec)),
                json(serde_json::to_string(&accept.run.input)),
                json(serde_json::to_string(&accept.run.reply)),
            ],
        )
        .unwrap();
    let store = open(folder.path(), Mode::ReadWrite).unwrap();
    let runs = store.runs(requests.tenant(), RunFilter { limit: 9, ..RunFilter::default() }).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), [accept.run.id]);
    assert_eq!(schema_of(&folder.path().join("tidegate.db")), SCHEMA);
    let copies: Vec<_> =
        std::fs::read_dir(folder.path().join("backups")).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(copies.len(), 1);
    assert_eq!(schema_of(&copies[0]), 1);
    assert_eq!(integrity(folder.path()), "ok");
}

#[tokio::test]
async fn opening_data_of_this_schema_makes_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path(), Mode::ReadWrite).unwrap());
    drop(open(folder.path(), Mode::ReadWrite).unwrap());
    assert!(!folder.path().join("backups").exists());
}

#[test]
fn two_processes_that_start_at_once_both_find_the_new_schema() {
    for start in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        if start == 1 {
            drop(SqliteStore::open(&at_schema(folder.path(), 1)).unwrap());
        }
        std::thread::scope(|scope| {
            let opened: Vec<_> =
                (0..4).map(|_| scope.spawn(|| open(folder.path(), Mode::ReadWrite).map(drop))).collect();
            for opened in opened {
                opened.join().unwrap().unwrap();
            }
        });
        assert_eq!(schema_of(&folder.path().join("tidegate.db")), SCHEMA);
        assert_eq!(integrity(folder.path()), "ok");
    }
}

#[test]
fn data_of_a_newer_release_is_used_only_as_far_as_it_allows() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path(), Mode::ReadWrite).unwrap());
    let says = |min_reader: u32, min_writer: u32| {
        let connection = rusqlite::Connection::open(folder.path().join("tidegate.db")).unwrap();
        connection
            .execute(
                "UPDATE meta SET schema = 99, min_reader = ?1, min_writer = ?2",
                [min_reader, min_writer],
            )
            .unwrap();
    };
    let open = |mode| open(folder.path(), mode).map(drop);
    says(SCHEMA, SCHEMA);
    assert_eq!((open(Mode::ReadOnly), open(Mode::ReadWrite)), (Ok(()), Ok(())));
    says(SCHEMA, 99);
    let refused = Err(StoreError::Newer { found: 99, needed: 99, known: SCHEMA });
    assert_eq!((open(Mode::ReadOnly), open(Mode::ReadWrite)), (Ok(()), refused.clone()));
    says(99, 99);
    assert_eq!((open(Mode::ReadOnly), open(Mode::ReadWrite)), (refused.clone(), refused));
}
