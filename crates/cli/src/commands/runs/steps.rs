//! A run retold: its steps from acceptance to its end, in the order in which one led to the other. Pure.
//!
//! The log gives the order. Beside it are things that only have a time (model calls, children, replies): each is told
//! before the line of the log that it came before.

use std::collections::{HashSet, VecDeque};

use serde_json::{Map, Value, json};
use tidegate_protocol::{Block, Entry, EntryBody, Message, RunId, RunState};
use tidegate_runtime::{iso_timestamp, redact};
use tidegate_storage::{NewCall, OutboxRow, RunRow};

use super::calls;
use super::story::Story;
use crate::commands::gist::shortened;

/// Characters of what came of a tool, of a summary, of a message to a child.
pub(super) const SHORT: usize = 300;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) at: Option<i64>,
    /// What kind of thing, in one word.
    pub(super) kind: &'static str,
    /// The same for people.
    pub(super) detail: String,
    /// The particulars, for programs.
    data: Map<String, Value>,
}

impl Step {
    pub(super) fn new(at: Option<i64>, kind: &'static str, detail: &str, data: Value) -> Self {
        let data = match data {
            Value::Object(data) => data,
            _ => Map::new(),
        };
        Self { at, kind, detail: redact(detail).into_owned(), data }
    }

    /// One of the particulars, if it is a text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.data.get(name)?.as_str()
    }

    /// Whether one of the particulars is so.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.data.get(name)?.as_bool()
    }

    /// `n` counts from 1 in each run.
    pub(super) fn json(&self, n: usize) -> Value {
        let mut object = json!({
            "n": n, "at": self.at.map(iso_timestamp), "step": self.kind, "detail": self.detail,
        });
        for (name, value) in &self.data {
            object[name] = redacted(value);
        }
        object
    }
}

fn redacted(value: &Value) -> Value {
    match value {
        Value::String(text) => redact(text).into_owned().into(),
        Value::Array(items) => items.iter().map(redacted).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), redacted(value))).collect())
        }
        other => other.clone(),
    }
}

/// The run from acceptance to its end.
pub(super) fn steps(story: &Story) -> Vec<Step> {
    let mut teller = Teller::new(story);
    teller.begin();
    for entry in &story.entries {
        teller.entry(entry);
    }
    teller.rest();
    // What comes from several tables is told as it happened; what happened at once, as one thing led to the other.
    teller.steps.sort_by_key(|step| step.at.unwrap_or(i64::MAX));
    teller.steps
}

pub(super) struct Teller<'s> {
    pub(super) story: &'s Story,
    pub(super) steps: Vec<Step>,
    /// What only has a time, the oldest first.
    loose: VecDeque<Step>,
    /// Calls of tools that were told, with all that became of them.
    pub(super) told: HashSet<String>,
    /// Messages that joined and were not told yet.
    joined: Vec<&'s RunRow>,
}

impl<'s> Teller<'s> {
    fn new(story: &'s Story) -> Self {
        let models = story.calls.iter().map(model);
        let children = story.children.iter().map(child);
        let parts = story.parts.iter().map(reply);
        let mut loose: Vec<Step> = models.chain(children).chain(parts).collect();
        loose.sort_by_key(|step| step.at);
        let (steps, told) = (Vec::new(), HashSet::new());
        Self { story, steps, loose: loose.into(), told, joined: story.joined.iter().collect() }
    }

    fn begin(&mut self) {
        let run = &self.story.run;
        let mut detail = format!("by {} for session {}: {}", run.actor, run.key.label(), run.input.text());
        if run.spec.shadow {
            detail = format!("{detail} (shadow: whatever would change something is not done)");
        }
        let data = json!({
            "by": run.actor, "session": run.key.label(), "text": run.input.text(), "parent": run.parent,
            "shadow": run.spec.shadow,
        });
        self.steps.push(Step::new(Some(run.created_at), "accepted", &detail, data));
        if run.attempt > 0 {
            let models: Vec<String> = run.spec.models.iter().map(ToString::to_string).collect();
            let detail = format!("attempt {}, models {}", run.attempt, models.join(", "));
            let data = json!({ "attempt": run.attempt, "models": models });
            let at = run.started_at.unwrap_or(run.created_at);
            self.steps.push(Step::new(Some(at), "started", &detail, data));
        }
    }

    fn entry(&mut self, entry: &Entry) {
        match &entry.body {
            EntryBody::Message(message) => self.message(message),
            EntryBody::Compaction(compaction) => {
                self.catch_up(entry.created_at);
                let how = if compaction.mechanical { "without a model" } else { "by a model" };
                let detail = format!(
                    "{} tokens summed up {how}: {}",
                    compaction.tokens_before,
                    shortened(&compaction.summary, SHORT)
                );
                let data = json!({
                    "tokensBefore": compaction.tokens_before, "summary": compaction.summary,
                    "mechanical": compaction.mechanical,
                });
                self.steps.push(Step::new(Some(entry.created_at), "compaction", &detail, data));
            }
            EntryBody::Unknown(_) => {}
        }
    }

    fn message(&mut self, message: &Message) {
        let at = message.timestamp();
        match message {
            Message::User { .. } => self.user(message),
            Message::Assistant { content, .. } => {
                self.catch_up(at);
                let text = message.text();
                if !text.is_empty() {
                    let data = json!({ "text": text });
                    self.steps.push(Step::new(Some(at), "assistant", &text, data));
                }
                for block in content {
                    if let Block::ToolCall { id, name, arguments, .. } = block {
                        calls::tell(self, at, id, name, arguments);
                    }
                }
            }
            Message::ToolResult { tool_call_id, .. } if self.told.contains(tool_call_id) => {}
            Message::ToolResult { .. } => calls::tell_result(self, message),
        }
    }

