//! Tavily: `POST /search`.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_net::{Call, Headers, Method, NetError, Origin, Secret, Timeouts};

use super::query::{Freshness, Query};
use super::{Hit, Provider};

/// Tavily wants names where everybody else takes codes.
const COUNTRIES: [(&str, &str); 36] = [
    ("AR", "argentina"),
    ("AT", "austria"),
    ("AU", "australia"),
    ("BE", "belgium"),
    ("BR", "brazil"),
    ("CA", "canada"),
    ("CH", "switzerland"),
    ("CL", "chile"),
    ("CN", "china"),
    ("CZ", "czech republic"),
    ("DE", "germany"),
    ("DK", "denmark"),
    ("ES", "spain"),
    ("FI", "finland"),
    ("FR", "france"),
    ("GB", "united kingdom"),
    ("GR", "greece"),
    ("HK", "hong kong"),
    ("ID", "indonesia"),
    ("IE", "ireland"),
    ("IN", "india"),
    ("IT", "italy"),
    ("JP", "japan"),
    ("KR", "south korea"),
    ("MX", "mexico"),
    ("NL", "netherlands"),
    ("NO", "norway"),
    ("NZ", "new zealand"),
    ("PL", "poland"),
    ("PT", "portugal"),
    ("SE", "sweden"),
    ("SG", "singapore"),
    ("TR", "turkey"),
    ("TW", "taiwan"),
    ("US", "united states"),
    ("ZA", "south africa"),
];

pub(super) struct Tavily {
    pub(super) key: Secret,
    pub(super) base: String,
    pub(super) idle: Duration,
}

impl Provider for Tavily {
    fn name(&self) -> &'static str {
        "Tavily"
    }

    fn ask(&self, query: &Query) -> Result<(Call, Vec<&'static str>), NetError> {
        let mut ignored = Vec::new();
        let mut body = json!({ "query": query.text, "max_results": query.count, "search_depth": "basic" });
        if let Some(country) = &query.country {
            match COUNTRIES.iter().find(|(code, _)| code == country) {
                Some((_, name)) => body["country"] = (*name).into(),
                None => ignored.push("country"),
            }
        }
        if query.language.is_some() {
            ignored.push("search_lang");
        }
        if query.ui_language.is_some() {
            ignored.push("ui_lang");
        }
        match &query.freshness {
            None => {}
            Some(Freshness::Day) => body["time_range"] = "day".into(),
            Some(Freshness::Week) => body["time_range"] = "week".into(),
            Some(Freshness::Month) => body["time_range"] = "month".into(),
            Some(Freshness::Year) => body["time_range"] = "year".into(),
            Some(Freshness::Range(from, to)) => {
                body["start_date"] = from.as_str().into();
                body["end_date"] = to.as_str().into();
            }
        }
        let mut headers = Headers::default();
        headers.set("content-type", "application/json");
        headers.set("accept", "application/json");
        headers.set_secret("authorization", &Secret::new(format!("Bearer {}", self.key.expose())));
        let call = Call {
            origin: Origin::Configured,
            method: Method::Post,
            url: format!("{}/search", self.base),
            headers,
            body: body.to_string().into_bytes(),
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
            age: hit["published_date"].as_str().map(str::to_owned),
        };
        Some(answer["results"].as_array()?.iter().map(hit).collect())
    }

    fn refusal(&self, status: u16, _answer: &Value) -> Option<String> {
        matches!(status, 432 | 433).then(|| format!("Tavily: the plan's limit is used up ({status})"))
    }
}
