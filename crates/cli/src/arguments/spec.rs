//! What a command takes.

use tidegate_runtime::catalogue::Text;

/// One command of the program. Help, parsing and suggestions come from the same table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command {
    /// The words that call it: `["sessions", "list"]`.
    pub(crate) path: &'static [&'static str],
    pub(crate) about: Text,
    /// What follows the words, as shown in the usage line.
    pub(crate) takes: &'static str,
    /// How many plain arguments it accepts.
    pub(crate) arguments: (usize, usize),
    pub(crate) flags: &'static [Flag],
    pub(crate) single_dash: SingleDash,
}

/// What a word such as `-x` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SingleDash {
    Input,
    Option,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// Without the dashes.
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    pub(crate) help: Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// There or not.
    Nothing,
    /// `--x`, `--no-x`, `--x=on|off`.
    Switch,
    /// A value, shown by this name in help.
    Value(&'static str),
}
