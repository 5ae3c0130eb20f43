//! A message to a conversation. The answer is read from the conversation, so the run outlives its sender.

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use tidegate_engine::Wish;
use tidegate_protocol::ReplyTarget;
use tidegate_protocol::api::{PostMessage, Posted};
use tidegate_storage::SessionChoice;

use crate::answer::{Answered, json_with};
use crate::body;
use crate::gate::Gate;
use crate::names::answering_key_of;
use crate::presence::Leaving;

pub(crate) async fn post(State(gate): State<Gate>, Path(name): Path<String>, request: Request) -> Answered {
    let PostMessage { text, key: client_key, join } = body::read(request).await?;
    body::check_text(&text)?;
    body::check_key(&client_key)?;
    let engine = gate.engine();
    let key = answering_key_of(engine.settings(), engine.tenant(), None, &name)?;
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
    let status = if submitted.replayed { StatusCode::OK } else { StatusCode::ACCEPTED };
    json_with(status, &Posted { run_id: submitted.run })
}
