//! What a path asks for. Vendors are told apart by the end of the path, so that any prefix a base URL has will do.

use std::collections::BTreeMap;

use serde_json::Value;

use super::format::{Delivery, Format};
use super::record::Recorded;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Answer {
        format: Format,
        model: String,
        delivery: Delivery,
    },
    Embed {
        format: Format,
        model: String,
    },
    /// The list of models, in that vendor's form.
    Models(Format),
    Account(Account),
    Nothing,
}

/// Signing in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Account {
    /// Where the browser goes.
    Authorize,
    Token,
    GithubDevice,
    GithubToken,
    CopilotToken,
}

pub(crate) fn route(request: &Recorded) -> Route {
    match request.method.as_str() {
        "GET" => get(request),
        "POST" => post(request),
        _ => Route::Nothing,
    }
}

fn get(request: &Recorded) -> Route {
    let path = request.path.as_str();
    if path.ends_with("/oauth/authorize") {
        return Route::Account(Account::Authorize);
    }
    if path.ends_with("/copilot_internal/v2/token") {
        return Route::Account(Account::CopilotToken);
    }
    if path.ends_with("/api/tags") {
        return Route::Models(Format::Ollama);
    }
    if path.ends_with("/v1beta/models") {
        return Route::Models(Format::Google);
    }
    if path.ends_with("/models") {
        let anthropic = request.header("anthropic-version").is_some();
        return Route::Models(if anthropic { Format::Anthropic } else { Format::Completions });
    }
    Route::Nothing
}

fn post(request: &Recorded) -> Route {
    let path = request.path.as_str();
    let model = || request.body["model"].as_str().unwrap_or_default().to_owned();
    let streams = |unless_told: bool| {
        let asked = request.body["stream"].as_bool().unwrap_or(unless_told);
        if asked { Delivery::Stream } else { Delivery::Whole }
    };
    let answer = |format, model, delivery| Route::Answer { format, model, delivery };
    for (end, format, unless_told) in [
        ("/messages", Format::Anthropic, false),
        ("/chat/completions", Format::Completions, false),
        ("/codex/responses", Format::Codex, true),
        ("/responses", Format::Responses, false),
        ("/api/chat", Format::Ollama, true),
    ] {
        if path.ends_with(end) {
            return answer(format, model(), streams(unless_told));
        }
    }
    for (end, account) in [
        ("/login/device/code", Account::GithubDevice),
        ("/login/oauth/access_token", Account::GithubToken),
        ("/oauth/token", Account::Token),
    ] {
        if path.ends_with(end) {
            return Route::Account(account);
        }
    }
    if path.ends_with("/embeddings") {
        return Route::Embed { format: Format::Completions, model: model() };
    }
    if path.ends_with("/api/embed") {
        return Route::Embed { format: Format::Ollama, model: model() };
    }
    with_model_in_path(request).unwrap_or(Route::Nothing)
}

/// Google's `…/models/<id>:<verb>` and Bedrock's `…/model/<id>/<verb>`.
fn with_model_in_path(request: &Recorded) -> Option<Route> {
    let path = decode(&request.path);
    if let Some((_, rest)) = path.rsplit_once("/model/") {
        let (model, verb) = rest.rsplit_once('/')?;
        let delivery = match verb {
            "converse-stream" => Delivery::Stream,
            "converse" => Delivery::Whole,
            _ => return None,
        };
        return Some(Route::Answer { format: Format::Bedrock, model: model.to_owned(), delivery });
    }
    let (_, rest) = path.rsplit_once("/models/")?;
    let (model, verb) = rest.rsplit_once(':')?;
    let (format, model) = (Format::Google, model.to_owned());
    let delivery = match verb {
        "batchEmbedContents" => return Some(Route::Embed { format, model }),
        "generateContent" => Delivery::Whole,
        "streamGenerateContent" if request.query.get("alt").is_some_and(|alt| alt == "sse") => {
            Delivery::Stream
        }
        "streamGenerateContent" => Delivery::List,
        _ => return None,
    };
    Some(Route::Answer { format, model, delivery })
}

/// The pairs of a query or a form. Of a name that comes twice, the last.
pub(crate) fn pairs(text: &str) -> BTreeMap<String, String> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
    };
    text.split('&').filter(|pair| !pair.is_empty()).map(pair).collect()
}

/// Percent signs undone.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The last thing the person said, whichever format it was said in.
pub(crate) fn last_words(body: &Value) -> String {
    let turns = ["messages", "input", "contents"].iter().find_map(|field| body.get(field));
    match turns {
        Some(Value::Array(turns)) => {
            let users = turns.iter().rev().find(|turn| turn["role"] == "user");
            users.map(words).unwrap_or_default()
        }
        Some(Value::String(text)) => text.clone(),
        _ => String::new(),
    }
}

fn words(turn: &Value) -> String {
    match turn.get("content").or_else(|| turn.get("parts")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(method: &str, path: &str, query: &str, body: Value) -> Route {
        let headers = BTreeMap::new();
        let raw = body.to_string();
        route(&Recorded { method: method.into(), path: path.into(), query: pairs(query), headers, body, raw })
    }

    fn answer(format: Format, model: &str, delivery: Delivery) -> Route {
        Route::Answer { format, model: model.into(), delivery }
    }

    #[test]
    fn every_vendor_is_known_by_its_path() {
        use Delivery::{List, Stream, Whole};
        let body = json!({"model": "m", "stream": true});
        for (path, query, wanted) in [
            ("/v1/messages", "", answer(Format::Anthropic, "m", Stream)),
            ("/chat/completions", "", answer(Format::Completions, "m", Stream)),
            ("/openai/v1/responses", "", answer(Format::Responses, "m", Stream)),
            ("/backend-api/codex/responses", "", answer(Format::Codex, "m", Stream)),
            ("/api/chat", "", answer(Format::Ollama, "m", Stream)),
            ("/v1beta/models/g-1:streamGenerateContent", "alt=sse", answer(Format::Google, "g-1", Stream)),
            ("/v1beta/models/g-1:streamGenerateContent", "", answer(Format::Google, "g-1", List)),
            ("/v1beta/models/g-1:generateContent", "", answer(Format::Google, "g-1", Whole)),
            ("/model/a.b%3A0/converse-stream", "", answer(Format::Bedrock, "a.b:0", Stream)),
            ("/model/a.b%3A0/converse", "", answer(Format::Bedrock, "a.b:0", Whole)),
            ("/v1/embeddings", "", Route::Embed { format: Format::Completions, model: "m".into() }),
            ("/v1/oauth/token", "", Route::Account(Account::Token)),
            ("/elsewhere", "", Route::Nothing),
        ] {
            assert_eq!(asked("POST", path, query, body.clone()), wanted, "{path}");
        }
        assert_eq!(asked("GET", "/v1/models", "", Value::Null), Route::Models(Format::Completions));
    }

    #[test]
    fn the_last_words_are_found_in_every_format() {
        for body in [
            json!({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "no"}]}),
            json!({"messages": [{"role": "user", "content": [{"text": "h"}, {"text": "i"}]}]}),
            json!({"input": "hi"}),
            json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
        ] {
            assert_eq!(last_words(&body), "hi", "{body}");
        }
    }
}
