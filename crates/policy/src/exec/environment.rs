//! What a call may add to the environment without a person looking at it.
//!
//! Variables choose libraries, start-up files, editors, pagers, proxies and plugins, and every program has its own. So
//! the list is of the few that change nothing but looks.

use super::plan::Plan;

const HARMLESS: &[&str] = &[
    "CI",
    "CLICOLOR",
    "COLORTERM",
    "COLUMNS",
    "FORCE_COLOR",
    "LANG",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "LINES",
    "NO_COLOR",
    "TERM",
    "TZ",
];

/// A name the call added that can change what runs, if there is one.
pub(super) fn meddling(plan: &Plan) -> Option<&str> {
    let mut added = plan.added_env().iter();
    added.find(|(name, value)| !is_harmless(name, value)).map(|(name, _)| name.as_str())
}

/// A value with a path in it would make the C library read a file of the caller's choice.
fn is_harmless(name: &str, value: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "_.@:+-/".contains(character);
    let is_zone = name == "TZ" && !value.starts_with(['/', ':', '.']) && !value.contains("..");
    HARMLESS.contains(&name) && value.chars().all(plain) && (is_zone || !value.contains('/'))
}
