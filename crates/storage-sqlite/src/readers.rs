//! Read connections: opened when needed, kept for the next reader.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;
use tidegate_storage::Result;

use crate::open::connect_reader;

/// Idle connections kept. More may be open at once; the surplus is closed after use.
const KEPT: usize = 4;

pub(crate) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::default() }
    }

    /// Runs `work` on one consistent snapshot.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = idle.map_or_else(|| connect_reader(&self.path), Ok)?;
        let snapshot = connection.unchecked_transaction().map_err(crate::error::store_error)?;
        let result = work(&connection);
        drop(snapshot);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(connection);
        }
        result
    }
}
