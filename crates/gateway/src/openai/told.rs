//! What a program that reads a stream has of an answer. It cannot be taken back. Pure.

use tidegate_protocol::{ErrorBody, ErrorCode};

#[derive(Debug, Default)]
pub(super) struct Told {
    /// Bytes that were told.
    sent: usize,
    /// The attempt that was told from, and everything it said.
    attempt: u32,
    text: String,
    /// What another attempt says, until it has said all of that again.
    again: Option<String>,
    /// Where the text of the model call under way begins: what was said before tools ran stands before it.
    since: usize,
    /// A call began and has said nothing yet.
    begins: bool,
}

/// Stands between what was said before tools ran and what is said after.
const BETWEEN: &str = "\n\n";

impl Told {
    /// A model call begins.
    pub(super) fn began(&mut self) {
        self.begins = true;
    }

    /// What is new. After a restart nothing is, until the new attempt has said all of it again.
    pub(super) fn heard(&mut self, attempt: u32, text: &str) -> Option<&str> {
        if attempt != self.attempt {
            self.attempt = attempt;
            self.again = (self.sent > 0).then(String::new);
        }
        match self.again.take() {
            None => {
                if std::mem::take(&mut self.begins) && !self.text.is_empty() {
                    self.text.push_str(BETWEEN);
                    self.since = self.text.len();
                }
                self.text.push_str(text);
            }
            Some(mut again) => {
                again.push_str(text);
                if !again.starts_with(self.text.as_str()) {
                    self.again = Some(again);
                    return None;
                }
                self.text = again;
            }
        }
        let more = &self.text[self.sent..];
        self.sent = self.text.len();
        (!more.is_empty()).then_some(more)
    }

    /// Everything that was told.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What of the whole answer was not told yet.
    pub(super) fn rest<'a>(&self, answer: &'a str) -> Result<&'a str, ErrorBody> {
        // Whoever said nothing since has all of the answer still to be told.
        let said = if self.begins { "" } else { &self.text[self.since..] };
        answer.strip_prefix(said).ok_or_else(|| {
            ErrorBody::new(
                ErrorCode::Interrupted,
                "the answer was begun anew and differs from what was sent; ask again",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_restart_nothing_is_told_twice() {
        let mut told = Told::default();
        assert_eq!(told.heard(1, "The ti"), Some("The ti"));
        assert_eq!(told.heard(2, "The"), None);
        assert_eq!(told.heard(2, " tide"), Some("de"));
        assert_eq!(told.heard(2, "!"), Some("!"));
        assert_eq!((told.text(), told.rest("The tide! More")), ("The tide!", Ok(" More")));
    }

    #[test]
    fn what_is_said_before_tools_stays_and_the_answer_follows_it() {
        let mut told = Told::default();
        told.began();
        assert_eq!(told.heard(1, "Let me look."), Some("Let me look."));
        told.began();
        assert_eq!(told.heard(1, "It is"), Some("\n\nIt is"));
        assert_eq!(told.rest("It is wet"), Ok(" wet"));
        told.began();
        assert_eq!(told.rest("Done"), Ok("Done"));
    }

    #[test]
    fn an_answer_that_differs_from_what_was_told_is_an_error() {
        let mut told = Told::default();
        told.heard(1, "yes");
        assert_eq!(told.heard(2, "no"), None);
        assert_eq!(told.rest("no").unwrap_err().code, ErrorCode::Interrupted);
    }
}
