//! Running what a model called for: permitted, intended, run, and its result in the log.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tidegate_protocol::{
    Block, JoinMode, Message, RunEventBody, ToolCall, ToolError, ToolErrorCode, ToolMeta, ToolResult,
    ToolRunId, ToolRunState,
};
use tidegate_runtime::{fault, new_id};
use tidegate_storage::{NewPart, NewToolRun, ToolOutcome};

use super::past::without_reserved;
use super::{Parts, Run, Stop};
use crate::context::Line;
use crate::text::is_silent;
use crate::toolbox::{ReadyCall, Verdict};

/// Characters of a result that an event carries.
const SHOWN: usize = 8_000;
/// Characters of a result that are kept beside its call; the log has all of it.
const KEPT: usize = 2_000;

/// A call that is about to run.
struct Begun<'c> {
    call: &'c ToolCall,
    tool_run: ToolRunId,
    ready: Box<dyn ReadyCall>,
    shadow: bool,
}

impl Run<'_> {
    /// Runs the calls of one answer and feeds their results back: side by side when all of them only look, else one after
    /// the other.
    pub(super) async fn work(&mut self, calls: Vec<ToolCall>) -> Result<(), Stop> {
        // What was said before the calls goes out before they run: with the commit that puts it into the log, so once.
        let parts = self.spoken().await;
        self.unsaid.parts.extend(parts);
        let looks = calls.len() > 1 && calls.iter().all(|call| self.parts.tools.only_looks(&call.name));
        let worked = if looks { self.side_by_side(&calls).await } else { self.in_order(&calls).await };
        if let Err(stop @ (Stop::Store(_) | Stop::Failed(_))) = worked {
            return Err(stop);
        }
        // The model may think for long about what is lost otherwise. A process that ends keeps what came to its end: what
        // was cut off has its INTENT and no result, what has not begun is still to be done.
        self.commit(Vec::new()).await?;
        worked
    }

    /// What was said last, if it is in no commit yet, as it is sent.
    pub(super) async fn spoken(&self) -> Vec<NewPart> {
        let Some(Line { seq: None, message: message @ Message::Assistant { .. } }) = self.lines.last() else {
            return Vec::new();
        };
        let text = message.text();
        if text.trim().is_empty() || is_silent(&text) {
            return Vec::new();
        }
        self.parts.desk.parts(&text).await
    }

    async fn in_order(&mut self, calls: &[ToolCall]) -> Result<(), Stop> {
        let mut skips = false;
        for call in calls {
            self.tell_started(call);
            if skips {
                let result = failed(&call.name, "skipped: the user wrote something that comes first");
                self.finish_call(call, &result, false)?;
                continue;
            }
            match self.parts.tools.permit(call.clone()).await? {
                Verdict::Answered(result) => self.finish_call(call, &result, false)?,
                Verdict::Ready(ready) => {
                    let begun = self.begin(call, ready)?;
                    self.commit(vec![intent(&begun)]).await?;
                    let (begun, result) = Self::run_one(begun).await?;
                    self.end(&begun, &result)?;
                }
            }
            skips = self.is_steered().await?;
        }
        Ok(())
    }

    /// Whether somebody wrote what comes before the rest of a round. The desk's word is a hint; the queue decides.
    async fn is_steered(&self) -> Result<bool, Stop> {
        let Parts { desk, journal, .. } = self.parts;
        Ok(desk.is_joined(JoinMode::Steer) && journal.is_joined(&self.turn.lease, JoinMode::Steer).await?)
    }

    async fn side_by_side(&mut self, calls: &[ToolCall]) -> Result<(), Stop> {
        let mut verdicts = Vec::with_capacity(calls.len());
        let mut intents = Vec::new();
        for call in calls {
            self.tell_started(call);
            verdicts.push(match self.parts.tools.permit(call.clone()).await? {
                Verdict::Answered(result) => Err((call, result)),
                Verdict::Ready(ready) => {
                    let begun = self.begin(call, ready)?;
                    intents.push(intent(&begun));
                    Ok(begun)
                }
            });
        }
        if !intents.is_empty() {
            self.commit(intents).await?;
        }
        let running = verdicts.into_iter().map(|verdict| async move {
            match verdict {
                Ok(begun) => Self::run_one(begun).await.map(Ok),
                Err(answered) => Ok(Err(answered)),
            }
        });
        let mut worked = Ok(());
        for done in join_all(running).await {
            match done {
                Ok(Ok((begun, result))) => self.end(&begun, &result)?,
                Ok(Err((call, result))) => self.finish_call(call, &result, false)?,
                Err(stop) => worked = Err(stop),
            }
        }
        worked
    }

    fn begin<'c>(&self, call: &'c ToolCall, ready: Box<dyn ReadyCall>) -> Result<Begun<'c>, Stop> {
        let shadow = ready.is_shadow();
        Ok(Begun { call, tool_run: new_id(self.parts.clock)?, ready, shadow })
    }

    /// Runs a call that is in the journal.
    async fn run_one(begun: Begun<'_>) -> Result<(Ended<'_>, ToolResult), Stop> {
        let Begun { call, tool_run, ready, shadow } = begun;
        fault::pause("agent.tool.before").await;
        let result = ready.run().await?;
        fault::pause("agent.tool.after").await;
        Ok((Ended { call, tool_run, shadow }, result))
    }

    fn end(&mut self, ended: &Ended<'_>, result: &ToolResult) -> Result<(), Stop> {
        let state = match (ended.shadow, result.ok) {
            (true, _) => ToolRunState::Shadowed,
            (false, true) => ToolRunState::Succeeded,
            (false, false) => ToolRunState::Failed,
        };
        let outcome = ToolOutcome { tool_run: ended.tool_run, state, result: kept(result) };
        self.unsaid.ended.push(outcome);
        self.finish_call(ended.call, result, ended.shadow)
    }

    fn finish_call(&mut self, call: &ToolCall, result: &ToolResult, shadow: bool) -> Result<(), Stop> {
        self.tell_ended(call, result, shadow);
        self.take_result(call, result)
    }

    /// The result joins the conversation.
    pub(super) fn take_result(&mut self, call: &ToolCall, result: &ToolResult) -> Result<(), Stop> {
        let result = ToolResult { data: without_reserved(result.data.clone()), ..result.clone() };
        self.calls.push((call.clone(), result.clone()));
        self.sent.extend(sent_here(&result));
        self.say_result(call, &result)
    }

    /// The model is told; whether anything was run is another question.
    pub(super) fn say_result(&mut self, call: &ToolCall, result: &ToolResult) -> Result<(), Stop> {
        let mut content = result.content.clone();
        if content.is_empty() {
            let text = result.error.as_ref().map_or("(nothing)", |error| error.message.as_str());
            content.push(Block::text(text));
        }
        self.say(Message::ToolResult {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            content,
            is_error: !result.ok,
            details: result.data.clone(),
            timestamp: self.parts.clock.now_ms(),
        })
    }

    pub(super) fn tell_started(&self, call: &ToolCall) {
        let ToolCall { id, name, args, .. } = call.clone();
        self.parts.desk.emit(RunEventBody::ToolStarted { call_id: id, tool: name, args });
    }

    pub(super) fn tell_ended(&self, call: &ToolCall, result: &ToolResult, shadow: bool) {
        self.parts.desk.emit(RunEventBody::ToolEnded {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            ok: result.ok,
            text: beginning(&shown(result), SHOWN),
            duration_ms: result.meta.duration_ms,
            shadow: shadow || is_shadow(result),
        });
    }
}

