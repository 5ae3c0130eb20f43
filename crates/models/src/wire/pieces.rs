//! Small pieces several formats are made of.

use std::borrow::Cow;
use std::ops::Deref;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_protocol::{Block, Message};

/// What is said first where a vendor wants a person's words first and the history begins with an answer.
pub(crate) const OPENING: &str = "(the conversation continues)";

/// What stands for a tool's result that has no words, where a vendor wants some.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// Text of a frame, not copied where it has no escapes: `Option<Cow<str>>` alone would always be.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A call's arguments for vendors that take objects only: what a model wrote that is no object is kept under a name.
pub(crate) fn object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        Value::Null => Value::Object(Map::new()),
        other => json!({ "input": other }),
    }
}

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

    #[test]
    fn text_without_escapes_is_not_copied() {
        let read = |json: &'static str| serde_json::from_str::<Option<Text<'static>>>(json).unwrap().unwrap();
        assert!(matches!(read(r#""plain""#).0, Cow::Borrowed("plain")));
        assert_eq!(&*read(r#""a\nb""#), "a\nb");
    }

    #[test]
    fn arguments_are_always_an_object() {
        assert_eq!(object(&json!({"a": 1})), json!({"a": 1}));
        assert_eq!(object(&Value::Null), json!({}));
        assert_eq!(object(&json!("{\"a\": ")), json!({"input": "{\"a\": "}));
    }
}
