//! Conversations: which there are, reading and changing one, and saying something in it.

use tidegate_protocol::api::{
    Ack, Compacted, Deleted, ListSessions, MessageSent, PostMessage, RenameSession, SendMessage, SessionList,
    SessionRef, Snapshot,
};
use tidegate_protocol::{ErrorBody, ErrorCode, SessionKey};

use crate::answer::Refusal;
use crate::api::{branches, messages, sessions, snapshot};
use crate::gate::Gate;
use crate::methods::Caller;
use crate::names::{answering_key_of, key_of};
use crate::token::random_text;
use crate::ws::frame::WireError;

fn meant(gate: &Gate, of: &SessionRef) -> Result<SessionKey, Refusal> {
    let engine = gate.engine();
    key_of(engine.settings(), engine.tenant(), of.agent.as_deref(), &of.session)
}

pub(crate) async fn list(caller: Caller, params: ListSessions) -> Result<SessionList, WireError> {
    Ok(sessions::listed(&caller.gate, &params).await?)
}

pub(crate) async fn get(caller: Caller, params: SessionRef) -> Result<Snapshot, WireError> {
    let key = meant(&caller.gate, &params)?;
    Ok(snapshot::read(&caller.gate, &key, &params.session, None).await?.snapshot)
}

pub(crate) async fn rename(caller: Caller, params: RenameSession) -> Result<Ack, WireError> {
    let RenameSession { session, agent, title } = params;
    let of = SessionRef { session, agent };
    let key = meant(&caller.gate, &of)?;
    branches::named(&caller.gate, &key, &of.session, title.as_deref()).await?;
    Ok(Ack {})
}

pub(crate) async fn delete(caller: Caller, params: SessionRef) -> Result<Deleted, WireError> {
    Ok(sessions::deleted(&caller.gate, &meant(&caller.gate, &params)?).await?)
}

pub(crate) async fn send(caller: Caller, params: SendMessage) -> Result<MessageSent, WireError> {
    let SendMessage { session, agent, text, key, join } = params;
    let engine = caller.gate.engine();
    let to = answering_key_of(engine.settings(), engine.tenant(), agent.as_deref(), &session)?;
    let submitted = messages::said(&caller.gate, to, PostMessage { text, key, join }).await?;
    Ok(MessageSent { run_id: submitted.run, replayed: submitted.replayed })
}

pub(crate) async fn reset(caller: Caller, params: SessionRef) -> Result<Ack, WireError> {
    command(&caller.gate, &params, "/new").await?.map_err(|error| WireError::from(&error))?;
    Ok(Ack {})
}

pub(crate) async fn compact(caller: Caller, params: SessionRef) -> Result<Compacted, WireError> {
    let key = meant(&caller.gate, &params)?;
    if caller.gate.engine().library().session(&key).await?.is_none() {
        let reason = Some("nothing was said in it yet".to_owned());
        return Ok(Compacted { compacted: false, reason });
    }
    // A log is never cut: the older part is summed up and stays readable.
    Ok(match command(&caller.gate, &params, "/compact").await? {
        Ok(()) => Compacted { compacted: true, reason: None },
        Err(error) => Compacted { compacted: false, reason: Some(error.message) },
    })
}

/// Lets a command of the conversation do it, in its place among the messages. It is done even if the caller goes.
async fn command(gate: &Gate, of: &SessionRef, text: &str) -> Result<Result<(), ErrorBody>, Refusal> {
    let engine = gate.engine();
    let to = answering_key_of(engine.settings(), engine.tenant(), of.agent.as_deref(), &of.session)?;
    let key = random_text::<16>().map_err(|error| Refusal::new(ErrorCode::Internal, error.to_string()))?;
    let submitted = messages::said(gate, to, PostMessage { text: text.to_owned(), key, join: None }).await?;
    tokio::select! {
        ended = submitted.follower.end() => Ok(ended.map(|_| ())),
        // The run goes on at the next start.
        () = gate.closing.requested() => Err(Refusal::new(ErrorCode::Closing, "the gateway is shutting down")),
    }
}
