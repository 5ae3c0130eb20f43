//! How the house stands, as clients are told at their entrance and when they ask. Reading it walks through the store, so
//! it is read once for all who ask within a moment: ten thousand who come back at once cost one reading.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::frame::WireError;
use crate::dialect::openclaw::system::{self, HealthSummary};
use crate::gate::Gate;

/// How old an answer may be: so many times as old as reading it took, so that reading it for everybody never takes more
/// than a small share of the time. A small house is read anew nearly every time.
const SHARE: u32 = 20;
const OLDEST: Duration = Duration::from_secs(5);

/// How long a reading may take: who comes in waits for it.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct Standing {
    /// Held while it is read: whoever comes meanwhile waits for that reading.
    latest: Mutex<Option<Reading>>,
}

struct Reading {
    at: Instant,
    took: Duration,
    told: Arc<HealthSummary>,
}

impl Reading {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < fresh_for(self.took)
    }
}

fn fresh_for(took: Duration) -> Duration {
    took.saturating_mul(SHARE).min(OLDEST)
}

impl Standing {
    pub(crate) async fn read(&self, gate: &Gate) -> Result<Arc<HealthSummary>, WireError> {
        let mut latest = self.latest.lock().await;
        if let Some(reading) = latest.as_ref().filter(|reading| reading.is_fresh()) {
            return Ok(Arc::clone(&reading.told));
        }
        let began = Instant::now();
        let reading = tokio::time::timeout(PATIENCE, system::read_health(gate)).await;
        let unanswered = |_| WireError::unavailable("the database does not answer");
        let told = Arc::new(reading.map_err(unanswered)??);
        *latest = Some(Reading { at: Instant::now(), took: began.elapsed(), told: Arc::clone(&told) });
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_house_that_takes_long_to_read_is_read_rarely() {
        assert_eq!(fresh_for(Duration::from_micros(500)), Duration::from_millis(10));
        assert_eq!(fresh_for(Duration::from_millis(50)), Duration::from_secs(1));
        assert_eq!(fresh_for(Duration::from_secs(2)), OLDEST);
    }
}
