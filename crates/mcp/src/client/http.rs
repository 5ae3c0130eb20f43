//! A server that runs elsewhere: Streamable HTTP over the one HTTP client of the program.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{BoxStream, StreamExt as _};
use http::{HeaderName, HeaderValue, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use tidegate_net::{Call, Client, Headers, Method, NetError, Origin, Reply, Secret, Timeouts};

use crate::login::{Challenge, Logins, Unusable};

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: &str = "mcp-session-id";
/// An answer that is not a stream may be this long.
const LONGEST_ANSWER: usize = 16 * 1024 * 1024;
/// How long a stream may be silent before it is opened again.
const SILENT_STREAM: Duration = Duration::from_mins(10);
/// What of a refusal is quoted.
const QUOTED: usize = 300;

/// The program's client, with what goes along to one server.
#[derive(Clone)]
pub(crate) struct NetHttp {
    client: Client,
    headers: Headers,
    /// Without a byte, while an answer is awaited.
    patience: Duration,
    login: Option<Login>,
}

/// Where the token for a server comes from.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) logins: Arc<Logins>,
    pub(crate) server: String,
    pub(crate) url: String,
}

impl Login {
    async fn token(&self, refused: Option<&Secret>) -> Result<Option<Secret>, Failed> {
        let token = self.logins.token(&self.server, &self.url, refused).await;
        token.map_err(|why| match why {
            Unusable::Ended => StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new())),
            Unusable::NotNow(_) => unexpected(why.to_string()),
        })
    }
}

/// One request, before it gets what goes along to every server.
#[derive(Clone)]
struct Request {
    method: Method,
    url: Arc<str>,
    headers: Headers,
    body: Vec<u8>,
    idle: Duration,
}

type Failed = StreamableHttpError<NetError>;

impl NetHttp {
    pub(crate) fn new(
        client: Client,
        headers: &BTreeMap<String, Secret>,
        patience: Duration,
        login: Option<Login>,
    ) -> Self {
        let mut own = Headers::default();
        for (name, value) in headers {
            own.set_secret(name, value);
        }
        Self { client, headers: own, patience, login }
    }

    /// Sends a request with the login there is. A token that is refused is renewed, and the request sent once more:
    /// whoever refuses a token has not looked at the rest.
    async fn send(&self, request: Request) -> Result<Reply, Failed> {
        let Some(login) = &self.login else { return self.send_with(request, None).await };
        let token = login.token(None).await?;
        let again = token.is_some().then(|| request.clone());
        let reply = self.send_with(request, token.as_ref()).await?;
        let (401, Some(refused), Some(request)) = (reply.status(), token, again) else { return Ok(reply) };
        match login.token(Some(&refused)).await? {
            Some(renewed) if renewed != refused => self.send_with(request, Some(&renewed)).await,
            _ => Ok(reply),
        }
    }

    async fn send_with(&self, request: Request, token: Option<&Secret>) -> Result<Reply, Failed> {
        let mut headers = self.headers.clone();
        for (name, value) in request.headers.iter() {
            headers.set_secret(name, value);
        }
        if let Some(token) = token {
            headers.set_secret("authorization", &Secret::new(format!("Bearer {}", token.expose())));
        }
        let call = Call {
            // The operator wrote it into the configuration.
            origin: Origin::Configured,
            method: request.method,
            url: request.url.to_string(),
            headers,
            body: request.body,
            timeouts: Timeouts { idle: request.idle },
        };
        self.client.call(call).await.map_err(StreamableHttpError::Client)
    }

    async fn post(
        &self,
        url: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        custom: HashMap<HeaderName, HeaderValue>,
        largest: usize,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let mut headers = headers(&custom, session.as_deref())?;
        headers.set("accept", format!("{JSON}, {EVENTS}"));
        headers.set("content-type", JSON);
        let body = serde_json::to_vec(&message)?;
        let idle = self.patience;
        let reply = self.send(Request { method: Method::Post, url, headers, body, idle }).await?;
        answer(reply, &message, session.is_some(), largest).await
    }
}

/// What an answer to a message means.
async fn answer(
    reply: Reply,
    message: &ClientJsonRpcMessage,
    in_session: bool,
    largest: usize,
) -> Result<StreamableHttpPostResponse, Failed> {
    let status = status_of(&reply)?;
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if status == StatusCode::NOT_FOUND && in_session {
        return Err(StreamableHttpError::SessionExpired);
    }
    let session = reply.header(SESSION).map(str::to_owned);
    let kind = reply.header("content-type").map(str::to_owned);
    let is = |wanted: &str| kind.as_deref().is_some_and(|kind| kind.starts_with(wanted));
    if !status.is_success() {
        return refusal(reply, status, is(JSON), message, in_session, session).await;
    }
    if is(EVENTS) {
        return Ok(StreamableHttpPostResponse::Sse(events(reply, largest), session));
    }
    let awaits = matches!(message, ClientJsonRpcMessage::Request(_));
    if !is(JSON) && awaits {
        return Err(StreamableHttpError::UnexpectedContentType(kind));
    }
    let body = reply.bytes(LONGEST_ANSWER).await.map_err(StreamableHttpError::Client)?;
    match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
        Err(_) if !awaits => Ok(StreamableHttpPostResponse::Accepted),
        Err(error) => Err(unexpected(format!("the answer is no MCP message: {error}"))),
    }
}

