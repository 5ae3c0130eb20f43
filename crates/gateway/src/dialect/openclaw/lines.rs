//! Lines that no model writes or answers: put into a log (`chat.inject`), sent to a channel (`send`), left for the agent
//! (`wake`).
//!
//! Each is a run that asks nobody, so it keeps its place among the others of its conversation, is durable when it is
//! accepted, and comes to an end that watchers hear.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_engine::{ChannelStatus, Submitted, Wish};
use tidegate_protocol::{
    ChannelName, Logged, OutboundTarget, OutboxId, Place, ReplyTarget, RunCommand, RunId, RunSpec, SessionKey,
};
use tidegate_storage::{RunLookup, SessionChoice};

use super::agent::{Asking, submit};
use super::answers::{DONE, Done};
use super::chat::key_of;
use super::keys;
use crate::body;
use crate::gate::Gate;
use crate::methods::Caller;
use crate::presence::Leaving;
use crate::token::random_text;
use crate::ws::frame::WireError;

/// How long a line may wait behind the run under way before its caller is told that it waits.
const PATIENCE: Duration = Duration::from_mins(1);
/// What stands before a word to an agent that no person wrote as a message.
const SYSTEM: &str = "System event: ";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatInject {
    #[schemars(length(min = 1))]
    session_key: String,
    #[schemars(length(min = 1))]
    message: String,
    #[schemars(length(max = 100))]
    label: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct Send {
    #[schemars(length(min = 1))]
    to: String,
    #[schemars(length(min = 1))]
    message: String,
    media_url: Option<String>,
    media_urls: Option<Vec<String>>,
    gif_playback: Option<bool>,
    channel: Option<String>,
    account_id: Option<String>,
    session_key: Option<String>,
    #[schemars(length(min = 1))]
    idempotency_key: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wake {
    #[schemars(length(min = 1))]
    mode: String,
    #[schemars(length(min = 1))]
    text: String,
}

/// A line that was put into a log, or waits for its turn.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ChatInjected {
    Put(LinePut),
    Queued(LineQueued),
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LinePut {
    ok: bool,
    message_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LineQueued {
    ok: bool,
    queued: bool,
}

/// A message that is on its way to a channel, or waits for its turn.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LineSent {
    run_id: String,
    channel: ChannelName,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<OutboxId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queued: Option<bool>,
}

/// What is put, and where.
struct Line {
    key: SessionKey,
    /// What came in; empty when only something is said.
    came: String,
    /// What is said.
    said: String,
    logged: Logged,
    reply: ReplyTarget,
    name: String,
    idempotency: Option<String>,
}

async fn put(gate: &Gate, line: Line) -> Result<Submitted, WireError> {
    let engine = gate.engine();
    let spec = engine.asked_spec(&line.key, &Wish::default()).await?;
    let command = RunCommand::Say { text: line.said, logged: Some(line.logged) };
    let request = tidegate_engine::Request {
        principal: gate.principal(),
        key: line.key,
        session: SessionChoice::Current,
        ephemeral: false,
        text: line.came,
        commands: false,
        client_key: Some(line.name),
        idempotency: line.idempotency,
        spec: RunSpec { command: Some(command), ..spec },
        reply: line.reply,
        join: None,
        patience: None,
    };
    Ok(gate.submit(request, Leaving::GoesOn).await?.0)
}

/// Waits until the line is where it belongs; `false` when it still waits for its turn.
async fn is_put(submitted: Submitted) -> Result<bool, WireError> {
    match tokio::time::timeout(PATIENCE, submitted.follower.end()).await {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(error)) => Err(WireError::from(&error)),
        Err(_) => Ok(false),
    }
}

pub(crate) async fn inject(caller: Caller, params: ChatInject) -> Result<ChatInjected, WireError> {
    let gate = &caller.gate;
    body::check_text(&params.message)?;
    let key = key_of(gate, None, &params.session_key)?;
    let label = params.label.as_deref().map(str::trim).filter(|label| !label.is_empty());
    let said = match label {
        Some(label) => format!("[{label}]\n\n{}", params.message),
        None => params.message,
    };
    let name = format!("inject-{}", fresh()?);
    let reply = ReplyTarget::Session;
    let line =
        Line { key, came: String::new(), said, logged: Logged::Answer, reply, name, idempotency: None };
    let submitted = put(gate, line).await?;
    let run = submitted.run;
    if !is_put(submitted).await? {
        return Ok(ChatInjected::Queued(LineQueued { ok: true, queued: true }));
    }
    Ok(ChatInjected::Put(LinePut { ok: true, message_id: entry_of(gate, run).await? }))
}

/// The line of the log that a run left.
async fn entry_of(gate: &Gate, run: RunId) -> Result<Option<String>, WireError> {
    let engine = gate.engine();
    let row = engine.library().run(engine.tenant(), &RunLookup::Id(run)).await?;
    let place = row.and_then(|row| Some((row.session?, row.entries?.1)));
    let Some((session, seq)) = place else { return Ok(None) };
    let entries = engine.library().entries(engine.tenant(), session, seq - 1, 1).await?;
    Ok(entries.first().map(|entry| entry.id.to_string()))
}

pub(crate) async fn send(caller: Caller, params: Send) -> Result<LineSent, WireError> {
    let gate = &caller.gate;
    body::check_text(&params.message)?;
    body::check_key(&params.idempotency_key)?;
    if params.media_url.is_some() || params.media_urls.as_ref().is_some_and(|urls| !urls.is_empty()) {
        return Err(WireError::invalid("media cannot be sent yet; put a link into the message"));
    }
    let channels = gate.engine().channels();
    let account = account(&channels, params.channel.as_deref(), params.account_id.as_deref())?;
    let (channel, account_id) = (account.channel.clone(), account.account.clone());
    let peer = params.to.trim();
    if peer.is_empty() {
        return Err(WireError::invalid("to is empty: say whom to send it to"));
    }
    let key = match params.session_key.as_deref().map(str::trim).filter(|key| !key.is_empty()) {
        Some(key) => key_of(gate, None, key)?,
        None => SessionKey {
            scope: gate.engine().settings().scope(None)?,
            place: Place::Dm {
                channel: Some(channel.clone()),
                account: Some(account_id.clone()).filter(|account| !account.is_empty()),
                peer: peer.to_owned(),
            },
            thread: None,
        },
    };
    let target = OutboundTarget { peer_id: peer.to_owned(), thread_id: None };
    let reply = ReplyTarget::Channel { channel: channel.clone(), account_id, target, in_reply_to: None };
    let name = params.idempotency_key;
    let line = Line {
        key,
        came: String::new(),
        said: params.message,
        logged: Logged::Answer,
        reply,
        idempotency: Some(format!("send:{name}")),
        name: name.clone(),
    };
    let submitted = put(gate, line).await?;
    let run = submitted.run;
    if !is_put(submitted).await? {
        return Ok(LineSent { run_id: name, channel, message_id: None, queued: Some(true) });
    }
    let parts = gate.engine().library().outbox_of(gate.engine().tenant(), run).await?;
    let Some(part) = parts.first() else {
        let message =
            "nothing was sent: this agent only shows what it would do (`shadow` in the configuration)";
        return Err(WireError::invalid(message));
    };
    Ok(LineSent { run_id: name, channel, message_id: Some(part.id), queued: None })
}

/// The account that a message goes out by.
fn account<'c>(
    channels: &'c [ChannelStatus],
    channel: Option<&str>,
    account: Option<&str>,
) -> Result<&'c ChannelStatus, WireError> {
    let given = |text: Option<&str>| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let (channel, account) = (given(channel), given(account));
    let mut names: Vec<&str> = channels.iter().map(|status| status.channel.as_str()).collect();
    names.dedup();
    let Some(first) = names.first() else {
        return Err(WireError::invalid("no channel is configured here; see `channels` in the configuration"));
    };
    let channel = match channel {
        Some(channel) => channel,
        None if names.len() == 1 => (*first).to_owned(),
        None => return Err(WireError::invalid(format!("channel required; there are: {}", names.join(", ")))),
    };
    let of_channel = || channels.iter().filter(|status| status.channel.as_str() == channel);
    if of_channel().next().is_none() {
        let known = names.join(", ");
        return Err(WireError::invalid(format!("unknown channel: {channel}; there are: {known}")));
    }
    let found = of_channel().find(|status| account.as_ref().is_none_or(|account| status.account == *account));
    found.ok_or_else(|| {
        let known: Vec<&str> = of_channel().map(|status| status.account.as_str()).collect();
        let account = account.unwrap_or_default();
        WireError::invalid(format!(
            "unknown account of {channel}: {account}; there are: {}",
            known.join(", ")
        ))
    })
}

