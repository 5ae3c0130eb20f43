//! Opening the file: modes, settings, first signs of damage.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tidegate_storage::{Result, SCHEMA, SchemaFit, StoreError, judge};

use crate::error::{full_or_failed, store_error};
use crate::migrate;
use crate::readers::Readers;
use crate::writer::Writer;

/// How a process opens the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Migrates, then reads and writes. At most one process a file.
    ReadWrite,
    /// Never writes, never migrates.
    ReadOnly,
}

#[derive(Debug, Clone)]
pub struct SqliteOptions {
    pub path: PathBuf,
    pub mode: Mode,
    /// Where copies go before a migration.
    pub backups: PathBuf,
    /// Grow the WAL in the first quiet moment, so that commits only overwrite. For processes that live long.
    pub warm_wal: bool,
    /// The newest schema to migrate to; below [`SCHEMA`] only in tests of upgrades.
    pub schema: u32,
}

impl SqliteOptions {
    pub fn new(path: impl Into<PathBuf>, mode: Mode) -> Self {
        let path = path.into();
        let backups = path.parent().unwrap_or(Path::new(".")).join("backups");
        Self { path, mode, backups, warm_wal: false, schema: SCHEMA }
    }
}

/// How long another process may hold the file: it may be recovering the WAL, and that is short.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// The store. Clones share the writer and the readers.
#[derive(Clone)]
pub struct SqliteStore {
    /// Closed before the writer: the last connection to close folds the WAL into the file, and a reader cannot.
    readers: Arc<Readers>,
    /// Absent in read-only mode.
    writer: Option<Arc<Writer>>,
    path: Arc<PathBuf>,
}

impl SqliteStore {
    /// Opens, and in read-write mode creates and migrates, the database. Blocks: call it before serving.
    pub fn open(options: &SqliteOptions) -> Result<Self> {
        let until = Instant::now() + PATIENCE;
        loop {
            match Self::open_inner(options) {
                // SQLite does not wait everywhere itself: not while another process takes the log into use or folds it.
                Err(StoreError::Unavailable(text)) if text.contains("locked") && Instant::now() < until => {
                    std::thread::sleep(PAUSE);
                }
                opened => return opened.map_err(|error| name_file(error, &options.path)),
            }
        }
    }

    fn open_inner(options: &SqliteOptions) -> Result<Self> {
        let writer = match options.mode {
            Mode::ReadWrite => {
                create_private(&options.path)?;
                let mut connection = connect(&options.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
                migrate::migrate(&mut connection, options)?;
                Some(Arc::new(Writer::start(connection, &options.path, options.warm_wal)?))
            }
            Mode::ReadOnly => {
                if !options.path.exists() {
                    return Err(StoreError::Empty);
                }
                None
            }
        };
        let readers = Readers::new(options.path.clone());
        let stored = readers.with(migrate::stored_version)?;
        match judge(stored, SCHEMA) {
            SchemaFit::Empty => return Err(StoreError::Empty),
            SchemaFit::TooNew => return Err(StoreError::newer(stored, |version| version.min_reader)),
            _ => {}
        }
        Ok(Self { writer, readers: Arc::new(readers), path: Arc::new(options.path.clone()) })
    }

    /// Writes in one transaction with whatever else queued.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        verb: crate::writer::Verb,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(writer) = &self.writer else {
            return Err(StoreError::ReadOnly("the store was opened for reading".to_owned()));
        };
        writer.call(verb, work).await.map_err(|error| name_file(error, &self.path))
    }

    /// Reads on a connection of its own, off the asynchronous threads.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let readers = Arc::clone(&self.readers);
        // Before the thread: a thousand readers are not a thousand threads.
        let seat = readers.seat().await?;
        let task = tidegate_runtime::spawn_blocking("sqlite-read", move || {
            let result = readers.with(work);
            drop(seat);
            result
        });
        let result = task.join().await.unwrap_or_else(|end| Err(StoreError::Internal(end.to_string())));
        result.map_err(|error| name_file(error, &self.path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Counts of the writer, for benchmarks: commits and verbs written so far.
    pub fn commits_and_verbs(&self) -> (u64, u64) {
        self.writer.as_ref().map_or((0, 0), |writer| writer.counts())
    }
}

/// Errors about the file itself say which file.
fn name_file(error: StoreError, path: &Path) -> StoreError {
    let error = full_or_failed(error, path);
    let at = |text: String| {
        let shown = path.display().to_string();
        if text.contains(&shown) { text } else { format!("{shown}: {text}") }
    };
    match error {
        StoreError::Damaged(text) => StoreError::Damaged(at(text)),
        StoreError::ReadOnly(text) => StoreError::ReadOnly(at(text)),
        StoreError::Unavailable(text) => StoreError::Unavailable(at(text)),
        StoreError::Full(text) => StoreError::Full(at(text)),
        StoreError::Io(text) => StoreError::Io(at(text)),
        other => other,
    }
}

/// Makes the file readable by its owner only; the WAL takes over the mode.
fn create_private(path: &Path) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let created = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match created {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(io_error(&error)),
        _ => Ok(()),
    }
}

pub(crate) fn io_error(error: &io::Error) -> StoreError {
    let text = error.to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full(text),
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => StoreError::ReadOnly(text),
        _ => StoreError::Unavailable(text),
    }
}

/// A connection with our settings.
pub(crate) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
    connection.busy_timeout(PATIENCE).map_err(store_error)?;
    connection.set_prepared_statement_cache_capacity(128);
    // Otherwise SQLite prepares a statement anew whenever a `LIMIT ?` is bound, on the way of every turn. Partial indexes
    // are therefore met with literals only.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(store_error)?;
    if flags.contains(OpenFlags::SQLITE_OPEN_READ_WRITE) {
        connection.pragma_update(None, "journal_mode", "wal").map_err(store_error)?;
        connection.pragma_update(None, "synchronous", "full").map_err(store_error)?;
        // Checkpoints are ours: a commit must never pay for one by surprise.
        connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(store_error)?;
    }
    Ok(connection)
}

/// A read-only connection. Where the folder cannot be written and no WAL is left, the file is read as it is.
pub(crate) fn connect_reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let first = connect(path, flags).and_then(|connection| {
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(store_error)?;
        Ok(connection)
    });
    match first {
        Err(
            StoreError::Unavailable(_) | StoreError::ReadOnly(_) | StoreError::Io(_) | StoreError::Full(_),
        ) if !has_wal(path) => {
            let uri = format!("file:{}?immutable=1", uri_path(path));
            connect(Path::new(&uri), flags | OpenFlags::SQLITE_OPEN_URI)
        }
        other => other,
    }
}

fn has_wal(path: &Path) -> bool {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    fs::metadata(wal).is_ok_and(|wal| wal.len() > 0)
}

fn uri_path(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}