/// A call that ran.
struct Ended<'c> {
    call: &'c ToolCall,
    tool_run: ToolRunId,
    shadow: bool,
}

fn intent(begun: &Begun<'_>) -> NewToolRun {
    NewToolRun {
        id: begun.tool_run,
        call_id: begun.call.id.clone(),
        tool_name: begun.call.name.clone(),
        args: begun.call.args.clone(),
    }
}

/// A result that says why there is none.
pub(crate) fn failed(tool: &str, message: impl Into<String>) -> ToolResult {
    let message = message.into();
    ToolResult {
        ok: false,
        content: vec![Block::text(message.clone())],
        data: None,
        error: Some(ToolError {
            code: ToolErrorCode::ExecutionError,
            tool: tool.to_owned(),
            message,
            details: None,
        }),
        meta: ToolMeta { tool: tool.to_owned(), duration_ms: 0, truncated: false },
    }
}

fn shown(result: &ToolResult) -> String {
    match &result.error {
        Some(error) if result.content.is_empty() => error.message.clone(),
        _ => result.text(),
    }
}

fn kept(result: &ToolResult) -> Value {
    json!({
        "ok": result.ok,
        "text": beginning(&shown(result), KEPT),
        "error": result.error,
        "meta": result.meta,
    })
}

/// Whether a call was answered with what would have been decided about it.
fn is_shadow(result: &ToolResult) -> bool {
    result.data.as_ref().is_some_and(|data| data.get("shadow") == Some(&Value::Bool(true)))
}

/// What a tool says it sent to the very place the answer goes to.
pub(super) fn sent_here(result: &ToolResult) -> Option<String> {
    let sent = result.data.as_ref()?.get("sentHere")?.as_str()?;
    result.ok.then(|| sent.to_owned())
}

fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
    }
}
