//! Gemini's stream. Its parts have no names: a block goes on as long as the kind of its parts stays the same, and a call
//! arrives whole.

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_protocol::{StopReason, Usage};

use crate::classify::classify;
use crate::failure::{Failure, FailureKind};
use crate::frames::Frame;
use crate::request::Request;
use crate::stream::BlockKind;
use crate::wire::borrowed::Text;
use crate::wire::pieces::CallIds;
use crate::wire::{Decoder, Emit, Key, Names};

pub(super) struct Decode {
    names: Names,
    ids: CallIds,
    /// Whether the block that is being written is a thought; its key is the number of blocks before it.
    thinks: Option<bool>,
    key: Key,
}

impl Decode {
    pub(super) fn new(request: &Request) -> Self {
        let (names, ids) = (Names::new(&request.tools), CallIds::after(&request.messages));
        Self { names, ids, thinks: None, key: 0 }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow, default)]
    candidates: Vec<Candidate<'a>>,
    #[serde(borrow)]
    prompt_feedback: Option<Feedback<'a>>,
    usage_metadata: Option<Tokens>,
    error: Option<Trouble>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
    #[serde(borrow)]
    finish_message: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Vec<Part<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(default)]
    thought: bool,
    #[serde(borrow)]
    thought_signature: Option<Text<'a>>,
    #[serde(borrow)]
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
struct FunctionCall<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    name: Text<'a>,
    args: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(borrow)]
    block_reason: Option<Text<'a>>,
    #[serde(borrow)]
    block_reason_message: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tokens {
    #[serde(rename = "promptTokenCount")]
    prompt: u64,
    #[serde(rename = "toolUsePromptTokenCount")]
    tool_use: u64,
    #[serde(rename = "cachedContentTokenCount")]
    cached: u64,
    #[serde(rename = "candidatesTokenCount")]
    candidates: u64,
    #[serde(rename = "thoughtsTokenCount")]
    thoughts: u64,
}

#[derive(Deserialize)]
struct Trouble {
    code: Option<u16>,
}

impl Decoder for Decode {
    fn frame(&mut self, frame: Frame<'_>, emit: &mut Emit) -> Result<(), Failure> {
        // Servers that imitate others end their streams with this.
        if frame.data == b"[DONE]" {
            return Ok(());
        }
        let chunk: Chunk<'_> = serde_json::from_slice(frame.data).map_err(|error| {
            Failure::new(FailureKind::Broken, format!("a piece of the answer cannot be read: {error}"))
        })?;
        if let Some(trouble) = chunk.error {
            let failure = classify(trouble.code, &String::from_utf8_lossy(frame.data));
            return Err(Failure { status: None, ..failure });
        }
        if let Some(tokens) = chunk.usage_metadata {
            emit.usage(usage(&tokens));
        }
        if let Some(feedback) = chunk.prompt_feedback {
            blocked(&feedback)?;
        }
        // More than one is never asked for.
        let Some(candidate) = chunk.candidates.into_iter().next() else { return Ok(()) };
        for part in candidate.content.map(|content| content.parts).unwrap_or_default() {
            self.part(part, emit);
        }
        match candidate.finish_reason {
            Some(reason) => finish(&reason, candidate.finish_message.as_deref(), emit),
            None => Ok(()),
        }
    }
}

impl Decode {
    fn part(&mut self, part: Part<'_>, emit: &mut Emit) {
        if emit.is_done() {
            return;
        }
        let signature = part.thought_signature.filter(|signature| !signature.is_empty());
        if let Some(call) = part.function_call {
            self.end_block(emit);
            let id = self.ids.next(call.id.as_deref(), &call.name);
            emit.open(
                self.key,
                BlockKind::ToolCall { id, name: self.names.from_wire(&call.name).into_owned() },
            );
            emit.push(self.key, &Value::Object(call.args.unwrap_or_default()).to_string());
            if let Some(signature) = signature {
                emit.sign(self.key, &*signature);
            }
            emit.close(self.key);
            self.key += 1;
            return;
        }
        let text = part.text.as_deref().unwrap_or_default();
        // A signature may come behind its block in a part that has nothing else.
        if !text.is_empty() && self.thinks != Some(part.thought) {
            self.end_block(emit);
            self.thinks = Some(part.thought);
            emit.open(self.key, if part.thought { BlockKind::Thinking } else { BlockKind::Text });
        }
        emit.push(self.key, text);
        if let Some(signature) = signature {
            emit.sign(self.key, &*signature);
        }
    }

    fn end_block(&mut self, emit: &mut Emit) {
        if self.thinks.take().is_some() {
            emit.close(self.key);
            self.key += 1;
        }
    }
}

/// Tokens of the prompt include the cached ones; thoughts are not among those of the answer.
fn usage(tokens: &Tokens) -> Usage {
    let prompt = tokens.prompt.saturating_add(tokens.tool_use);
    Usage {
        input: prompt.saturating_sub(tokens.cached),
        output: tokens.candidates.saturating_add(tokens.thoughts),
        cache_read: tokens.cached,
        ..Usage::default()
    }
}

fn blocked(feedback: &Feedback<'_>) -> Result<(), Failure> {
    let Some(reason) = &feedback.block_reason else { return Ok(()) };
    let message = match &feedback.block_reason_message {
        Some(message) => message.to_string(),
        None => format!("the provider's filter blocked the request ({})", &**reason),
    };
    Err(Failure::new(FailureKind::Refused, message))
}

fn finish(reason: &str, words: Option<&str>, emit: &mut Emit) -> Result<(), Failure> {
    let kind = match reason {
        "STOP" => {
            emit.done(StopReason::Stop);
            return Ok(());
        }
        "MAX_TOKENS" => {
            emit.done(StopReason::Length);
            return Ok(());
        }
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => FailureKind::Refused,
        _ => FailureKind::Broken,
    };
    if emit.is_done() {
        return Ok(());
    }
    let message = match words {
        Some(words) => format!("the model stopped with {reason}: {words}"),
        None => format!("the model stopped with {reason}"),
    };
    Err(Failure::new(kind, message))
}
