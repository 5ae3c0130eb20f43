//! How the house stands, as clients are told at their entrance and when they ask. Reading it walks through the store, so
//! it is read once for all who ask within a moment: ten thousand who come back at once cost one reading.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::frame::WireError;
use crate::dialect::openclaw::system::{self, HealthSummary};
use crate::gate::Gate;

/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Standing {
    /// Held while it is read: whoever comes meanwhile waits for that reading.
    latest: Mutex<Option<(Instant, Arc<HealthSummary>)>>,
}

impl Standing {
    pub(crate) async fn read(&self, gate: &Gate) -> Result<Arc<HealthSummary>, WireError> {
        let mut latest = self.latest.lock().await;
        if let Some((at, standing)) = latest.as_ref()
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(standing));
        }
        let standing = Arc::new(system::read_health(gate).await?);
        *latest = Some((Instant::now(), Arc::clone(&standing)));
        Ok(standing)
    }
}
