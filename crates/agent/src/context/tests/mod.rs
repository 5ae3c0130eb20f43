//! Conversations for the tests, and what holds for all of them.

mod conversation;
mod history;
mod prune;
mod size;
mod stable;
mod system;

use serde_json::json;
use tidegate_protocol::{Block, Message, Origin, StopReason, Usage};

pub(super) fn user(text: &str) -> Message {
    Message::user(text, 0)
}

pub(super) fn said(content: Vec<Block>) -> Message {
    let origin = Origin {
        api: "a".into(),
        provider: "p".into(),
        model: "m".into(),
        profile_id: None,
        route: "p".into(),
        stage: "s".into(),
    };
    Message::Assistant {
        content,
        origin,
        usage: Usage::default(),
        stop_reason: StopReason::Stop,
        error_message: None,
        timestamp: 0,
    }
}

pub(super) fn answer(text: &str) -> Message {
    said(vec![Block::text(text)])
}

pub(super) fn called(ids: &[&str]) -> Message {
    let call = |id: &&str| Block::ToolCall {
        id: (*id).to_owned(),
        name: "t".into(),
        arguments: json!({}),
        thought_signature: None,
    };
    said(ids.iter().map(call).collect())
}

pub(super) fn result(id: &str, text: &str) -> Message {
    result_with(id, vec![Block::text(text)])
}

pub(super) fn result_with(id: &str, content: Vec<Block>) -> Message {
    Message::ToolResult {
        tool_call_id: id.into(),
        tool_name: "t".into(),
        content,
        is_error: false,
        details: None,
        timestamp: 0,
    }
}

pub(super) fn at(mut message: Message, time: i64) -> Message {
    match &mut message {
        Message::User { timestamp, .. }
        | Message::Assistant { timestamp, .. }
        | Message::ToolResult { timestamp, .. } => *timestamp = time,
    }
    message
}
