//! Small pieces several formats are made of.

use tidegate_protocol::{Block, Message};

use crate::catalogue::ModelInfo;
use crate::request::Options;

/// What is said first where a vendor wants a person's words first and the history begins with an answer.
pub(crate) const OPENING: &str = "(the conversation continues)";

/// Tokens of an answer where nobody says how many. Servers have defaults of their own, some of them absurdly small; more
/// would need a larger model or a patient reader.
const USUAL_ANSWER: u32 = 32_000;

/// Tokens of an answer at most.
pub(crate) fn answer_limit(options: &Options, model: &ModelInfo) -> u32 {
    options.max_tokens.unwrap_or(USUAL_ANSWER).min(model.max_tokens)
}

/// What stands for a tool's result that has no words, where a vendor wants some.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// The words of some content, a line between its blocks.
pub(crate) fn words(content: &[Block]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// How many calls a conversation has: with it a call without an id gets one that no earlier call has.
pub(crate) fn calls_in(messages: &[Message]) -> usize {
    let blocks = messages.iter().flat_map(Message::content);
    blocks.filter(|block| matches!(block, Block::ToolCall { .. })).count()
}

/// Ids of one answer's calls: the server's own, or one made of the tool's name where it gave none or gave it twice.
pub(crate) struct CallIds {
    given: Vec<String>,
    next: usize,
}

impl CallIds {
    pub(crate) fn after(messages: &[Message]) -> Self {
        Self { given: Vec::new(), next: calls_in(messages) + 1 }
    }

    pub(crate) fn next(&mut self, id: Option<&str>, name: &str) -> String {
        let own = id.filter(|id| !id.is_empty() && !self.given.iter().any(|given| given == id));
        let id = own.map_or_else(|| format!("{name}_{}", self.next), str::to_owned);
        self.next += 1;
        self.given.push(id.clone());
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_an_id_of_its_own_gets_one_that_no_other_has() {
        let mut ids = CallIds::after(&[]);
        assert_eq!(ids.next(None, "look"), "look_1");
        assert_eq!(ids.next(Some("a"), "look"), "a");
        assert_eq!(ids.next(Some("a"), "look"), "look_3");
        assert_eq!(ids.next(Some(""), "read"), "read_4");
    }
}
