//! The write-ahead log's size: checkpoints off the writer, and a hard bound that may pause it.
//!
//! A checkpoint that copied everything lets the next commit start over at the front of the file. So the file stays
//! as long as it ever had to be, commits overwrite instead of growing it, and a sync need not write the file's size.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use rusqlite::{Connection, OpenFlags};
use tidegate_runtime::{TaskEnd, spawn_thread};
use tidegate_storage::Result;

use crate::error::store_error;
use crate::open::connect;

/// Pages in the WAL that start a checkpoint beside the writer: 4 MB.
const SOFT_PAGES: i32 = 1024;
/// Pages at which the writer itself stops for a checkpoint: 32 MB.
const HARD_PAGES: i32 = 8192;
/// How much a warmed WAL holds: what the frames before a checkpoint take.
const WARM_BYTES: u64 = SOFT_PAGES.unsigned_abs() as u64 * (4096 + 24) + 32;
/// What must be free for that.
const ROOM_TO_WARM: u64 = 64 << 20;

pub(crate) struct Wal {
    path: PathBuf,
    /// Pages in the WAL after the writer's last commit, as SQLite's own hook tells.
    pages: Arc<AtomicI32>,
    checkpointer: Option<Checkpointer>,
}

/// Copies the WAL into the database on its own connection.
struct Checkpointer {
    wake: mpsc::SyncSender<()>,
    thread: JoinHandle<std::result::Result<(), TaskEnd>>,
}

impl Wal {
    pub(crate) fn watch(connection: &mut Connection, path: &Path) -> Result<Self> {
        let pages = Arc::new(AtomicI32::new(0));
        let noted = Arc::clone(&pages);
        let hook = move |_: &mut rusqlite::hooks::Wal, pages| {
            noted.store(pages, Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(hook)).map_err(store_error)?;
        Ok(Self { path: path.to_owned(), pages, checkpointer: None })
    }

    pub(crate) fn database(&self) -> &Path {
        &self.path
    }

    /// Grows the WAL once, with zeros behind its last frame: no frame begins so, and whoever reads the log stops there.
    /// Only for the one writer, between two of its commits. A disk without much room is left alone: what is left there is
    /// for what happens, not for doing it faster.
    pub(crate) fn warm(&self) -> io::Result<()> {
        let mut path = self.path.as_os_str().to_owned();
        path.push("-wal");
        let disk = rustix::fs::statvfs(&self.path)?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < ROOM_TO_WARM {
            return Ok(());
        }
        let log = File::options().write(true).open(Path::new(&path))?;
        let mut at = log.metadata()?.len();
        let zeros = vec![0; 64 << 10];
        while at < WARM_BYTES {
            let length = zeros.len().min(usize::try_from(WARM_BYTES - at).unwrap_or(usize::MAX));
            log.write_all_at(&zeros[..length], at)?;
            at += length as u64;
        }
        log.sync_all()
    }

    /// Called by the writer after each commit. Quick unless the WAL reached its bound.
    pub(crate) fn after_commit(&mut self, connection: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages >= HARD_PAGES {
            match checkpoint(connection, "RESTART") {
                Ok(true) => self.pages.store(0, Ordering::Relaxed),
                Ok(false) => tracing::warn!(pages, "a long read holds the write-ahead log; it grows"),
                Err(error) => tracing::warn!(%error, "checkpoint failed"),
            }
        } else if pages >= SOFT_PAGES {
            self.wake();
        }
    }

    fn wake(&mut self) {
        if self.checkpointer.is_none() {
            self.checkpointer = Checkpointer::start(&self.path);
        }
        if let Some(checkpointer) = &self.checkpointer {
            // A full channel means that one is already asked for.
            let _ = checkpointer.wake.try_send(());
        }
    }

    /// Stops the checkpointer. The connection's own end then folds the WAL into the database.
    pub(crate) fn close(self) {
        if let Some(Checkpointer { wake, thread }) = self.checkpointer {
            drop(wake);
            let _ = thread.join();
        }
    }
}

impl Checkpointer {
    fn start(path: &Path) -> Option<Self> {
        let (wake, woken) = mpsc::sync_channel(1);
        let path = path.to_owned();
        let thread = spawn_thread("sqlite-checkpoint", move || {
            let connection = match connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE) {
                Ok(connection) => connection,
                Err(error) => return tracing::warn!(%error, "no connection for checkpoints"),
            };
            while woken.recv().is_ok() {
                if let Err(error) = checkpoint(&connection, "PASSIVE") {
                    tracing::warn!(%error, "checkpoint failed");
                }
            }
        });
        match thread {
            Ok(thread) => Some(Self { wake, thread }),
            Err(error) => {
                tracing::warn!(%error, "no thread for checkpoints");
                None
            }
        }
    }
}

/// Whether everything was copied.
fn checkpoint(connection: &Connection, kind: &str) -> Result<bool> {
    connection
        .query_row(&format!("PRAGMA wal_checkpoint({kind})"), [], |row| {
            let (busy, logged, copied): (i32, i32, i32) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(busy == 0 && logged == copied)
        })
        .map_err(store_error)
}
