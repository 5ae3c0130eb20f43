//! Readers open what is there and change nothing.

use std::os::unix::fs::PermissionsExt as _;

use tidegate_storage::{Library as _, Runs as _, StoreError};
use tidegate_storage_sqlite::{Mode, SqliteOptions, SqliteStore};
use tidegate_testkit::requests::Requests;

use crate::{enlisted, open};

#[tokio::test]
async fn a_reader_never_creates_never_migrates_and_never_writes() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(open(folder.path(), Mode::ReadOnly).map(drop), Err(StoreError::Empty));
    assert!(!folder.path().join("tidegate.db").exists());

    let path = folder.path().join("tidegate.db");
    drop(
        SqliteStore::open(&SqliteOptions { schema: 1, ..SqliteOptions::new(&path, Mode::ReadWrite) })
            .unwrap(),
    );
    let before = std::fs::read(&path).unwrap();
    let reader = open(folder.path(), Mode::ReadOnly).unwrap();
    let requests = Requests::new("local", 1);
    let error = reader.accept(requests.accept(&requests.key("main"))).await.unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error:?}");
    assert_eq!(reader.session(&requests.key("main")).await, Ok(None));
    drop(reader);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_no_database_is_named_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.db");
    let garbage = b"this is not a database, but somebody may still want it".repeat(40);
    std::fs::write(&path, &garbage).unwrap();
    for mode in [Mode::ReadOnly, Mode::ReadWrite] {
        let Err(StoreError::Damaged(text)) = open(folder.path(), mode).map(drop) else { panic!("{mode:?}") };
        assert!(text.contains("tidegate.db"), "{text}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), garbage);
}

#[tokio::test]
async fn the_file_and_its_log_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::ReadWrite).unwrap();
    let requests = enlisted(&store, 1).await;
    store.accept(requests.accept(&requests.key("main"))).await.unwrap();
    for name in ["tidegate.db", "tidegate.db-wal"] {
        let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
