//! Brave Search: `GET /res/v1/web/search`.

use std::time::Duration;

use serde_json::Value;
use tidegate_net::{Call, Headers, Method, NetError, Origin, Secret, Timeouts, with_query};

use super::query::{Freshness, Query};
use super::{Hit, Provider};

pub(super) struct Brave {
    pub(super) key: Secret,
    pub(super) base: String,
    pub(super) idle: Duration,
}

impl Provider for Brave {
    fn name(&self) -> &'static str {
        "Brave Search"
    }

    fn ask(&self, query: &Query) -> Result<(Call, Vec<&'static str>), NetError> {
        let count = query.count.to_string();
        let mut pairs = vec![("q", query.text.as_str()), ("count", &count)];
        let freshness = query.freshness.as_ref().map(|freshness| match freshness {
            Freshness::Day => "pd".to_owned(),
            Freshness::Week => "pw".to_owned(),
            Freshness::Month => "pm".to_owned(),
            Freshness::Year => "py".to_owned(),
            Freshness::Range(from, to) => format!("{from}to{to}"),
        });
        let optional = [
            ("country", &query.country),
            ("search_lang", &query.language),
            ("ui_lang", &query.ui_language),
            ("freshness", &freshness),
        ];
        pairs.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))));
        let mut headers = Headers::default();
        headers.set("accept", "application/json");
        headers.set_secret("x-subscription-token", &self.key);
        let call = Call {
            origin: Origin::Configured,
            method: Method::Get,
            url: with_query(&format!("{}/res/v1/web/search", self.base), &pairs)?,
            headers,
            body: Vec::new(),
            timeouts: Timeouts { idle: self.idle },
        };
        Ok((call, Vec::new()))
    }

    fn hits(&self, answer: &Value) -> Option<Vec<Hit>> {
        // A search without results has no list at all.
        let Some(results) = answer.pointer("/web/results") else {
            return answer.get("type").is_some().then(Vec::new);
        };
        let text = |hit: &Value, name: &str| hit[name].as_str().unwrap_or_default().to_owned();
        let hit = |hit: &Value| Hit {
            title: text(hit, "title"),
            url: text(hit, "url"),
            snippet: text(hit, "description"),
            age: hit["age"].as_str().map(str::to_owned),
        };
        Some(results.as_array()?.iter().map(hit).collect())
    }

    /// A wrong key is a question that cannot be processed, in its words.
    fn refusal(&self, status: u16, answer: &Value) -> Option<String> {
        let code = answer.pointer("/error/code")?.as_str()?;
        (status == 422 && code.starts_with("SUBSCRIPTION_TOKEN"))
            .then(|| format!("{} refused the key ({status}): check tools.web.search.apiKey", self.name()))
    }
}
