//! What looks like a command and is none: a slip of the pen that a model should not be asked about unawares.

use super::directive::Reader;
use super::{Vocabulary, Word, table, triggered};

/// What a message begins with that may have been meant otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slip<'t> {
    /// A word behind a slash that is no command.
    Command(&'t str),
    /// A command that takes no words, with some behind it.
    Words(&'static str),
    /// A word behind `@` that is no model.
    Model(&'t str),
}

/// The slip a message begins with. A person who means the words as they are says so by [`literal`].
pub fn slip<'t>(text: &'t str, vocabulary: &Vocabulary<'_>) -> Option<Slip<'t>> {
    if literal(text).is_some() || triggered(text.trim(), vocabulary.reset_triggers).is_some() {
        return None;
    }
    let text = text.trim();
    if let Some(after) = text.strip_prefix('@') {
        let word = after.split_whitespace().next().filter(|_| after.starts_with(char::is_alphanumeric))?;
        let is_model = Reader::new(vocabulary).take_mention(text).is_some();
        return (!is_model).then(|| Slip::Model(word.trim_end_matches([',', ':', ';'])));
    }
    let word = Word::read(text)?;
    match table::find(word.name) {
        None => Some(Slip::Command(word.name)),
        Some(info) => (info.arguments.is_empty() && !word.rest.is_empty()).then_some(Slip::Words(info.name)),
    }
}

/// What is meant as it stands, though it looks like a command: behind a blank, or behind a slash more.
pub fn literal(text: &str) -> Option<&str> {
    if let Some(after) = text.strip_prefix("//") {
        return after.starts_with(char::is_alphanumeric).then(|| text.strip_prefix('/')).flatten();
    }
    let words = text.trim_start();
    (words.len() < text.len() && words.starts_with(['/', '@'])).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Slip<'_>> {
        slip(text, &Vocabulary { is_model: &|word| word == "opus", reset_triggers: &["/fresh".to_owned()] })
    }

    #[test]
    fn what_looks_like_a_command_and_is_none_is_found() {
        for (text, expected) in [
            ("/titel x", Slip::Command("titel")),
            ("/nosuch", Slip::Command("nosuch")),
            ("/context x", Slip::Words("context")),
            ("/status: now", Slip::Words("status")),
            ("@nope hi", Slip::Model("nope")),
            ("@nope, hi", Slip::Model("nope")),
        ] {
            assert_eq!(read(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_a_command_or_looks_like_none_is_no_slip() {
        for text in [
            "/title x",
            "/model nobody",
            "/context",
            "/fresh start",
            "@opus hi",
            "@opus: hi",
            "/etc/hosts is what?",
            "hello /titel",
            "a@b",
            "@ home",
            "// a comment",
            "/",
            "",
            " /titel x",
            "//titel x",
            " @nope hi",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_meant_as_it_stands_loses_its_mark() {
        for (text, meant) in [
            (" /new", Some("/new")),
            ("//new x", Some("/new x")),
            (" @nope hi", Some("@nope hi")),
            ("/new", None),
        ] {
            assert_eq!(literal(text), meant, "{text}");
        }
        for text in [" hello", "// a comment", "//", "@nope"] {
            assert_eq!(literal(text), None, "{text}");
        }
    }
}