    fn user(&mut self, message: &Message) {
        let (run, text) = (&self.story.run, message.text());
        // The model reads it once the run has begun.
        let at = message.timestamp().max(run.started_at.unwrap_or(i64::MIN));
        let joined = self.joined.iter().position(|run| run.input == *message);
        match joined.map(|at| self.joined.remove(at)) {
            Some(run) => self.steps.push(joins(run)),
            None => self.steps.push(Step::new(Some(at), "user", &text, json!({ "text": text }))),
        }
    }

    /// Tells what began before then.
    pub(super) fn catch_up(&mut self, until: i64) {
        while self.loose.front().is_some_and(|step| step.at.is_some_and(|at| at <= until)) {
            self.steps.extend(self.loose.pop_front());
        }
    }

    /// What the log does not have: calls of a step that was not committed, what came after the last line, and the end.
    fn rest(&mut self) {
        calls::tell_unlogged(self);
        for run in std::mem::take(&mut self.joined) {
            self.steps.push(joins(run));
        }
        self.catch_up(i64::MAX);
        let run = &self.story.run;
        if run.state.is_terminal() {
            self.steps.push(end(run, self.story.counting));
        }
    }
}

fn model(call: &NewCall) -> Step {
    let credential = call.profile_id.as_deref().map(|id| format!(" with {id}")).unwrap_or_default();
    let guess = if call.estimated { " (estimated)" } else { "" };
    let purpose = if call.purpose == "turn" { String::new() } else { format!("for {}: ", call.purpose) };
    let usage = &call.usage;
    let detail = format!(
        "{purpose}{}/{}{credential}: {}, {} tokens in, {} out{guess}, {}",
        call.provider,
        call.model,
        call.outcome,
        usage.input + usage.cache_read + usage.cache_write,
        usage.output,
        tidegate_models::format_usd(usage.cost.usd()),
    );
    let data = json!({
        "model": format!("{}/{}", call.provider, call.model), "profileId": call.profile_id,
        "purpose": call.purpose, "outcome": call.outcome, "usage": usage, "costUsd": usage.cost.usd(),
        "estimated": call.estimated,
    });
    Step::new(Some(call.started_at), "model", &detail, data)
}

fn child(run: &RunRow) -> Step {
    let text = shortened(&run.input.text(), SHORT);
    let detail = format!("started {} ({}): {text}", run.id, run.state.as_str());
    let data =
        json!({ "run": run.id, "session": run.key.label(), "state": run.state, "text": run.input.text() });
    Step::new(Some(run.created_at), "child", &detail, data)
}

fn reply(part: &OutboxRow) -> Step {
    let reason = part.reason.as_deref().map(|reason| format!(", {reason}")).unwrap_or_default();
    let detail = format!("part {} to {}: {}{reason}", part.part, part.lane, part.state.as_str());
    let data = json!({
        "part": part.part, "lane": part.lane, "state": part.state.as_str(), "body": part.body,
        "remoteId": part.remote_id, "reason": part.reason,
    });
    Step::new(Some(part.created_at), "reply", &detail, data)
}

fn joins(run: &RunRow) -> Step {
    let text = run.input.text();
    let detail = format!("{} wrote meanwhile ({}): {text}", run.actor, run.id);
    Step::new(
        Some(run.created_at),
        "joined",
        &detail,
        json!({ "run": run.id, "by": run.actor, "text": text }),
    )
}

fn end(run: &RunRow, counting: bool) -> Step {
    let usage = &run.usage;
    let input = usage.input + usage.cache_read + usage.cache_write;
    let cost = tidegate_models::format_usd(usage.cost.usd());
    let mut detail = if counting {
        "what it used is still being counted".to_owned()
    } else {
        format!("{input} tokens in, {} out, {cost}", usage.output)
    };
    if let Some(error) = &run.error {
        detail = format!("[{}] {}; {detail}", error.code, error.message);
    }
    if let (RunState::Joined, Some(other)) = (&run.state, run.joined) {
        detail = format!("run {other} took its message in");
    }
    let joined: Option<RunId> = run.joined;
    let data = json!({ "error": run.error, "usage": usage, "costUsd": usage.cost.usd(), "counting": counting, "joinedRun": joined });
    Step::new(run.finished_at, name(&run.state), &detail, data)
}

fn name(state: &RunState) -> &'static str {
    match state {
        RunState::Completed => "completed",
        RunState::Failed => "failed",
        RunState::Aborted => "aborted",
        RunState::Interrupted => "interrupted",
        RunState::Joined => "joined",
        RunState::Queued | RunState::Running | RunState::Unknown(_) => "end",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_blotted_out_wherever_they_stand() {
        let secret = format!("{}{}", "ghp_", "a1b2c3d4e5f6a7b8c9d0");
        let data = json!({ "args": { "list": [secret, 1], "plain": "kept" } });
        let told = Step::new(None, "call", &format!("exec {secret}"), data).json(3);
        assert!(!told.to_string().contains(&secret), "{told}");
        assert_eq!((&told["n"], &told["args"]["plain"]), (&json!(3), &json!("kept")));
    }
}
