//! What is chosen for the conversation while one talks: from then on the command line's wish is no longer sent.

use tidegate_protocol::{Origin, SessionSettings, Verbose};
use tidegate_routing::{COMMANDS, Command, Slip, Vocabulary, parse_line, slip};
use tidegate_runtime::catalogue::Language;

use crate::arguments::closest;
use crate::output::printable;
use crate::texts;
use crate::texts::chat as words;

/// Which model a word means, as it is shown; nothing when it means none.
pub(crate) type Models = Box<dyn Fn(&str) -> Option<String>>;

/// What a message chose that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    /// As it is shown.
    pub(super) model: Option<String>,
    pub(super) thinking: bool,
    /// How much is shown of tools.
    pub(super) verbose: Option<Verbose>,
}

/// Reads a message as whoever answered it did.
pub(super) fn chosen(models: &Models, text: &str) -> Option<Choice> {
    let is_model = |word: &str| models(word).is_some();
    let line = parse_line(text, &Vocabulary { is_model: &is_model, reset_triggers: &[] });
    let SessionSettings { model, thinking, verbose } = match line.command {
        Some(Command::Set(said)) => said,
        Some(Command::New | Command::Reset) if line.rest.is_empty() => line.directives,
        _ => return None,
    };
    let model = model.and_then(|word| models(&word));
    let choice = Choice { model, thinking: thinking.is_some(), verbose };
    (choice.model.is_some() || choice.thinking || choice.verbose.is_some()).then_some(choice)
}

/// What to say about a message that begins like a command and is none. It is not sent.
pub(super) fn about_slip(
    language: Language,
    models: &Models,
    triggers: &[String],
    text: &str,
) -> Option<String> {
    let is_model = |word: &str| models(word).is_some();
    let said = match slip(text, &Vocabulary { is_model: &is_model, reset_triggers: triggers })? {
        Slip::Command(word) => match nearest_command(word) {
            Some(near) if near == word.to_lowercase() => {
                words::TAKES_NO_WORDS.fill(language, &[("word", &near)])
            }
            Some(near) => {
                let meant = texts::DID_YOU_MEAN.fill(language, &[("word", &format!("/{near}"))]);
                format!("{} {meant}", words::NO_SUCH_COMMAND.fill(language, &[("word", &printable(word))]))
            }
            None => words::NO_SUCH_COMMAND.fill(language, &[("word", &printable(word))]),
        },
        Slip::Words(word) => words::TAKES_NO_WORDS.fill(language, &[("word", &word)]),
        Slip::Model(word) => words::NO_SUCH_MODEL.fill(language, &[("word", &printable(word))]),
    };
    Some(format!("{said} {}", words::SEND_AS_IT_IS.in_language(language)))
}

/// The command that was most likely meant.
pub(crate) fn nearest_command(word: &str) -> Option<&'static str> {
    let names =
        COMMANDS.iter().flat_map(|info| std::iter::once(info.name).chain(info.aliases.iter().copied()));
    // One letter is near to any other.
    let names = names.filter(|name| name.len() > 1).chain(["quit", "exit", "export"]);
    closest(&word.to_lowercase(), names)
}

/// Whether a message begins the conversation anew.
pub(super) fn begins_anew(text: &str) -> bool {
    let line = parse_line(text, &Vocabulary { is_model: &|_| false, reset_triggers: &[] });
    matches!(line.command, Some(Command::New | Command::Reset)) && line.rest.is_empty()
}

/// The model that answered. Commands, and calls that a person wrote, are answered by none.
pub(super) fn answered_by(origin: &Origin) -> Option<String> {
    let is_model = !matches!(origin.api.as_str(), "command" | "manual");
    is_model.then(|| format!("{}/{}", origin.provider, origin.model))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_holds_for_the_conversation_is_a_choice() {
        let models: Models = Box::new(|word| (word == "b").then(|| "maker/b".to_owned()));
        let choice = |model: Option<&str>, thinking| Choice {
            model: model.map(str::to_owned),
            thinking,
            verbose: None,
        };
        for (text, expected) in [
            ("/model b", Some(choice(Some("maker/b"), false))),
            ("/think high", Some(choice(None, true))),
            ("/model b /think low", Some(choice(Some("maker/b"), true))),
            ("/new /model b", Some(choice(Some("maker/b"), false))),
            ("/model nobody", None),
            ("/model", None),
            ("/model b and answer", None),
            ("/verbose on", Some(Choice { verbose: Some(Verbose::On), ..choice(None, false) })),
            ("hello", None),
        ] {
            assert_eq!(chosen(&models, text), expected, "{text}");
        }
    }
}
