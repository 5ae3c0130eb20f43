//! Reading words against a command's table.

use std::collections::BTreeMap;

use tidegate_protocol::ErrorCode;
use tidegate_runtime::catalogue::Language;

use super::spec::{Command, Flag, SingleDash, Takes};
use crate::failure::{Failure, Message, With as _};
use crate::texts;

/// What the words said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    values: BTreeMap<&'static str, Vec<String>>,
    switches: BTreeMap<&'static str, bool>,
    pub(crate) arguments: Vec<String>,
}

impl Parsed {
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.last().map(String::as_str)
    }

    /// Every value of an option that may be given several times.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.values.get(name).into_iter().flatten().map(String::as_str)
    }

    pub(crate) fn switch(&self, name: &str) -> Option<bool> {
        self.switches.get(name).copied()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.switch(name).unwrap_or(false)
    }
}

/// Reads `words` (without those that name the command) against the command's flags and the global ones.
pub(crate) fn scan(
    command: &'static Command,
    globals: &'static [Flag],
    words: &[String],
) -> Result<Parsed, Failure> {
    let mut parsed = Parsed::default();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        if word == "--" {
            parsed.arguments.extend(words[at..].iter().cloned());
            break;
        }
        let Some(option) = word.strip_prefix("--") else {
            let is_number = word.parse::<f64>().is_ok();
            if word.len() > 1
                && word.starts_with('-')
                && !is_number
                && command.single_dash == SingleDash::Option
            {
                return Err(unknown_option(command, globals, word));
            }
            parsed.arguments.push(word.clone());
            continue;
        };
        let (name, inline) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let flags = command.flags.iter().chain(globals);
        if let Some(flag) = flags.clone().find(|flag| flag.name == name) {
            match flag.takes {
                Takes::Value(_) => {
                    let value = inline.map(str::to_owned).or_else(|| next_value(words, &mut at));
                    let Some(value) = value else {
                        return Err(missing_value(command, flag));
                    };
                    parsed.values.entry(flag.name).or_default().push(value);
                }
                Takes::Switch | Takes::Nothing => {
                    let on = inline.map_or(Some(true), boolean);
                    let Some(on) = on else {
                        return Err(match flag.takes {
                            Takes::Switch => invalid(command, name, at, inline.unwrap_or_default()),
                            // The word may be a secret that was meant for elsewhere: it is not shown again.
                            _ => takes_nothing(command, name),
                        });
                    };
                    parsed.switches.insert(flag.name, on);
                }
            }
            continue;
        }
        let negated = name.strip_prefix("no-").filter(|_| inline.is_none());
        let switch = flags.clone().find(|flag| flag.takes == Takes::Switch && negated == Some(flag.name));
        match switch {
            Some(flag) => {
                parsed.switches.insert(flag.name, false);
            }
            None => return Err(unknown_option(command, globals, &format!("--{name}"))),
        }
    }
    let (least, most) = command.arguments;
    if parsed.arguments.len() < least {
        return Err(missing_argument(command, parsed.arguments.len()));
    }
    if let Some(extra) = parsed.arguments.get(most) {
        let message = texts::EXTRA_ARGUMENT.with(&[("word", extra)]);
        return Err(Failure::new(ErrorCode::InvalidValue, message).with_usage(command));
    }
    Ok(parsed)
}

/// The contract's wording, and what the option takes.
pub(crate) fn missing_value(command: &'static Command, flag: &Flag) -> Failure {
    let message = texts::MISSING_VALUE.with(&[("name", &flag.name)]);
    let failure = Failure::new(ErrorCode::MissingValue, message).with_usage(command);
    let Takes::Value(value) = flag.takes else { return failure };
    let fill = |language| {
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("name", &flag.name), ("value", &value), ("help", &flag.help.in_language(language))];
        texts::TAKES_VALUE.fill(language, &values)
    };
    failure.with_hint(Message { en: fill(Language::English), zh: fill(Language::Chinese) })
}

/// Names what the usage line has in this place.
fn missing_argument(command: &'static Command, at: usize) -> Failure {
    let mut places = command.takes.split_whitespace().filter(|word| word.starts_with('<'));
    let message = match places.nth(at) {
        Some(place) => texts::MISSING_NAMED_ARGUMENT.with(&[("name", &place)]),
        None => texts::MISSING_ARGUMENT.with(&[]),
    };
    Failure::new(ErrorCode::MissingValue, message).with_usage(command)
}

