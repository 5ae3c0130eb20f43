//! One webhook from its request to its answer: proof, method, name, body, then what it asks for.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::ALLOW;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tidegate_config::schema::WakeMode;
use tidegate_engine::{Wish, fence};
use tidegate_policy::Principal;
use tidegate_protocol::{
    Lane, Logged, OutboundTarget, ReplyTarget, RunCommand, RunId, SessionKey, ThinkingLevel, ToolUse,
};
use tidegate_runtime::{iso_timestamp, new_id};
use tidegate_storage::SessionChoice;

use super::action::{Action, Work};
use super::mapping::{apply, waits_for_heartbeat};
use super::template::Facts;
use super::{AgentPayload, Hooks, Token, WakePayload, token_of};
use crate::access::TOO_MANY_WRONG;
use crate::answer::{Refusal, json_with};
use crate::body;
use crate::gate::Gate;
use crate::names::answering_key_of;
use crate::presence::Leaving;
use crate::token::same_secret;
use crate::ws::ComesFrom;

/// The agent's main conversation.
const MAIN: &str = "main";
const PREFIX: &str = "hook:";

/// Why a webhook does nothing.
struct Unheard {
    status: StatusCode,
    message: String,
}

impl Unheard {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
}

impl From<Refusal> for Unheard {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.status(), refusal.message())
    }
}

/// Answers a request below the hooks' own path.
pub(crate) async fn receive(gate: &Gate, hooks: &Hooks, name: &str, request: Request) -> Response {
    let answered = match handle(gate, hooks, name, request).await {
        Ok((status, answer)) => json_with(status, &answer),
        Err(Unheard { status, message }) => return unheard(status, &message),
    };
    answered.unwrap_or_else(Refusal::into_response)
}

/// What the sender of a webhook reads that came to nothing.
pub(crate) fn unheard(status: StatusCode, message: &str) -> Response {
    let answered = json_with(status, &json!({ "ok": false, "error": message })).map(|mut response| {
        if status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response
    });
    answered.unwrap_or_else(Refusal::into_response)
}

async fn handle(
    gate: &Gate,
    hooks: &Hooks,
    name: &str,
    request: Request,
) -> Result<(StatusCode, Value), Unheard> {
    let (parts, content) = request.into_parts();
    prove(gate, hooks, &parts)?;
    if parts.method != Method::POST {
        return Err(Unheard::new(StatusCode::METHOD_NOT_ALLOWED, "webhooks are sent with POST"));
    }
    if name.is_empty() {
        return Err(Unheard::new(StatusCode::NOT_FOUND, "name a hook behind the path"));
    }
    let bytes = body::bytes(content, hooks.largest).await?;
    let content: Value = match bytes.as_slice() {
        [] => json!({}),
        bytes => serde_json::from_slice(bytes).map_err(|error| Unheard::bad(format!("no JSON: {error}")))?,
    };
    let key = idempotency(&parts)?;
    let fresh = fresh(gate, key.as_deref())?;
    let (hook, action) = read(gate, hooks, name, &parts, &content, &fresh)?;
    let task = Task { gate, hook, fresh, key };
    match action {
        Action::Wake { text, mode } => task.wake(text, mode).await,
        Action::Agent(work) => task.work(*work).await,
    }
}

fn prove(gate: &Gate, hooks: &Hooks, parts: &Parts) -> Result<(), Unheard> {
    let refused = |message: &str| Unheard::new(StatusCode::UNAUTHORIZED, message);
    match token_of(&parts.headers, parts.uri.query()) {
        Token::Header(given) if same_secret(hooks.token.expose(), given) => Ok(()),
        Token::Header(_) => {
            let from = parts.extensions.get::<ComesFrom>().map(|from| from.0);
            if gate.shared.guesses.wrong(from, gate.shared.now()) {
                return Err(Unheard::new(StatusCode::TOO_MANY_REQUESTS, TOO_MANY_WRONG));
            }
            Err(refused("the token is wrong; it is hooks.token of the configuration"))
        }
        Token::Address => Err(refused(
            "a token in the address is refused: logs keep it. Send it as `Authorization: Bearer` or `x-tidegate-token`",
        )),
        Token::Missing => Err(refused("send the token as `Authorization: Bearer` or `x-tidegate-token`")),
    }
}

/// The name of a conversation that nobody has; the same webhook again finds the same one.
fn fresh(gate: &Gate, key: Option<&str>) -> Result<String, Unheard> {
    if let Some(key) = key {
        let digest = Sha256::digest(key.as_bytes());
        return Ok(digest[..16].iter().fold(String::new(), |name, byte| format!("{name}{byte:02x}")));
    }
    let id: Result<RunId, _> = new_id(gate.shared.options.clock.as_ref());
    let id = id.map_err(|error| Unheard::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(id.to_string())
}

fn idempotency(parts: &Parts) -> Result<Option<String>, Unheard> {
    let given = parts.headers.get("idempotency-key").and_then(|value| value.to_str().ok());
    let Some(given) = given.map(str::trim) else { return Ok(None) };
    body::check_key(given)?;
    Ok(Some(format!("{PREFIX}{given}")))
}

/// What is asked for, and by which hook.
fn read(
    gate: &Gate,
    hooks: &Hooks,
    name: &str,
    parts: &Parts,
    content: &Value,
    fresh: &str,
) -> Result<(String, Action), Unheard> {
    let action = match name {
        "wake" => WakePayload::read(content).map(WakePayload::action),
        "agent" => {
            let channels = gate.engine().channels();
            let mut channels: Vec<_> = channels.iter().map(|status| status.channel.to_string()).collect();
            channels.dedup();
            AgentPayload::read(content, fresh, &channels).map(AgentPayload::action)
        }
        _ => {
            let (headers, query) = (headers_of(parts), query_of(parts));
            let now = iso_timestamp(gate.shared.now());
            let facts = Facts { payload: content, headers: &headers, query: &query, path: name, now: &now };
            let found = apply(&hooks.mappings, &facts);
            let (id, action) = found.ok_or_else(|| {
                Unheard::new(StatusCode::NOT_FOUND, format!("no hook fits {name:?}; see hooks.mappings"))
            })?;
            return Ok((id.to_owned(), action.map_err(Unheard::bad)?));
        }
    };
    Ok((name.to_owned(), action.map_err(Unheard::bad)?))
}

fn headers_of(parts: &Parts) -> BTreeMap<String, String> {
    let pairs = parts.headers.iter().filter_map(|(name, value)| Some((name, value.to_str().ok()?)));
    pairs.map(|(name, value)| (name.as_str().to_owned(), value.to_owned())).collect()
}

fn query_of(parts: &Parts) -> BTreeMap<String, String> {
    crate::query::pairs(parts.uri.query())
}

/// One webhook that is understood.
struct Task<'a> {
    gate: &'a Gate,
    /// By the operator's name.
    hook: String,
    fresh: String,
    key: Option<String>,
}

