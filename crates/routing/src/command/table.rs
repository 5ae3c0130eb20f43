//! The commands there are, for reading them, for completing them and for `/help`.

use crate::texts::{self, Help};

/// One command as people see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandInfo {
    /// Without its slash.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What may follow, as `[level]`; empty when nothing does.
    pub arguments: &'static str,
    /// The words that may follow, where they are few.
    pub values: &'static [&'static str],
    pub help: Help,
}

/// Every command, in the order `/help` shows them.
pub const COMMANDS: &[CommandInfo] = &[
    taking("new", &[], "[message]", &[], texts::NEW),
    taking("reset", &[], "[message]", &[], texts::RESET),
    taking("stop", &[], "[all]", &["all"], texts::STOP),
    taking("compact", &[], "[instructions]", &[], texts::COMPACT),
    taking("status", &[], "", &[], texts::STATUS),
    taking("help", &["commands"], "", &[], texts::HELP),
    taking("context", &[], "", &[], texts::CONTEXT),
    taking("model", &[], "[name]", &[], texts::MODEL),
    taking("think", &["thinking", "t"], "[level]", LEVELS, texts::THINK),
    taking("verbose", &["v"], "[on|off|full]", &["on", "off", "full"], texts::VERBOSE),
    taking("title", &[], "[words]", &[], texts::TITLE),
];

const LEVELS: &[&str] = &["off", "minimal", "low", "medium", "high", "xhigh"];

const fn taking(
    name: &'static str,
    aliases: &'static [&'static str],
    arguments: &'static str,
    values: &'static [&'static str],
    help: Help,
) -> CommandInfo {
    CommandInfo { name, aliases, arguments, values, help }
}

/// The command that a word names, whatever its case and by any of its names.
pub(crate) fn find(word: &str) -> Option<&'static CommandInfo> {
    let word = word.to_ascii_lowercase();
    COMMANDS.iter().find(|info| info.name == word || info.aliases.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::ThinkingLevel;

    use super::*;

    #[test]
    fn every_name_is_one_commands_alone_and_finds_it() {
        for info in COMMANDS {
            for name in info.aliases.iter().chain([&info.name]) {
                assert_eq!(find(&name.to_uppercase()), Some(info), "{name}");
            }
        }
        assert_eq!(find("tmp"), None);
    }

    #[test]
    fn every_command_is_told_in_both_languages_on_one_line() {
        for CommandInfo { name, help: Help { en, zh }, .. } in COMMANDS {
            assert!(!en.is_empty() && en.is_ascii() && !en.contains('\n'), "{name}");
            assert!(!zh.is_empty() && !zh.is_ascii() && !zh.contains('\n'), "{name}");
        }
    }

    #[test]
    fn the_levels_that_are_offered_are_the_levels_there_are() {
        assert_eq!(LEVELS, ThinkingLevel::ALL.map(ThinkingLevel::as_str));
    }
}
