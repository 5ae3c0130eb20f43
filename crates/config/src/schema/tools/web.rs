//! Keys `tools.web`: searching and fetching.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_secrets::Secret;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Web {
    /// The tool `web_search`.
    pub search: WebSearch,
    /// The tool `web_fetch`.
    pub fetch: WebFetch,
    /// Private addresses that tools may reach all the same, each as `host:port`.
    pub allow_private: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WebSearch {
    /// Who searches; without one the tool says how to configure it.
    pub provider: Option<SearchProvider>,
    /// The provider's key; write `${VAR}` to keep it out of the file.
    pub api_key: Option<Secret>,
    /// Where it is reached, in place of its own address; required for `searxng`.
    #[schemars(length(min = 1))]
    pub base_url: Option<String>,
    /// Results of a search unless the call says otherwise.
    #[schemars(range(min = 1, max = 10))]
    pub max_results: u32,
    /// Seconds a search may take.
    #[schemars(range(min = 1, max = 300))]
    pub timeout_seconds: u32,
    /// Minutes for which the same search has the same answer; 0 asks every time.
    #[schemars(range(max = 1440))]
    pub cache_ttl_minutes: u32,
}

impl Default for WebSearch {
    fn default() -> Self {
        Self {
            provider: None,
            api_key: None,
            base_url: None,
            max_results: 5,
            timeout_seconds: 30,
            cache_ttl_minutes: 15,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchProvider {
    /// Brave Search; it takes a key.
    Brave,
    /// A SearXNG server; it takes an address and no key.
    Searxng,
    /// Tavily; it takes a key.
    Tavily,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WebFetch {
    /// Characters of a page at most.
    #[schemars(range(min = 100, max = 1_000_000))]
    pub max_chars: u32,
    /// Seconds a page may take.
    #[schemars(range(min = 1, max = 300))]
    pub timeout_seconds: u32,
    /// Redirects that are followed.
    #[schemars(range(max = 10))]
    pub max_redirects: u32,
    /// Minutes for which a page is not fetched again; 0 fetches every time.
    #[schemars(range(max = 1440))]
    pub cache_ttl_minutes: u32,
}

impl Default for WebFetch {
    fn default() -> Self {
        Self { max_chars: 50_000, timeout_seconds: 30, max_redirects: 3, cache_ttl_minutes: 15 }
    }
}
