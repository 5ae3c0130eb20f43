//! Reading a script twice, by two readers that know nothing of each other.
//!
//! The first one takes the text apart character by character and gives up, with a reason, at anything that is not a
//! plain word or one of the four joins. The second one reads bash's grammar. Only what both read alike is understood,
//! so that neither a gap in the first nor a quirk of the second can make other arguments than bash would.

mod characters;
mod grammar;
mod shell_words;
mod tokens;

use super::plan::Join;

pub(super) use grammar::{Syntax, children, parse};

/// A script as both readers see it: programs by name, nothing resolved yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sketch {
    pub(super) steps: Vec<SketchStep>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SketchStep {
    pub(super) join: Join,
    /// A pipeline; each command has at least one word.
    pub(super) commands: Vec<Vec<String>>,
}

/// Why a script is left to the shell, in words that follow "it is not taken apart:".
pub(super) type Reason = String;

/// Takes a script apart, or says why not.
pub(super) fn understand(text: &str) -> Result<Sketch, Reason> {
    let text = text.trim_end_matches(['\n', ' ', '\t']);
    characters::check(text)?;
    let sketch = tokens::read(text)?;
    for command in sketch.steps.iter().flat_map(|step| &step.commands) {
        shell_words::check(command)?;
    }
    match grammar::sketch(text) {
        Some(other) if other == sketch => Ok(sketch),
        Some(_) | None => Err("two readings of it differ".to_owned()),
    }
}
