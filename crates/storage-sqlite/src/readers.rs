//! Read connections: opened when needed, kept for the next reader, and not more of them than are kept.
//!
//! A connection costs more than most reads: opening it, its page cache, its statements prepared anew. So who finds none
//! free waits for one instead of opening another.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tidegate_storage::{Result, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::open::connect_reader;

/// Reads at once, each on a connection of its own.
const CONNECTIONS: usize = 8;

pub(crate) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    /// A seat a connection.
    seats: Arc<Semaphore>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::default(), seats: Arc::new(Semaphore::new(CONNECTIONS)) }
    }

    /// A seat, as soon as one is free. Hold it over [`with`](Self::with).
    pub(crate) async fn seat(&self) -> Result<OwnedSemaphorePermit> {
        let seat = Arc::clone(&self.seats).acquire_owned().await;
        seat.map_err(|_| StoreError::Internal("the readers have ended".to_owned()))
    }

    /// Runs `work` on one consistent snapshot.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = idle.map_or_else(|| connect_reader(&self.path), Ok)?;
        let snapshot = connection.unchecked_transaction().map_err(crate::error::store_error)?;
        let result = work(&connection);
        drop(snapshot);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        result
    }
}
