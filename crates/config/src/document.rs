//! Text to data: a config file as strict JSON5.
//!
//! Owns what a file may look like before any key is known: one JSON5 value, no key twice in an object, no
//! `NaN` or `Infinity`, nesting that a reader survives. It never follows an include or looks at a schema.

use std::cell::RefCell;
use std::fmt;

use json5::ErrorCode;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use crate::problem::{Problem, ProblemKind};

/// Deeper nesting is a mistake or an attack; every walker of the document recurses at most this far a file.
pub(crate) const MAX_DEPTH: usize = 64;

/// Reads the text of a config file. All duplicate keys are reported together; a syntax error ends the reading.
pub(crate) fn parse(text: &str) -> Result<Value, Vec<Problem>> {
    let text = without_bom(text);
    if text.trim().is_empty() {
        return Err(vec![Problem::new(
            ProblemKind::Syntax,
            "",
            "the file is empty; write {} for a config without settings, or remove the file",
        )]);
    }
    let problems = RefCell::new(Vec::new());
    let parsed = {
        let mut deserializer = json5::Deserializer::from_str(text);
        let at = At::Root;
        let place = Place { at: &at, depth: 0, problems: &problems };
        // The place goes in by a seed, which `json5::from_str` does not take; the second read, of nothing but the
        // end, is how the text after the value is noticed.
        place.deserialize(&mut deserializer).and_then(|value| end_of(text, &mut deserializer).map(|()| value))
    };
    let mut problems = problems.into_inner();
    match parsed {
        Ok(value) if problems.is_empty() => Ok(value),
        Ok(_) => Err(problems),
        Err(error) => {
            problems.push(syntax_problem(&error));
            Err(problems)
        }
    }
}