async fn refusal(
    reply: Reply,
    status: StatusCode,
    json: bool,
    message: &ClientJsonRpcMessage,
    in_session: bool,
    session: Option<String>,
) -> Result<StreamableHttpPostResponse, Failed> {
    let retry_after = reply.header("retry-after").map(str::to_owned);
    let location = reply.header("location").map(str::to_owned);
    if status.is_redirection() {
        let to = location.unwrap_or_default();
        return Err(unexpected(format!("it redirects to {to}; write that address into the configuration")));
    }
    let body = reply.bytes(LONGEST_ANSWER).await.unwrap_or_default();
    let told = serde_json::from_slice::<ServerJsonRpcMessage>(&body).ok();
    let is_auth = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    // A server of the older era knows nothing of `server/discover`, and says so in many ways.
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !in_session
        && status.is_client_error()
        && !is_auth
    {
        let error = match told {
            Some(ServerJsonRpcMessage::Error(error)) => error.error,
            _ => ErrorData::invalid_request(format!("HTTP {status}"), None),
        };
        return Ok(StreamableHttpPostResponse::Json(
            ServerJsonRpcMessage::error(error, Some(request.id.clone())),
            None,
        ));
    }
    if let Some(error @ ServerJsonRpcMessage::Error(_)) = told
        && json
        && !is_auth
    {
        return Ok(StreamableHttpPostResponse::Json(error, session));
    }
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        return Err(HttpStatusError::new(status.as_u16(), retry_after).into());
    }
    let text = String::from_utf8_lossy(&body);
    let text = tidegate_policy::inert::inert_line(tidegate_tools::truncate::head_bytes(text.trim(), QUOTED));
    Err(unexpected(format!("HTTP {status}: {text}")))
}

fn unexpected(why: String) -> Failed {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(why))
}

/// The status, unless it asks for a login.
fn status_of(reply: &Reply) -> Result<StatusCode, Failed> {
    let status = StatusCode::from_u16(reply.status()).map_err(|_| unexpected("no HTTP status".to_owned()))?;
    let challenge = reply.header("www-authenticate").unwrap_or_default();
    match status {
        StatusCode::UNAUTHORIZED => {
            Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge.to_owned())))
        }
        StatusCode::FORBIDDEN => {
            let read = Challenge::read(challenge);
            if !read.wants_more_scope() {
                return Ok(status);
            }
            let error = InsufficientScopeError::new(challenge.to_owned(), read.scope);
            Err(StreamableHttpError::InsufficientScope(error))
        }
        _ => Ok(status),
    }
}

fn headers(custom: &HashMap<HeaderName, HeaderValue>, session: Option<&str>) -> Result<Headers, Failed> {
    let mut headers = Headers::default();
    for (name, value) in custom {
        let value = value.to_str().map_err(|_| unexpected(format!("{name} cannot be sent")))?;
        headers.set(name.as_str(), value);
    }
    if let Some(session) = session {
        headers.set(SESSION, session);
    }
    Ok(headers)
}

/// The events of an answer. One that is too large ends it.
fn events(reply: Reply, largest: usize) -> BoxStream<'static, Result<Sse, SseError>> {
    let size = EventSize { largest, size: 0, line: 0 };
    let bytes = futures_util::stream::unfold(Some((reply, size)), |state| async move {
        let (mut reply, mut size) = state?;
        match reply.chunk().await {
            Ok(None) => None,
            Err(error) => Some((Err(std::io::Error::other(error)), None)),
            Ok(Some(chunk)) => {
                let chunk = chunk.as_ref().to_vec();
                if size.exceeds(&chunk) {
                    let why = format!("an event is larger than {} bytes", size.largest);
                    return Some((Err(std::io::Error::other(why)), None));
                }
                Some((Ok(std::io::Cursor::new(chunk)), Some((reply, size))))
            }
        }
    });
    SseStream::from_bytes_stream(bytes).boxed()
}

/// Counts the bytes of the event that is being read.
struct EventSize {
    largest: usize,
    size: usize,
    /// Bytes of the line that is being read.
    line: usize,
}

impl EventSize {
    fn exceeds(&mut self, chunk: &[u8]) -> bool {
        for byte in chunk {
            match byte {
                b'\n' | b'\r' if self.line == 0 => self.size = 0,
                b'\n' | b'\r' => self.line = 0,
                _ => {
                    self.line += 1;
                    self.size += 1;
                }
            }
            if self.size > self.largest {
                return true;
            }
        }
        false
    }
}

impl StreamableHttpClient for NetHttp {
    type Error = NetError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.post(uri, message, session_id, custom_headers, LONGEST_ANSWER).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        largest: usize,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.post(uri, message, session_id, custom_headers, largest).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        let headers = headers(&custom_headers, Some(&session_id))?;
        let request =
            Request { method: Method::Delete, url: uri, headers, body: Vec::new(), idle: self.patience };
        self.send(request).await?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth,
            custom_headers,
            LONGEST_ANSWER,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        largest: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        let mut headers = headers(&custom_headers, session_id.as_deref())?;
        headers.set("accept", EVENTS);
        if let Some(last) = last_event_id {
            headers.set("last-event-id", last);
        }
        let request =
            Request { method: Method::Get, url: uri, headers, body: Vec::new(), idle: SILENT_STREAM };
        let reply = self.send(request).await?;
        let status = status_of(&reply)?;
        let kind = reply.header("content-type").map(str::to_owned);
        if status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            return Err(HttpStatusError::new(status.as_u16(), None).into());
        }
        if !kind.as_deref().is_some_and(|kind| kind.starts_with(EVENTS)) {
            return Err(StreamableHttpError::UnexpectedContentType(kind));
        }
        Ok(events(reply, largest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_measured_across_chunks_and_a_blank_line_ends_it() {
        let mut size = EventSize { largest: 10, size: 0, line: 0 };
        assert!(!size.exceeds(b"data: ab\n"));
        assert!(!size.exceeds(b"\ndata: c"));
        assert!(!size.exceeds(b"d\r\n\r\n"));
        assert!(size.exceeds(b"data: 12345\n"));
    }
}
