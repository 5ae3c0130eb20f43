//! The calls of tools in a run's story: what was called, who decided and why, and what came of it.

use serde_json::{Value, json};
use tidegate_policy::approval::{Approval, ApprovalState};
use tidegate_protocol::{Message, ToolRunState};
use tidegate_storage::AuditRow;

use super::steps::{SHORT, Step, Teller};
use super::story::Story;
use crate::commands::gist::shortened;

/// Every call of a run in a word: also those that were refused, or only shown.
pub(super) fn outcomes(story: &Story, steps: &[Step]) -> Vec<Outcome> {
    let calls = steps.iter().filter(|step| step.kind == "call");
    let outcome = |call: &Step| {
        let (id, tool) = (call.text("callId")?.to_owned(), call.text("tool")?.to_owned());
        let of_call: Vec<&Step> = steps.iter().filter(|step| step.text("callId") == Some(&id)).collect();
        let said = |verdict: &str| of_call.iter().any(|step| step.text("verdict") == Some(verdict));
        let is = |name: &str| of_call.iter().any(|step| step.flag(name) == Some(true));
        let begun = story.tools.iter().rev().find(|begun| begun.call_id == id);
        let became = match begun {
            Some(begun) => begun.state.as_str(),
            None if is("wouldAsk") => "would ask",
            None if is("shadow") => "would run",
            None if said("denied") => "refused",
            None if of_call.iter().any(|step| step.kind == "result") => "not run",
            None => "no result",
        };
        Some(Outcome { id, tool, became: became.to_owned() })
    };
    calls.filter_map(outcome).collect()
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) became: String,
}

/// A call of the log, with all that became of it.
pub(super) fn tell(teller: &mut Teller<'_>, at: i64, id: &str, tool: &str, args: &Value) {
    let data = json!({ "callId": id, "tool": tool, "args": args });
    teller.steps.push(Step::new(Some(at), "call", &format!("{tool} {args}"), data));
    let messages = teller.story.entries.iter().filter_map(|entry| entry.body.message());
    let result = messages
        .into_iter()
        .find(|message| matches!(message, Message::ToolResult { tool_call_id, .. } if tool_call_id == id));
    decided(teller, id, at, result);
    teller.told.insert(id.to_owned());
    match result {
        Some(message) => {
            teller.catch_up(message.timestamp());
            tell_result(teller, message);
        }
        None => no_result(teller, id, tool, at),
    }
}

/// Who decided about a call, and why; who was asked, and what they said. `since` is when it was called.
fn decided(teller: &mut Teller<'_>, id: &str, since: i64, result: Option<&Message>) {
    let story = teller.story;
    let asked: Vec<&Approval> = story.approvals.iter().filter(|asked| asked.call_id == id).collect();
    let begun = story.tools.iter().find(|begun| begun.call_id == id).map(|begun| begun.created_at);
    let mut verdicts = Vec::new();
    for asked in asked {
        teller.steps.push(question(asked, since));
        if let Some((verdict, step)) = answer(asked, since) {
            verdicts.push(verdict);
            teller.steps.push(step);
        }
    }
    // What a person said is told as theirs, not as the rule's because of which they were asked.
    for row in story.audit.iter().filter(|row| row.metadata["callId"] == id) {
        let Some(verdict) = verdict(row).filter(|verdict| !verdicts.contains(verdict)) else { continue };
        // The row is written when the call is over; it was decided before it began.
        let at = begun.map_or(row.created_at, |begun| begun.min(row.created_at)).max(since);
        teller.steps.push(decision(row, verdict, at, result.is_some_and(would_ask)));
    }
}

fn verdict(row: &AuditRow) -> Option<&'static str> {
    match row.action.as_str() {
        "tool.run" | "tool.failed" => Some("allowed"),
        "tool.denied" => Some("denied"),
        "tool.shadowed" => Some("shadowed"),
        _ => None,
    }
}

fn decision(row: &AuditRow, verdict: &'static str, at: i64, would_ask: bool) -> Step {
    let text = |name: &str| row.metadata[name].as_str().unwrap_or_default().to_owned();
    let (stage, rule, reason) = (text("stage"), text("rule"), text("reason"));
    let tool = &row.resource_id;
    let detail = match verdict {
        "shadowed" if would_ask => format!("{tool} would ask a person ({rule}, {stage}): {reason}"),
        "shadowed" => format!("{tool} would have been allowed by {rule} ({stage}): {reason}"),
        other => format!("{tool} {other} by {rule} ({stage}): {reason}"),
    };
    let data = json!({
        "callId": row.metadata["callId"], "tool": tool, "verdict": verdict, "stage": stage,
        "rule": rule, "reason": reason, "by": row.actor, "wouldAsk": would_ask,
    });
    Step::new(Some(at), "decision", &detail, data)
}

fn question(asked: &Approval, since: i64) -> Step {
    let answered = asked.answered.as_ref();
    let ended = match (answered, &asked.state) {
        (Some(_), _) => String::new(),
        (None, state) => format!(" ({})", state.as_str()),
    };
    let detail = format!("{} asked a person: {}{ended}", asked.tool, asked.question.reason);
    let data = json!({
        "callId": asked.call_id, "approval": asked.id, "tool": asked.tool, "state": asked.state.as_str(),
        "reason": asked.question.reason,
        "answeredBy": answered.map(|answered| &answered.by),
        "answeredAt": answered.map(|answered| tidegate_runtime::iso_timestamp(answered.at)),
        "answer": answered.and_then(|answered| answered.reason.as_ref()),
    });
    Step::new(Some(asked.created_at.max(since)), "approval", &detail, data)
}

