//! What a person may have meant otherwise, found before anything is asked.

use std::io::IsTerminal as _;

use tidegate_config::schema::{FOREIGN_TOOLS, TOOL_ALIASES, TOOL_GROUPS};
use tidegate_engine::Settings;
use tidegate_protocol::ErrorCode;
use tidegate_routing::COMMANDS;
use tidegate_tools::Registry;

use crate::app::App;
use crate::arguments::{Command, closest};
use crate::chat::nearest_command;
use crate::commands::tools::meant;
use crate::failure::{Failure, With as _};
use crate::output::{complain, printable};
use crate::texts;
use crate::toolbox::tools_to_look_at;

/// Every name of `--tool-allow` has to mean a tool: with a slip of the pen in it the agent would have none.
pub(super) fn allowed_tools(
    app: &App,
    command: &'static Command,
    settings: &Settings,
    names: Option<&[String]>,
) -> Result<(), Failure> {
    let Some(names) = names else { return Ok(()) };
    let registry = tools_to_look_at(settings)?;
    let Some(unknown) = names.iter().find(|name| !is_known(&registry, name)) else { return Ok(()) };
    let message = texts::runs::NO_SUCH_TOOL.with(&[("name", &printable(unknown))]);
    let failure = Failure::new(ErrorCode::InvalidValue, message).with_usage(command);
    let group = || closest(unknown, TOOL_GROUPS.iter().copied());
    Err(match meant(&registry, unknown).or_else(group) {
        Some(meant) => failure.with_hint(texts::DID_YOU_MEAN.with(&[("word", &meant)])),
        None => failure.with_hint(texts::tools::SEE_TOOLS.with(&[("program", &app.program)])),
    })
}

/// The same names that the configuration takes: tools, groups, patterns, and what they are called elsewhere.
fn is_known(registry: &Registry, name: &str) -> bool {
    let name = name.to_lowercase();
    let elsewhere = [FOREIGN_TOOLS, TOOL_ALIASES, TOOL_GROUPS];
    name.contains('*')
        || registry.find(&name).is_some()
        || elsewhere.into_iter().flatten().any(|known| *known == name)
}

/// Tells a person that what looks like a command goes to the model as it is.
pub(super) fn mention_command(app: &App, text: &str) {
    if let Some(name) = command_of(text)
        && std::io::stderr().is_terminal()
    {
        complain(&app.fill(texts::runs::NO_COMMAND_HERE, &[("name", &name), ("program", &app.program)]));
    }
}

/// The command that a text begins with, or what may have been meant for one, as it was written.
fn command_of(text: &str) -> Option<&str> {
    let word = text.split_whitespace().next()?.strip_prefix('/')?;
    let names = COMMANDS.iter().flat_map(|command| std::iter::once(&command.name).chain(command.aliases));
    // A path is no command, however near its first word is to one.
    let is_word =
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let is_one = names.into_iter().any(|name| name.eq_ignore_ascii_case(word));
    (is_one || is_word && nearest_command(word).is_some()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::command_of;

    #[test]
    fn only_the_first_word_of_a_text_is_a_command() {
        for (text, name) in [("/new", "new"), ("/NEW x", "NEW"), (" /stop", "stop"), ("/titel x", "titel")] {
            assert_eq!(command_of(text), Some(name), "{text:?}");
        }
        for text in ["/etc/hosts", "new", "say /new", "", "/", "/nowhere"] {
            assert_eq!(command_of(text), None, "{text:?}");
        }
    }
}
