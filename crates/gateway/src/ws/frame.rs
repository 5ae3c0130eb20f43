//! The three frames of the WebSocket protocol: request, response, event. Frames are closed objects, and what is absent is
//! left out: clients check every frame and drop one with a `null` where nothing should be.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tidegate_protocol::{ErrorBody, ErrorCode};
use tidegate_runtime::catalogue::Language;

use crate::methods::validate;
use crate::texts;

/// A request that can be read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) params: Option<Value>,
}

/// A frame that is no request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoRequest {
    /// The id it has all the same, so that whoever sent it finds the answer.
    pub(crate) id: Option<String>,
    pub(crate) problem: String,
}

fn schema() -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    json!({
        "type": "object",
        "required": ["type", "id", "method"],
        "additionalProperties": false,
        // `traceparent` came with protocol 4.
        "properties": {
            "type": { "const": "req" }, "id": text, "method": text, "params": true,
            "traceparent": { "type": "string" },
        },
    })
}

static SCHEMA: std::sync::LazyLock<Value> = std::sync::LazyLock::new(schema);

/// What is wrong with a frame, in the words of the protocol.
pub(crate) fn problems_of(frame: &Value) -> Option<String> {
    validate::problems(&SCHEMA, frame, validate::Unnamed::Refused)
}

/// Reads a request.
pub(crate) fn read(text: &str) -> Result<Request, NoRequest> {
    let frame: Value = serde_json::from_str(text)
        .map_err(|error| NoRequest { id: None, problem: format!("not JSON: {error}") })?;
    let id = frame.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned);
    if let Some(problem) = problems_of(&frame) {
        return Err(NoRequest { id, problem });
    }
    let Value::Object(mut fields) = frame else {
        return Err(NoRequest { id, problem: "must be object".into() });
    };
    let mut text = |name: &str| match fields.remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let (id, method) = (text("id"), text("method"));
    Ok(Request { id, method, params: fields.remove("params") })
}

/// An error as a client reads it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WireError {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Box<Value>>,
    pub(crate) retryable: Option<bool>,
    pub(crate) retry_after_ms: Option<u64>,
    /// In which language it says how to mend it; only our own dialect does.
    pub(crate) hinted: Option<Language>,
    /// Sent beside the error: `agent` says how its run stands.
    pub(crate) payload: Option<Box<Value>>,
}

pub(crate) const INVALID_REQUEST: &str = "INVALID_REQUEST";
pub(crate) const UNAVAILABLE: &str = "UNAVAILABLE";
pub(crate) const NOT_PAIRED: &str = "NOT_PAIRED";

impl WireError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: None,
            retryable: None,
            retry_after_ms: None,
            hinted: None,
            payload: None,
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(INVALID_REQUEST, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(UNAVAILABLE, message)
    }

    pub(crate) fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// What goes into a frame.
    pub(crate) fn shape(&self) -> Value {
        let mut shape = Map::new();
        shape.insert("code".into(), self.code.into());
        shape.insert("message".into(), self.message.as_str().into());
        if let Some(details) = &self.details {
            shape.insert("details".into(), Value::clone(details));
        }
        let hint = self
            .hinted
            .and_then(|language| Some(texts::hint(ErrorCode::parse(self.code))?.in_language(language)));
        if let Some(hint) = hint {
            shape.insert("hint".into(), hint.into());
        }
        if let Some(retryable) = self.retryable {
            shape.insert("retryable".into(), retryable.into());
        }
        if let Some(after) = self.retry_after_ms {
            shape.insert("retryAfterMs".into(), after.into());
        }
        Value::Object(shape)
    }
}

/// Whether a caller can mend it by asking otherwise.
fn is_callers_fault(code: ErrorCode) -> bool {
    use ErrorCode as Code;
    matches!(
        code,
        Code::BadRequest
            | Code::InvalidValue
            | Code::MissingValue
            | Code::NotFound
            | Code::Forbidden
            | Code::Unauthorized
            | Code::PolicyDenied
            | Code::IdempotencyConflict
            | Code::PayloadTooLarge
            | Code::UnsupportedProvider
            | Code::AskInputRequired
            | Code::ConfigSyntax
            | Code::ConfigInvalid
            | Code::ConfigInclude
            | Code::ConfigEnvMissing
            | Code::ConfigConflict
            | Code::ConfigPath
            | Code::ConfigValue
    )
}

