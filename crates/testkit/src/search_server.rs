//! Search vendors, played on the loopback: Brave Search, Tavily, and somebody's SearXNG. Each takes what its
//! documentation says and refuses the rest in its own words.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::web_server::{Asked, Page, WebServer};

/// The key that Brave and Tavily take.
pub const KEY: &str = "a-key-of-a-test";

/// Something to be found.
#[derive(Debug, Clone)]
pub struct Entry {
    pub title: String,
    pub url: String,
    pub text: String,
}

impl Entry {
    pub fn numbered(number: usize) -> Self {
        Self {
            title: format!("Result {number}"),
            url: format!("https://example.com/{number}"),
            text: format!("What page {number} says."),
        }
    }
}

/// All three vendors at one address. Their paths do not meet, but for `/search`, where the method tells them apart.
pub struct SearchServer {
    server: WebServer,
    index: Arc<Mutex<Index>>,
}

#[derive(Default)]
struct Index {
    entries: Vec<Entry>,
    /// Answered instead, once.
    next: Option<Page>,
    /// SearXNG offers JSON only if somebody switched it on.
    without_json: bool,
}

impl SearchServer {
    pub async fn start(entries: Vec<Entry>) -> Self {
        let index = Arc::new(Mutex::new(Index { entries, ..Index::default() }));
        let shared = index.clone();
        let server = WebServer::answering(move |asked| {
            let mut index = shared.lock().unwrap_or_else(PoisonError::into_inner);
            index.next.take().unwrap_or_else(|| answer(&index, asked))
        });
        Self { server: server.await, index }
    }

    pub fn base_url(&self) -> String {
        self.server.url("")
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.server.asked()
    }

    /// The next question gets this answer, whatever it is.
    pub fn answer_next(&self, page: Page) {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).next = Some(page);
    }

    pub fn switch_off_json(&self) {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).without_json = true;
    }
}

fn answer(index: &Index, asked: &Asked) -> Page {
    match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/res/v1/web/search") => brave(index, asked),
        ("POST", "/search") => tavily(index, asked),
        ("GET", "/search" | "/") => searxng(index, asked),
        _ => Page::new(404, "application/json", "{}"),
    }
}

fn page(status: u16, body: &Value) -> Page {
    Page::new(status, "application/json", body.to_string())
}

fn is_code(text: &str, lengths: &[usize]) -> bool {
    lengths.contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphabetic() || c == '-')
}

fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.split('-').map(str::len).eq([4, 2, 2])
        && !text.contains(|c: char| !"-0123456789".contains(c))
}

fn brave(index: &Index, asked: &Asked) -> Page {
    let refuse = |code: &str, detail: &str| {
        page(
            422,
            &json!({ "type": "ErrorResponse", "error": { "status": 422, "code": code, "detail": detail } }),
        )
    };
    if asked.headers.get("x-subscription-token").map(String::as_str) != Some(KEY) {
        return refuse("SUBSCRIPTION_TOKEN_INVALID", "The provided subscription token is invalid.");
    }
    if asked.headers.get("accept").map(String::as_str) != Some("application/json") || !asked.body.is_empty() {
        return refuse("VALIDATION", "accept");
    }
    for (name, value) in &asked.query {
        let fits = match name.as_str() {
            "q" => (1..=400).contains(&value.chars().count()),
            "count" => value.parse().is_ok_and(|count| (1..=20).contains(&count)),
            "country" => is_code(value, &[2, 3]) && *value == value.to_ascii_uppercase(),
            "search_lang" => is_code(value, &[2, 5, 7]),
            "ui_lang" => is_code(value, &[5]),
            "freshness" => {
                ["pd", "pw", "pm", "py"].contains(&value.as_str())
                    || value.split_once("to").is_some_and(|(from, to)| is_date(from) && is_date(to))
            }
            _ => false,
        };
        if !fits {
            return refuse("VALIDATION", name);
        }
    }
    if asked.query("q").is_none() {
        return refuse("VALIDATION", "q");
    }
    // Brave marks the words that were asked, and counts by itself.
    let count = asked.query("count").and_then(|count| count.parse().ok()).unwrap_or(20);
    let results: Vec<_> = index
        .entries
        .iter()
        .take(count)
        .map(|entry| {
            json!({
                "type": "search_result", "title": entry.title, "url": entry.url,
                "description": format!("<strong>{}</strong>", entry.text), "age": "2 days ago", "language": "en",
            })
        })
        .collect();
    let query = json!({ "original": asked.query("q") });
    if results.is_empty() {
        return page(200, &json!({ "type": "search", "query": query }));
    }
    page(200, &json!({ "type": "search", "query": query, "web": { "type": "search", "results": results } }))
}

fn tavily(index: &Index, asked: &Asked) -> Page {
    let refuse = |status, error: &str| page(status, &json!({ "detail": { "error": error } }));
    if asked.headers.get("authorization") != Some(&format!("Bearer {KEY}")) {
        return refuse(401, "Unauthorized: missing or invalid API key.");
    }
    let body: Value = serde_json::from_slice(&asked.body).unwrap_or(Value::Null);
    let json_type =
        asked.headers.get("content-type").is_some_and(|kind| kind.starts_with("application/json"));
    let Some(fields) = body.as_object().filter(|_| json_type) else { return refuse(400, "not JSON") };
    for (name, value) in fields {
        let text = value.as_str().unwrap_or_default();
        let fits = match name.as_str() {
            "query" => !text.is_empty(),
            "max_results" => value.as_u64().is_some_and(|count| count <= 20),
            "search_depth" => ["basic", "advanced"].contains(&text),
            "time_range" => ["day", "week", "month", "year"].contains(&text),
            "start_date" | "end_date" => is_date(text),
            "country" => !text.is_empty() && text == text.to_lowercase() && text.len() > 3,
            _ => false,
        };
        if !fits {
            return refuse(400, name);
        }
    }
    let count = body["max_results"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(5);
    let result = |entry: &Entry| json!({ "title": entry.title, "url": entry.url, "content": entry.text, "score": 0.9, "raw_content": null });
    let results: Vec<_> = index.entries.iter().take(count).map(result).collect();
    page(
        200,
        &json!({ "query": body["query"], "answer": null, "images": [], "results": results, "response_time": 0.1 }),
    )
}

fn searxng(index: &Index, asked: &Asked) -> Page {
    let time_range = asked.query("time_range");
    if time_range.is_some_and(|range| !["day", "week", "month", "year"].contains(&range)) {
        return Page::new(400, "text/html", "Invalid settings");
    }
    if asked.query("q").is_none_or(str::is_empty) {
        return Page::new(400, "text/html", "No query");
    }
    match asked.query("format") {
        Some("json") if !index.without_json => {}
        Some("json") => return Page::new(403, "text/html", "Forbidden"),
        _ => return Page::html("<p>results for people</p>"),
    }
    // It does not count: a page of results is as long as it is.
    let result = |entry: &Entry| {
        json!({
            "url": entry.url, "title": entry.title, "content": entry.text, "engine": "test", "engines": ["test"],
            "score": 1.0, "category": "general", "publishedDate": null,
        })
    };
    let results: Vec<_> = index.entries.iter().map(result).collect();
    page(
        200,
        &json!({ "query": asked.query("q"), "number_of_results": 0, "results": results, "answers": [], "unresponsive_engines": [] }),
    )
}
