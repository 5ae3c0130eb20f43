//! A message to a conversation. The answer is read from the conversation, so the run outlives its sender.

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use tidegate_engine::{Submitted, Wish};
use tidegate_protocol::api::{PostMessage, Posted};
use tidegate_protocol::{ReplyTarget, SessionKey};
use tidegate_storage::SessionChoice;

use crate::answer::{Answered, Refusal, json_with};
use crate::body;
use crate::gate::Gate;
use crate::names::answering_key_of;
use crate::presence::Leaving;

pub(crate) async fn post(State(gate): State<Gate>, Path(name): Path<String>, request: Request) -> Answered {
    let message: PostMessage = body::read(request).await?;
    let engine = gate.engine();
    let key = answering_key_of(engine.settings(), engine.tenant(), None, &name)?;
    let submitted = said(&gate, key, message).await?;
    let status = if submitted.replayed { StatusCode::OK } else { StatusCode::ACCEPTED };
    json_with(status, &Posted { run_id: submitted.run })
}

/// Says something in a conversation. It is durable once this returns.
pub(crate) async fn said(gate: &Gate, key: SessionKey, message: PostMessage) -> Result<Submitted, Refusal> {
    let PostMessage { text, key: client_key, join } = message;
    body::check_text(&text)?;
    body::check_key(&client_key)?;
    let engine = gate.engine();
    let spec = engine.asked_spec(&key, &Wish::default()).await?;
    let request = tidegate_engine::Request {
        principal: gate.principal(),
        key,
        session: SessionChoice::Current,
        ephemeral: false,
        text,
        commands: true,
        client_key: Some(client_key.clone()),
        idempotency: Some(client_key),
        spec,
        reply: ReplyTarget::Session,
        join,
        patience: None,
    };
    let (submitted, _) = gate.submit(request, Leaving::GoesOn).await?;
    Ok(submitted)
}
