//! `web_fetch`: the readable text of one page.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_net::{Address, Call, Client, Egress, Fetch, Fetched, Headers, Hosts, Method, Origin, Timeouts};
use tidegate_policy::{Permitted, Preparation};
use tidegate_protocol::Risk;

use super::cache::Cache;
use super::html::Mode;
use super::page::{Page, media_type, read};
use super::{WebFetchSettings, arguments, beginning, chosen, failed, read_arguments, subjects, unleaked};
use crate::fence::fence;
use crate::place::Place;
use crate::spec::ToolSpec;
use crate::tool::{Output, Tool, ToolFailure, Work};

/// Bytes of a page that are read.
const PAGE_BYTES: usize = 2 << 20;
/// Characters of the page that comes with an error.
const ERROR_CHARS: usize = 4_000;
const FEWEST_CHARS: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct FetchArgs {
    /// The page, with http:// or https://.
    pub(super) url: String,
    /// `markdown` keeps headings, lists and links.
    #[serde(default)]
    pub(super) extract_mode: ExtractMode,
    /// Characters to return at most.
    #[schemars(range(min = 100))]
    #[serde(default)]
    pub(super) max_chars: Option<usize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ExtractMode {
    #[default]
    Markdown,
    Text,
}

impl From<ExtractMode> for Mode {
    fn from(mode: ExtractMode) -> Self {
        match mode {
            ExtractMode::Markdown => Self::Markdown,
            ExtractMode::Text => Self::Text,
        }
    }
}

pub(super) struct WebFetch {
    spec: ToolSpec,
    client: Client,
    settings: WebFetchSettings,
    cache: Cache<Seen>,
}

/// A page as it is kept.
#[derive(Clone)]
struct Seen {
    final_url: String,
    status: u16,
    content_type: Option<String>,
    downgraded: bool,
    page: Page,
}

impl WebFetch {
    pub(super) fn new(client: Client, settings: WebFetchSettings) -> Self {
        let description = "Fetches a public web page and returns its readable text. Follows redirects; reads HTML, JSON and text.";
        let spec = ToolSpec {
            risk: Risk::Network,
            // A little more than the exchange itself, so that its own words about time are the ones that are read.
            timeout: Some(settings.timeout + Duration::from_secs(5)),
            ..ToolSpec::of::<FetchArgs>("web_fetch", description)
        };
        let cache = Cache::new(settings.cache_ttl);
        Self { spec, client, settings, cache }
    }

    /// Fetches for a tenant: what one saw is no answer for another.
    pub(super) async fn fetch(
        &self,
        args: &FetchArgs,
        tenant: &str,
        egress: &Egress,
    ) -> Result<Output, ToolFailure> {
        let client = self.client.within(egress);
        let address = chosen(&client, &args.url)?;
        let key = format!("{tenant} {:?} {}", args.extract_mode, address.as_str());
        if let Some(seen) = self.cache.get(&key, Instant::now()) {
            return Ok(self.answer(args, address.as_str(), seen, true));
        }
        let fetched = client.fetch(self.exchange(address.as_str())).await.map_err(|error| failed(&error))?;
        if let Some(failure) = leads_elsewhere(&fetched) {
            return Err(failure);
        }
        let (url, status) = (fetched.url.clone(), fetched.status);
        let failing = !(200..300).contains(&status);
        let seen = self.extract(fetched, args.extract_mode.into()).await;
        match seen {
            Ok(seen) if failing => Err(refusal(&seen)),
            Ok(seen) => {
                let bytes = seen.page.text.len();
                self.cache.put(&key, seen.clone(), bytes, Instant::now());
                Ok(self.answer(args, address.as_str(), seen, false))
            }
            Err(_) if failing => Err(refused(&url, status)),
            Err(why) => Err(ToolFailure::execution(format!("{url} cannot be read: {why}"))),
        }
    }

    fn exchange(&self, url: &str) -> Fetch {
        let mut headers = Headers::default();
        headers.set(
            "accept",
            "text/html, application/xhtml+xml, text/markdown, text/plain, application/json, */*;q=0.5",
        );
        headers.set("accept-language", "en-US,en;q=0.8,*;q=0.5");
        let idle = self.settings.timeout.min(Duration::from_secs(15));
        Fetch {
            call: Call {
                origin: Origin::Chosen,
                method: Method::Get,
                url: url.to_owned(),
                headers,
                body: Vec::new(),
                timeouts: Timeouts { idle },
            },
            redirects: self.settings.max_redirects,
            hosts: Hosts::Same,
            deadline: self.settings.timeout,
            limit: PAGE_BYTES,
        }
    }

    /// Reads the page, off the threads that others wait for.
    async fn extract(&self, fetched: Fetched, mode: Mode) -> Result<Seen, String> {
        let limit = self.settings.max_chars.saturating_mul(4);
        let reading = tidegate_runtime::spawn_blocking("reading a page", move || {
            let page = read(&fetched, mode, limit)?;
            let content_type = media_type(&fetched);
            let Fetched { url, status, downgraded, .. } = fetched;
            Ok(Seen { final_url: url, status, content_type, downgraded, page })
        });
        reading.join().await.unwrap_or_else(|_| Err("reading it failed".to_owned()))
    }

    fn answer(&self, args: &FetchArgs, url: &str, seen: Seen, cached: bool) -> Output {
        let most = self.settings.max_chars.max(FEWEST_CHARS);
        let limit = args.max_chars.unwrap_or(most).clamp(FEWEST_CHARS, most);
        let Seen { final_url, status, content_type, downgraded, page } = seen;
        let (text, shortened) = beginning(&page.text, limit);
        let truncated = shortened || page.cut;
        let chars = text.chars().count();
        let mut inside = page.title.as_ref().map(|title| format!("Title: {title}\n\n")).unwrap_or_default();
        inside.push_str(text);
        let mut content = fence(&final_url, &inside);
        if truncated {
            content.push_str("\n(The page goes on: only its beginning is shown.)");
        }
        if downgraded {
            content.push_str("\n(The page was asked for over https and came unencrypted after a redirect.)");
        }
        if let Some(note) = &page.note {
            let _ = write!(content, "\n({note})");
        }
        let data = json!({
            "url": url,
            "finalUrl": final_url,
            "status": status,
            "contentType": content_type,
            "title": page.title,
            "truncated": truncated,
            "chars": chars,
            "cached": cached,
        });
        Output { truncated, ..Output::text(content).with_data(data) }
    }
}

/// A page that is at another host now. The call was permitted for this one, so the other takes a call of its own.
fn leads_elsewhere(fetched: &Fetched) -> Option<ToolFailure> {
    let location = fetched.header("location").filter(|_| (300..400).contains(&fetched.status))?;
    let there = Address::read(&fetched.url).ok()?.join(location).ok()?;
    let failure = refused(&fetched.url, fetched.status);
    let message = format!("{}: the page is at {} now; fetch that", failure.message, there.as_str());
    let details = json!({ "status": fetched.status, "finalUrl": fetched.url, "location": there.as_str() });
    Some(ToolFailure { message, details: Some(details), ..failure })
}

/// An answer that is no page.
fn refused(url: &str, status: u16) -> ToolFailure {
    let host = Address::read(url).map(|address| address.host().to_owned()).unwrap_or_default();
    let mut failure = ToolFailure::execution(format!("{host} answered {status}"));
    failure.details = Some(json!({ "status": status, "finalUrl": url }));
    failure
}

/// The page that comes with an error: shown in part, and a failure all the same.
fn refusal(seen: &Seen) -> ToolFailure {
    let (text, truncated) = beginning(&seen.page.text, ERROR_CHARS);
    let content = format!("The server answered {}.\n{}", seen.status, fence(&seen.final_url, text));
    let output = Some(Box::new(Output { truncated, ..Output::text(content) }));
    ToolFailure { output, ..refused(&seen.final_url, seen.status) }
}

#[async_trait]
impl Tool for WebFetch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, args: &Value, place: &Place) -> Result<Preparation, ToolFailure> {
        unleaked(place, args).await?;
        let args: FetchArgs = read_arguments(args)?;
        let address = chosen(&self.client.within(&place.egress), &args.url)?;
        Ok(Preparation { subjects: subjects(&address, "GET"), ..Preparation::default() })
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        let tenant = permitted.prepared().requester().scope.tenant.as_str();
        self.fetch(&arguments(permitted)?, tenant, &work.place.egress).await
    }
}
