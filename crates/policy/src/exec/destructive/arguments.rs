//! Options and operands of a command, read as GNU's tools read them.

use super::Word;
use crate::exec::programs;

pub(super) struct Arguments<'a> {
    options: Vec<&'a Word>,
    pub(super) operands: Vec<&'a Word>,
}

impl<'a> Arguments<'a> {
    /// The words after the program's name.
    pub(super) fn of(words: &'a [Word]) -> Self {
        let mut arguments = Self { options: Vec::new(), operands: Vec::new() };
        let mut only_operands = false;
        for word in words {
            if only_operands || word.text.len() < 2 || !word.text.starts_with('-') {
                arguments.operands.push(word);
            } else if word.text == "--" {
                only_operands = true;
            } else {
                arguments.options.push(word);
            }
        }
        arguments
    }

    /// Whether there is this short option, also among others, or this long one, also shortened.
    pub(super) fn has(&self, short: char, long: &str) -> bool {
        self.options.iter().any(|option| {
            programs::has_short(&option.text, short) || programs::abbreviates(&option.text, long)
        })
    }

    pub(super) fn has_long(&self, long: &str) -> bool {
        self.options.iter().any(|option| programs::abbreviates(&option.text, long))
    }
}
