//! `agent` and `agent.wait`: a turn whose caller waits for the end, on the same request or on another.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_engine::{Answer, Submitted, Wish};
use tidegate_protocol::{Block, ErrorBody, ErrorCode, ReplyTarget, RunId, SessionKey, ThinkingLevel, Usage};
use tidegate_storage::{RunLookup, RunRow, SessionChoice};

use super::answers::Null;
use super::{attachments, keys};
use crate::body;
use crate::gate::Gate;
use crate::methods::Caller;
use crate::presence::Leaving;
use crate::ws::frame::{UNAVAILABLE, WireError};

/// How long `agent.wait` waits when nobody says.
const WAIT: u64 = 30_000;
/// Longer than any run: an answer that is waited for longer is asked for again.
const LONGEST_WAIT: u64 = 24 * 3600 * 1000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct AgentParams {
    #[schemars(length(min = 1))]
    message: String,
    #[schemars(length(min = 1))]
    idempotency_key: String,
    agent_id: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    to: Option<String>,
    reply_to: Option<String>,
    session_id: Option<String>,
    session_key: Option<String>,
    thinking: Option<String>,
    deliver: Option<bool>,
    attachments: Option<Vec<Value>>,
    channel: Option<String>,
    reply_channel: Option<String>,
    account_id: Option<String>,
    reply_account_id: Option<String>,
    thread_id: Option<String>,
    group_id: Option<String>,
    group_channel: Option<String>,
    group_space: Option<String>,
    timeout: Option<u64>,
    lane: Option<String>,
    extra_system_prompt: Option<String>,
    #[schemars(length(min = 1, max = 64))]
    label: Option<String>,
    spawned_by: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitParams {
    #[schemars(length(min = 1))]
    run_id: String,
    timeout_ms: Option<u64>,
}

/// The first answer: it was accepted, and is durable.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AgentAccepted<'a> {
    run_id: &'a str,
    status: &'static str,
    accepted_at: i64,
}

