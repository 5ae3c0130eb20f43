//! A question whose answer comes line by line.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;
use tidegate_protocol::RunId;
use tidegate_protocol::api::{Ask, AskEvent};

use crate::call::within;
use crate::connect::Client;
use crate::error::ClientError;

/// The longest line that is read.
const LONGEST: usize = 64 * 1024 * 1024;

/// The lines of an answer. Dropping it hangs up, and the gateway then aborts the run.
#[derive(Debug)]
pub struct AskStream {
    lines: Lines,
    run: RunId,
    ended: bool,
}

#[derive(Debug)]
struct Lines {
    client: Client,
    body: Incoming,
    /// Bytes that were read and are not a whole line yet.
    unread: Vec<u8>,
}

impl Client {
    /// Asks, and returns once the run is durable, with its first event ([`AskEvent::Accepted`]). `Closing` means that
    /// the same question with the same key may be sent again.
    pub async fn ask(&self, ask: &Ask, patience: Duration) -> Result<(AskEvent, AskStream), ClientError> {
        within(patience, self.begin(ask)).await
    }

    async fn begin(&self, ask: &Ask) -> Result<(AskEvent, AskStream), ClientError> {
        let answer = self.send(Method::POST, "/api/v1/ask", Some(self.encode(ask)?)).await?;
        let status = answer.status();
        if !status.is_success() {
            let body = self.read(answer).await?;
            return Err(self.refusal(status, &body));
        }
        let mut lines = Lines { client: self.clone(), body: answer.into_body(), unread: Vec::new() };
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

impl Lines {
    /// The next line; `None` when the gateway closed the answer properly.
    async fn next(&mut self) -> Result<Option<AskEvent>, ClientError> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let event = serde_json::from_slice(&line);
                return event.map(Some).map_err(|error| self.client.protocol(error.to_string()));
            }
            if self.unread.len() > LONGEST {
                return Err(self.client.protocol("a line of an answer has no end".to_owned()));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => self.unread.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                Some(Err(_)) => return Err(ClientError::Closing { at: self.client.at() }),
            }
        }
    }
}
