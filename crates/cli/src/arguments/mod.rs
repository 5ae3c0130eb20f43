//! The command line: one small grammar for every command. Pure.
//!
//! The `ask` contract wants words with a single dash to be input, `--` to end the options, `--k v` and `--k=v` alike,
//! and its own error texts; so the grammar is ours, and every command shares it.

mod scan;
mod spec;

pub(crate) use scan::{Parsed, closest, missing_value, scan};
pub(crate) use spec::{Command, Flag, SingleDash, Takes};

/// Whether the command line asks for JSON. Also known before it is understood, so that even its errors have the form
/// that was asked for.
pub(crate) fn wants_json(words: &[String]) -> bool {
    let before_end = words.iter().take_while(|word| *word != "--");
    let spelt = before_end.filter_map(|word| match word.strip_prefix("--json")? {
        "" => Some(true),
        value => scan::boolean(value.strip_prefix('=')?),
    });
    spelt.last().unwrap_or(false)
}
