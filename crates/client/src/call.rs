//! One question, one answer, as JSON.

use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::Failure;

use crate::connect::Client;
use crate::error::ClientError;

/// The largest answer that is read whole.
const LARGEST: usize = 64 * 1024 * 1024;

impl Client {
    pub async fn get<T: DeserializeOwned>(&self, path: &str, patience: Duration) -> Result<T, ClientError> {
        within(patience, self.call(Method::GET, path, None)).await
    }

    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        patience: Duration,
    ) -> Result<T, ClientError> {
        let body = self.encode(body)?;
        within(patience, self.call(Method::POST, path, Some(body))).await
    }

    pub async fn delete<T: DeserializeOwned>(
        &self,
        path: &str,
        patience: Duration,
    ) -> Result<T, ClientError> {
        within(patience, self.call(Method::DELETE, path, None)).await
    }

    pub(crate) fn encode(&self, body: &impl Serialize) -> Result<Vec<u8>, ClientError> {
        serde_json::to_vec(body).map_err(|error| self.protocol(error.to_string()))
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<T, ClientError> {
        let answer = self.send(method, path, body).await?;
        let status = answer.status();
        let bytes = self.read(answer).await?;
        if !status.is_success() {
            return Err(self.refusal(status, &bytes));
        }
        // An answer without a body (204) reads as null, which is `()`.
        let json: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        serde_json::from_slice(json).map_err(|error| self.protocol(error.to_string()))
    }

    pub(crate) async fn read(&self, answer: Response<Incoming>) -> Result<Bytes, ClientError> {
        let body = Limited::new(answer.into_body(), LARGEST).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|_| ClientError::Closing { at: self.at() })
    }

    /// The gateway's own words about a refusal.
    pub(crate) fn refusal(&self, status: StatusCode, body: &[u8]) -> ClientError {
        let Ok(Failure { error }) = serde_json::from_slice(body) else {
            return self.protocol(format!("status {status} without an error that can be read"));
        };
        if error.code == ErrorCode::Closing {
            return ClientError::Closing { at: self.at() };
        }
        ClientError::Server { status: status.as_u16(), problem: Box::new(error) }
    }

    /// What the gateway says about itself, whatever its release knows to say.
    pub async fn status(&self, patience: Duration) -> Result<Value, ClientError> {
        self.get("/api/v1/status", patience).await
    }
}

pub(crate) async fn within<T>(
    patience: Duration,
    call: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    tokio::time::timeout(patience, call).await.unwrap_or(Err(ClientError::Deadline(patience)))
}
