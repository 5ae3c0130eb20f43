//! What a person's line asks of the gateway itself, apart from what it asks of the model.
//!
//! A command stands at the beginning of a message. A directive that stands alone is a command too: it sets something
//! for the conversation. Among other words it holds for that message only. What is neither goes to the model untouched.

mod directive;
mod quoted;
mod slip;
mod table;
#[cfg(test)]
mod tests;

pub use slip::{Slip, literal, slip};
pub use table::{COMMANDS, CommandInfo};

use directive::{Reader, Taken};
use tidegate_protocol::SessionSettings;

/// Words that end what is under way when they are a whole message.
const ABORT_WORDS: [&str; 6] = ["stop", "esc", "abort", "wait", "exit", "interrupt"];

/// A message, read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    pub command: Option<Command>,
    /// For this message; behind `/new` without further words, for the new conversation.
    pub directives: SessionSettings,
    /// What is left for the model. Behind `/new` and `/reset` it is the first message.
    pub rest: String,
}

/// What the gateway itself is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    New,
    Reset,
    /// Ends what is under way.
    Stop {
        /// And what waits behind it.
        all: bool,
    },
    /// With what matters to the person, if they say.
    Compact(Option<String>),
    Status,
    Help,
    Context,
    /// Shows the title when no words are given.
    Title(Option<String>),
    /// Sets something for the whole conversation.
    Set(SessionSettings),
    /// Shows how something is set.
    Show(Setting),
    /// A value that the setting does not have.
    Invalid {
        setting: Setting,
        value: String,
    },
    /// A word behind a slash, alone on the message, that is no command.
    Unknown(String),
}

/// What directives set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    Model,
    Think,
    Verbose,
}

impl Setting {
    /// The name of its command.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Think => "think",
            Self::Verbose => "verbose",
        }
    }

    fn named(word: &str) -> Option<Self> {
        let name = table::find(word)?.name;
        [Self::Model, Self::Think, Self::Verbose].into_iter().find(|setting| setting.name() == name)
    }
}

/// What an installation adds to the words we know.
#[derive(Clone, Copy)]
pub struct Vocabulary<'a> {
    /// Whether a word names a model, as `provider/model` or as an alias.
    pub is_model: &'a dyn Fn(&str) -> bool,
    /// Further words that mean `/new` at the beginning of a message.
    pub reset_triggers: &'a [String],
}

/// Whether a whole message is a word that ends what is under way. It only means that while something is.
pub fn is_abort_word(text: &str) -> bool {
    ABORT_WORDS.iter().any(|word| text.trim().eq_ignore_ascii_case(word))
}

/// Reads a message.
pub fn parse_line(text: &str, vocabulary: &Vocabulary<'_>) -> Line {
    let trimmed = text.trim();
    if let Some(first) = triggered(trimmed, vocabulary.reset_triggers) {
        return beginning(Command::New, first, vocabulary);
    }
    let Some(word) = Word::read(trimmed) else { return message(text, vocabulary) };
    let only = |command| Line { command: Some(command), ..Line::default() };
    let words = (!word.rest.is_empty()).then(|| word.rest.to_owned());
    match table::find(word.name).map(|info| info.name) {
        Some("new") => beginning(Command::New, word.rest, vocabulary),
        Some("reset") => beginning(Command::Reset, word.rest, vocabulary),
        // Whoever wants it to end must not be answered by a model because of a "please".
        Some("stop") => only(Command::Stop { all: word.rest.trim().eq_ignore_ascii_case("all") }),
        Some("compact") => only(Command::Compact(words)),
        Some("title") => only(Command::Title(words)),
        Some("status") if words.is_none() => only(Command::Status),
        Some("help") if words.is_none() => only(Command::Help),
        Some("context") if words.is_none() => only(Command::Context),
        None if trimmed.len() == word.name.len() + 1 => only(Command::Unknown(word.name.to_owned())),
        _ => message(text, vocabulary),
    }
}

/// A command that begins a conversation, with its first message. The new conversation is what matters: a directive
/// that is wrong is left to the model.
fn beginning(command: Command, first: &str, vocabulary: &Vocabulary<'_>) -> Line {
    let mut reader = Reader::new(vocabulary);
    let (rest, _) = take_leading(first, &mut reader);
    let rest = reader.take_inline(rest).trim().to_owned();
    Line { command: Some(command), directives: reader.said, rest }
}

/// A message for the model, unless nothing is left of it.
fn message(text: &str, vocabulary: &Vocabulary<'_>) -> Line {
    let mut reader = Reader::new(vocabulary);
    let (rest, command) = take_leading(text, &mut reader);
    if command.is_some() {
        return Line { command, ..Line::default() };
    }
    let rest = reader.take_inline(rest).trim().to_owned();
    let directives = reader.said;
    if directives == SessionSettings::default() {
        return Line { rest: text.to_owned(), ..Line::default() };
    }
    if rest.is_empty() {
        return Line { command: Some(Command::Set(directives)), ..Line::default() };
    }
    Line { command: None, directives, rest }
}

/// Takes the directives a message begins with; answers what follows them. A person who begins with one means it, so
/// one without a value asks and one with a wrong value is told.
fn take_leading<'t>(text: &'t str, reader: &mut Reader<'_>) -> (&'t str, Option<Command>) {
    let mut rest = text.trim_start();
    loop {
        if let Some(after) = reader.take_mention(rest) {
            rest = after;
            continue;
        }
        match reader.take(rest) {
            Taken::Bytes(length) => rest = rest.split_at(length).1.trim_start(),
            Taken::NoValue(setting) if rest.lines().count() == 1 => {
                return (rest, Some(Command::Show(setting)));
            }
            Taken::NotOne { setting, value } => return (rest, Some(Command::Invalid { setting, value })),
            Taken::NoValue(_) | Taken::Nothing => return (rest, None),
        }
    }
}

/// What follows a further word for `/new`.
fn triggered<'t>(text: &'t str, triggers: &[String]) -> Option<&'t str> {
    triggers.iter().map(|trigger| trigger.trim()).filter(|trigger| !trigger.is_empty()).find_map(|trigger| {
        let (start, rest) = text.split_at_checked(trigger.len())?;
        let ends = rest.is_empty() || rest.starts_with(char::is_whitespace);
        (ends && start.eq_ignore_ascii_case(trigger)).then(|| rest.trim_start())
    })
}

/// A word behind a slash and what follows it.
#[derive(Clone, Copy)]
struct Word<'t> {
    name: &'t str,
    /// Behind the gap or the colon.
    rest: &'t str,
}

impl<'t> Word<'t> {
    /// The word a text begins with; nothing for a path, a bare slash or anything else.
    fn read(text: &'t str) -> Option<Self> {
        let after = text.strip_prefix('/')?;
        let end = after
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_')))
            .unwrap_or(after.len());
        let (name, behind) = after.split_at(end);
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return None;
        }
        if !(behind.is_empty() || behind.starts_with(':') || behind.starts_with(char::is_whitespace)) {
            return None;
        }
        let gap = behind.trim_start();
        let rest = gap.strip_prefix(':').unwrap_or(gap).trim_start();
        Some(Self { name, rest })
    }
}
