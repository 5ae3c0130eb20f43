//! A question whose caller waits: the answer comes line by line on the same connection.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use futures_util::stream;
use tidegate_engine::{Follower, Submitted, Wish};
use tidegate_protocol::api::{Ask, AskAnswer, AskEvent, CallLine};
use tidegate_protocol::{ErrorBody, ErrorCode, ReplyTarget, RunEventBody, ToolUse};
use tidegate_storage::SessionChoice;

use crate::answer::{Answered, Refusal};
use crate::body;
use crate::gate::{Entrance, Gate};
use crate::names::answering_key_of;
use crate::presence::{Leaving, Presence};

/// How long a question may wait for its turn in the session.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn ask(State(gate): State<Gate>, request: Request) -> Answered {
    let ask: Ask = body::read(request).await?;
    body::check_text(&ask.text)?;
    body::check_key(&ask.key)?;
    let engine = gate.engine();
    let key = answering_key_of(engine.settings(), engine.tenant(), ask.agent.as_deref(), &ask.session)?;
    let timeout = ask.timeout_ms.map(Duration::from_millis);
    let wish = Wish {
        provider: ask.provider.as_deref(),
        model: ask.model.as_deref(),
        profile: ask.profile.as_deref(),
        timeout,
        thinking: ask.thinking,
        lane: None,
    };
    let mut spec = engine.asked_spec(&key, &wish).await?;
    spec.shadow |= ask.dry_run;
    if let Some(tools) = ask.tools {
        check_root(&gate, &tools)?;
        spec.tools = tools;
    }
    let request = tidegate_engine::Request {
        principal: gate.principal(),
        key,
        session: if ask.new_session { SessionChoice::Fresh } else { SessionChoice::Current },
        ephemeral: false,
        text: ask.text,
        commands: ask.commands,
        client_key: None,
        idempotency: Some(ask.key),
        spec,
        reply: ReplyTarget::Caller,
        join: ask.join,
        // What joins a run under way waits for it, however long that takes.
        patience: ask.join.is_none().then_some(PATIENCE),
    };
    let (submitted, presence) = gate.submit(request, Leaving::Aborts).await?;
    let lines = Lines::new(gate, submitted, presence);
    let body = Body::from_stream(stream::unfold(lines, Lines::next));
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// Whoever is at the machine may point file tools at a folder of theirs; a page or a program elsewhere may not.
fn check_root(gate: &Gate, tools: &ToolUse) -> Result<(), Refusal> {
    if tools.root.is_none() || matches!(gate.entrance, Entrance::Control) {
        return Ok(());
    }
    Err(Refusal::new(ErrorCode::Forbidden, "a folder for tools is chosen through the control socket only"))
}

/// The lines of one answer. Dropping them before the last one means that the caller went away.
struct Lines {
    gate: Gate,
    follower: Option<Follower>,
    presence: Presence,
    attempt: u32,
    /// Told next, before the run is asked for more.
    held: Option<AskEvent>,
}

impl Lines {
    fn new(gate: Gate, submitted: Submitted, presence: Presence) -> Self {
        let Submitted { run: run_id, created_at, replayed, follower } = submitted;
        let held = Some(AskEvent::Accepted { run_id, created_at, replayed });
        Self { gate, follower: Some(follower), presence, attempt: 0, held }
    }

    async fn next(mut self) -> Option<(Result<Bytes, serde_json::Error>, Self)> {
        let event = match self.held.take() {
            Some(held) => held,
            None => self.event().await?,
        };
        let line = serde_json::to_vec(&event).map(|mut line| {
            line.push(b'\n');
            Bytes::from(line)
        });
        Some((line, self))
    }

    async fn event(&mut self) -> Option<AskEvent> {
        let mut follower = self.follower.take()?;
        while let Some(event) = follower.next().await {
            let delta = match &event.body {
                RunEventBody::TextDelta { text } => AskEvent::Delta { text: text.clone() },
                // The last line tells the end.
                RunEventBody::Completed { .. } | RunEventBody::Failed { .. } => continue,
                notice => AskEvent::Notice { notice: notice.clone() },
            };
            self.follower = Some(follower);
            let before = std::mem::replace(&mut self.attempt, event.attempt);
            if before == event.attempt || before == 0 {
                return Some(delta);
            }
            self.held = Some(delta);
            return Some(AskEvent::Restarted);
        }
        let end = follower.end().await;
        self.presence.over();
        // Whoever read the last line may read the transcript next.
        if let Err(error) = self.gate.engine().flush_transcripts().await {
            tracing::warn!(%error, "transcripts lag; they are written later");
        }
        Some(last(end))
    }
}

fn last(end: Result<tidegate_engine::Answer, ErrorBody>) -> AskEvent {
    match end {
        Ok(answer) => AskEvent::Answer(AskAnswer {
            run_id: answer.run,
            created_at: answer.created_at,
            session_name: answer.session_name,
            text: answer.text,
            origin: answer.origin,
            usage: answer.usage,
            calls: answer.calls.into_iter().map(|(call, result)| CallLine { call, result }).collect(),
            tool_error: answer.tool_error,
        }),
        Err(error) => AskEvent::Error { error },
    }
}
