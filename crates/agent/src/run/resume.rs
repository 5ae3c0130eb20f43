//! Where a run begins: with its input, or where an earlier attempt was cut off.

use tidegate_protocol::{Entry, Message, Origin, StopReason, ToolCall, ToolResult, ToolRunState, Usage};
use tidegate_storage::{Context, ContextLimits, ToolRunRow};

use super::log::Unsaid;
use super::past::{by_hand, calls_made, calls_of, rounds_of, step_limit};
use super::room::Before;
use super::work::{failed, sent_here};
use super::{Parts, Run, Stop, Turn, brought};
use crate::context::{Line, history, system};
use crate::toolbox::Recalled;

/// Lines of a log that are read at most.
const MOST_LINES: u32 = 5_000;
/// Bytes a token takes in the log, generously: four letters, and what JSON puts around them.
const BYTES_A_TOKEN: u64 = 8;

impl<'a> Run<'a> {
    pub(super) async fn open(turn: &'a Turn, parts: Parts<'a>) -> Result<Self, Stop> {
        let limits = ContextLimits {
            entries: MOST_LINES,
            bytes: turn.window.tokens.saturating_mul(BYTES_A_TOKEN),
            // One more shows that there is something to leave out.
            turns: turn.spec.limits.history.saturating_add(1),
        };
        let mut context = parts.journal.context(&turn.lease, limits).await?;
        let own = take_own(&mut context, turn);
        let brought = if context.begun { &[] } else { brought::answers(&turn.spec, &turn.input) };
        let mut lines = history(&context, brought, turn.spec.limits.history);
        lines.extend(own.iter().filter_map(line));
        let tools = brought::tools(&turn.spec, parts.tools.specs());
        let mut system = system(&turn.scene, &tools);
        system.extend(brought::instructions(&turn.spec));
        let before = Before::new(&context, &system, &tools, &lines);
        let mut run = Self {
            turn,
            parts,
            system,
            tools,
            before,
            lines,
            unsaid: Unsaid::default(),
            head: 0,
            calls: Vec::new(),
            rounds: 0,
            limit: None,
            sent: Vec::new(),
            affordable: None,
            has_asked: context.begun,
        };
        // What was summed up is not among its lines any more, and must not be done once more.
        if context.begun {
            let lines = context.summed_up.iter().chain(&own);
            let own: Vec<&Message> = lines.filter_map(|entry| entry.body.message()).collect();
            run.rounds = rounds_of(own.iter().copied());
            run.calls = calls_made(&own);
            run.limit = step_limit(&own);
            run.sent = run.calls.iter().filter_map(|(_, result)| sent_here(result)).collect();
        } else {
            run.say_brought()?;
        }
        Ok(run)
    }

    /// The answer of an earlier attempt that only lacks its end.
    pub(super) fn answered_before(&self) -> Option<(String, Origin, StopReason)> {
        if !self.unsaid.entries.is_empty() {
            return None;
        }
        match &self.lines.last()?.message {
            message @ Message::Assistant { origin, stop_reason, .. } if calls_of(message).is_empty() => {
                Some((message.text(), origin.clone(), *stop_reason))
            }
            _ => None,
        }
    }

    /// Does what an earlier attempt left of its last round. A tool that may have changed something is not run again: the
    /// model is told that nobody knows what came of it.
    pub(super) async fn finish_round(&mut self) -> Result<(), Stop> {
        let open = self.open_calls();
        if open.is_empty() {
            return Ok(());
        }
        let begun = self.parts.journal.steps(&self.turn.lease).await?;
        let mut left = Vec::new();
        for call in open {
            let tried = begun.iter().rev().find(|tool| tool.call_id == call.id);
            let result = match tried {
                Some(tried) if !self.parts.tools.only_looks(&call.name) => self.came_of(&call, tried).await?,
                _ => None,
            };
            match result {
                Some(result) => {
                    self.tell_started(&call);
                    self.tell_ended(&call, &result, false);
                    self.take_result(&call, &result)?;
                }
                None => left.push(call),
            }
        }
        if left.is_empty() { self.commit(Vec::new()).await } else { self.work(left).await }
    }

    /// What the model is told about a call that was begun and has no result; nothing when it is to be made now.
    async fn came_of(&self, call: &ToolCall, tried: &ToolRunRow) -> Result<Option<ToolResult>, Stop> {
        use ToolRunState::{Intended, Interrupted, Unknown};
        if !matches!(tried.state, Intended | Interrupted | Unknown(_)) {
            return Ok(None);
        }
        Ok(match self.parts.tools.recall(call, tried.created_at).await? {
            Recalled::Unknown => Some(interrupted(call)),
            Recalled::Nothing => None,
            Recalled::Done(result) => Some(result),
        })
    }

    /// Calls of the last answer that have no result.
    fn open_calls(&self) -> Vec<ToolCall> {
        let is_answer = |line: &Line| matches!(line.message, Message::Assistant { .. });
        let Some(at) = self.lines.iter().rposition(is_answer) else { return Vec::new() };
        let (answer, after) = self.lines.split_at(at + 1);
        let mut calls = answer.last().map(|line| calls_of(&line.message)).unwrap_or_default();
        let has_result = |call: &ToolCall| {
            after.iter().any(|line| {
                matches!(&line.message, Message::ToolResult { tool_call_id, .. } if *tool_call_id == call.id)
            })
        };
        calls.retain(|call| !has_result(call));
        // Whatever stands after it was said by people: only this run's own round can be open.
        if self.unsaid.entries.is_empty() { calls } else { Vec::new() }
    }

    /// Runs the calls that a person wrote, before the model is asked about their results.
    pub(super) async fn do_manual(&mut self) -> Result<(), Stop> {
        let Some(manual) = self.turn.manual.as_ref().filter(|_| !self.unsaid.entries.is_empty()) else {
            return Ok(());
        };
        self.say(Message::Assistant {
            content: manual.calls.iter().map(block).collect(),
            origin: by_hand(),
            usage: Usage::default(),
            stop_reason: StopReason::ToolUse,
            error_message: None,
            timestamp: self.parts.clock.now_ms(),
        })?;
        if let Some(error) = &manual.malformed {
            for call in &manual.calls {
                let mut result = failed(&call.name, error.message.clone());
                result.error = Some(error.clone());
                self.tell_started(call);
                self.tell_ended(call, &result, false);
                self.take_result(call, &result)?;
            }
            return Ok(());
        }
        self.work(manual.calls.clone()).await?;
        self.steered().await
    }
}

/// Takes the run's own lines out of what it found.
fn take_own(context: &mut Context, turn: &Turn) -> Vec<Entry> {
    let first = context.entries.iter().position(|entry| entry.run_id == turn.lease.run);
    first.map_or_else(Vec::new, |at| context.entries.split_off(at))
}

fn line(entry: &Entry) -> Option<Line> {
    Some(Line { seq: Some(entry.seq), message: entry.body.message()?.clone() })
}

fn interrupted(call: &ToolCall) -> ToolResult {
    let message = "interrupted: the program was restarted while this ran. It may or may not have taken effect; look \
                   before you do it again.";
    let mut result = failed(&call.name, message);
    result.data = Some(serde_json::json!({ "interrupted": true }));
    result
}

fn block(call: &ToolCall) -> tidegate_protocol::Block {
    tidegate_protocol::Block::ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.args.clone(),
        thought_signature: None,
    }
}
