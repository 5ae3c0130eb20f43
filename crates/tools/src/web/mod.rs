//! Tools that reach out: `web_fetch`, `web_search` and `http.request`.
//!
//! Every address a model chose goes through the guard of `net`; every text that comes back is inside a fence. Nothing
//! here decides whether a call is permitted: `prepare` names host, address and method for those who do.

mod cache;
mod charset;
mod fetch;
mod html;
mod page;
mod request;
mod search;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_net::{Address, Client, Guard, Leak, NetError};
use tidegate_policy::{Permitted, Subject, SubjectKind};

use crate::place::Place;
use crate::tool::{Tool, ToolFailure};

pub use request::{HttpRequest, request};
pub use search::{SearchProvider, WebSearchSettings};

/// How the tools of this module work.
#[derive(Clone, Debug, Default)]
pub struct WebSettings {
    /// Judges the addresses models choose; `Guard::allowing` what the operator allowed.
    pub guard: Guard,
    pub fetch: WebFetchSettings,
    pub search: WebSearchSettings,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebFetchSettings {
    /// Characters of a page at most.
    pub max_chars: usize,
    pub timeout: Duration,
    pub max_redirects: usize,
    /// Zero keeps nothing.
    pub cache_ttl: Duration,
}

impl Default for WebFetchSettings {
    fn default() -> Self {
        Self {
            max_chars: 50_000,
            timeout: Duration::from_secs(30),
            max_redirects: 3,
            cache_ttl: Duration::from_mins(15),
        }
    }
}

/// Every tool of this module.
pub fn web_tools(settings: WebSettings) -> Vec<Arc<dyn Tool>> {
    let client = Client::default().guarded_by(settings.guard);
    vec![
        Arc::new(fetch::WebFetch::new(client.clone(), settings.fetch)),
        Arc::new(search::WebSearch::new(client.clone(), settings.search)),
        Arc::new(request::HttpTool::new(client)),
    ]
}

/// Refuses arguments that have a known secret in them: whatever becomes of them, they are on their way out.
pub(crate) async fn unleaked(place: &Place, args: &Value) -> Result<(), ToolFailure> {
    let text = args.to_string();
    refused(place.egress.leaks.find(&parts(args, &text)).await)
}

/// The same for the words of a command, which need not go anywhere: what only looks like a key may stand there.
pub(crate) async fn unleaked_command(place: &Place, args: &Value) -> Result<(), ToolFailure> {
    let text = args.to_string();
    refused(place.egress.leaks.find_known(&parts(args, &text)).await)
}

/// Every text in a value by itself, and the value as it is written.
fn parts<'a>(args: &'a Value, written: &'a str) -> Vec<&'a [u8]> {
    let mut strings = Vec::new();
    texts(args, &mut strings);
    strings.into_iter().map(str::as_bytes).chain([written.as_bytes()]).collect()
}

fn refused(leak: Option<Leak>) -> Result<(), ToolFailure> {
    let Some(leak) = leak else { return Ok(()) };
    Err(leaked(
        &leak.secret,
        format!(
            "EGRESS_LEAK: the call was refused, because its arguments have a secret in them: {}; what needs a key is \
         configured with it (egress.credentials, tools.custom)",
            leak.secret
        ),
    ))
}

/// Every text in a value, names included, as it is without JSON's own signs.
fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(map) => map.iter().for_each(|(name, held)| {
            found.push(name);
            texts(held, found);
        }),
        _ => {}
    }
}

fn leaked(secret: &str, message: String) -> ToolFailure {
    let policy = json!({
        "verdict": "deny", "stage": "egress", "rule": "egress.leak", "reason": message, "secret": secret,
    });
    let details = Some(json!({ "code": "EGRESS_LEAK", "policy": policy }));
    ToolFailure { details, ..ToolFailure::execution(message) }
}

/// Reads an address that a model chose, as far as that goes without asking anybody.
pub fn chosen(client: &Client, url: &str) -> Result<Address, ToolFailure> {
    let address = Address::read(url).map_err(|error| ToolFailure::arguments(error.to_string()))?;
    client.guard().screen(&address).map_err(|error| failed(&error))?;
    Ok(address)
}

/// What a rule can look at in a call of an address.
fn subjects(address: &Address, method: &str) -> Vec<Subject> {
    vec![
        Subject::new(SubjectKind::Host, address.host()),
        Subject::new(SubjectKind::Url, address.as_str()),
        Subject::new(SubjectKind::Method, method),
    ]
}

/// A failure of the network. One of the guard says so where programs look for refusals.
pub fn failed(error: &NetError) -> ToolFailure {
    let mut failure = ToolFailure::execution(error.to_string());
    if let NetError::Forbidden { host, class, .. } = error {
        failure
            .message
            .push_str(" (an operator can allow a private host and port in tools.web.allowPrivate)");
        failure.details = Some(json!({ "policy": {
            "verdict": "deny",
            "stage": "egress",
            "rule": "egress.private",
            "reason": error.to_string(),
            "host": host,
            "class": class.to_string(),
        } }));
    } else if let NetError::Leak { secret, .. } = error {
        return leaked(secret, error.to_string());
    } else if let NetError::Refused(refusal) = error {
        failure.details = Some(json!({ "policy": {
            "verdict": "deny",
            "stage": "egress",
            "rule": refusal.key().unwrap_or_else(|| "egress.host".to_owned()),
            "reason": error.to_string(),
            "host": refusal.host(),
        } }));
    } else if error.is_timeout() {
        failure.details = Some(json!({ "timedOut": true }));
    }
    failure
}

/// The arguments of a permitted call as its tool's own type. They fitted the schema.
fn arguments<A: serde::de::DeserializeOwned>(permitted: &Permitted) -> Result<A, ToolFailure> {
    read_arguments(permitted.prepared().args())
}

fn read_arguments<A: serde::de::DeserializeOwned>(args: &Value) -> Result<A, ToolFailure> {
    A::deserialize(args).map_err(|error| ToolFailure::arguments(error.to_string()))
}

/// The beginning of a text: so many characters, and whether there were more.
fn beginning(text: &str, chars: usize) -> (&str, bool) {
    match text.char_indices().nth(chars) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}
