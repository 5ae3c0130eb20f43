//! Running one tool for whoever sits at this computer. The answer comes line by line on the same connection.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use futures_util::stream;
use tidegate_engine::Invoke;
use tidegate_protocol::api::{InvokeTool, ToolEvent};
use tidegate_protocol::{ErrorCode, ToolCall, ToolSource};
use tidegate_runtime::spawn;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::answer::{Answered, Refusal};
use crate::body;
use crate::gate::Gate;

/// Lines that may wait for a slow reader; updates beyond that are left out, the result never is.
const WAITING: usize = 64;
/// The session that calls without a conversation belong to.
const SESSION: &str = "cli";

pub(crate) async fn invoke(State(gate): State<Gate>, request: Request) -> Answered {
    let asked: InvokeTool = body::read(request).await?;
    body::check_key(&asked.call_id)?;
    let scope = gate.engine().settings().scope(asked.agent.as_deref())?;
    let root = asked.root.map(PathBuf::from);
    if root.as_ref().is_some_and(|root| !root.is_absolute()) {
        return Err(Refusal::new(ErrorCode::BadRequest, "the root must be an absolute path"));
    }
    let invoke = Invoke {
        principal: gate.principal(),
        scope,
        session: SESSION.to_owned(),
        run: None,
        call: ToolCall { id: asked.call_id, name: asked.name, args: asked.args, source: ToolSource::Cli },
        root,
        model: None,
        subagent: false,
        asking: asked.asking,
        allow: None,
        also: Vec::new(),
    };
    let (sender, receiver) = mpsc::channel(WAITING);
    let cancel = CancellationToken::new();
    let task = run(gate.clone(), invoke, cancel.clone(), sender);
    // It comes to its end also when the caller hangs up: what it started is ended, and put on record.
    spawn("gateway.tool", gate.shared.tasks.track_future(task));
    let lines = Lines { receiver, _cancel: cancel.drop_guard() };
    let body = Body::from_stream(stream::unfold(lines, Lines::next));
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

async fn run(gate: Gate, invoke: Invoke, cancel: CancellationToken, lines: mpsc::Sender<ToolEvent>) {
    let told = lines.clone();
    let tell = Arc::new(move |event| drop(told.try_send(event)));
    let last = match gate.engine().invoke(invoke, &cancel, tell).await {
        Ok(result) => ToolEvent::Result { result },
        Err(error) => ToolEvent::Error { error: error.body() },
    };
    // Nobody there: the call is on record.
    let _ = lines.send(last).await;
}

/// The lines of one answer. Dropping them before the last one means that the caller went away.
struct Lines {
    receiver: mpsc::Receiver<ToolEvent>,
    _cancel: DropGuard,
}

impl Lines {
    async fn next(mut self) -> Option<(Result<Bytes, serde_json::Error>, Self)> {
        let event = self.receiver.recv().await?;
        let line = serde_json::to_vec(&event).map(|mut line| {
            line.push(b'\n');
            Bytes::from(line)
        });
        Some((line, self))
    }
}
