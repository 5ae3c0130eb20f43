//! Tool-call ids as a format takes them.

use std::collections::HashSet;

use crate::digest::short;

/// What a format asks of tool-call ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// As they are.
    Keep,
    /// Letters, digits, `_` and `-`, at most 64.
    Safe64,
    /// The part before `|`, at most 40.
    Before40,
    /// `call_id|item_id`, both halves safe, the second begins with `fc`. The item is named by the model that made it
    /// only, for it refers to that model's thoughts; otherwise the first half stands alone.
    Pair,
    /// Letters and digits, at most 40.
    Plain40,
    /// Exactly nine letters and digits.
    Nine,
}

/// Digits that tell an id from one that looks the same.
const MARK: usize = 8;

impl Ids {
    /// The id in this form, but for clashes.
    pub(crate) fn normal(self, id: &str, same: bool) -> String {
        let plain = || id.chars().filter(char::is_ascii_alphanumeric);
        let normal = match self {
            Self::Keep => id.to_owned(),
            Self::Safe64 => safe(id),
            Self::Before40 => named(id).chars().take(40).collect(),
            Self::Pair => return pair(id, same),
            Self::Plain40 => plain().take(40).collect(),
            Self::Nine if plain().count() < 9 => return short(id, 9),
            Self::Nine => plain().take(9).collect(),
        };
        if normal.is_empty() { short(id, 40) } else { normal }
    }

    /// Another id for the `nth` one that looks like `normal`.
    fn marked(self, id: &str, normal: &str, nth: usize) -> String {
        let mark = short(&format!("{id}#{nth}"), if self == Self::Nine { 9 } else { MARK });
        let (most, between) = match self {
            Self::Keep | Self::Safe64 | Self::Pair => (64, "_"),
            Self::Before40 => (40, "_"),
            Self::Plain40 => (40, ""),
            Self::Nine => return mark,
        };
        let stem: String = named(normal).chars().take(most - between.len() - MARK).collect();
        format!("{stem}{between}{mark}")
    }
}

/// What a result names its call by: of a pair the first half.
fn named(id: &str) -> &str {
    id.split_once('|').map_or(id, |(call, _)| call)
}

fn safe(id: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    id.chars().take(64).map(safe).collect()
}

fn pair(id: &str, same: bool) -> String {
    let half = |text: &str| safe(text).trim_end_matches('_').to_owned();
    let (call, item) = id.split_once('|').unwrap_or((id, ""));
    let call = Some(half(call)).filter(|call| !call.is_empty()).unwrap_or_else(|| short(id, 40));
    // An item's name that had to be altered names nothing.
    if same && item.starts_with("fc") && half(item) == item { format!("{call}|{item}") } else { call }
}

/// Gives every call of a conversation an id of its own, in the order they come: what comes later never changes what an
/// earlier one got.
pub(super) struct Renaming {
    ids: Ids,
    taken: HashSet<String>,
}

impl Renaming {
    pub(super) fn new(ids: Ids) -> Self {
        Self { ids, taken: HashSet::new() }
    }

    pub(super) fn next(&mut self, id: &str, same: bool) -> String {
        let normal = self.ids.normal(id, same);
        let mut chosen = normal.clone();
        let mut nth = 0;
        while !self.taken.insert(self.key(&chosen)) {
            nth += 1;
            chosen = self.ids.marked(id, &normal, nth);
        }
        chosen
    }

    /// What must be unique.
    fn key(&self, id: &str) -> String {
        if self.ids == Ids::Pair { named(id).to_owned() } else { id.to_owned() }
    }
}
