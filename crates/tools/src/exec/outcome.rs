//! What a command that ended is told as: a result when it went well, a failure with its output when it did not.

use serde_json::{Value, json};
use tidegate_policy::Exit;
use tidegate_policy::exec::PlanError;

use super::collect::{Collector, OUTPUT_CAP, Written};
use super::started::{Ended, Started};
use crate::tool::{Output, ToolFailure};

/// The end in a few words, if it was not a good one.
pub(crate) fn trouble(end: &Ended) -> Option<String> {
    if end.timed_out {
        return Some(format!("it was killed after {} because its time was over", seconds(end)));
    }
    match &end.exit {
        Exit::Code(0) => None,
        exit => Some(exit.told("agents.defaults.sandbox.limits")),
    }
}

fn seconds(end: &Ended) -> String {
    format!("{}.{} s", end.took.as_secs(), end.took.subsec_millis() / 100)
}

/// One word for lists.
pub(crate) fn status(end: Option<&Ended>) -> &'static str {
    match end.map(|end| (end.timed_out, &end.exit)) {
        None => "running",
        Some((true, _)) => "timed-out",
        Some((false, Exit::Code(0))) => "completed",
        Some((false, Exit::Killed)) => "killed",
        Some((false, Exit::Limit { .. })) => "limited",
        Some((false, _)) => "failed",
    }
}

/// What a caller who waited for the end is told.
pub(crate) fn result_of(output: &Collector, end: &Ended) -> Result<Output, ToolFailure> {
    let written = output.written(OUTPUT_CAP);
    let truncated = written.truncated;
    let text = if written.both.is_empty() { "(no output)".to_owned() } else { written.both.clone() };
    let output = Output { truncated, ..Output::text(text).with_data(data(&written, end)) };
    let Some(message) = trouble(end) else { return Ok(output) };
    Err(ToolFailure { output: Some(Box::new(output)), ..ToolFailure::execution(message) })
}

fn data(written: &Written, end: &Ended) -> Value {
    let mut data = json!({
        "stdout": written.stdout,
        "stderr": written.stderr,
        "exitCode": exit_code(end),
        "truncated": written.truncated,
        "durationMs": milliseconds(end.took),
    });
    if let Exit::Signal(signal) = end.exit {
        data["signal"] = signal.into();
    }
    if let Exit::Limit { what, limit } = end.exit {
        data["limit"] = json!({ "what": what, "limit": limit });
    }
    if end.timed_out {
        data["timedOut"] = true.into();
    }
    if !written.turned_away.is_empty() {
        data["refusedHosts"] = json!(written.turned_away);
    }
    data
}

pub(crate) fn exit_code(end: &Ended) -> Value {
    match end.exit {
        Exit::Code(code) => code.into(),
        _ => Value::Null,
    }
}

/// What a caller is told who does not wait any longer.
pub(crate) fn running_on(started: &Started) -> Output {
    let written = started.output.written(OUTPUT_CAP);
    let so_far = started.output.poll();
    let mut text = format!(
        "Still running in the background as `{}` (pid {}). Use the process tool to poll, write to or kill it.",
        started.name,
        started.running.pid()
    );
    if !so_far.is_empty() {
        text = format!("{so_far}\n{text}");
    }
    let data = json!({
        "stdout": written.stdout,
        "stderr": written.stderr,
        "exitCode": Value::Null,
        "truncated": written.truncated,
        "durationMs": milliseconds(started.since.elapsed()),
        "status": "running",
        "sessionId": started.name,
        "pid": started.running.pid(),
    });
    Output { truncated: written.truncated, ..Output::text(text).with_data(data) }
}

pub(crate) fn milliseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Why a command has no plan: wrong words are the caller's, a missing program is not.
pub(crate) fn plan_failure(error: &PlanError) -> ToolFailure {
    match error {
        PlanError::Empty | PlanError::Nul | PlanError::TooLong { .. } => {
            ToolFailure::arguments(error.to_string())
        }
        PlanError::NotFound { .. } | PlanError::NoShell => ToolFailure::execution(error.to_string()),
    }
}