/// What a person decided.
fn answer(asked: &Approval, since: i64) -> Option<(&'static str, Step)> {
    let answered = asked.answered.as_ref()?;
    let verdict = match asked.state {
        ApprovalState::Approved | ApprovalState::Used => "allowed",
        ApprovalState::Denied => "denied",
        _ => return None,
    };
    let lasting = if answered.rule.is_some() { ", now and from now on" } else { "" };
    let said = answered.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let detail = format!("{} {verdict} by {}{lasting}{said}", asked.tool, answered.by);
    let data = json!({
        "callId": asked.call_id, "approval": asked.id, "tool": asked.tool, "verdict": verdict,
        "stage": "approval", "rule": answered.rule, "reason": answered.reason, "by": answered.by,
    });
    Some((verdict, Step::new(Some(answered.at.max(since)), "decision", &detail, data)))
}

/// Whether a call that was only shown would have had to be approved.
fn would_ask(result: &Message) -> bool {
    let Message::ToolResult { details: Some(details), .. } = result else { return false };
    details["shadow"] == true && details["verdict"] != "allowed"
}

/// What came of a call, as the log has it.
pub(super) fn tell_result(teller: &mut Teller<'_>, message: &Message) {
    let Message::ToolResult { tool_call_id, tool_name, is_error, details, timestamp, .. } = message else {
        return;
    };
    let text = message.text();
    let flag = |name: &str| details.as_ref().is_some_and(|details| details[name] == true);
    let (shadow, interrupted) = (flag("shadow"), flag("interrupted"));
    let outcome = match (shadow, interrupted, is_error) {
        (true, ..) if would_ask(message) => "was not run, a person would have been asked",
        (true, ..) => "would have run",
        (_, true, _) => "interrupted",
        (.., true) => "failed",
        (.., false) => "ok",
    };
    let detail = format!("{tool_name} {outcome}: {}", shortened(&text, SHORT));
    let data = json!({
        "callId": tool_call_id, "tool": tool_name, "ok": !is_error, "text": shortened(&text, SHORT),
        "shadow": shadow, "interrupted": interrupted,
    });
    teller.steps.push(Step::new(Some(*timestamp), "result", &detail, data));
}

/// A call whose result is not in the log: it may be under way, or nobody knows what came of it.
fn no_result(teller: &mut Teller<'_>, id: &str, tool: &str, since: i64) {
    let story = teller.story;
    let Some(begun) = story.tools.iter().rev().find(|begun| begun.call_id == id) else { return };
    let (kind, detail) = match begun.state {
        ToolRunState::Intended if !story.run.state.is_terminal() => ("begun", format!("{tool} was begun")),
        ToolRunState::Intended | ToolRunState::Interrupted => {
            ("begun", format!("{tool} was begun, and what came of it is not known"))
        }
        ref other => ("result", format!("{tool} {}", other.as_str())),
    };
    let data = json!({
        "callId": id, "tool": tool, "ok": Value::Null, "state": begun.state.as_str(),
        "interrupted": begun.state == ToolRunState::Interrupted,
    });
    // A call that was approved begins after that.
    let after = teller.steps.last().and_then(|step| step.at).unwrap_or(since);
    teller.steps.push(Step::new(Some(begun.created_at.max(after)), kind, &detail, data));
}

/// Calls of a step that never came into the log.
pub(super) fn tell_unlogged(teller: &mut Teller<'_>) {
    for call in unlogged(teller) {
        if teller.told.insert(call.id.to_owned()) {
            let known = call.args.map(|args| format!(" {args}")).unwrap_or_default();
            let data = json!({ "callId": call.id, "tool": call.tool, "args": call.args });
            let detail = format!("{}{known}", call.tool);
            teller.steps.push(Step::new(Some(call.at), "call", &detail, data));
            decided(teller, call.id, call.at, None);
            no_result(teller, call.id, call.tool, call.at);
        }
    }
}

/// A call as something other than the log knows it.
struct Trace<'s> {
    id: &'s str,
    tool: &'s str,
    args: Option<&'s Value>,
    at: i64,
}

/// Every trace of a call, the earliest first.
fn unlogged<'s>(teller: &Teller<'s>) -> Vec<Trace<'s>> {
    let story = teller.story;
    let asked = story.approvals.iter().map(|asked| Trace {
        id: &asked.call_id,
        tool: &asked.tool,
        args: Some(&asked.question.args),
        at: asked.created_at,
    });
    let begun = story.tools.iter().map(|begun| Trace {
        id: &begun.call_id,
        tool: &begun.tool_name,
        args: Some(&begun.args),
        at: begun.created_at,
    });
    let decided = story.audit.iter().filter(|row| row.action.starts_with("tool.")).filter_map(|row| {
        let id = row.metadata["callId"].as_str()?;
        Some(Trace { id, tool: &row.resource_id, args: None, at: row.created_at })
    });
    let mut traces: Vec<Trace<'s>> = asked.chain(begun).chain(decided).collect();
    traces.sort_by_key(|trace| trace.at);
    traces
}
