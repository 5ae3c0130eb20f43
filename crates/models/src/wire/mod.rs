//! Wire formats: one file a format, each pure. A format makes a request out of ours ([`Wire::prepare`]) and events out
//! of what comes back ([`Decoder`]); sending and reading is [`crate::call`]'s.

mod access;
mod anthropic;
mod arguments;
pub(crate) mod bedrock;
mod borrowed;
mod claude;
mod codex;
mod completions;
mod copilot;
mod emit;
pub(crate) mod google;
mod names;
mod ollama;
mod pieces;
mod responses;
#[cfg(test)]
mod samples;
mod sigv4;
#[cfg(test)]
pub(crate) mod testing;

use std::sync::Arc;

use tidegate_net::{Headers, Method};

pub(crate) use access::Access;
pub(crate) use emit::{Emit, Key, is_whole_object};
pub(crate) use names::Names;

use crate::catalogue::{Api, ModelInfo};
use crate::classify::classify;
use crate::failure::Failure;
use crate::frames::{Frame, Framing};
use crate::request::Request;

/// What a call is made with.
pub(crate) struct Target<'a> {
    pub(crate) model: &'a ModelInfo,
    pub(crate) access: &'a Access,
    /// Milliseconds since the epoch, for formats that sign.
    pub(crate) now_ms: i64,
}

/// A request as it goes out.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
}

pub(crate) trait Wire: Send + Sync {
    /// The vendor's request. Fails when the conversation cannot be said in this format.
    fn prepare(&self, request: &Request, target: &Target<'_>) -> Result<Prepared, Failure>;

    fn framing(&self) -> Framing;

    /// What reads one answer. It sees what was asked: a tool's name may have been written differently on the wire.
    fn decoder(&self, model: &ModelInfo, request: &Request) -> Box<dyn Decoder>;

    /// What an answer with an error status means. A format whose vendor says more than the others overrides it.
    fn refused(&self, status: u16, body: &str, _now_ms: i64) -> Failure {
        classify(Some(status), body)
    }
}

/// Reads one answer, frame by frame. It sees a frame once and in order; a server may still send nonsense, so what does
/// not fit is an error or is left out, never a panic.
pub(crate) trait Decoder: Send {
    fn frame(&mut self, frame: Frame<'_>, emit: &mut Emit) -> Result<(), Failure>;

    /// The body ended. Whoever has not said [`Emit::done`] by then was cut off.
    fn end(&mut self, _emit: &mut Emit) -> Result<(), Failure> {
        Ok(())
    }
}

/// The format of that name; the built-in models have none.
pub(crate) fn of(api: Api) -> Option<Arc<dyn Wire>> {
    Some(match api {
        Api::AnthropicMessages => Arc::new(anthropic::AnthropicMessages),
        Api::OpenaiCompletions => Arc::new(completions::OpenaiCompletions),
        Api::OpenaiResponses => Arc::new(responses::OpenaiResponses),
        Api::OpenaiCodexResponses => Arc::new(codex::CodexResponses),
        Api::GoogleGenerativeAi => Arc::new(google::GoogleGenerativeAi),
        Api::BedrockConverseStream => Arc::new(bedrock::BedrockConverse),
        Api::Ollama => Arc::new(ollama::Ollama),
        Api::Scripted | Api::Offline => return None,
    })
}

/// The format this model is asked in, with what its provider adds to it.
pub(crate) fn for_model(model: &ModelInfo) -> Option<Arc<dyn Wire>> {
    let wire = of(model.api)?;
    Some(if model.provider == copilot::PROVIDER { Arc::new(copilot::Copilot(wire)) } else { wire })
}
