//! `http.request`: one request as it is written, and [`request`] for tools that are configured.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_net::{Call, Client, Egress, Fetch, Fetched, Headers, Hosts, Method, Origin, Timeouts};
use tidegate_policy::{Permitted, Preparation};
use tidegate_protocol::Risk;

use super::html::Mode;
use super::page::{media_type, read};
use super::{arguments, chosen, failed, read_arguments, subjects, unleaked};
use crate::fence::fence;
use crate::place::Place;
use crate::spec::ToolSpec;
use crate::tool::{Output, Tool, ToolFailure, Work};

const REDIRECTS: usize = 3;
const DEFAULT_TIMEOUT_MS: u64 = 30_000;
const LONGEST_TIMEOUT_MS: u64 = 120_000;
const DEFAULT_BYTES: usize = 200_000;
const MOST_BYTES: usize = 1_000_000;
/// Of a body, for the eyes of whoever approves.
const SHOWN_BODY: usize = 4_000;

/// Headers that belong to the connection, to its server or to a browser, and not to a request.
const REFUSED: [&str; 16] = [
    "host",
    "cookie",
    "cookie2",
    "set-cookie",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "content-length",
    "content-encoding",
    "accept-encoding",
    "expect",
    "via",
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestArgs {
    #[serde(default)]
    pub(super) method: RequestMethod,
    /// With http:// or https://.
    pub(super) url: String,
    /// Header names and values.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// Sent as it is; set content-type to what it is.
    #[serde(default)]
    pub(super) body: Option<String>,
    /// For the whole exchange (30000).
    #[schemars(range(min = 1, max = 120_000))]
    #[serde(default)]
    pub(super) timeout_ms: Option<u64>,
    /// Of the answer's body (200000).
    #[schemars(range(min = 1, max = 1_000_000))]
    #[serde(default)]
    pub(super) max_bytes: Option<usize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum RequestMethod {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl From<RequestMethod> for Method {
    fn from(method: RequestMethod) -> Self {
        match method {
            RequestMethod::Get => Self::Get,
            RequestMethod::Head => Self::Head,
            RequestMethod::Post => Self::Post,
            RequestMethod::Put => Self::Put,
            RequestMethod::Patch => Self::Patch,
            RequestMethod::Delete => Self::Delete,
        }
    }
}

/// A request that a tool makes. The origin is `Configured` only if the operator wrote the host down as it is; a host
/// that any argument had a part in is `Chosen`.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    pub origin: Origin,
    pub method: Method,
    pub url: String,
    pub headers: Headers,
    pub body: Vec<u8>,
    pub timeout: Duration,
    pub max_bytes: usize,
}

/// Makes a request and answers with status, headers and body, the latter two inside a fence. Any status is an answer.
pub async fn request(client: &Client, request: HttpRequest) -> Result<Output, ToolFailure> {
    let HttpRequest { origin, method, url, headers, body, timeout, max_bytes } = request;
    let fetch = Fetch {
        call: Call { origin, method, url: url.clone(), headers, body, timeouts: Timeouts { idle: timeout } },
        redirects: if method.only_reads() { REDIRECTS } else { 0 },
        hosts: Hosts::Same,
        deadline: timeout,
        limit: max_bytes,
    };
    let fetched = client.fetch(fetch).await.map_err(|error| failed(&error))?;
    Ok(answer(&url, &fetched))
}

fn answer(url: &str, fetched: &Fetched) -> Output {
    let mut inside = String::new();
    for (name, value) in &fetched.headers {
        let _ = writeln!(inside, "{name}: {value}");
    }
    inside.push('\n');
    match as_text(fetched) {
        Ok(text) => inside.push_str(&text),
        Err(why) => {
            let _ = write!(inside, "(The body is not shown: {why}.)");
        }
    }
    // A server could write its address's query into our words; the fence takes it as one line.
    let mut content = format!("Status {}.\n{}", fetched.status, fence(&fetched.url, &inside));
    if fetched.cut {
        let _ =
            write!(content, "\n(The body goes on: only its first {} bytes are shown.)", fetched.body.len());
    }
    if fetched.downgraded {
        content.push_str("\n(It was asked for over https and came unencrypted after a redirect.)");
    }
    let headers: serde_json::Map<String, Value> =
        fetched.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let data = json!({
        "url": url,
        "finalUrl": fetched.url,
        "status": fetched.status,
        "ok": (200..300).contains(&fetched.status),
        "contentType": media_type(fetched),
        "headers": headers,
        "bytes": fetched.body.len(),
        "truncated": fetched.cut,
    });
    Output { truncated: fetched.cut, ..Output::text(content).with_data(data) }
}

/// The body as it came, if it is text. Pages are not made readable here: whoever asks for bytes gets them.
fn as_text(fetched: &Fetched) -> Result<String, String> {
    if let Ok(text) = std::str::from_utf8(&fetched.body)
        && !text.contains('\0')
    {
        return Ok(text.to_owned());
    }
    let plain = |(name, value): &(String, String)| {
        // HTML is text here; its encoding still counts.
        let value =
            if name == "content-type" { value.replace("text/html", "text/plain") } else { value.clone() };
        (name.clone(), value)
    };
    let as_plain = Fetched { headers: fetched.headers.iter().map(plain).collect(), ..fetched.clone() };
    read(&as_plain, Mode::Text, usize::MAX).map(|page| page.text)
}

pub(super) struct HttpTool {
    spec: ToolSpec,
    client: Client,
}

impl HttpTool {
    pub(super) fn new(client: Client) -> Self {
        let description = "Makes one HTTP request to a public address and returns status, headers and body. \
             For reading pages prefer web_fetch.";
        let spec = ToolSpec {
            risk: Risk::Execute,
            idempotent: false,
            // The call says how long it may take.
            timeout: None,
            ..ToolSpec::of::<RequestArgs>("http.request", description)
        };
        Self { spec, client }
    }

    pub(super) async fn send(&self, args: RequestArgs, egress: &Egress) -> Result<Output, ToolFailure> {
        let client = self.client.within(egress);
        let address = chosen(&client, &args.url)?;
        check(&args)?;
        let mut headers = Headers::default();
        for (name, value) in &args.headers {
            headers.set(name, value.as_str());
        }
        let timeout = args.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS).clamp(1, LONGEST_TIMEOUT_MS);
        let outgoing = HttpRequest {
            origin: Origin::Chosen,
            method: args.method.into(),
            url: address.as_str().to_owned(),
            headers,
            body: args.body.unwrap_or_default().into_bytes(),
            timeout: Duration::from_millis(timeout),
            max_bytes: args.max_bytes.unwrap_or(DEFAULT_BYTES).clamp(1, MOST_BYTES),
        };
        request(&client, outgoing).await
    }
}

/// What cannot be asked, all of it at once.
fn check(args: &RequestArgs) -> Result<(), ToolFailure> {
    let mut problems = Vec::new();
    for (name, value) in &args.headers {
        let lower = name.trim().to_ascii_lowercase();
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            problems.push(format!("{name:?} is not the name of a header"));
        } else if REFUSED.contains(&lower.as_str())
            || lower.starts_with("proxy-")
            || lower.starts_with("sec-")
        {
            problems.push(format!("the header {name} cannot be set"));
        } else if value.chars().any(|c| c.is_control() && c != '\t') {
            problems.push(format!("the header {name} has a control character in it"));
        }
    }
    let mut names: Vec<_> = args.headers.keys().map(|name| name.to_ascii_lowercase()).collect();
    names.sort();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        problems.push("a header is there twice".to_owned());
    }
    if Method::from(args.method).only_reads() && args.body.is_some() {
        problems.push("GET and HEAD have no body".to_owned());
    }
    if problems.is_empty() { Ok(()) } else { Err(ToolFailure::arguments(problems.join("; "))) }
}