impl From<&ErrorBody> for WireError {
    fn from(body: &ErrorBody) -> Self {
        let code = if is_callers_fault(body.code) { INVALID_REQUEST } else { UNAVAILABLE };
        let mut error = Self::new(code, body.message.clone());
        error.details = Some(Box::new(json!({ "code": body.code })));
        error.retryable = body.code.is_retryable().then_some(true);
        error
    }
}

impl From<tidegate_engine::EngineError> for WireError {
    fn from(error: tidegate_engine::EngineError) -> Self {
        Self::from(&error.body())
    }
}

impl From<tidegate_engine::SettingsError> for WireError {
    fn from(error: tidegate_engine::SettingsError) -> Self {
        Self::from(&error.body())
    }
}

impl From<crate::answer::Refusal> for WireError {
    fn from(refusal: crate::answer::Refusal) -> Self {
        Self::from(refusal.body())
    }
}

impl From<tidegate_storage::StoreError> for WireError {
    fn from(error: tidegate_storage::StoreError) -> Self {
        Self::from(&ErrorBody::from(&error))
    }
}

/// Writes a value; what cannot be written is told in the log and sent as nothing.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| {
        tracing::error!(%error, "an answer cannot be written");
        "null".to_owned()
    })
}

/// A response that went well; `payload` is JSON.
pub(crate) fn response(id: &str, payload: &str) -> String {
    format!(r#"{{"type":"res","id":{},"ok":true,"payload":{payload}}}"#, to_json(&id))
}

/// A response that did not.
pub(crate) fn failure(id: &str, error: &WireError) -> String {
    let payload = error.payload.as_ref().map(|payload| format!(r#""payload":{},"#, to_json(payload)));
    let (id, shape) = (to_json(&id), to_json(&error.shape()));
    format!(r#"{{"type":"res","id":{id},"ok":false,{}"error":{shape}}}"#, payload.unwrap_or_default())
}

/// Counters of what `presence` and `health` show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct StateVersion {
    pub(crate) presence: u64,
    pub(crate) health: u64,
}

/// An event; `payload` is JSON.
pub(crate) fn event(name: &str, payload: &str, seq: Option<u64>, version: Option<StateVersion>) -> String {
    let seq = seq.map(|seq| format!(r#","seq":{seq}"#)).unwrap_or_default();
    let version = version.map(|version| format!(r#","stateVersion":{}"#, to_json(&version)));
    let (name, version) = (to_json(&name), version.unwrap_or_default());
    format!(r#"{{"type":"event","event":{name},"payload":{payload}{seq}{version}}}"#)
}

/// An event of a subscription, counted in it; `payload` is JSON.
pub(crate) fn subscribed(name: &str, payload: &str, sub: &str, n: u64) -> String {
    let (name, sub) = (to_json(&name), to_json(&sub));
    format!(r#"{{"type":"event","event":{name},"payload":{payload},"sub":{sub},"n":{n}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_closed_object() {
        let read_of = |text: &str| read(text);
        let plain = read_of(r#"{"type":"req","id":"1","method":"health","params":{"a":1}}"#).unwrap();
        assert_eq!((plain.id.as_str(), plain.method.as_str()), ("1", "health"));
        assert_eq!(plain.params, Some(json!({ "a": 1 })));
        let extra = read_of(r#"{"type":"req","id":"7","method":"x","zzz":1}"#).unwrap_err();
        assert_eq!(
            extra,
            NoRequest { id: Some("7".into()), problem: "at root: unexpected property 'zzz'".into() }
        );
        assert_eq!(read_of("[]").unwrap_err().problem, "must be object");
        assert_eq!(read_of("nonsense").unwrap_err().id, None);
    }

    #[test]
    fn nothing_is_written_where_nothing_is() {
        assert_eq!(response("a\"b", "{}"), r#"{"type":"res","id":"a\"b","ok":true,"payload":{}}"#);
        let error = WireError::invalid("bad");
        assert_eq!(
            failure("1", &error),
            r#"{"type":"res","id":"1","ok":false,"error":{"code":"INVALID_REQUEST","message":"bad"}}"#
        );
        assert_eq!(event("tick", "{}", None, None), r#"{"type":"event","event":"tick","payload":{}}"#);
        let versioned = event("health", "{}", Some(3), Some(StateVersion { presence: 1, health: 2 }));
        let expected = r#"{"type":"event","event":"health","payload":{},"seq":3,"stateVersion":{"presence":1,"health":2}}"#;
        assert_eq!(versioned, expected);
    }
}
