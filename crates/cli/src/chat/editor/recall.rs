//! Going back through what was entered before. What was typed so far is the prefix that is looked for, and comes back.

use super::text::Text;

#[derive(Default)]
pub(super) struct Recall {
    /// The newest last.
    entries: Vec<String>,
    /// Which one is shown, and what was typed before it was.
    at: Option<(usize, String)>,
}

impl Recall {
    pub(super) fn new(entries: Vec<String>) -> Self {
        Self { entries, at: None }
    }

    pub(super) fn add(&mut self, text: &str) {
        if self.entries.last().is_none_or(|last| last != text) {
            self.entries.push(text.to_owned());
        }
        self.rest();
    }

    /// What is shown is a text of its own from now on.
    pub(super) fn rest(&mut self) {
        self.at = None;
    }

    pub(super) fn older(&mut self, typed: &Text) -> Option<String> {
        let (from, draft) = match &self.at {
            Some((at, draft)) => (*at, draft.clone()),
            None => (self.entries.len(), typed.as_str().to_owned()),
        };
        let found =
            self.entries.iter().take(from).rposition(|entry| entry.starts_with(&draft) && *entry != draft)?;
        self.at = Some((found, draft));
        self.entries.get(found).cloned()
    }

    /// The next newer one; after the newest, what was typed.
    pub(super) fn newer(&mut self) -> Option<String> {
        let (at, draft) = self.at.clone()?;
        let later = self.entries.iter().enumerate().skip(at + 1);
        let found = later.into_iter().find(|(_, entry)| entry.starts_with(&draft) && **entry != draft);
        let Some((found, entry)) = found else {
            self.at = None;
            return Some(draft);
        };
        let entry = entry.clone();
        self.at = Some((found, draft));
        Some(entry)
    }
}
