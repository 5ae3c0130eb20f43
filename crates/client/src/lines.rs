//! An answer that comes line by line, a JSON value each.

use std::marker::PhantomData;

use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connect::Client;
use crate::error::ClientError;

/// The longest line that is read.
const LONGEST: usize = 64 * 1024 * 1024;

/// The lines of an answer. Dropping it hangs up.
#[derive(Debug)]
pub(crate) struct Lines<T> {
    client: Client,
    body: Incoming,
    /// Bytes that were read and are not a whole line yet.
    unread: Vec<u8>,
    event: PhantomData<fn() -> T>,
}

impl Client {
    /// Sends a question; an answer that is no success is an error.
    pub(crate) async fn lines<T>(&self, path: &str, body: &impl Serialize) -> Result<Lines<T>, ClientError> {
        let answer = self.send(Method::POST, path, Some(self.encode(body)?)).await?;
        let status = answer.status();
        if !status.is_success() {
            let body = self.read(answer).await?;
            return Err(self.refusal(status, &body));
        }
        let body = answer.into_body();
        Ok(Lines { client: self.clone(), body, unread: Vec::new(), event: PhantomData })
    }
}

impl<T: DeserializeOwned> Lines<T> {
    /// The next line; `None` when the gateway closed the answer properly.
    pub(crate) async fn next(&mut self) -> Result<Option<T>, ClientError> {
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
