//! What was probably meant by a misspelt key or value.
//!
//! A key beside it comes first, then a key of that name anywhere in the file. Nothing is better than a wild guess.

use crate::path::KeyPath;
use crate::shape::{self, Node, Shape};

/// How alike two words must be, from 0 to 1.
const ALIKE: f64 = 0.84;

/// The path of the key that was probably meant by `key` inside the object at `parent`.
pub(super) fn for_key<'k>(
    parent: &str,
    key: &str,
    siblings: impl Iterator<Item = &'k str>,
) -> Option<String> {
    let beside = |sibling: String| if parent.is_empty() { sibling } else { format!("{parent}.{sibling}") };
    nearest(key, siblings).map(beside).or_else(|| elsewhere(parent, key))
}

/// The key that was probably meant by a path no key has.
pub(crate) fn for_path(path: &KeyPath) -> Option<String> {
    let mut node = shape::root();
    let mut parent = String::new();
    for key in path.segments() {
        let Some(child) = node.key(key) else {
            let Shape::Object { keys, .. } = &node.shape else { return None };
            return for_key(&parent, key, keys.iter().map(|(name, _)| name.as_str()));
        };
        parent = if parent.is_empty() { key.clone() } else { format!("{parent}.{key}") };
        node = child;
    }
    None
}

/// The candidate that is most like the word, if one is near enough.
pub(super) fn nearest<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<String> {
    candidates
        .map(|candidate| (likeness(word, candidate), candidate))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}

/// Writing `base_url` or `baseurl` for `baseUrl` is the same word; else what strsim says.
fn likeness(word: &str, candidate: &str) -> f64 {
    let plain = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    let (word, candidate) = (plain(word), plain(candidate));
    if word == candidate {
        return if word.is_empty() { 0.0 } else { 1.0 };
    }
    strsim::jaro_winkler(&word, &candidate).max(strsim::normalized_damerau_levenshtein(&word, &candidate))
}

/// A key of the same name in another section; the one that shares most of the path when there are several.
fn elsewhere(parent: &str, key: &str) -> Option<String> {
    let mut paths = Vec::new();
    collect(shape::root(), "", &mut paths);
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().trim_end_matches("[]").to_owned();
    let shared = |path: &str| parent.split('.').zip(path.split('.')).take_while(|(a, b)| a == b).count();
    paths
        .into_iter()
        .filter(|path| last(path).eq_ignore_ascii_case(key))
        // `max_by_key` keeps the last of equals; the first in the file's own order reads better.
        .rev()
        .max_by_key(|path| shared(path))
}

fn collect(node: &Node, path: &str, paths: &mut Vec<String>) {
    match &node.shape {
        Shape::Object { keys, .. } => {
            for (key, child) in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect(child, &path, paths);
                paths.push(path);
            }
        }
        Shape::List(child) => collect(child, &format!("{path}[]"), paths),
        Shape::Map(child) => collect(child, &format!("{path}.<name>"), paths),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_gets_a_suggestion() {
        let cases = [
            ("gateway", "prot", ["port", "bind"].as_slice(), Some("gateway.port")),
            ("gateway", "Port", &["port", "bind"], Some("gateway.port")),
            ("", "agent", &["agents", "gateway"], Some("agents")),
            (
                "models.providers.p",
                "base_url",
                &["api", "baseUrl", "apiKey"],
                Some("models.providers.p.baseUrl"),
            ),
            (
                "models.providers.p",
                "apikey",
                &["api", "baseUrl", "apiKey"],
                Some("models.providers.p.apiKey"),
            ),
            ("gateway", "zzz", &["port", "bind"], None),
        ];
        for (parent, key, siblings, expected) in cases {
            let found = for_key(parent, key, siblings.iter().copied());
            assert_eq!(found.as_deref(), expected, "{parent}.{key}");
        }
    }

    #[test]
    fn a_key_that_exists_elsewhere_is_found_there() {
        let cases = [
            ("", "port", "gateway.port"),
            ("agents.defaults", "primary", "agents.defaults.model.primary"),
            ("", "dmScope", "session.dmScope"),
            ("models", "apiKey", "models.providers.<name>.apiKey"),
            ("agents", "timeoutSeconds", "agents.defaults.timeoutSeconds"),
        ];
        for (parent, key, expected) in cases {
            assert_eq!(for_key(parent, key, [].into_iter()).as_deref(), Some(expected), "{parent}.{key}");
        }
    }
}
