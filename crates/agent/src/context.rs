//! What the model is shown of the conversation.

use tidegate_protocol::{Block, Entry, Message};

/// The log's messages and the new input. Lines without content, and those a newer release wrote, are left out.
pub(crate) fn build(history: &[Entry], input: &Message) -> Vec<Message> {
    let earlier =
        history.iter().filter_map(|entry| entry.body.message()).filter(|message| has_content(message));
    earlier.cloned().chain([input.clone()]).collect()
}

fn has_content(message: &Message) -> bool {
    message.content().iter().any(|block| match block {
        Block::Text { text, .. } => !text.trim().is_empty(),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{EntryBody, EntryId, Id as _, RunId, SessionId};

    use super::*;

    fn entry(seq: i64, body: EntryBody) -> Entry {
        Entry {
            session_id: SessionId::from_parts(0, [0; 10]),
            seq,
            id: EntryId::from_parts(0, [0; 10]),
            parent_id: None,
            run_id: RunId::from_parts(0, [0; 10]),
            created_at: 0,
            body,
        }
    }

    #[test]
    fn blank_and_unknown_lines_never_reach_the_model() {
        let history = [
            entry(1, EntryBody::Message(Message::user("one", 1))),
            entry(2, EntryBody::Message(Message::user("  \n", 2))),
            entry(3, EntryBody::Unknown(serde_json::json!({"future": true}))),
        ];
        let input = Message::user("two", 4);
        assert_eq!(build(&history, &input), vec![Message::user("one", 1), input]);
    }
}
