//! What only SQLite promises: group commit, a bounded WAL, copies before migrations, readers that change nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod batches;
mod migrations;
mod readers;

use std::path::Path;

use tidegate_storage::Instances as _;
use tidegate_storage_sqlite::{Mode, SqliteOptions, SqliteStore};
use tidegate_testkit::requests::Requests;

fn open(folder: &Path, mode: Mode) -> tidegate_storage::Result<SqliteStore> {
    SqliteStore::open(&SqliteOptions::new(folder.join("tidegate.db"), mode))
}

/// Requests that an instance of this store accepts.
async fn enlisted(store: &SqliteStore, seed: u64) -> Requests {
    let requests = Requests::new("local", seed);
    requests.set_owner(store.enlist(requests.id(), requests.now()).await.unwrap());
    requests
}

fn integrity(folder: &Path) -> String {
    let connection = rusqlite::Connection::open(folder.join("tidegate.db")).unwrap();
    connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
}
