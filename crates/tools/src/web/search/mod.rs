//! `web_search`: results from whichever provider is configured.

mod brave;
mod query;
mod searxng;
mod tavily;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};
use tidegate_net::{Call, Client, Fetch, Fetched, Hosts, NetError, Secret};
use tidegate_policy::{Permitted, Preparation, Subject, SubjectKind};
use tidegate_protocol::Risk;

use super::cache::Cache;
use super::{arguments, beginning, failed, read_arguments, unleaked};
use crate::fence::fence;
use crate::place::Place;
use crate::spec::ToolSpec;
use crate::tool::{Output, Tool, ToolFailure, Work};

use query::Query;
pub(super) use query::SearchArgs;

const ANSWER_BYTES: usize = 2 << 20;
const LONGEST_TITLE: usize = 300;
const LONGEST_SNIPPET: usize = 2_000;
const LONGEST_URL: usize = 2_000;

/// Who searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SearchProvider {
    Brave,
    Searxng,
    Tavily,
}

#[derive(Debug, Clone)]
pub struct WebSearchSettings {
    /// Without one the tool says how to configure it.
    pub provider: Option<SearchProvider>,
    pub api_key: Option<Secret>,
    /// In place of the provider's own address; SearXNG has none of its own.
    pub base_url: Option<String>,
    /// Unless the call says otherwise.
    pub max_results: usize,
    pub timeout: Duration,
    /// Zero keeps nothing.
    pub cache_ttl: Duration,
}

