//! A place in a document, seen with the value that counts and the text that was written for it.

use serde_json::Value;

use crate::path::kind_of;
use crate::problem::{Problem, ProblemKind};

/// Long values are cut in a message.
const SHOWN_CHARACTERS: usize = 60;

/// A value, its source before substitution, and its path.
pub(super) struct View<'v> {
    pub(super) value: &'v Value,
    source: &'v Value,
    pub(super) path: String,
}

impl<'v> View<'v> {
    pub(super) fn new(value: &'v Value, source: &'v Value) -> Self {
        Self { value, source, path: String::new() }
    }

    pub(super) fn key(&self, key: &str) -> Option<View<'v>> {
        let value = self.value.get(key)?;
        Some(View { value, source: self.source.get(key).unwrap_or(&Value::Null), path: self.path_of(key) })
    }

    /// A value further down, by keys.
    pub(super) fn at(&self, keys: &[&str]) -> Option<View<'v>> {
        let (first, rest) = keys.split_first()?;
        let child = self.key(first)?;
        if rest.is_empty() { Some(child) } else { child.at(rest) }
    }

    /// The entries of an object; none when it is something else.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'v str, View<'v>)> {
        let keys = self.value.as_object().into_iter().flat_map(|map| map.keys());
        keys.filter_map(|key| Some((key.as_str(), self.key(key)?)))
    }

    /// What each agent of the list has under this key, asked of the whole document.
    pub(super) fn of_agents(&self, key: &str) -> Vec<View<'v>> {
        let list = self.at(&["agents", "list"]);
        list.iter().flat_map(View::items).filter_map(|agent| agent.key(key)).collect()
    }

    /// The elements of a list; none when it is something else.
    pub(super) fn items(&self) -> impl Iterator<Item = View<'v>> {
        let source = self.source;
        let path = self.path.clone();
        self.value.as_array().into_iter().flatten().enumerate().map(move |(index, value)| View {
            value,
            source: source.get(index).unwrap_or(&Value::Null),
            path: format!("{path}[{index}]"),
        })
    }

    pub(super) fn text(&self) -> Option<&'v str> {
        self.value.as_str()
    }

    pub(super) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Whether the value came from the environment.
    pub(super) fn is_substituted(&self) -> bool {
        self.value != self.source
    }

    /// The value as it was written, for a message.
    pub(super) fn shown(&self) -> String {
        if self.source.is_object() || self.source.is_array() {
            return kind_of(self.source).to_owned();
        }
        let text = self.source.to_string();
        match text.char_indices().nth(SHOWN_CHARACTERS) {
            Some((cut, _)) => format!("{}…", &text[..cut]),
            None => text,
        }
    }

    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(ProblemKind::Invalid, self.path.clone(), message)
    }
}
