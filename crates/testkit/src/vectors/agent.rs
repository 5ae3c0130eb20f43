//! Groups about what a model is shown: pairs of calls and results, pruning, where a history is cut.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_agent::compact::cut_point;
use tidegate_agent::context::{Line, Pruning, PruningMode, paired, prune};
use tidegate_protocol::{Block, Message, Origin, StopReason, Usage};

use super::{Answer, Compared, compared, read};

pub(super) fn answer_of(group: &str) -> Option<Answer> {
    Some(match group {
        "repair" => repair,
        "prune" => pruned,
        "cut_point" => cut,
        _ => return None,
    })
}

fn said(content: Vec<Block>) -> Message {
    let origin = Origin {
        api: "a".to_owned(),
        provider: "p".to_owned(),
        model: "m".to_owned(),
        profile_id: None,
        route: "p".to_owned(),
        stage: "s".to_owned(),
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

fn result(id: &str, text: impl Into<String>) -> Message {
    Message::ToolResult {
        tool_call_id: id.to_owned(),
        tool_name: "t".to_owned(),
        content: vec![Block::text(text)],
        is_error: false,
        details: None,
        timestamp: 0,
    }
}

fn lines(messages: Vec<Message>) -> Vec<Line> {
    messages.into_iter().zip(1..).map(|(message, seq)| Line { seq: Some(seq), message }).collect()
}

/// What is asked of a conversation in which the nth answer made the calls whose results stand behind it in the end.
fn repair(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        r#in: Vec<String>,
        out: Vec<String>,
        dup: usize,
        orphan: usize,
    }
    let Case { r#in: before, out, dup, orphan } = read(case)?;
    let mut calls = calls_of(&out).into_iter();
    let mut messages = Vec::new();
    for name in &before {
        messages.push(match (name.as_str(), name.strip_prefix("toolResult")) {
            ("user", _) => Message::user("u", 0),
            ("assistant", _) => said(calls.next().unwrap_or_default().into_iter().map(call).collect()),
            (_, Some(id)) => result(id.trim_start_matches(':'), "r"),
            _ => return Err(format!("{name:?} is no message")),
        });
    }
    let given = counted(&messages);
    let mended: Vec<Message> = paired(lines(messages)).into_iter().map(|line| line.message).collect();
    let left = counted(&mended);
    let (mut dups, mut orphans) = (0, 0);
    for (id, count) in given {
        match left.get(&id) {
            Some(left) => dups += count.saturating_sub(*left),
            None => orphans += count,
        }
    }
    let names: Vec<String> = mended.iter().map(name).collect();
    compared(
        json!({ "out": out, "dup": dup, "orphan": orphan }),
        json!({ "out": names, "dup": dups, "orphan": orphans }),
    )
}

/// The ids of the results behind each answer.
fn calls_of(names: &[String]) -> Vec<Vec<String>> {
    let mut calls: Vec<Vec<String>> = Vec::new();
    for name in names {
        if name == "assistant" {
            calls.push(Vec::new());
        } else if let (Some(id), Some(last)) = (name.strip_prefix("toolResult:"), calls.last_mut()) {
            last.push(id.trim_end_matches('!').to_owned());
        }
    }
    calls
}

fn call(id: String) -> Block {
    Block::ToolCall { id, name: "t".to_owned(), arguments: json!({}), thought_signature: None }
}

fn counted(messages: &[Message]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for message in messages {
        if let Message::ToolResult { tool_call_id, .. } = message {
            *counts.entry(tool_call_id.clone()).or_default() += 1;
        }
    }
    counts
}

fn name(message: &Message) -> String {
    match message {
        Message::User { .. } => "user".to_owned(),
        Message::Assistant { .. } => "assistant".to_owned(),
        Message::ToolResult { tool_call_id, is_error, .. } => {
            format!("toolResult:{tool_call_id}{}", if *is_error { "!" } else { "" })
        }
    }
}

/// A number is a result of so many characters.
fn pruned(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        r#in: Vec<Value>,
        ctx: u64,
        out: Vec<Value>,
    }
    let Case { r#in: before, ctx, out } = read(case)?;
    let message = |value: &Value| match (value.as_str(), value.as_u64()) {
        (Some("user"), _) => Ok(Message::user("u", 0)),
        (Some("assistant"), _) => Ok(said(vec![Block::text("a")])),
        (_, Some(size)) => {
            usize::try_from(size).map(|size| result("a", "x".repeat(size))).map_err(|error| error.to_string())
        }
        _ => Err(format!("{value} is no message")),
    };
    let messages = before.iter().map(message).collect::<Result<Vec<_>, _>>()?;
    let ttl = std::time::Duration::from_mins(5);
    let pruning = Pruning { mode: PruningMode::Size, ttl, keep_assistants: 3, untrusted: false };
    let told = |message: &Message| match message {
        Message::ToolResult { .. } => Value::from(message.text().chars().count()),
        message => name(message).into(),
    };
    let ours: Vec<Value> = prune(&messages, &pruning, ctx).iter().map(|message| told(message)).collect();
    compared(out, ours)
}

fn cut(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Case {
        entries: Vec<(String, usize)>,
        keep_recent_tokens: u64,
        first_kept_entry_index: i64,
        turn_start_index: i64,
        is_split_turn: bool,
    }
    let case: Case = read(case)?;
    let message = |(role, size): &(String, usize)| match role.as_str() {
        "user" => Ok(Message::user("x".repeat(*size), 0)),
        "assistant" => Ok(said(vec![Block::text("x".repeat(*size))])),
        "toolResult" => Ok(result("c", "x".repeat(*size))),
        other => Err(format!("{other:?} is no role")),
    };
    let messages = case.entries.iter().map(message).collect::<Result<Vec<_>, _>>()?;
    let cut = cut_point(&lines(messages), case.keep_recent_tokens);
    let turn_start = cut.turn_start.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1);
    compared(
        json!([case.first_kept_entry_index, case.turn_start_index, case.is_split_turn]),
        json!([cut.first_kept, turn_start, cut.turn_start.is_some()]),
    )
}