/// The next word, unless it is an option itself. An empty word is a value.
fn next_value(words: &[String], at: &mut usize) -> Option<String> {
    let value = words.get(*at).filter(|word| !word.starts_with("--"))?;
    *at += 1;
    Some(value.clone())
}

pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "on" | "true" | "1" => Some(true),
        "off" | "false" | "0" => Some(false),
        _ => None,
    }
}

/// The contract's wording, which counts from the first word after the command.
fn invalid(command: &'static Command, name: &str, position: usize, value: &str) -> Failure {
    let message = texts::INVALID_VALUE.with(&[("name", &name), ("position", &position), ("value", &value)]);
    Failure::new(ErrorCode::InvalidValue, message).with_usage(command)
}

fn takes_nothing(command: &'static Command, name: &str) -> Failure {
    let message = texts::TAKES_NO_VALUE.with(&[("name", &name)]);
    Failure::new(ErrorCode::InvalidValue, message).with_usage(command)
}

fn unknown_option(command: &'static Command, globals: &'static [Flag], word: &str) -> Failure {
    let known = command.flags.iter().chain(globals).map(|flag| flag.name);
    let failure = Failure::new(ErrorCode::UnknownOption, texts::UNKNOWN_OPTION.with(&[("word", &word)]));
    let failure = failure.with_usage(command);
    match closest(word.trim_start_matches('-'), known) {
        Some(name) => failure.with_hint(texts::DID_YOU_MEAN.with(&[("word", &format!("--{name}"))])),
        None => failure,
    }
}

/// The known word that looks most like a mistyped one.
pub(crate) fn closest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use tidegate_runtime::catalogue::Text;

    use super::*;

    const NO_TEXT: Text = Text::new("", "");
    const FLAGS: &[Flag] = &[
        Flag { name: "session", takes: Takes::Value("name"), help: NO_TEXT },
        Flag { name: "memory", takes: Takes::Switch, help: NO_TEXT },
        Flag { name: "new-session", takes: Takes::Nothing, help: NO_TEXT },
    ];
    static ASK: Command = Command {
        path: &["ask"],
        about: NO_TEXT,
        takes: "<input>",
        arguments: (0, usize::MAX),
        flags: FLAGS,
        single_dash: SingleDash::Input,
    };

    fn read(words: &[&str]) -> Result<Parsed, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        scan(&ASK, &[], &words).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_value_follows_its_option_or_an_equals_sign() {
        for words in [["--session", "work", "hi"].as_slice(), &["hi", "--session=work"]] {
            let parsed = read(words).unwrap();
            assert_eq!(parsed.value("session"), Some("work"));
            assert_eq!(parsed.arguments, ["hi"]);
        }
        assert_eq!(read(&["--session", ""]).unwrap().value("session"), Some(""));
    }

    #[test]
    fn a_word_with_one_dash_is_input_and_two_dashes_end_the_options() {
        assert_eq!(read(&["-x", "-", "y"]).unwrap().arguments, ["-x", "-", "y"]);
        assert_eq!(read(&["--", "--literal", "--"]).unwrap().arguments, ["--literal", "--"]);
    }

    #[test]
    fn a_switch_has_three_spellings() {
        for (word, expected) in [("--memory", true), ("--no-memory", false), ("--memory=off", false)] {
            assert_eq!(read(&[word]).unwrap().switch("memory"), Some(expected));
        }
    }

    #[test]
    fn an_option_without_its_value_is_told_what_it_takes() {
        let failure = scan(&ASK, &[], &["--session".to_owned()]).unwrap_err();
        assert!(failure.hint.is_some_and(|hint| hint.en.starts_with("Write --session <name>:")));
    }

    #[test]
    fn mistakes_are_named_in_the_words_of_the_contract() {
        for (words, message) in [
            (["--session"].as_slice(), "Missing value for session"),
            (&["--session", "--memory"], "Missing value for session"),
            (&["a", "--memory=maybe"], "Invalid value for --memory at arg 2: maybe"),
            (&["--bogus"], "Unknown option: --bogus"),
            (&["--no-new-session"], "Unknown option: --no-new-session"),
            (&["--new-session=hush"], "--new-session takes no value"),
        ] {
            assert_eq!(read(words).unwrap_err(), message);
        }
    }
}
