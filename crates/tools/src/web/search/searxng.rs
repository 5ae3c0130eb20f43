//! SearXNG: `GET /search?format=json` of a server somebody runs.

use std::time::Duration;

use serde_json::Value;
use tidegate_net::{Call, Headers, Method, NetError, Origin, Secret, Timeouts, with_query};

use super::query::{Freshness, Query};
use super::{Hit, Provider};

pub(super) struct Searxng {
    /// For a server behind a gate of its own.
    pub(super) key: Option<Secret>,
    pub(super) base: String,
    pub(super) idle: Duration,
}

impl Provider for Searxng {
    fn name(&self) -> &'static str {
        "SearXNG"
    }

    fn ask(&self, query: &Query) -> Result<(Call, Vec<&'static str>), NetError> {
        let mut ignored = Vec::new();
        let mut pairs = vec![("q", query.text.as_str()), ("format", "json")];
        let language = match (&query.language, &query.country) {
            (Some(language), Some(country)) if !language.contains('-') => {
                Some(format!("{language}-{country}"))
            }
            (language, country) => {
                if country.is_some() {
                    ignored.push("country");
                }
                language.clone()
            }
        };
        if let Some(language) = &language {
            pairs.push(("language", language));
        }
        if query.ui_language.is_some() {
            ignored.push("ui_lang");
        }
        match &query.freshness {
            None => {}
            Some(Freshness::Day) => pairs.push(("time_range", "day")),
            Some(Freshness::Week) => pairs.push(("time_range", "week")),
            Some(Freshness::Month) => pairs.push(("time_range", "month")),
            Some(Freshness::Year) => pairs.push(("time_range", "year")),
            Some(Freshness::Range(..)) => ignored.push("a range of days"),
        }
        let mut headers = Headers::default();
        headers.set("accept", "application/json");
        if let Some(key) = &self.key {
            headers.set_secret("authorization", &Secret::new(format!("Bearer {}", key.expose())));
        }
        let call = Call {
            origin: Origin::Configured,
            method: Method::Get,
            url: with_query(&format!("{}/search", self.base), &pairs)?,
            headers,
            body: Vec::new(),
            timeouts: Timeouts { idle: self.idle },
        };
        Ok((call, ignored))
    }

    fn hits(&self, answer: &Value) -> Option<Vec<Hit>> {
        let text = |hit: &Value, name: &str| hit[name].as_str().unwrap_or_default().to_owned();
        let hit = |hit: &Value| Hit {
            title: text(hit, "title"),
            url: text(hit, "url"),
            snippet: text(hit, "content"),
            age: hit["publishedDate"].as_str().map(str::to_owned),
        };
        Some(answer["results"].as_array()?.iter().map(hit).collect())
    }

    /// Servers answer 403 to formats they were not told to offer, and most were not.
    fn refusal(&self, status: u16, _answer: &Value) -> Option<String> {
        (status == 403).then(|| {
            "SearXNG refused (403): add `json` to search.formats in its settings.yml, or check its limiter".to_owned()
        })
    }
}
