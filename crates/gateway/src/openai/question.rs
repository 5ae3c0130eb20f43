//! One question of a program, on its way to the engine: what both interfaces have in common.

use std::time::Duration;

use axum::http::HeaderMap;
use serde_json::Value;
use tidegate_engine::Wish;
use tidegate_protocol::{Block, Brought, ErrorCode, Message, ReplyTarget, RunId, RunSpec, SessionKey};
use tidegate_runtime::new_id;
use tidegate_storage::SessionChoice;

use super::error::{invalid, missing};
use super::route::{self, Surface};
use super::said::Said;
use super::tools;
use super::turn::{Asked, Keeper, asked};
use crate::answer::Refusal;
use crate::body;
use crate::gate::Gate;
use crate::names::answering_key_of;
use crate::presence::Leaving;

/// Bytes of a request: the text, and some images.
pub(super) const LARGEST: usize = 20 * 1024 * 1024;
/// Images at most.
const MOST_IMAGES: usize = 16;
/// For all of them to arrive.
const IMAGE_PATIENCE: Duration = Duration::from_mins(1);

/// A question as it came.
pub(super) struct Question<'a> {
    pub(super) surface: Surface,
    pub(super) headers: &'a HeaderMap,
    pub(super) model: Option<&'a str>,
    pub(super) user: Option<&'a str>,
    pub(super) said: Vec<Said>,
    /// The part of the body that holds what was said.
    pub(super) param: &'static str,
    pub(super) tools: &'a [Value],
    pub(super) tool_choice: Option<&'a Value>,
    pub(super) max_tokens: Option<u32>,
    /// The conversation that is gone on with.
    pub(super) continued: Option<SessionKey>,
}

/// A question the engine can take.
pub(super) struct Ready {
    pub(super) request: tidegate_engine::Request,
    pub(super) leaving: Leaving,
    /// The model as the answer names it.
    pub(super) model: String,
}

impl Question<'_> {
    pub(super) async fn translate(self, gate: &Gate) -> Result<Ready, Refusal> {
        let (key, one_off) = self.conversation(gate)?;
        let keeper = if one_off && self.continued.is_none() { Keeper::Program } else { Keeper::Gateway };
        let now = gate.shared.now();
        let Some(asked) = asked(&self.said, keeper, now) else {
            let message = format!("Missing user message in `{}`.", self.param);
            return Err(Refusal::new(ErrorCode::BadRequest, message));
        };
        if asked.text.len() > body::LARGEST_TEXT {
            return Err(invalid(self.param, "a text may have 1 MiB"));
        }
        let mut spec = self.spec(gate, &key, one_off).await?;
        let (text, brought) = self.brought(gate, asked).await?;
        spec.brought = brought;
        let idempotency = route::idempotency(self.headers).map(str::to_owned);
        if let Some(key) = &idempotency {
            body::check_key(key)?;
        }
        // Whoever sends a key says that they may come back for the answer.
        let leaving = if one_off && idempotency.is_none() { Leaving::Aborts } else { Leaving::GoesOn };
        let model = match self.model {
            Some(model) => model.to_owned(),
            None => route::model_of(key.scope.agent.as_str()),
        };
        let request = tidegate_engine::Request {
            principal: gate.principal(),
            key,
            session: SessionChoice::Current,
            ephemeral: one_off,
            text,
            commands: false,
            client_key: idempotency.clone(),
            idempotency,
            spec,
            reply: ReplyTarget::Caller,
            join: None,
            patience: None,
        };
        Ok(Ready { request, leaving, model })
    }

    fn conversation(&self, gate: &Gate) -> Result<(SessionKey, bool), Refusal> {
        if let Some(key) = &self.continued {
            return Ok((key.clone(), super::is_one_off(key)));
        }
        let fresh: RunId = new_id(gate.shared.options.clock.as_ref())
            .map_err(|error| Refusal::new(ErrorCode::Internal, error.to_string()))?;
        let conversation = route::conversation(self.surface, self.headers, self.user, &fresh.to_string());
        let agent = route::agent(self.headers, self.model);
        let engine = gate.engine();
        let key = answering_key_of(engine.settings(), engine.tenant(), agent, &conversation.name)?;
        Ok((key, conversation.one_off))
    }

    /// What the run is promised. A conversation that serves one request has no choices of its own to look up.
    async fn spec(&self, gate: &Gate, key: &SessionKey, one_off: bool) -> Result<RunSpec, Refusal> {
        let engine = gate.engine();
        let model = route::vendors_model(self.model);
        if let Some(model) = model.filter(|model| engine.settings().catalogue().resolve(model).is_none()) {
            return Err(missing("model", format!("there is no model {model:?}; GET /v1/models lists some")));
        }
        let wish = Wish { model, ..Wish::default() };
        let mut spec = if one_off {
            engine.settings().asked_spec(&key.scope, &wish)?
        } else {
            engine.asked_spec(key, &wish).await?
        };
        if let Some(wanted) = self.max_tokens {
            if wanted == 0 {
                return Err(invalid("max_tokens", "an answer needs at least one token"));
            }
            spec.limits.max_tokens = Some(spec.limits.max_tokens.map_or(wanted, |most| most.min(wanted)));
        }
        Ok(spec)
    }

    /// What comes with the question, if anything does.
    async fn brought(&self, gate: &Gate, asked: Asked) -> Result<(String, Option<Box<Brought>>), Refusal> {
        let Asked { instructions, text, before, input } = asked;
        let mut brought = Brought { instructions, before, input, ..Brought::default() };
        tools::read(self.tools, self.tool_choice, &mut brought)?;
        get_images(gate, &mut brought).await?;
        let some = brought != Brought::default();
        Ok((text, some.then(|| Box::new(brought))))
    }
}

/// Puts the bytes of images where their addresses stand.
async fn get_images(gate: &Gate, brought: &mut Brought) -> Result<(), Refusal> {
    let images = images_of(brought);
    if images.len() > MOST_IMAGES {
        return Err(Refusal::new(ErrorCode::BadRequest, format!("there may be {MOST_IMAGES} images")));
    }
    let all = async {
        for block in images {
            if let Block::Image { data: address, .. } = block {
                *block = gate.engine().picture(address).await?;
            }
        }
        Ok(())
    };
    let late = || Refusal::new(ErrorCode::BadRequest, "the images did not arrive in time");
    tokio::time::timeout(IMAGE_PATIENCE, all).await.unwrap_or_else(|_| Err(late()))
}

fn images_of(brought: &mut Brought) -> Vec<&mut Block> {
    let mut images = Vec::new();
    for message in brought.before.iter_mut().chain(&mut brought.input) {
        if let Message::User { content, .. } = message {
            images.extend(content.iter_mut().filter(|block| matches!(block, Block::Image { .. })));
        }
    }
    images
}
