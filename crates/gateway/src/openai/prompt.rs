//! From what was said to one text: the newest question, with what came before it as context. Pure.
//!
//! For conversations that are kept here: what a program remembers of them is context, not their log.

use super::said::{Said, texts_of};

const BEFORE: &str = "[Chat messages since your last reply - for context]";
const NOW: &str = "[Current message - respond to this]";

/// What a list of messages asks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Prompt {
    /// Empty when nothing is asked.
    pub(super) message: String,
    /// What the caller wants the agent to keep in mind.
    pub(super) instructions: Option<String>,
}

struct Line {
    sender: String,
    body: String,
    /// Wants an answer: it came from the user or a tool.
    asks: bool,
}

impl Prompt {
    pub(super) fn read(said: &[Said]) -> Self {
        let lines: Vec<_> = said.iter().filter_map(line).collect();
        Self { message: message(&lines), instructions: instructions(said) }
    }
}

/// All instructions as one text.
pub(super) fn instructions(said: &[Said]) -> Option<String> {
    let texts = said.iter().filter_map(|said| match said {
        Said::Instructions(text) => Some(text.trim()).filter(|text| !text.is_empty()),
        _ => None,
    });
    let all = texts.collect::<Vec<_>>().join("\n\n");
    (!all.is_empty()).then_some(all)
}

fn line(said: &Said) -> Option<Line> {
    let (sender, body, asks) = match said {
        Said::Instructions(_) => return None,
        Said::User { parts } => ("User".to_owned(), texts_of(parts), true),
        Said::Assistant { text, .. } => ("Assistant".to_owned(), text.clone(), false),
        Said::Result { label, text, .. } => {
            let sender = label.as_ref().map_or_else(|| "Tool".to_owned(), |label| format!("Tool:{label}"));
            (sender, text.clone(), true)
        }
    };
    let body = body.trim();
    (!body.is_empty()).then(|| Line { sender, body: body.to_owned(), asks })
}

fn message(lines: &[Line]) -> String {
    let newest = lines.iter().rposition(|line| line.asks).or(lines.len().checked_sub(1));
    let Some((current, before)) = newest.map(|at| (&lines[at], &lines[..at])) else { return String::new() };
    if before.is_empty() {
        return current.body.clone();
    }
    let show = |line: &Line| format!("{}: {}", line.sender, line.body);
    let before: Vec<_> = before.iter().map(show).collect();
    format!("{BEFORE}\n{}\n\n{NOW}\n{}", before.join("\n"), show(current))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::said::of_messages;
    use super::*;

    #[test]
    fn a_list_of_messages_becomes_one_question_with_its_context() {
        let user = |text: &str| json!({"role": "user", "content": text});
        let assistant = |text: &str| json!({"role": "assistant", "content": text});
        for (messages, expected) in [
            (json!([]), ""),
            (json!([user("hi")]), "hi"),
            (json!([user(" ")]), ""),
            (json!([null, 5, user("z")]), "z"),
            (json!([assistant("only")]), "only"),
            (
                json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "input_text", "text": "b"}]}]),
                "a\nb",
            ),
            (
                json!([user("1"), assistant("2"), user("3")]),
                "[Chat messages since your last reply - for context]\nUser: 1\nAssistant: 2\n\n[Current message - respond to this]\nUser: 3",
            ),
            (
                json!([user("q"), {"role": "function", "content": "res", "name": "f"}, assistant("ok")]),
                "[Chat messages since your last reply - for context]\nUser: q\n\n[Current message - respond to this]\nTool:f: res",
            ),
        ] {
            let prompt = Prompt::read(&of_messages(messages.as_array().unwrap()));
            assert_eq!(prompt.message, expected, "{messages}");
            assert_eq!(prompt.instructions, None);
        }
    }

    #[test]
    fn instructions_are_apart_from_the_question() {
        let messages = json!([
            {"role": "system", "content": "be brief"},
            {"role": "developer", "content": [{"type": "text", "text": "in verse"}]},
            {"role": "user", "content": "hi"},
        ]);
        let prompt = Prompt::read(&of_messages(messages.as_array().unwrap()));
        assert_eq!(
            (prompt.message.as_str(), prompt.instructions.as_deref()),
            ("hi", Some("be brief\n\nin verse"))
        );
    }
}
