//! Directives: `/think high`, `/verbose on`, `/model name` anywhere among the words of a message, `@model` before them.

use std::ops::Range;

use tidegate_protocol::{SessionSettings, ThinkingLevel, Verbose};

use super::quoted::quoted;
use super::{Setting, Vocabulary, Word};

/// Reads directives one after the other and keeps what they say.
pub(super) struct Reader<'a> {
    vocabulary: &'a Vocabulary<'a>,
    pub(super) said: SessionSettings,
}

impl<'a> Reader<'a> {
    pub(super) fn new(vocabulary: &'a Vocabulary<'a>) -> Self {
        Self { vocabulary, said: SessionSettings::default() }
    }

    /// Takes the directive a text begins with. Its value stands on its line.
    pub(super) fn take(&mut self, text: &str) -> Taken {
        let line = text.lines().next().unwrap_or_default();
        let Some(word) = Word::read(line) else { return Taken::Nothing };
        let Some(setting) = Setting::named(word.name) else { return Taken::Nothing };
        let end = word.rest.find(char::is_whitespace).unwrap_or(word.rest.len());
        let (value, behind) = word.rest.split_at(end);
        if value.is_empty() {
            Taken::NoValue(setting)
        } else if spellings(value).into_iter().any(|value| self.set(setting, value)) {
            Taken::Bytes(line.len() - behind.len())
        } else {
            Taken::NotOne { setting, value: value.to_owned() }
        }
    }

    /// Whether the word is a value of the setting, which it then has.
    fn set(&mut self, setting: Setting, value: &str) -> bool {
        match setting {
            Setting::Think => replace(&mut self.said.thinking, ThinkingLevel::parse_alias(value)),
            Setting::Verbose => replace(&mut self.said.verbose, Verbose::parse_alias(value)),
            Setting::Model => {
                replace(&mut self.said.model, (self.vocabulary.is_model)(value).then(|| value.to_owned()))
            }
        }
    }

    /// Takes `@model` if the text begins with one that is known; what follows it.
    pub(super) fn take_mention<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let after = text.strip_prefix('@')?;
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        let (word, rest) = after.split_at(end);
        let named = spellings(word).into_iter().find(|word| (self.vocabulary.is_model)(word))?;
        self.said.model = Some(named.to_owned());
        Some(rest.trim_start())
    }

    /// Takes the directives out of a text, wherever they stand among its words. What looks like one and has no value
    /// that is known stays where it is, and so does everything that is quoted.
    pub(super) fn take_inline(&mut self, text: &str) -> String {
        let quoted = quoted(text);
        let mut left = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(start) = next_slash(text, at, &quoted) {
            let (before, here) =
                (text.get(at..start).unwrap_or_default(), text.get(start..).unwrap_or_default());
            left.push_str(before);
            if let Taken::Bytes(length) = self.take(here) {
                at = close_gap(text, start + length, &mut left);
            } else {
                left.push('/');
                at = start + 1;
            }
        }
        left.push_str(text.get(at..).unwrap_or_default());
        left
    }
}

/// What became of a text that may begin with a directive.
pub(super) enum Taken {
    /// So many bytes of it were one.
    Bytes(usize),
    /// It names a setting and nothing else.
    NoValue(Setting),
    /// It has a value that the setting does not have.
    NotOne {
        setting: Setting,
        value: String,
    },
    Nothing,
}

/// Puts a value in the place of the one before, if there is one.
fn replace<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    let known = value.is_some();
    if known {
        *place = value;
    }
    known
}

/// A word as it stands, and without the comma or colon that a sentence may put behind it.
fn spellings(word: &str) -> [&str; 2] {
    [word, word.trim_end_matches([',', ':', ';'])]
}

/// The next slash from `from` on that begins a word and is not quoted.
fn next_slash(text: &str, from: usize, quoted: &[Range<usize>]) -> Option<usize> {
    let slashes = text.get(from..)?.match_indices('/').map(|(offset, _)| from + offset);
    slashes.into_iter().find(|at| {
        let before = text.get(..*at).and_then(|before| before.chars().next_back());
        // The ranges are in order, so only the first that has not ended can hold it.
        let range = || quoted.get(quoted.partition_point(|range| range.end <= *at));
        before.is_none_or(char::is_whitespace) && !range().is_some_and(|range| range.contains(at))
    })
}

/// Leaves one gap where a directive stood between two words, and no empty line where it had one for itself. Answers
/// where the text goes on.
fn close_gap(text: &str, end: usize, left: &mut String) -> usize {
    let rest = text.get(end..).unwrap_or_default();
    let next = rest.trim_start_matches([' ', '\t']);
    let begins_line = left.is_empty() || left.ends_with('\n');
    let ends_line = next.is_empty() || next.starts_with('\n');
    if ends_line && !begins_line {
        left.truncate(left.trim_end_matches([' ', '\t']).len());
    }
    let line_break = usize::from(ends_line && begins_line && !next.is_empty());
    text.len() - next.len() + line_break
}