impl Task<'_> {
    async fn wake(self, text: String, mode: WakeMode) -> Result<(StatusCode, Value), Unheard> {
        let text = fenced(&self.hook, &text);
        let unanswered = RunCommand::Say { text: String::new(), logged: Some(Logged::Question) };
        let command = waits_for_heartbeat(mode).then_some(unanswered);
        self.submit(MAIN, text, &Wish::default(), command, ReplyTarget::Session).await?;
        Ok((StatusCode::OK, json!({ "ok": true, "mode": mode })))
    }

    async fn work(self, work: Work) -> Result<(StatusCode, Value), Unheard> {
        check_mode(work.mode)?;
        let name = work.name.as_deref().unwrap_or("Hook");
        let text = match work.trusted {
            Some(true) => work.message.clone(),
            _ => fenced(name, &work.message),
        };
        let wish = Wish {
            model: work.model.as_deref(),
            thinking: work.thinking.as_deref().map(level).transpose()?,
            timeout: work.timeout_seconds.map(|seconds| Duration::from_secs(u64::from(seconds))),
            ..Wish::default()
        };
        let session = work.session.clone().unwrap_or_else(|| format!("{PREFIX}{}", self.fresh));
        // No webhook writes into the conversations of people.
        let session = if session.starts_with(PREFIX) { session } else { format!("{PREFIX}{session}") };
        let reply = self.reply(&work, name)?;
        let run = self.submit(&session, text, &wish, None, reply).await?;
        Ok((StatusCode::ACCEPTED, json!({ "ok": true, "runId": run })))
    }

    /// Where it is told what came of the work.
    fn reply(&self, work: &Work, name: &str) -> Result<ReplyTarget, Unheard> {
        if work.deliver == Some(false) {
            return Ok(ReplyTarget::Session);
        }
        let channel = work.channel.as_deref().unwrap_or("last");
        if channel == "last" {
            let (key, reply) = (Box::new(self.session(MAIN)?), Box::new(ReplyTarget::Session));
            return Ok(ReplyTarget::Announce { key, reply, label: name.to_owned() });
        }
        let channels = self.gate.engine().channels();
        let found = channels.into_iter().find(|status| status.channel.as_str() == channel);
        let status = found.ok_or_else(|| Unheard::bad(format!("there is no channel {channel:?} here")))?;
        let to = work.to.clone().ok_or_else(|| Unheard::bad("to required: whom to tell on the channel"))?;
        Ok(ReplyTarget::Channel {
            channel: status.channel,
            account_id: status.account,
            target: OutboundTarget { peer_id: to, thread_id: None },
            in_reply_to: None,
        })
    }

    fn session(&self, name: &str) -> Result<SessionKey, Unheard> {
        let engine = self.gate.engine();
        Ok(answering_key_of(engine.settings(), engine.tenant(), None, name)?)
    }

    async fn submit(
        &self,
        session: &str,
        text: String,
        wish: &Wish<'_>,
        command: Option<RunCommand>,
        reply: ReplyTarget,
    ) -> Result<RunId, Unheard> {
        let engine = self.gate.engine();
        let key = self.session(session)?;
        let mut spec = engine.asked_spec(&key, wish).await.map_err(Refusal::from)?;
        spec.tools = ToolUse { unattended: true, ..spec.tools };
        // However many come, those who wait for an answer keep their places.
        spec.lane = Some(Lane::Cron);
        spec.command = command;
        let request = tidegate_engine::Request {
            principal: Principal::webhook(engine.tenant().clone(), &self.hook),
            key,
            session: SessionChoice::Current,
            ephemeral: false,
            text,
            commands: false,
            client_key: None,
            idempotency: self.key.clone(),
            spec,
            reply,
            join: None,
            patience: None,
        };
        let (submitted, _) = self.gate.submit(request, Leaving::GoesOn).await?;
        Ok(submitted.run)
    }
}

fn fenced(name: &str, text: &str) -> String {
    fence(&format!("the webhook {name}"), text)
}

fn level(text: &str) -> Result<ThinkingLevel, Unheard> {
    ThinkingLevel::parse_alias(text)
        .ok_or_else(|| Unheard::bad(format!("thinking: there is no level {text:?}")))
}

fn check_mode(mode: WakeMode) -> Result<(), Unheard> {
    if waits_for_heartbeat(mode) {
        let message =
            "there are no heartbeats in this version, so work cannot wait for the next one; send mode now";
        return Err(Unheard::new(StatusCode::NOT_IMPLEMENTED, message));
    }
    Ok(())
}