/// The request as it will go out, for whoever approves. Values that are likely keys are covered; the approval is bound
/// to them all the same, through the arguments.
fn preview(args: &RequestArgs, method: Method, url: &str) -> String {
    let mut text = format!("{} {url}\n", method.as_str());
    for (name, value) in &args.headers {
        let shown = if is_secret(name) {
            format!("({} characters, not shown)", value.chars().count())
        } else {
            value.clone()
        };
        let _ = writeln!(text, "{}: {shown}", name.to_ascii_lowercase());
    }
    if let Some(body) = &args.body {
        let (shown, more) = super::beginning(body, SHOWN_BODY);
        let _ = write!(text, "\n{shown}");
        if more {
            let _ = write!(text, "\n(… {} bytes in all)", body.len());
        }
    }
    text
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "token", "key", "secret", "password", "credential", "signature", "session"]
        .into_iter()
        .any(|part| name.contains(part))
}

#[async_trait]
impl Tool for HttpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, args: &Value, place: &Place) -> Result<Preparation, ToolFailure> {
        unleaked(place, args).await?;
        let args: RequestArgs = read_arguments(args)?;
        let address = chosen(&self.client.within(&place.egress), &args.url)?;
        check(&args)?;
        let method = Method::from(args.method);
        Ok(Preparation {
            subjects: subjects(&address, method.as_str()),
            preview: Some(preview(&args, method, address.as_str())),
            risk: Some(if method.only_reads() { Risk::Network } else { Risk::Execute }),
            ..Preparation::default()
        })
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        self.send(arguments(permitted)?, &work.place.egress).await
    }
}