/// The second answer: how it ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentEnded {
    run_id: String,
    status: &'static str,
    summary: &'static str,
    result: AgentResult,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AgentResult {
    /// Empty when the agent chose to say nothing.
    payloads: Vec<AgentPayload>,
    meta: AgentMeta,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentPayload {
    text: String,
    media_url: Null,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentMeta {
    duration_ms: i64,
    agent_meta: AnsweredBy,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnsweredBy {
    session_id: String,
    provider: String,
    model: String,
    usage: Usage,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentWaited {
    run_id: String,
    /// `ok`, `error`, or `timeout` when it has no end yet.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A message for an agent, from any method that has one.
pub(crate) struct Asking<'a> {
    pub(crate) key: SessionKey,
    pub(crate) text: String,
    /// What comes with it.
    pub(crate) images: Vec<Block>,
    /// What the caller calls the run; the same name again is the same message.
    pub(crate) name: &'a str,
    /// Which methods share their names.
    pub(crate) space: &'a str,
    pub(crate) wish: Wish<'a>,
    /// Whether commands in the text are followed.
    pub(crate) commands: bool,
}

/// Accepts it. It goes on when its caller goes: the log has the answer.
pub(crate) async fn submit(gate: &Gate, asking: Asking<'_>) -> Result<Submitted, WireError> {
    let Asking { key, text, images, name, space, wish, commands } = asking;
    if images.is_empty() || !text.is_empty() {
        body::check_text(&text)?;
    }
    body::check_key(name)?;
    let engine = gate.engine();
    let mut spec = engine.asked_spec(&key, &wish).await?;
    // A message with images is one: commands are texts.
    let commands = commands && images.is_empty();
    spec.brought = attachments::with_images(&text, images, gate.shared.now());
    let request = tidegate_engine::Request {
        principal: gate.principal(),
        key,
        session: SessionChoice::Current,
        ephemeral: false,
        text,
        commands,
        client_key: Some(name.to_owned()),
        idempotency: Some(format!("{space}:{name}")),
        spec,
        reply: ReplyTarget::Session,
        join: None,
        patience: None,
    };
    let (submitted, _) = gate.submit(request, Leaving::GoesOn).await?;
    Ok(submitted)
}

pub(crate) fn thinking(level: Option<&str>) -> Result<Option<ThinkingLevel>, WireError> {
    let Some(text) = level.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    if let Some(level) = ThinkingLevel::parse_alias(text) {
        return Ok(Some(level));
    }
    let known: Vec<&str> = ThinkingLevel::ALL.iter().map(|level| level.as_str()).collect();
    Err(WireError::invalid(format!("invalid thinking level {text:?}; use one of {}", known.join(", "))))
}

pub(crate) async fn agent(caller: Caller, params: AgentParams) -> Result<AgentEnded, WireError> {
    let gate = &caller.gate;
    let images = attachments::images(gate, params.attachments.as_ref()).await?;
    if params.deliver == Some(true) && (params.to.is_some() || params.reply_to.is_some()) {
        return Err(WireError::invalid("an answer cannot be delivered elsewhere yet; leave `deliver` out"));
    }
    let key = conversation(gate, &params).await?;
    let wish = Wish {
        provider: params.provider.as_deref(),
        model: params.model.as_deref(),
        timeout: params.timeout.filter(|seconds| *seconds > 0).map(Duration::from_secs),
        thinking: thinking(params.thinking.as_deref())?,
        // Upstream has a lane for any name; here an unknown one is none.
        lane: params.lane.as_deref().and_then(|lane| lane.parse().ok()),
        ..Wish::default()
    };
    let name = params.idempotency_key.as_str();
    let asking = Asking { key, text: params.message, images, name, space: "agent", wish, commands: true };
    let submitted = submit(gate, asking).await?;
    let accepted_at = submitted.created_at;
    caller.acknowledge(&AgentAccepted { run_id: name, status: "accepted", accepted_at });
    let began = gate.shared.now();
    let end = submitted.follower.end().await;
    ended(name, end, gate.shared.now() - began)
}

/// The second answer.
fn ended(name: &str, end: Result<Answer, ErrorBody>, duration_ms: i64) -> Result<AgentEnded, WireError> {
    match end {
        Ok(answer) => {
            let text = Some(answer.text).filter(|text| !text.is_empty());
            let payloads = text.into_iter().map(|text| AgentPayload { text, media_url: Null }).collect();
            let agent_meta = AnsweredBy {
                session_id: answer.session_name,
                provider: answer.origin.provider,
                model: answer.origin.model,
                usage: answer.usage,
            };
            let result = AgentResult { payloads, meta: AgentMeta { duration_ms, agent_meta } };
            Ok(AgentEnded { run_id: name.to_owned(), status: "ok", summary: "completed", result })
        }
        Err(error) => {
            let aborted = error.code == ErrorCode::Aborted;
            let mut wire = WireError::from(&error);
            wire.code = UNAVAILABLE;
            let status = if aborted { "aborted" } else { "error" };
            wire.payload =
                Some(Box::new(json!({ "runId": name, "status": status, "summary": error.message })));
            Err(wire)
        }
    }
}

/// Where the message goes: the conversation named, the one of an id, or the agent's main one.
async fn conversation(gate: &Gate, params: &AgentParams) -> Result<SessionKey, WireError> {
    let engine = gate.engine();
    let agent = params.agent_id.as_deref().map(str::trim).filter(|agent| !agent.is_empty());
    let key = match (params.session_key.as_deref(), params.session_id.as_deref()) {
        (Some(named), _) if !named.trim().is_empty() => {
            keys::read(engine.settings(), engine.tenant(), agent, named)?
        }
        (_, Some(id)) if !id.trim().is_empty() => {
            let row = engine.library().session_by_name(engine.tenant(), id.trim()).await?;
            match row {
                Some(row) => row.key,
                // A new name begins a conversation of its own.
                None => keys::read(engine.settings(), engine.tenant(), agent, id)?,
            }
        }
        _ => keys::read(engine.settings(), engine.tenant(), agent, "main")?,
    };
    if let Some(agent) = agent.filter(|agent| !agent.eq_ignore_ascii_case(key.scope.agent.as_str())) {
        let of = &key.scope.agent;
        return Err(WireError::invalid(format!(
            "agent \"{agent}\" does not match session key agent \"{of}\""
        )));
    }
    Ok(key)
}

/// A run by the name that its caller gave it, or by its id.
pub(crate) async fn find_run(gate: &Gate, name: &str) -> Result<Option<RunRow>, WireError> {
    let engine = gate.engine();
    if let Some(row) = engine.library().run(engine.tenant(), &RunLookup::ClientKey(name.to_owned())).await? {
        return Ok(Some(row));
    }
    let Ok(id) = name.parse::<RunId>() else { return Ok(None) };
    Ok(engine.library().run(engine.tenant(), &RunLookup::Id(id)).await?)
}

pub(crate) async fn wait(caller: Caller, params: WaitParams) -> Result<AgentWaited, WireError> {
    let gate = &caller.gate;
    let patience = Duration::from_millis(params.timeout_ms.unwrap_or(WAIT).min(LONGEST_WAIT));
    let timed_out = || AgentWaited {
        run_id: params.run_id.clone(),
        status: "timeout",
        started_at: None,
        ended_at: None,
        error: None,
    };
    let Some(row) = find_run(gate, params.run_id.trim()).await? else { return Ok(timed_out()) };
    let end = async { Ok::<_, WireError>(gate.engine().follow(row.id).await?.end().await) };
    let Ok(end) = tokio::time::timeout(patience, end).await else { return Ok(timed_out()) };
    let end = end?;
    let row = find_run(gate, params.run_id.trim()).await?.unwrap_or(row);
    // It was given back: it has no end yet, and goes on at the next start.
    if row.finished_at.is_none() && end.as_ref().is_err_and(|error| error.code == ErrorCode::Closing) {
        return Ok(timed_out());
    }
    Ok(AgentWaited {
        status: if end.is_ok() { "ok" } else { "error" },
        started_at: row.started_at,
        ended_at: row.finished_at,
        error: end.err().map(|error| error.message),
        run_id: params.run_id,
    })
}
