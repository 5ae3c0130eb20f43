//! The migrator: numbered steps that only add, each in its own transaction with the note that it was done.
//!
//! Killed anywhere, the next start goes on where this one stopped. Data of an older schema is copied first; the copy
//! is checked and only then renamed into place.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use tidegate_runtime::{Clock as _, SystemClock, fault};
use tidegate_storage::{
    MIN_READER, MIN_WRITER, Migration, Result, SchemaFit, StoreError, StoredVersion, judge,
};

use crate::error::store_error;
use crate::open::{SqliteOptions, connect_reader, io_error};

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "core", sql: include_str!("../migrations/0001_core.sql") },
    Migration { number: 2, name: "delivery", sql: include_str!("../migrations/0002_delivery.sql") },
    Migration { number: 3, name: "engine", sql: include_str!("../migrations/0003_engine.sql") },
    Migration { number: 4, name: "money", sql: include_str!("../migrations/0004_money.sql") },
    Migration { number: 5, name: "approvals", sql: include_str!("../migrations/0005_approvals.sql") },
    Migration { number: 6, name: "agent", sql: include_str!("../migrations/0006_agent.sql") },
    Migration { number: 7, name: "worked", sql: include_str!("../migrations/0007_worked.sql") },
    Migration { number: 8, name: "answers", sql: include_str!("../migrations/0008_answers.sql") },
];

/// What the file says about itself.
pub(crate) fn stored_version(connection: &Connection) -> Result<Option<StoredVersion>> {
    let exists: bool = connection
        .query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'meta')", [], |row| row.get(0))
        .map_err(store_error)?;
    if !exists {
        return Ok(None);
    }
    connection
        .query_row("SELECT schema, min_reader, min_writer FROM meta", [], |row| {
            Ok(StoredVersion { schema: row.get(0)?, min_reader: row.get(1)?, min_writer: row.get(2)? })
        })
        .optional()
        .map_err(store_error)
}

/// Whether the data has what a schema brought: a reader may meet an older one.
pub(crate) fn has_schema(connection: &Connection, number: u32) -> Result<bool> {
    Ok(stored_version(connection)?.is_some_and(|version| version.schema >= number))
}

/// Brings the file to this release's schema. Safe when two processes start at once: each step looks again inside
/// its own write transaction, and so only one of them copies.
pub(crate) fn migrate(connection: &mut Connection, options: &SqliteOptions) -> Result<()> {
    let stored = stored_version(connection)?;
    match judge(stored, options.schema) {
        SchemaFit::Current | SchemaFit::NewerWritable => return Ok(()),
        SchemaFit::NewerReadable | SchemaFit::TooNew => {
            return Err(StoreError::newer(stored, |version| version.min_writer));
        }
        SchemaFit::Older | SchemaFit::Empty => {}
    }
    // What this start began itself needs no copy.
    let mut copied = stored.is_none();
    for migration in MIGRATIONS.iter().filter(|migration| migration.number <= options.schema) {
        apply(connection, migration, options, &mut copied)?;
    }
    Ok(())
}

fn apply(
    connection: &mut Connection,
    migration: &Migration,
    options: &SqliteOptions,
    copied: &mut bool,
) -> Result<()> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(store_error)?;
    let done = stored_version(&transaction)?.map_or(0, |version| version.schema);
    if done >= migration.number {
        return Ok(());
    }
    if done > 0 && !*copied {
        back_up(options, done)?;
        *copied = true;
        fault::point("storage.migrate.backed_up");
    }
    if done == 0 {
        transaction
            .execute_batch(
                "CREATE TABLE meta (
                   one INTEGER PRIMARY KEY CHECK (one = 1),
                   schema INTEGER NOT NULL, min_reader INTEGER NOT NULL, min_writer INTEGER NOT NULL
                 );
                 INSERT INTO meta VALUES (1, 0, 0, 0);",
            )
            .map_err(store_error)?;
    }
    transaction.execute_batch(migration.sql).map_err(store_error)?;
    transaction
        .execute(
            "UPDATE meta SET schema = ?1, min_reader = ?2, min_writer = ?3",
            params![migration.number, MIN_READER, MIN_WRITER],
        )
        .map_err(store_error)?;
    fault::point("storage.migrate.before_commit");
    transaction.commit().map_err(store_error)?;
    fault::point("storage.migrate.after_commit");
    tracing::info!(number = migration.number, name = migration.name, "migrated");
    Ok(())
}

/// Copies the database to `backups/schema-<n>-<ms>.db`, as it was before the write transaction under way.
fn back_up(options: &SqliteOptions, schema: u32) -> Result<()> {
    let backups = options.backups.as_path();
    let source = connect_reader(&options.path)?;
    fs::create_dir_all(backups).map_err(|error| io_error(&error))?;
    private(backups, 0o700)?;
    sweep_partials(backups);
    let name = format!("schema-{schema}-{}.db", SystemClock.now_ms());
    let (partial, finished) = (backups.join(format!(".{name}.partial")), backups.join(name));
    {
        let mut copy = Connection::open(&partial).map_err(store_error)?;
        private(&partial, 0o600)?;
        let backup = rusqlite::backup::Backup::new(&source, &mut copy).map_err(store_error)?;
        backup.run_to_completion(1024, Duration::ZERO, None).map_err(store_error)?;
        drop(backup);
        let verdict: String =
            copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(store_error)?;
        if verdict != "ok" {
            return Err(StoreError::Damaged(format!(
                "the copy before the migration is not sound: {verdict}"
            )));
        }
    }
    fault::point("storage.migrate.copied");
    fs::rename(&partial, &finished).map_err(|error| io_error(&error))?;
    fs::File::open(backups).and_then(|folder| folder.sync_all()).map_err(|error| io_error(&error))?;
    tracing::info!(copy = %finished.display(), "copied the database before migrating it");
    Ok(())
}

/// Removes what killed copies left.
fn sweep_partials(backups: &Path) {
    let Ok(files) = fs::read_dir(backups) else { return };
    for file in files.flatten() {
        if file.path().extension().is_some_and(|extension| extension == "partial") {
            let _ = fs::remove_file(file.path());
        }
    }
}

fn private(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| io_error(&error))
}
