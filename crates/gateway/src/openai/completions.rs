//! `POST /v1/chat/completions`: one question to an agent, answered whole or as it comes.
//!
//! The first byte goes out after the run is durable, `[DONE]` after its end is.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use futures_util::stream;
use tidegate_engine::{Follower, Submitted};
use tidegate_protocol::ErrorBody;

use super::error::{error_body, failed, invalid};
use super::listening::{DONE, Ended, Heard, Listening};
use super::question::{LARGEST, Question, Ready};
use super::route::Surface;
use super::said;
use super::wire::{ChatRequest, Frame, Writer, event};
use crate::answer::{Answered, json};
use crate::body;
use crate::gate::Gate;
use crate::presence::Presence;

pub(crate) async fn completions(State(gate): State<Gate>, request: Request) -> Answered {
    let (parts, content) = request.into_parts();
    let chat: ChatRequest = body::read_parts(&parts.headers, content, LARGEST).await?;
    if chat.n.is_some_and(|n| n != 1) {
        return Err(invalid("n", "`n` must be 1: an agent answers once"));
    }
    let question = Question {
        surface: Surface::Completions,
        headers: &parts.headers,
        model: chat.model.as_deref(),
        user: chat.user.as_deref(),
        said: said::of_messages(&chat.messages),
        param: "messages",
        tools: chat.tools.as_deref().unwrap_or_default(),
        tool_choice: chat.tool_choice.as_ref(),
        max_tokens: chat.max_completion_tokens.or(chat.max_tokens),
        continued: None,
    };
    let Ready { request, leaving, model } = question.translate(&gate).await?;
    let (submitted, presence) = gate.submit(request, leaving).await?;
    let id = format!("chatcmpl-{}", submitted.run);
    let frame = Frame { id, created: submitted.created_at / 1000, model };
    if chat.stream != Some(true) {
        return whole(submitted, presence, &frame).await;
    }
    let include_usage = chat.stream_options.and_then(|options| options.include_usage) == Some(true);
    let chunks = Chunks::new(submitted.follower, presence, frame, include_usage);
    let body = Body::from_stream(stream::unfold(chunks, Chunks::next));
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

async fn whole(submitted: Submitted, mut presence: Presence, frame: &Frame) -> Answered {
    let end = submitted.follower.end().await;
    presence.over();
    json(&frame.completion(&end.map_err(failed)?))
}

/// The chunks of one answer.
struct Chunks {
    listening: Listening,
    writer: Writer,
    include_usage: bool,
    ready: VecDeque<Bytes>,
}

impl Chunks {
    fn new(follower: Follower, presence: Presence, frame: Frame, include_usage: bool) -> Self {
        let writer = Writer::new(frame, include_usage);
        let ready = VecDeque::from([writer.begin()]);
        Self { listening: Listening::new(follower, presence), writer, include_usage, ready }
    }

    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        while self.ready.is_empty() {
            match self.listening.next().await? {
                Heard::More(more) => self.ready.push_back(self.writer.text(&more)),
                Heard::Ended(end) => self.finish(end),
            }
        }
        let frame = self.ready.pop_front()?;
        Some((Ok(frame), self))
    }

    fn finish(&mut self, end: Result<Ended, ErrorBody>) {
        match end {
            Ok(Ended { answer, rest }) => {
                if !rest.is_empty() {
                    self.ready.push_back(self.writer.text(&rest));
                }
                if !answer.handed.is_empty() {
                    self.ready.push_back(self.writer.calls(&answer.handed));
                }
                self.ready.push_back(self.writer.end(&answer));
                if self.include_usage {
                    self.ready.push_back(self.writer.usage(&answer.usage));
                }
            }
            Err(error) => self.ready.push_back(failure(&error)),
        }
        self.ready.push_back(DONE);
    }
}

fn failure(error: &ErrorBody) -> Bytes {
    event(&error_body(StatusCode::INTERNAL_SERVER_ERROR, error))
}
