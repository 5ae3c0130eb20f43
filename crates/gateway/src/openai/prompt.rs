//! From a list of chat messages to one input: the newest question, with what came before it as context. Pure.

use serde_json::Value;

const BEFORE: &str = "[Chat messages since your last reply - for context]";
const NOW: &str = "[Current message - respond to this]";
const INSTRUCTIONS: &str = "[Instructions from the caller]";

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
    pub(super) fn read(messages: &[Value]) -> Self {
        let mut instructions = Vec::new();
        let mut lines = Vec::new();
        for message in messages {
            let body = text(&message["content"]);
            let body = body.trim();
            if body.is_empty() {
                continue;
            }
            let (sender, asks) = match message["role"].as_str() {
                Some("system" | "developer") => {
                    instructions.push(body.to_owned());
                    continue;
                }
                Some("user") => ("User".to_owned(), true),
                Some("assistant") => ("Assistant".to_owned(), false),
                Some("tool" | "function") => {
                    let name = message["name"].as_str().map(str::trim).filter(|name| !name.is_empty());
                    (name.map_or_else(|| "Tool".to_owned(), |name| format!("Tool:{name}")), true)
                }
                _ => continue,
            };
            lines.push(Line { sender, body: body.to_owned(), asks });
        }
        let instructions = (!instructions.is_empty()).then(|| instructions.join("\n\n"));
        Self { message: message(&lines), instructions }
    }

    /// One text for the agent.
    pub(super) fn input(&self) -> String {
        match &self.instructions {
            Some(instructions) => format!("{INSTRUCTIONS}\n{instructions}\n\n{}", self.message),
            None => self.message.clone(),
        }
    }
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

/// The text of a content: a string, or the text parts of a list.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let is_text = |part: &&Value| matches!(part["type"].as_str(), Some("text" | "input_text"));
            let texts: Vec<_> =
                parts.iter().filter(is_text).filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            (
                json!([user("a\n\nb"), user("c")]),
                "[Chat messages since your last reply - for context]\nUser: a\n\nb\n\n[Current message - respond to this]\nUser: c",
            ),
        ] {
            let prompt = Prompt::read(messages.as_array().unwrap());
            assert_eq!(prompt.message, expected, "{messages}");
            assert_eq!(prompt.instructions, None);
        }
    }

    #[test]
    fn instructions_stand_before_the_question() {
        let messages = json!([
            {"role": "system", "content": "be brief"},
            {"role": "developer", "content": [{"type": "text", "text": "in verse"}]},
            {"role": "user", "content": "hi"},
        ]);
        let prompt = Prompt::read(messages.as_array().unwrap());
        assert_eq!(
            (prompt.message.as_str(), prompt.instructions.as_deref()),
            ("hi", Some("be brief\n\nin verse"))
        );
        assert_eq!(prompt.input(), "[Instructions from the caller]\nbe brief\n\nin verse\n\nhi");
    }
}
