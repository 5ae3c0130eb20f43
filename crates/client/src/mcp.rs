//! One message of the Model Context Protocol to the holder of the home, and what comes back.

use std::time::Duration;

use hyper::Method;
use serde_json::Value;

use crate::call::within;
use crate::connect::Client;
use crate::error::ClientError;

/// Where a message says which version of the protocol it is in, if it does.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

impl Client {
    /// The answer; `None` to what wants none. A refusal in the protocol's own words is an answer.
    pub async fn mcp(&self, message: &Value, patience: Duration) -> Result<Option<Value>, ClientError> {
        let body = self.encode(message)?;
        let headers = headers(message);
        within(patience, async {
            let answer = self.send_with(Method::POST, "/mcp", Some(body), &headers).await?;
            let status = answer.status();
            let bytes = self.read(answer).await?;
            if bytes.is_empty() && status.is_success() {
                return Ok(None);
            }
            match serde_json::from_slice::<Value>(&bytes) {
                Ok(answer) if answer.get("jsonrpc").is_some() => Ok(Some(answer)),
                _ if status.is_success() => Err(self.protocol("the answer is no message".to_owned())),
                _ => Err(self.refusal(status, &bytes)),
            }
        })
        .await
    }
}

/// What the newer era wants to see outside the message as well.
fn headers(message: &Value) -> Vec<(&'static str, String)> {
    let mut headers = vec![("accept", "application/json, text/event-stream".to_owned())];
    let params = &message["params"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(version) = text(&params["_meta"][VERSION]) {
        headers.push(("mcp-protocol-version", version));
        headers.extend(text(&message["method"]).map(|method| ("mcp-method", method)));
        headers.extend(text(&params["name"]).or_else(|| text(&params["uri"])).map(|name| ("mcp-name", name)));
    }
    headers
}
