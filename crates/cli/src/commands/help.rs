//! Help, from the same table that parses.

use std::fmt::Write as _;
use std::process::ExitCode;

use super::table::{ALL, GLOBALS};
use super::{VERSION, find, leading_words, unknown};
use crate::app::App;
use crate::arguments::{Command, Flag, Takes, scan};
use crate::output::{print, table};
use crate::{Outcome, texts};

/// The program's own help. Options that no command came with are still checked.
pub(super) fn program(app: &App, words: &[String]) -> Outcome {
    static PROGRAM: Command = Command {
        path: &[],
        about: texts::HELP_LEAD,
        takes: "<command>",
        arguments: (0, usize::MAX),
        flags: &[],
        single_dash: crate::arguments::SingleDash::Input,
    };
    let words: Vec<String> = words.iter().filter(|word| *word != "-h").cloned().collect();
    scan(&PROGRAM, GLOBALS, &words)?;
    let mut text = format!("{VERSION} - {}\n\n", app.say(texts::HELP_LEAD));
    let _ = writeln!(text, "{}\n", usage(app, &PROGRAM));
    let _ = writeln!(text, "{}", app.output.bold(app.say(texts::HELP_COMMANDS)));
    let rows: Vec<_> = ALL
        .iter()
        .map(|command| {
            vec![format!("  {} {}", command.path.join(" "), command.takes), app.say(command.about).to_owned()]
        })
        .collect();
    text.push_str(&table(&rows));
    let _ = writeln!(text, "\n{}", app.output.bold(app.say(texts::HELP_TAIL)));
    text.push_str(&table(&flag_rows(app, GLOBALS)));
    let _ = writeln!(text, "\n{}", app.fill(texts::HELP_MORE, &[("program", &app.program)]));
    let _ = writeln!(text, "{}\n{}", app.say(texts::HELP_ENVIRONMENT), app.say(texts::HELP_EXIT));
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Help of a group of commands, such as `sessions`.
pub(super) fn group(app: &App, first: &str) -> Outcome {
    let rows: Vec<_> = ALL
        .iter()
        .filter(|command| command.path[0] == first)
        .map(|command| {
            vec![format!("  {} {}", command.path.join(" "), command.takes), app.say(command.about).to_owned()]
        })
        .collect();
    print(&table(&rows))?;
    Ok(ExitCode::SUCCESS)
}

/// `help <command>`.
pub(super) fn of(app: &App, words: &[String]) -> Outcome {
    let leading = leading_words(words);
    if leading.is_empty() {
        return program(app, words);
    }
    match find(words, &leading) {
        Some((row, _)) => command(app, row),
        None if leading.len() == 1 && ALL.iter().any(|row| row.path[0] == words[leading[0]]) => {
            group(app, &words[leading[0]])
        }
        None => Err(unknown(app, words, &leading)),
    }
}

pub(super) fn command(app: &App, command: &Command) -> Outcome {
    let mut text = format!("{}\n\n{}\n", app.say(command.about), usage(app, command));
    if !command.flags.is_empty() {
        let _ = writeln!(text, "\n{}", app.output.bold(app.say(texts::HELP_OPTIONS)));
        text.push_str(&table(&flag_rows(app, command.flags)));
    }
    let _ = writeln!(text, "\n{}", app.output.bold(app.say(texts::HELP_TAIL)));
    text.push_str(&table(&flag_rows(app, GLOBALS)));
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// One line: how the command is called.
pub(crate) fn usage(app: &App, command: &Command) -> String {
    let mut words = vec![app.name.as_str()];
    words.extend(command.path);
    if !command.takes.is_empty() {
        words.push(command.takes);
    }
    if !command.flags.is_empty() {
        words.push("[options]");
    }
    app.fill(texts::USAGE, &[("usage", &words.join(" "))])
}

fn flag_rows(app: &App, flags: &[Flag]) -> Vec<Vec<String>> {
    flags
        .iter()
        .map(|flag| {
            let name = match flag.takes {
                Takes::Nothing => format!("  --{}", flag.name),
                Takes::Switch => format!("  --[no-]{}", flag.name),
                Takes::Value(value) => format!("  --{} <{value}>", flag.name),
            };
            vec![name, app.say(flag.help).to_owned()]
        })
        .collect()
}
