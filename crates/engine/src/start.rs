//! Starting: a new incarnation, and everything the last one left behind settled.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_protocol::TenantId;
use tidegate_runtime::{Clock, fault};
use tidegate_storage::{Owner, Recovered, Store};

use crate::error::EngineError;
use crate::home::HomeLock;
use crate::identity::instance_id;
use crate::mirror;

/// The engine of one process. Holding it means holding the home.
pub struct Engine {
    /// Closed before the lock is freed: the next process must find everything written.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) lock: HomeLock,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) owner: Owner,
    recovered: Recovered,
    notices: Mutex<Vec<Notice>>,
}

/// Something the owner should know although nothing was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A transcript file was not what had been written; it was set aside and made anew.
    TranscriptRebuilt { file: PathBuf, kept: PathBuf },
    /// A transcript file could not be written; it is tried again with every command.
    TranscriptLags { file: PathBuf, cause: String },
}

impl Engine {
    /// Begins a new incarnation and recovers. `tenant` is whose transcript files live in this home.
    pub async fn start(
        lock: HomeLock,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        tenant: &TenantId,
    ) -> Result<Self, EngineError> {
        fault::pause("engine.start.locked").await;
        let instance = instance_id(&lock, clock.as_ref())?;
        let owner = store.enlist(instance, clock.now_ms()).await?;
        let recovered = store.recover(&owner, clock.now_ms()).await?;
        fault::pause("engine.start.recovered").await;
        let engine = Self { store, lock, clock, owner, recovered, notices: Mutex::default() };
        mirror::catch_up(&engine, tenant).await?;
        Ok(engine)
    }

    pub(crate) fn notice(&self, notice: Notice) {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }

    /// Takes what there is to tell.
    pub fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the last incarnation left unfinished, and what became of it.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }
}
