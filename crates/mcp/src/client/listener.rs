//! What a server tells us without being asked.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProgressToken,
    ProtocolVersion,
};
use rmcp::service::NotificationContext;
use rmcp::{ClientHandler, RoleClient};
use tidegate_tools::truncate;
use tokio::sync::{Notify, mpsc};

/// Notes about progress that may wait to be read; more are dropped.
const MOST_NOTES: usize = 32;
/// Bytes of one such note.
const LONGEST_NOTE: usize = 500;

/// Offers a server nothing: it cannot ask a model or a person through us, and sees no folders.
#[derive(Default)]
pub(crate) struct Listener {
    /// Calls under way that want to know how far they are.
    progress: Mutex<HashMap<ProgressToken, mpsc::Sender<String>>>,
    /// Its tools are no longer those it listed.
    pub(crate) changed: Notify,
}

impl Listener {
    pub(crate) fn follow(&self, token: ProgressToken) -> mpsc::Receiver<String> {
        let (sender, notes) = mpsc::channel(MOST_NOTES);
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).insert(token, sender);
        notes
    }

    pub(crate) fn forget(&self, token: &ProgressToken) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
    }
}

impl ClientHandler for Listener {
    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notes) = progress.get(&params.progress_token) {
            let _ = notes.try_send(note(&params));
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let mut us = Implementation::default();
        "tidegate".clone_into(&mut us.name);
        env!("CARGO_PKG_VERSION").clone_into(&mut us.version);
        let mut config = ClientConfig::new(ClientCapabilities::default(), us);
        // The last version with a handshake; the newer era names its own.
        config.protocol_version = ProtocolVersion::V_2025_11_25;
        config
    }
}

fn note(params: &ProgressNotificationParam) -> String {
    let far = match params.total {
        Some(total) => format!("{}/{total}", params.progress),
        None => params.progress.to_string(),
    };
    let message = params.message.as_deref().unwrap_or_default();
    let message = tidegate_policy::inert::inert_line(truncate::head_bytes(message, LONGEST_NOTE));
    if message.is_empty() { far } else { format!("{far} {message}") }
}
