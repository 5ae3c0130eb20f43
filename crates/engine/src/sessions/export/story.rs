//! A conversation as it is told: turns, each begun by a person's words.

use serde_json::Value;
use tidegate_protocol::{Block, Entry, EntryBody, Message};
use tidegate_runtime::redact;
use tidegate_storage::SessionRow;

use super::blotted;

pub(super) struct Story {
    pub(super) title: String,
    /// The name of the log.
    pub(super) name: String,
    pub(super) created_at: i64,
    pub(super) turns: Vec<Turn>,
}

/// What a person said and all that followed from it. What came before the first person is a turn too.
pub(super) struct Turn {
    pub(super) at: i64,
    pub(super) pieces: Vec<Piece>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    User(String),
    Assistant {
        model: String,
        text: String,
    },
    Image {
        mime_type: String,
    },
    Call {
        name: String,
        arguments: String,
        result: Option<Outcome>,
    },
    /// A result without its call.
    Result {
        name: String,
        outcome: Outcome,
    },
    Summary(String),
    /// Written by a newer release.
    Unknown,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub(super) text: String,
    pub(super) failed: bool,
}

impl Story {
    pub(super) fn of(row: &SessionRow, entries: &[Entry]) -> Self {
        let mut story = Self {
            title: clean(row.title.as_deref().unwrap_or(&row.key.label())),
            name: row.alias.clone().unwrap_or_else(|| row.id.to_string()),
            created_at: row.created_at,
            turns: Vec::new(),
        };
        let mut told = Vec::new();
        for entry in entries {
            match &entry.body {
                EntryBody::Message(message) => story.add(entry, message, &mut told),
                EntryBody::Compaction(compaction) => {
                    story.push(entry.created_at, Piece::Summary(clean(&compaction.summary)));
                }
                EntryBody::Unknown(_) => story.push(entry.created_at, Piece::Unknown),
            }
        }
        story
    }

    fn push(&mut self, at: i64, piece: Piece) {
        match self.turns.last_mut() {
            Some(turn) => turn.pieces.push(piece),
            None => self.turns.push(Turn { at, pieces: vec![piece] }),
        }
    }

    /// `told` names the calls that are in the story, by id, with their place.
    fn add(&mut self, entry: &Entry, message: &Message, told: &mut Vec<(String, (usize, usize))>) {
        match message {
            Message::User { content, .. } => {
                self.turns.push(Turn { at: entry.created_at, pieces: Vec::new() });
                for block in content {
                    self.add_block(entry.created_at, block, None, told);
                }
            }
            Message::Assistant { content, origin, .. } => {
                let model = format!("{}/{}", origin.provider, origin.model);
                for block in content {
                    self.add_block(entry.created_at, block, Some(&model), told);
                }
            }
            Message::ToolResult { tool_call_id, tool_name, is_error, .. } => {
                let outcome = Outcome { text: clean(&message.text()), failed: *is_error };
                let at = told.iter().rev().find(|(id, _)| id == tool_call_id).map(|(_, at)| *at);
                let call = at.and_then(|(turn, piece)| self.turns.get_mut(turn)?.pieces.get_mut(piece));
                match call {
                    Some(Piece::Call { result, .. }) if result.is_none() => *result = Some(outcome),
                    _ => self.push(entry.created_at, Piece::Result { name: tool_name.clone(), outcome }),
                }
            }
        }
    }

    fn add_block(
        &mut self,
        at: i64,
        block: &Block,
        model: Option<&str>,
        told: &mut Vec<(String, (usize, usize))>,
    ) {
        match (block, model) {
            (Block::Text { text, .. }, _) if text.trim().is_empty() => {}
            (Block::Text { text, .. }, None) => self.push(at, Piece::User(clean(text))),
            (Block::Text { text, .. }, Some(model)) => {
                self.push(at, Piece::Assistant { model: model.to_owned(), text: clean(text) });
            }
            (Block::Image { mime_type, .. }, _) => {
                self.push(at, Piece::Image { mime_type: mime_type.clone() });
            }
            (Block::ToolCall { id, name, arguments, .. }, _) => {
                let arguments = pretty(arguments);
                self.push(at, Piece::Call { name: name.clone(), arguments, result: None });
                if let Some(turn) = self.turns.last() {
                    told.push((id.clone(), (self.turns.len() - 1, turn.pieces.len() - 1)));
                }
            }
            // What a model thinks is for itself.
            (Block::Thinking { .. }, _) => {}
        }
    }
}

fn clean(text: &str) -> String {
    redact(text).into_owned()
}

fn pretty(arguments: &Value) -> String {
    format!("{:#}", blotted(arguments.clone()))
}
