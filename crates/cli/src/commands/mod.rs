//! The commands: which there are, how a command line finds its own, and help.

mod approvals;
mod ask;
mod audit;
mod auth;
mod channels;
mod chat;
mod config;
mod events;
mod first_run;
mod gateway;
pub(crate) mod gist;
mod help;
mod mcp;
mod models;
mod outbox;
pub(crate) mod question;
mod runs;
mod sandbox;
mod services;
pub(crate) mod sessions;
mod status;
mod stop;
mod table;
mod tools;
mod usage;

use std::process::ExitCode;

pub(crate) use help::usage;
use tidegate_protocol::ErrorCode;

use crate::app::App;
use crate::arguments::{Command, Parsed, scan};
use crate::failure::{Failure, With as _};
use crate::output::print_line;
use crate::{Outcome, texts};
use table::{ALL, GLOBALS};

/// The version line.
pub(crate) const VERSION: &str = concat!("tidegate v", env!("CARGO_PKG_VERSION"));

/// Runs what the words ask for.
pub(crate) fn run(app: &App, words: &[String]) -> Outcome {
    let before_end = || words.iter().take_while(|word| *word != "--");
    let command_words = leading_words(words);
    match command_words.first().map(|at| words[*at].as_str()) {
        None if before_end().any(|word| ["-v", "-V", "--version"].contains(&word.as_str())) => {
            return version(crate::arguments::wants_json(words));
        }
        None => return help::program(app, words),
        Some("help") => return help::of(app, &words[command_words[0] + 1..]),
        Some(_) => {}
    }
    let Some((command, rest)) = find(words, &command_words) else {
        let first = words[command_words[0]].as_str();
        let wants_help = before_end().any(|word| word == "--help" || word == "-h");
        if wants_help && ALL.iter().any(|command| command.path[0] == first) {
            return help::group(app, first);
        }
        return Err(unknown(app, words, &command_words));
    };
    let asks_for_help = rest.iter().take_while(|word| *word != "--").any(|word| word == "--help")
        || command.single_dash == crate::arguments::SingleDash::Option
            && rest.iter().any(|word| word == "-h");
    if asks_for_help {
        return help::command(app, command);
    }
    match scan(command, GLOBALS, &rest) {
        Ok(parsed) => (table::entry(command))(app, command, &parsed),
        // A script that reads `ask` gets one shape, whatever went wrong.
        Err(failure) if command.path == ["ask"] => {
            Ok(app.report(&failure, crate::arguments::wants_json(words) || !app.output.terminal))
        }
        Err(failure) => Err(failure),
    }
}

/// Where the words that may name a command are: those before the first that is neither a global option nor its value.
fn leading_words(words: &[String]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let word = &words[at];
        if word == "--" {
            break;
        }
        match word.strip_prefix("--") {
            Some(option) if found.is_empty() => {
                let takes_value = GLOBALS.iter().any(|flag| {
                    flag.name == option && matches!(flag.takes, crate::arguments::Takes::Value(_))
                });
                at += usize::from(takes_value);
            }
            Some(_) => break,
            None if word.starts_with('-') && found.is_empty() => {}
            None => found.push(at),
        }
        at += 1;
    }
    found
}

/// The command with the longest matching path, and the other words.
fn find(words: &[String], leading: &[usize]) -> Option<(&'static Command, Vec<String>)> {
    let matches = |command: &&Command| {
        command.path.len() <= leading.len()
            && command.path.iter().zip(leading).all(|(part, at)| table::same(part, &words[*at]))
            && leading[..command.path.len()].windows(2).all(|pair| pair[1] == pair[0] + 1)
    };
    let command = ALL.iter().filter(matches).max_by_key(|command| command.path.len())?;
    let named = &leading[..command.path.len()];
    let rest = words
        .iter()
        .enumerate()
        .filter(|(at, _)| !named.contains(at))
        .map(|(_, word)| word.clone())
        .collect();
    Some((command, rest))
}

fn unknown(app: &App, words: &[String], leading: &[usize]) -> Failure {
    let first = words[leading[0]].as_str();
    let group: Vec<&Command> = ALL.iter().filter(|command| command.path[0] == first).collect();
    if !group.is_empty() {
        // `sessions` alone, or with a word it does not know.
        let word = leading.get(1).map_or(first, |at| words[*at].as_str());
        let mut known: Vec<&str> = group.iter().filter_map(|command| command.path.get(1).copied()).collect();
        // A word with words of its own is there once for each of them.
        known.dedup();
        let hint = match leading.get(1).and_then(|_| crate::arguments::closest(word, known.iter().copied())) {
            Some(meant) => texts::DID_YOU_MEAN.with(&[("word", &format!("{first} {meant}"))]),
            None => texts::SEE_HELP.with(&[("program", &app.program)]),
        };
        let hint = crate::failure::Message {
            en: format!("{first}: {}. {}", known.join(", "), hint.en),
            zh: format!("{first}：{}。{}", known.join("、"), hint.zh),
        };
        let (code, message) = match leading.get(1) {
            Some(_) => (
                ErrorCode::UnknownCommand,
                texts::UNKNOWN_COMMAND.with(&[("word", &format!("{first} {word}"))]),
            ),
            None => (ErrorCode::MissingValue, texts::MISSING_SUBCOMMAND.with(&[("word", &first)])),
        };
        return Failure::new(code, message).with_hint(hint);
    }
    let failure = Failure::new(ErrorCode::UnknownCommand, texts::UNKNOWN_COMMAND.with(&[("word", &first)]));
    let known = ALL.iter().map(|command| command.path[0]);
    match crate::arguments::closest(first, known) {
        Some(word) => failure.with_hint(texts::DID_YOU_MEAN.with(&[("word", &word)])),
        None if first.contains(' ') => failure.with_hint(texts::MEANT_ASK.with(&[("program", &app.program)])),
        None => failure.with_hint(texts::SEE_HELP.with(&[("program", &app.program)])),
    }
}

fn version(json: bool) -> Outcome {
    if json {
        let value = serde_json::json!({ "name": "tidegate", "version": env!("CARGO_PKG_VERSION") });
        crate::output::print_json(&value)?;
    } else {
        print_line(VERSION)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn version_command(_app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    version(parsed.has("json"))
}

fn help_command(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    help::of(app, &parsed.arguments)
}

/// What runs a command.
type Entry = fn(&App, &'static Command, &Parsed) -> Outcome;

/// Runs asynchronous work to its end on this thread.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(work);
    // A wedged reader must not keep the program from ending.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    result
}
