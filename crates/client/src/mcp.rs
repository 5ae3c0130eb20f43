//! Messages of the Model Context Protocol to the holder of the home, and what comes back.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Method, Response, StatusCode};
use serde_json::Value;

use crate::call::within;
use crate::connect::Client;
use crate::error::ClientError;

/// Where a message says which version of the protocol it is in, if it does.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const SESSION: &str = "mcp-session-id";
const EVENTS: &str = "text/event-stream";
/// No event is longer.
const LONGEST: usize = 64 * 1024 * 1024;

/// What comes back. Dropping it hangs up.
#[derive(Debug)]
pub struct McpStream {
    client: Client,
    session: Option<String>,
    rest: Rest,
}

#[derive(Debug)]
enum Rest {
    /// One message or none.
    Whole(Option<Value>),
    Events {
        body: Incoming,
        unread: Vec<u8>,
    },
}

impl Client {
    /// Sends a message; what comes back ends with its answer. A refusal in the protocol's own words is an answer.
    pub async fn mcp(
        &self,
        message: &Value,
        session: Option<&str>,
        patience: Duration,
    ) -> Result<McpStream, ClientError> {
        let body = self.encode(message)?;
        let mut headers = headers(message);
        headers.extend(session.map(|session| (SESSION, session.to_owned())));
        within(patience, async {
            let answer = self.send_with(Method::POST, "/mcp", Some(body), &headers).await?;
            // A method that is not known is answered with the same status, in the protocol's own words.
            let unknown = session.is_some() && answer.status() == StatusCode::NOT_FOUND;
            match self.mcp_answer(answer).await {
                Err(_) if unknown => Err(ClientError::SessionEnded { at: self.at() }),
                answer => answer,
            }
        })
        .await
    }

    /// What the holder has to say in a session without being asked.
    pub async fn mcp_news(&self, session: &str, patience: Duration) -> Result<McpStream, ClientError> {
        let headers = [("accept", EVENTS.to_owned()), (SESSION, session.to_owned())];
        within(patience, async {
            let answer = self.send_with(Method::GET, "/mcp", None, &headers).await?;
            self.mcp_answer(answer).await
        })
        .await
    }

    /// Ends a session.
    pub async fn mcp_end(&self, session: &str, patience: Duration) -> Result<(), ClientError> {
        let headers = [(SESSION, session.to_owned())];
        within(patience, async {
            self.send_with(Method::DELETE, "/mcp", None, &headers).await?;
            Ok(())
        })
        .await
    }

    async fn mcp_answer(&self, answer: Response<Incoming>) -> Result<McpStream, ClientError> {
        let status = answer.status();
        let text = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
        let session = text(SESSION);
        if status.is_success() && text("content-type").is_some_and(|kind| kind.starts_with(EVENTS)) {
            let rest = Rest::Events { body: answer.into_body(), unread: Vec::new() };
            return Ok(McpStream { client: self.clone(), session, rest });
        }
        let bytes = self.read(answer).await?;
        let message = match serde_json::from_slice::<Value>(&bytes) {
            _ if bytes.is_empty() && status.is_success() => None,
            Ok(answer) if answer.get("jsonrpc").is_some() => Some(answer),
            _ if status.is_success() => return Err(self.protocol("the answer is no message".to_owned())),
            _ => return Err(self.refusal(status, &bytes)),
        };
        Ok(McpStream { client: self.clone(), session, rest: Rest::Whole(message) })
    }
}

impl McpStream {
    /// The session that was begun, if one was.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The next message; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Value>, ClientError> {
        let (body, unread) = match &mut self.rest {
            Rest::Whole(message) => return Ok(message.take()),
            Rest::Events { body, unread } => (body, unread),
        };
        loop {
            if let Some(event) = first_event(unread) {
                match serde_json::from_slice(&event) {
                    _ if event.is_empty() => continue,
                    Ok(message) => return Ok(Some(message)),
                    Err(error) => return Err(self.client.protocol(error.to_string())),
                }
            }
            if unread.len() > LONGEST {
                return Err(self.client.protocol("an event of an answer has no end".to_owned()));
            }
            match body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => unread.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                Some(Err(_)) => return Err(ClientError::Closing { at: self.client.at() }),
            }
        }
    }
}

/// Takes the first whole event off the front; what it says, which may be nothing.
fn first_event(unread: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = unread.windows(2).position(|pair| pair == b"\n\n")?;
    let event: Vec<u8> = unread.drain(..end + 2).collect();
    let mut data = Vec::new();
    for line in event.split(|byte| *byte == b'\n') {
        if let Some(said) = line.strip_prefix(b"data:") {
            data.extend_from_slice(said.strip_prefix(b" ").unwrap_or(said));
        }
    }
    Some(data)
}

/// What the newer era wants to see outside the message as well.
fn headers(message: &Value) -> Vec<(&'static str, String)> {
    let mut headers = vec![("accept", format!("application/json, {EVENTS}"))];
    let params = &message["params"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(version) = text(&params["_meta"][VERSION]) {
        headers.push(("mcp-protocol-version", version));
        headers.extend(text(&message["method"]).map(|method| ("mcp-method", method)));
        headers.extend(text(&params["name"]).or_else(|| text(&params["uri"])).map(|name| ("mcp-name", name)));
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_one_by_one_and_half_of_one_waits() {
        let mut unread =
            b"id: 0\nretry: 3000\ndata:\n\n: still here\n\ndata: {\"a\":\ndata: 1}\n\ndata: {".to_vec();
        assert_eq!(first_event(&mut unread).as_deref(), Some(&b""[..]));
        assert_eq!(first_event(&mut unread).as_deref(), Some(&b""[..]));
        assert_eq!(first_event(&mut unread).as_deref(), Some(&b"{\"a\":1}"[..]));
        assert_eq!(first_event(&mut unread), None);
        assert_eq!(unread, b"data: {");
    }
}
