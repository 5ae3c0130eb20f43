//! A question whose answer comes line by line.

use std::time::Duration;

use tidegate_protocol::RunId;
use tidegate_protocol::api::{Ask, AskEvent};

use crate::call::within;
use crate::connect::Client;
use crate::error::ClientError;
use crate::lines::Lines;

/// The lines of an answer. Dropping it hangs up, and the gateway then aborts the run.
#[derive(Debug)]
pub struct AskStream {
    lines: Lines<AskEvent>,
    run: RunId,
    ended: bool,
}

impl Client {
    /// Asks, and returns once the run is durable, with its first event ([`AskEvent::Accepted`]). `Closing` means that
    /// the same question with the same key may be sent again.
    pub async fn ask(&self, ask: &Ask, patience: Duration) -> Result<(AskEvent, AskStream), ClientError> {
        within(patience, self.begin(ask)).await
    }

    async fn begin(&self, ask: &Ask) -> Result<(AskEvent, AskStream), ClientError> {
        let mut lines = self.lines("/api/v1/ask", ask).await?;
        let first = lines.next().await?.ok_or_else(|| ClientError::Closing { at: self.at() })?;
        let AskEvent::Accepted { run_id, .. } = first else {
            return Err(self.protocol("the first line of an answer is not `accepted`".to_owned()));
        };
        Ok((first, AskStream { lines, run: run_id, ended: false }))
    }
}

impl AskStream {
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The next event; `None` after the one that ends the answer.
    pub async fn next(&mut self, patience: Duration) -> Result<Option<AskEvent>, ClientError> {
        if self.ended {
            return Ok(None);
        }
        let event = match within(patience, self.lines.next()).await {
            Ok(Some(event)) => event,
            Ok(None) | Err(ClientError::Closing { .. }) => return Err(ClientError::Lost { run: self.run }),
            Err(error) => return Err(error),
        };
        self.ended = matches!(event, AskEvent::Answer(_) | AskEvent::Error { .. });
        Ok(Some(event))
    }
}