impl Default for WebSearchSettings {
    fn default() -> Self {
        Self {
            provider: None,
            api_key: None,
            base_url: None,
            max_results: 5,
            timeout: Duration::from_secs(30),
            cache_ttl: Duration::from_mins(15),
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hit {
    title: String,
    url: String,
    snippet: String,
    /// As the provider writes it.
    age: Option<String>,
}

/// A provider's words for the same question.
trait Provider: Send + Sync {
    fn name(&self) -> &'static str;

    /// The request, and the names of what was asked that this provider does not know.
    fn ask(&self, query: &Query) -> Result<(Call, Vec<&'static str>), NetError>;

    fn hits(&self, answer: &Value) -> Option<Vec<Hit>>;

    /// What a refusal means, where the provider means something of its own.
    fn refusal(&self, _status: u16, _answer: &Value) -> Option<String> {
        None
    }
}

/// The provider as it is configured, or what is missing.
fn provider(settings: &WebSearchSettings) -> Result<Box<dyn Provider>, String> {
    let Some(provider) = settings.provider else {
        return Err("no search provider is configured: set tools.web.search.provider to \"brave\" or \"tavily\" and \
                    tools.web.search.apiKey to its key, or to \"searxng\" and tools.web.search.baseUrl to your server"
            .to_owned());
    };
    let key = |name: &str, place: &str| {
        settings.api_key.clone().filter(|key| !key.is_empty()).ok_or_else(|| {
            format!("{name} needs a key: get one at {place} and set tools.web.search.apiKey (\"${{VAR}}\" reads it from the environment)")
        })
    };
    let base = |own: &str| {
        settings.base_url.clone().unwrap_or_else(|| own.to_owned()).trim_end_matches('/').to_owned()
    };
    Ok(match provider {
        SearchProvider::Brave => {
            let key = key("Brave Search", "brave.com/search/api")?;
            Box::new(brave::Brave { key, base: base("https://api.search.brave.com"), idle: settings.timeout })
        }
        SearchProvider::Tavily => {
            let key = key("Tavily", "tavily.com")?;
            Box::new(tavily::Tavily { key, base: base("https://api.tavily.com"), idle: settings.timeout })
        }
        SearchProvider::Searxng => {
            if settings.base_url.is_none() {
                return Err(
                    "SearXNG needs an address: set tools.web.search.baseUrl to your server".to_owned()
                );
            }
            let key = settings.api_key.clone();
            Box::new(searxng::Searxng { key, base: base(""), idle: settings.timeout })
        }
    })
}

pub(super) struct WebSearch {
    spec: ToolSpec,
    client: Client,
    settings: WebSearchSettings,
    provider: Result<Box<dyn Provider>, String>,
    cache: Cache<Found>,
}

/// An answer as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    hits: Vec<Hit>,
    ignored: Vec<&'static str>,
}

impl WebSearch {
    pub(super) fn new(client: Client, settings: WebSearchSettings) -> Self {
        let spec = ToolSpec {
            risk: Risk::Network,
            timeout: Some(settings.timeout + Duration::from_secs(5)),
            ..ToolSpec::of::<SearchArgs>(
                "web_search",
                "Searches the web and returns titles, addresses and short extracts. Read a result with web_fetch.",
            )
        };
        let provider = provider(&settings);
        let cache = Cache::new(settings.cache_ttl);
        Self { spec, client, settings, provider, cache }
    }

    fn provider(&self) -> Result<&dyn Provider, ToolFailure> {
        self.provider
            .as_deref()
            .map_err(|missing| ToolFailure::execution(format!("web_search cannot run: {missing}")))
    }

    fn query(&self, args: &SearchArgs) -> Result<Query, ToolFailure> {
        Query::read(args, self.settings.max_results).map_err(ToolFailure::arguments)
    }

    pub(super) async fn search(&self, args: &SearchArgs, tenant: &str) -> Result<Output, ToolFailure> {
        let (provider, query) = (self.provider()?, self.query(args)?);
        let key = format!("{tenant} {query:?}");
        let (found, cached) = match self.cache.get(&key, Instant::now()) {
            Some(found) => (found, true),
            None => (self.ask(provider, &query).await?, false),
        };
        if !cached {
            let bytes =
                found.hits.iter().map(|hit| hit.title.len() + hit.url.len() + hit.snippet.len()).sum();
            self.cache.put(&key, found.clone(), bytes, Instant::now());
        }
        Ok(answer(provider.name(), &query, &found, cached))
    }

    async fn ask(&self, provider: &dyn Provider, query: &Query) -> Result<Found, ToolFailure> {
        let (call, ignored) = provider.ask(query).map_err(|error| failed(&error))?;
        // What an operator configured does not send us elsewhere with a key.
        let (deadline, limit) = (self.settings.timeout, ANSWER_BYTES);
        let fetch = Fetch { call, redirects: 0, hosts: Hosts::Same, deadline, limit };
        let fetched = self.client.fetch(fetch).await.map_err(|error| failed(&error))?;
        let body: Value = serde_json::from_slice(&fetched.body).unwrap_or(Value::Null);
        if !(200..300).contains(&fetched.status) {
            return Err(refused(provider, &fetched, &body));
        }
        let Some(mut hits) = provider.hits(&body) else {
            let message =
                format!("{} answered with something that is not a list of results", provider.name());
            return Err(ToolFailure::execution(message));
        };
        hits.truncate(query.count);
        for hit in &mut hits {
            hit.title = one_line(&hit.title, LONGEST_TITLE);
            hit.url = one_line(&hit.url, LONGEST_URL);
            hit.snippet = one_line(&hit.snippet, LONGEST_SNIPPET);
        }
        Ok(Found { hits, ignored })
    }
}

/// One line without marks of emphasis, which providers put around the words that were asked.
fn one_line(text: &str, longest: usize) -> String {
    let plain = text.replace("<strong>", "").replace("</strong>", "");
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    beginning(&line, longest).0.to_owned()
}

/// Says plainly why there are no results. Nothing of the answer's text is repeated: it may hold anything.
fn refused(provider: &dyn Provider, fetched: &Fetched, body: &Value) -> ToolFailure {
    let (name, status) = (provider.name(), fetched.status);
    let message = provider.refusal(status, body).unwrap_or_else(|| match status {
        401 | 403 => format!("{name} refused the key ({status}): check tools.web.search.apiKey"),
        402 => format!("{name} asks to be paid first ({status})"),
        429 => {
            let wait = fetched.header("retry-after").and_then(|wait| wait.parse::<u32>().ok());
            let wait = wait.map(|wait| format!(", again in {wait} s")).unwrap_or_default();
            format!("{name} takes no more requests for now ({status}{wait})")
        }
        500.. => format!("{name} has a fault of its own ({status}); try again later"),
        300..=399 => format!("{name} sends us elsewhere ({status}): check tools.web.search.baseUrl"),
        _ => format!("{name} did not take the question ({status})"),
    });
    let mut failure = ToolFailure::execution(message);
    failure.details = Some(json!({ "status": status, "provider": name }));
    failure
}

fn answer(provider: &str, query: &Query, found: &Found, cached: bool) -> Output {
    let mut list = String::new();
    for (number, hit) in found.hits.iter().enumerate() {
        let age = hit.age.as_ref().map(|age| format!(" ({age})")).unwrap_or_default();
        let _ = writeln!(list, "{}. {}{age}\n   {}\n   {}", number + 1, hit.title, hit.url, hit.snippet);
    }
    let mut content = if found.hits.is_empty() {
        format!("{provider} found nothing.")
    } else {
        fence(&format!("a search with {provider}"), &list)
    };
    if !found.ignored.is_empty() {
        let _ = write!(content, "\n({provider} does not know: {}.)", found.ignored.join(", "));
    }
    let results: Vec<_> = found
        .hits
        .iter()
        .map(|hit| json!({ "title": hit.title, "url": hit.url, "snippet": hit.snippet, "age": hit.age }))
        .collect();
    Output::text(content).with_data(json!({
        "query": query.text,
        "provider": provider,
        "count": results.len(),
        "results": results,
        "ignored": found.ignored,
        "cached": cached,
    }))
}

#[async_trait]
impl Tool for WebSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, args: &Value, place: &Place) -> Result<Preparation, ToolFailure> {
        unleaked(place, args).await?;
        let query = self.query(&read_arguments(args)?)?;
        let (call, _) = self.provider()?.ask(&query).map_err(|error| failed(&error))?;
        let host = tidegate_net::Address::read(&call.url).map(|address| address.host().to_owned());
        let subjects = host.into_iter().map(|host| Subject::new(SubjectKind::Host, host)).collect();
        Ok(Preparation { subjects, ..Preparation::default() })
    }

    async fn run(&self, permitted: &Permitted, _work: &Work<'_>) -> Result<Output, ToolFailure> {
        let tenant = permitted.prepared().requester().scope.tenant.as_str();
        self.search(&arguments(permitted)?, tenant).await
    }
}
