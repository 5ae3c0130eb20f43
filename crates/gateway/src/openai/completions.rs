//! `POST /v1/chat/completions`: one question to an agent, answered whole or as it comes.
//!
//! The first byte goes out after the run is durable, `[DONE]` after its end is.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use futures_util::stream;
use serde_json::{Value, json};
use tidegate_engine::{Follower, Submitted, Wish};
use tidegate_protocol::{ErrorBody, ErrorCode, ReplyTarget, RunEventBody, RunId};
use tidegate_runtime::new_id;
use tidegate_storage::SessionChoice;

use super::prompt::Prompt;
use super::route;
use super::wire::{ChatRequest, Frame, error_body};
use crate::answer::{Answered, Refusal, json};
use crate::body;
use crate::gate::Gate;
use crate::names::answering_key_of;
use crate::presence::{Leaving, Presence};

pub(crate) async fn completions(State(gate): State<Gate>, request: Request) -> Answered {
    let headers = request.headers().clone();
    let chat: ChatRequest = body::read(request).await?;
    if chat.n.is_some_and(|n| n != 1) {
        return Err(Refusal::new(ErrorCode::BadRequest, "`n` must be 1: an agent answers once"));
    }
    let (request, leaving) = translate(&gate, &headers, &chat)?;
    let agent = request.key.scope.agent.to_string();
    let (submitted, presence) = gate.submit(request, leaving).await?;
    let frame = Frame {
        id: format!("chatcmpl-{}", submitted.run),
        created: submitted.created_at / 1000,
        model: chat.model.clone().unwrap_or_else(|| route::model_of(&agent)),
    };
    if chat.stream != Some(true) {
        return whole(submitted, presence, &frame).await;
    }
    let include_usage = chat.stream_options.and_then(|options| options.include_usage) == Some(true);
    let chunks = Chunks::new(submitted.follower, presence, frame, include_usage);
    let body = Body::from_stream(stream::unfold(chunks, Chunks::next));
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

fn translate(
    gate: &Gate,
    headers: &HeaderMap,
    chat: &ChatRequest,
) -> Result<(tidegate_engine::Request, Leaving), Refusal> {
    let prompt = Prompt::read(&chat.messages);
    if prompt.message.is_empty() {
        return Err(Refusal::new(ErrorCode::BadRequest, "Missing user message in `messages`."));
    }
    let text = prompt.input();
    body::check_text(&text)?;
    let engine = gate.engine();
    let fresh: RunId = new_id(gate.shared.options.clock.as_ref())
        .map_err(|error| Refusal::new(ErrorCode::Internal, error.to_string()))?;
    let conversation = route::conversation(headers, chat.user.as_deref(), &fresh.to_string());
    let agent = route::agent(headers, chat.model.as_deref());
    let key = answering_key_of(engine.settings(), engine.tenant(), agent, &conversation.name)?;
    let idempotency = route::idempotency(headers).map(str::to_owned);
    if let Some(key) = &idempotency {
        body::check_key(key)?;
    }
    // Whoever sends a key says that they may come back for the answer.
    let leaving =
        if conversation.one_off && idempotency.is_none() { Leaving::Aborts } else { Leaving::GoesOn };
    let spec = engine.settings().asked_spec(&key.scope, &Wish::default())?;
    let request = tidegate_engine::Request {
        principal: gate.principal(),
        key,
        session: SessionChoice::Current,
        ephemeral: conversation.one_off,
        text,
        commands: false,
        client_key: idempotency.clone(),
        idempotency,
        spec,
        reply: ReplyTarget::Caller,
        join: None,
        patience: None,
    };
    Ok((request, leaving))
}

async fn whole(submitted: Submitted, mut presence: Presence, frame: &Frame) -> Answered {
    let end = submitted.follower.end().await;
    presence.over();
    let answer = end?;
    json(&frame.completion(&answer.text, &answer.usage))
}

/// The chunks of one answer.
struct Chunks {
    follower: Option<Follower>,
    presence: Presence,
    frame: Frame,
    include_usage: bool,
    /// What the caller has of the answer. It cannot be taken back.
    told: String,
    /// The text of the attempt that is under way.
    attempt: (u32, String),
    ready: VecDeque<Bytes>,
}

impl Chunks {
    fn new(follower: Follower, presence: Presence, frame: Frame, include_usage: bool) -> Self {
        let mut chunks = Self {
            follower: Some(follower),
            presence,
            frame,
            include_usage,
            told: String::new(),
            attempt: (0, String::new()),
            ready: VecDeque::new(),
        };
        chunks.put(chunks.frame.chunk(&json!({"role": "assistant", "content": ""}), None));
        chunks
    }

    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        while self.ready.is_empty() {
            let follower = self.follower.as_mut()?;
            match follower.next().await {
                Some(event) => {
                    if let RunEventBody::TextDelta { text } = &event.body {
                        self.heard(event.attempt, text);
                    }
                }
                None => self.finish().await,
            }
        }
        let frame = self.ready.pop_front()?;
        Some((Ok(frame), self))
    }

    /// Tells what is new. After a restart nothing is, until the new attempt has said all of it again.
    fn heard(&mut self, attempt: u32, text: &str) {
        if attempt != self.attempt.0 {
            self.attempt = (attempt, String::new());
        }
        self.attempt.1.push_str(text);
        if let Some(more) = self.attempt.1.strip_prefix(self.told.as_str()).map(str::to_owned) {
            self.tell(&more);
        }
    }

    fn tell(&mut self, more: &str) {
        if !more.is_empty() {
            self.told.push_str(more);
            self.put(self.frame.chunk(&json!({"content": more}), None));
        }
    }

    async fn finish(&mut self) {
        let Some(follower) = self.follower.take() else { return };
        let end = follower.end().await;
        self.presence.over();
        let rest = match &end {
            Ok(answer) => answer.text.strip_prefix(self.told.as_str()).map(str::to_owned).ok_or_else(|| {
                ErrorBody::new(
                    ErrorCode::Interrupted,
                    "the answer was begun anew and differs from what was sent; ask again",
                )
            }),
            Err(error) => Err(error.clone()),
        };
        match rest {
            Ok(rest) => {
                self.tell(&rest);
                self.put(self.frame.chunk(&json!({}), Some("stop")));
            }
            Err(error) => {
                let body = error_body(StatusCode::INTERNAL_SERVER_ERROR, &error);
                self.ready.push_back(event(&body));
            }
        }
        if let (true, Ok(answer)) = (self.include_usage, &end) {
            self.ready.push_back(event(&self.frame.usage(&answer.usage)));
        }
        self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }

    fn put(&mut self, mut chunk: Value) {
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        self.ready.push_back(event(&chunk));
    }
}

fn event(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}
