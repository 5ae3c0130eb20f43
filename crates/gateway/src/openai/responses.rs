//! `POST /v1/responses`: the same question in OpenAI's newer form, answered whole or as semantic events.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_engine::Answer;
use tidegate_protocol::{ErrorBody, RunId, RunState, SessionKey, StopReason, ToolCall, Usage};
use tidegate_storage::RunLookup;

use super::error::{failed, invalid};
use super::question::{LARGEST, Question, Ready};
use super::response_stream::Events;
use super::route::Surface;
use super::said::{self, Said};
use super::wire::arguments;
use crate::answer::{Answered, Refusal, json};
use crate::body;
use crate::gate::Gate;

const ID: &str = "resp_";

/// The part of a request that means something here; whatever else it says is taken and ignored.
#[derive(Debug, Deserialize)]
struct ResponseRequest {
    model: Option<String>,
    #[serde(default)]
    input: Value,
    instructions: Option<String>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    stream: Option<bool>,
    background: Option<bool>,
    max_output_tokens: Option<u32>,
    user: Option<String>,
    previous_response_id: Option<String>,
    metadata: Option<Map<String, Value>>,
}

pub(crate) async fn responses(State(gate): State<Gate>, request: Request) -> Answered {
    let (parts, content) = request.into_parts();
    let asked: ResponseRequest = body::read_parts(&parts.headers, content, LARGEST).await?;
    if asked.background == Some(true) {
        return Err(invalid("background", "a response is answered on its own connection here"));
    }
    let continued = match asked.previous_response_id.as_deref() {
        Some(id) => Some(continued(&gate, id).await?),
        None => None,
    };
    let instructions = asked.instructions.iter().map(|text| Said::Instructions(text.clone()));
    let question = Question {
        surface: Surface::Responses,
        headers: &parts.headers,
        model: asked.model.as_deref(),
        user: asked.user.as_deref(),
        said: instructions.chain(said::of_input(&asked.input)).collect(),
        param: "input",
        tools: asked.tools.as_deref().unwrap_or_default(),
        tool_choice: asked.tool_choice.as_ref(),
        max_tokens: asked.max_output_tokens,
        continued,
    };
    let Ready { request, leaving, model } = question.translate(&gate).await?;
    let (submitted, mut presence) = gate.submit(request, leaving).await?;
    let frame = Frame::new(submitted.run, submitted.created_at / 1000, &model, asked);
    if frame.stream {
        let events = Events::new(submitted.follower, presence, frame);
        let body = Body::from_stream(stream::unfold(events, Events::next));
        return Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response());
    }
    let end = submitted.follower.end().await;
    presence.over();
    json(&frame.ended(&end.map_err(failed)?))
}

/// The conversation that a response belongs to, if it can be gone on with from there.
async fn continued(gate: &Gate, id: &str) -> Result<SessionKey, Refusal> {
    let param = "previous_response_id";
    let missing = || invalid(param, format!("Previous response with id '{id}' not found."));
    let run: RunId = id.strip_prefix(ID).and_then(|run| run.parse().ok()).ok_or_else(missing)?;
    let (engine, library) = (gate.engine(), gate.engine().library());
    let row = library.run(engine.tenant(), &RunLookup::Id(run)).await?.ok_or_else(missing)?;
    if row.state != RunState::Completed {
        return Err(invalid(param, "that response has not ended well, so nothing can follow it"));
    }
    let session = library.session(&row.key).await?.ok_or_else(missing)?;
    let last = row.entries.map(|(_, last)| last);
    if row.session != Some(session.id) || last != Some(session.head_seq) {
        let message = "the conversation went on after that response; go on from its newest one";
        return Err(invalid(param, message));
    }
    Ok(row.key)
}

/// What every event and answer of one response carries.
pub(super) struct Frame {
    pub(super) id: String,
    stream: bool,
    /// A response with everything that does not change; the rest is filled in.
    pattern: Value,
}

impl Frame {
    fn new(run: RunId, created: i64, model: &str, asked: ResponseRequest) -> Self {
        let id = format!("{ID}{run}");
        let pattern = json!({
            "id": id, "object": "response", "created_at": created, "status": "in_progress", "model": model,
            "output": [], "error": null, "incomplete_details": null, "usage": null,
            "instructions": asked.instructions,
            "tools": asked.tools.unwrap_or_default(),
            "tool_choice": asked.tool_choice.unwrap_or_else(|| "auto".into()),
            "max_output_tokens": asked.max_output_tokens,
            "previous_response_id": asked.previous_response_id,
            "metadata": asked.metadata.unwrap_or_default(),
            "user": asked.user,
            "parallel_tool_calls": true, "temperature": null, "top_p": null, "store": true,
            "truncation": "disabled", "reasoning": {"effort": null, "summary": null},
            "text": {"format": {"type": "text"}},
        });
        Self { id, stream: asked.stream == Some(true), pattern }
    }

    pub(super) fn begun(&self) -> &Value {
        &self.pattern
    }

    pub(super) fn ended(&self, answer: &Answer) -> Value {
        let mut response = self.pattern.clone();
        let mut output = Vec::new();
        if !answer.text.is_empty() || answer.handed.is_empty() {
            output.push(self.message(&answer.text, status(answer)));
        }
        output.extend(answer.handed.iter().map(|call| function_call(call, &arguments(call), "completed")));
        response["output"] = output.into();
        response["status"] = status(answer).into();
        response["usage"] = tokens(&answer.usage);
        if is_cut(answer) {
            response["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        response
    }

    pub(super) fn failed(&self, error: &ErrorBody) -> Value {
        let mut response = self.pattern.clone();
        response["status"] = "failed".into();
        response["error"] = json!({"code": error.code, "message": error.message});
        response
    }

    pub(super) fn message_id(&self) -> String {
        self.id.replacen(ID, "msg_", 1)
    }

    pub(super) fn message(&self, text: &str, status: &str) -> Value {
        let content = if status == "in_progress" { json!([]) } else { json!([part(text)]) };
        json!({
            "type": "message", "id": self.message_id(), "status": status, "role": "assistant", "content": content,
        })
    }
}

pub(super) fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

pub(super) fn function_call(call: &ToolCall, arguments: &str, status: &str) -> Value {
    json!({
        "type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id, "name": call.name,
        "arguments": arguments, "status": status,
    })
}

pub(super) fn is_cut(answer: &Answer) -> bool {
    answer.stop_reason == StopReason::Length && answer.handed.is_empty()
}

fn status(answer: &Answer) -> &'static str {
    if is_cut(answer) { "incomplete" } else { "completed" }
}

fn tokens(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt(),
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total(),
    })
}
