//! First words that mean something to the shell itself: there is no program to run instead.

use super::Reason;

const RESERVED: &[&str] = &[
    "!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "time", "until", "while",
];

/// Builtins that change the shell, or that no program of the same name can stand in for.
const BUILTINS: &[&str] = &[
    ".",
    ":",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// Refuses a command whose first word is not the name of a program.
pub(super) fn check(command: &[String]) -> Result<(), Reason> {
    let Some(first) = command.first().map(String::as_str) else {
        return Err("a command is missing".to_owned());
    };
    if first.contains('=') {
        return Err("it sets a variable".to_owned());
    }
    if first.starts_with('%') {
        return Err("it names a job of the shell".to_owned());
    }
    if RESERVED.contains(&first) {
        return Err(format!("`{first}` belongs to the shell's language"));
    }
    if BUILTINS.contains(&first) {
        return Err(format!("`{first}` is a command of the shell itself"));
    }
    Ok(())
}