pub(crate) async fn wake(caller: Caller, params: Wake) -> Result<Done, WireError> {
    let gate = &caller.gate;
    body::check_text(&params.text)?;
    let engine = gate.engine();
    let key = keys::read(engine.settings(), engine.tenant(), None, "main")?;
    let text = format!("{SYSTEM}{}", params.text.trim());
    let name = format!("wake-{}", fresh()?);
    match params.mode.as_str() {
        "now" => {
            let asking = Asking {
                key,
                text,
                images: Vec::new(),
                name: &name,
                space: "wake",
                wish: Wish::default(),
                commands: false,
            };
            submit(gate, asking).await?;
        }
        "next-heartbeat" => {
            put(gate, left_for_the_next_run(key, text, name)).await?;
        }
        _ => return Err(WireError::invalid("mode must be `now` or `next-heartbeat`")),
    }
    Ok(DONE)
}

/// Nobody answers it; the next run of the conversation reads it.
fn left_for_the_next_run(key: SessionKey, text: String, name: String) -> Line {
    Line {
        key,
        came: text,
        said: String::new(),
        logged: Logged::Question,
        reply: ReplyTarget::Session,
        name,
        idempotency: None,
    }
}

fn fresh() -> Result<String, WireError> {
    random_text::<8>().map_err(|error| WireError::unavailable(error.to_string()))
}
