//! Counting tokens without a tokenizer.

use tidegate_protocol::{Block, Message};

/// Characters that an image counts as.
pub(super) const IMAGE: u64 = 4_800;
/// Characters a token has, roughly.
const CHARS_A_TOKEN: u64 = 4;

/// Tokens of a message, roughly: four characters each.
pub fn estimate(message: &Message) -> u64 {
    tokens(characters(message, IMAGE))
}

pub(super) fn tokens(characters: u64) -> u64 {
    characters.div_ceil(CHARS_A_TOKEN)
}

/// Characters that so many tokens have.
pub(super) fn room(tokens: u64) -> u64 {
    tokens.saturating_mul(CHARS_A_TOKEN)
}

/// Characters of what a model reads of a message; each image counts as `image`.
pub(super) fn characters(message: &Message, image: u64) -> u64 {
    let blocks = message.content().iter().map(|block| match block {
        Block::Text { text, .. } => count(text),
        Block::Thinking { thinking, .. } => count(thinking),
        Block::Image { .. } => image,
        Block::ToolCall { name, arguments, .. } => count(name) + count(&arguments.to_string()),
    });
    blocks.sum()
}

pub(super) fn count(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::context::tests::{called, result_with, said};

    #[test]
    fn four_characters_are_a_token_and_an_image_is_twelve_hundred() {
        let image = || Block::Image { data: "AAAA".into(), mime_type: "image/png".into() };
        let thought =
            || Block::Thinking { thinking: "hm hm".into(), thinking_signature: None, redacted: false };
        let call = Block::ToolCall {
            id: "c1".into(),
            name: "read".into(),
            arguments: json!({"path": "a"}),
            thought_signature: None,
        };
        let cases = [
            (Message::user("", 0), 0),
            (Message::user("abcde", 0), 2),
            (Message::user("潮汐", 0), 1),
            (said(vec![thought(), Block::text("abc")]), 2),
            (said(vec![call]), 4),
            (result_with("c1", vec![Block::text("ok"), image()]), 1_201),
        ];
        for (message, tokens) in cases {
            assert_eq!(estimate(&message), tokens, "{message:?}");
        }
        assert_eq!(estimate(&called(&["a", "b"])), 2, "six characters: the ids are not counted");
    }
}
