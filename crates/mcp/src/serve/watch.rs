//! Telling clients which of the texts they watch have changed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, RoleServer};
use tidegate_runtime::spawn;

use super::Desk;

/// Texts that one client watches.
pub(super) const MOST: usize = 100;
/// How often it is looked whether the client is still there.
const LOOK: Duration = Duration::from_mins(1);

/// What a client of the older era watches.
#[derive(Default)]
pub(super) struct Watched(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    uris: BTreeSet<String>,
    /// Somebody looks for changes.
    looking: bool,
}

impl Watched {
    /// `false` when it watches too many.
    pub(super) fn add(&self, uri: String, desk: &Arc<dyn Desk>, peer: &Peer<RoleServer>) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.uris.len() >= MOST && !state.uris.contains(&uri) {
            return false;
        }
        state.uris.insert(uri);
        if !std::mem::replace(&mut state.looking, true) {
            // It ends when nothing is watched any more, or the client is gone.
            let changes = desk.changes();
            drop(spawn("mcp changes", tell(Arc::clone(&self.0), changes, peer.clone())));
        }
        true
    }

    pub(super) fn remove(&self, uri: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).uris.remove(uri);
    }
}

async fn tell(state: Arc<Mutex<State>>, mut changes: BoxStream<'static, String>, peer: Peer<RoleServer>) {
    loop {
        let changed = tokio::time::timeout(LOOK, changes.next()).await;
        {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.uris.is_empty() || peer.is_transport_closed() || matches!(changed, Ok(None)) {
                state.looking = false;
                return;
            }
            if !changed.as_ref().is_ok_and(|uri| uri.as_ref().is_some_and(|uri| state.uris.contains(uri))) {
                continue;
            }
        }
        if let Ok(Some(uri)) = changed {
            let _ = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await;
        }
    }
}
