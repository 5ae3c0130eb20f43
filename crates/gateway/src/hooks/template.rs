//! Texts with `{{places}}` that a webhook's content fills. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a place can name.
pub(super) struct Facts<'a> {
    pub(super) payload: &'a Value,
    /// Names in lower case.
    pub(super) headers: &'a BTreeMap<String, String>,
    pub(super) query: &'a BTreeMap<String, String>,
    /// Below the hooks' own path.
    pub(super) path: &'a str,
    /// As an ISO timestamp.
    pub(super) now: &'a str,
}

/// The text with every place filled; what is not there is empty.
pub(super) fn render(template: &str, facts: &Facts<'_>) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        let (before, place) = rest.split_at(at);
        out.push_str(before);
        let inside = &place[2..];
        let end = inside.find('}').filter(|end| *end > 0 && inside[*end..].starts_with("}}"));
        if let Some(end) = end {
            out.push_str(&look_up(inside[..end].trim(), facts));
            rest = &inside[end + 2..];
        } else {
            out.push('{');
            rest = &place[1..];
        }
    }
    out.push_str(rest);
    out
}

fn look_up(place: &str, facts: &Facts<'_>) -> String {
    let named = |map: &BTreeMap<String, String>, name: &str| map.get(name).cloned().unwrap_or_default();
    match place.split_once('.') {
        None if place.is_empty() => String::new(),
        None if place == "path" => facts.path.to_owned(),
        None if place == "now" => facts.now.to_owned(),
        Some(("headers", name)) => named(facts.headers, &name.to_lowercase()),
        Some(("query", name)) => named(facts.query, name),
        Some(("payload", path)) => shown(find(facts.payload, path)),
        _ => shown(find(facts.payload, place)),
    }
}

/// The value at `a.b[0].c`.
fn find<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let steps = path.split(['.', '[', ']']).filter(|step| !step.is_empty());
    steps.into_iter().try_fold(value, |value, step| match value {
        Value::Object(map) => map.get(step),
        Value::Array(list) => list.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
