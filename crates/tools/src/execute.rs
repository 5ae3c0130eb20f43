//! Running a permitted call: in its time, to a result of bounded size, whatever the tool does.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tidegate_policy::Permitted;
use tidegate_policy::tools::Decision;
use tidegate_protocol::{Block, ToolError, ToolErrorCode, ToolMeta, ToolResult};

use crate::tool::{Output, Tool, ToolFailure, Work};

/// Bytes of text a result may hold. Tools keep to less; this is for those that do not.
const TEXT: usize = 256 * 1024;
/// Bytes of structured data.
const DATA: usize = 1024 * 1024;

/// Runs it and makes a result of whatever happens.
pub async fn execute(tool: &dyn Tool, permitted: &Permitted, work: &Work<'_>) -> ToolResult {
    let begin = Instant::now();
    let name = &tool.spec().name;
    let running = AssertUnwindSafe(tool.run(permitted, work)).catch_unwind();
    let outcome = tokio::select! {
        biased;
        () = work.cancel.cancelled() => Err(ToolFailure::execution("aborted")),
        () = deadline(tool.spec().timeout) => Err(timed_out(tool.spec().timeout)),
        ended = running => ended.unwrap_or_else(|_| Err(ToolFailure::execution("the tool crashed"))),
    };
    finished(name, outcome, begin.elapsed())
}

/// Passes after this time; never without one.
pub(crate) async fn deadline(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

fn timed_out(timeout: Option<Duration>) -> ToolFailure {
    let seconds = timeout.unwrap_or_default().as_secs_f64();
    let mut failure = ToolFailure::execution(format!("timed out after {seconds} s"));
    failure.details = Some(json!({ "timedOut": true }));
    failure
}

/// The result of a call that did not get as far as running.
pub fn failed(tool: &str, failure: ToolFailure) -> ToolResult {
    finished(tool, Err(failure), Duration::ZERO)
}

/// The result of a call that policy or a person held back. `hidden`: the tool is not there for this agent at all.
pub fn refused(tool: &str, decision: &Decision, hidden: bool) -> ToolResult {
    let (code, message) = if hidden {
        (ToolErrorCode::ToolNotFound, format!("tool not allowed: {tool}"))
    } else {
        (ToolErrorCode::ExecutionError, format!("not permitted: {}", decision.reason))
    };
    let policy = json!({
        "verdict": decision.verdict,
        "stage": decision.stage,
        "rule": decision.rule,
        "reason": decision.reason,
    });
    let failure = ToolFailure { code, message, details: Some(json!({ "policy": policy })), output: None };
    failed(tool, failure)
}

fn finished(tool: &str, outcome: Result<Output, ToolFailure>, took: Duration) -> ToolResult {
    let (output, error) = match outcome {
        Ok(output) => (output, None),
        Err(failure) => {
            let ToolFailure { code, message, details, output } = failure;
            let mut output = output.map(|output| *output).unwrap_or_default();
            if output.content.is_empty() {
                output.content.push(Block::text(message.clone()));
            }
            (output, Some(ToolError { code, tool: tool.to_owned(), message, details }))
        }
    };
    let (content, cut) = bounded(output.content);
    let (data, dropped) = match output.data {
        Some(data) if size(&data) > DATA => (Some(json!({ "omitted": "the data was too large" })), true),
        data => (data, false),
    };
    let meta = ToolMeta {
        tool: tool.to_owned(),
        duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        truncated: output.truncated || cut || dropped,
    };
    ToolResult { ok: error.is_none(), content, data, error, meta }
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}

/// Cuts text that is too long in its middle, and says so.
fn bounded(content: Vec<Block>) -> (Vec<Block>, bool) {
    let mut left = TEXT;
    let mut cut = false;
    let content = content
        .into_iter()
        .map(|block| match block {
            Block::Text { text, text_signature } if text.len() > left => {
                cut = true;
                let shorter = without_middle(&text, left);
                left = 0;
                Block::Text { text: shorter, text_signature }
            }
            Block::Text { text, text_signature } => {
                left -= text.len();
                Block::Text { text, text_signature }
            }
            other => other,
        })
        .collect();
    (content, cut)
}

fn without_middle(text: &str, keep: usize) -> String {
    let (head, tail) = (text.floor_char_boundary(keep / 2), text.ceil_char_boundary(text.len() - keep / 2));
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_too_long_loses_its_middle_and_says_so() {
        let text = format!("{}é{}", "a".repeat(TEXT), "z".repeat(10));
        let result = finished("t", Ok(Output::text(text)), Duration::ZERO);
        assert!(result.ok && result.meta.truncated);
        let text = result.text();
        assert!(text.len() < TEXT + 100, "{}", text.len());
        assert!(text.starts_with("aaa") && text.ends_with("zzz") && text.contains("bytes left out"));
    }

    #[test]
    fn data_that_is_too_large_is_left_out_and_the_result_says_so() {
        let output = Output::text("x").with_data(json!("y".repeat(DATA + 1)));
        let result = finished("t", Ok(output), Duration::ZERO);
        assert!(result.meta.truncated);
        assert_eq!(result.data, Some(json!({ "omitted": "the data was too large" })));
    }

    #[test]
    fn a_failure_keeps_what_the_tool_had_to_show() {
        let mut failure = ToolFailure::execution("exit status 2");
        failure.output = Some(Box::new(Output::text("the output")));
        let result = failed("exec", failure);
        assert_eq!((result.ok, result.text().as_str()), (false, "the output"));
        assert_eq!(result.error.unwrap().message, "exit status 2");
        assert_eq!(failed("exec", ToolFailure::execution("no")).text(), "no");
    }
}
