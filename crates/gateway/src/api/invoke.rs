//! `POST /tools/invoke`: one tool for a program, under the same rules as every call.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_engine::Invoke;
use tidegate_protocol::api::Asking;
use tidegate_protocol::{ErrorCode, RunId, ToolCall, ToolErrorCode, ToolResult, ToolSource};
use tidegate_runtime::new_id;
use tokio_util::sync::CancellationToken;

use crate::answer::{Answered, Refusal, json_with};
use crate::body;
use crate::gate::Gate;
use crate::names::answering_key_of;

/// Bytes of a body.
const LARGEST: usize = 2 * 1024 * 1024;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InvokeRequest {
    #[serde(default)]
    tool: String,
    action: Option<Value>,
    args: Option<Map<String, Value>>,
    session_key: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

pub(crate) async fn invoke(State(gate): State<Gate>, request: Request) -> Answered {
    let (parts, content) = request.into_parts();
    let asked: InvokeRequest = body::read_parts(&parts.headers, content, LARGEST).await?;
    let tool = asked.tool.trim();
    if tool.is_empty() {
        return Err(Refusal::new(ErrorCode::BadRequest, "tools.invoke requires `tool`"));
    }
    if asked.dry_run {
        let message = "`dryRun` is not there yet; an agent with `shadow` decides without doing";
        return Err(Refusal::new(ErrorCode::BadRequest, message));
    }
    let engine = gate.engine();
    let name = asked.session_key.as_deref().map(str::trim).filter(|name| !name.is_empty()).unwrap_or("main");
    let key = answering_key_of(engine.settings(), engine.tenant(), None, name)?;
    let mut args = asked.args.unwrap_or_default();
    if let Some(action) = asked.action.filter(|_| engine.takes_argument(tool, "action")) {
        args.entry("action").or_insert(action);
    }
    let id: RunId = new_id(gate.shared.options.clock.as_ref())
        .map_err(|error| Refusal::new(ErrorCode::Internal, error.to_string()))?;
    let call = ToolCall {
        id: id.to_string(),
        name: tool.to_owned(),
        args: Value::Object(args),
        source: ToolSource::Api,
    };
    let invoke = Invoke {
        principal: gate.principal(),
        scope: key.scope.clone(),
        session: key.to_string(),
        run: None,
        call,
        root: None,
        model: None,
        subagent: false,
        asking: Asking::Others,
        allow: None,
        also: Vec::new(),
    };
    let cancel = CancellationToken::new();
    // Whoever hangs up ends the call, and everything it started.
    let _guard = cancel.clone().drop_guard();
    answer(engine.invoke(invoke, &cancel, Arc::new(|_| {})).await?)
}

fn answer(result: ToolResult) -> Answered {
    let Some(error) = result.error else {
        let result = json!({ "content": result.content, "details": result.data });
        return json_with(StatusCode::OK, &json!({ "ok": true, "result": result }));
    };
    let denied = error.details.as_ref().is_some_and(|details| details.get("policy").is_some());
    let (status, kind) = match error.code {
        ToolErrorCode::ToolNotFound => (StatusCode::NOT_FOUND, "not_found"),
        _ if denied => (StatusCode::FORBIDDEN, "forbidden"),
        _ => (StatusCode::BAD_REQUEST, "tool_error"),
    };
    let error = json!({ "type": kind, "message": error.message, "details": error.details });
    json_with(status, &json!({ "ok": false, "error": error }))
}
