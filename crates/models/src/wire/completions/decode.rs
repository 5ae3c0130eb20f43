//! The stream of an answer.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tidegate_protocol::{StopReason, Usage};

use super::super::borrowed::{First, JsonText, Text, unreadable};
use super::super::{Decoder, Emit, Key, Names};
use super::THOUGHT_FIELDS;
use super::calls::Calls;
use super::content::{Content, Part};
use crate::classify::classify;
use crate::failure::{Failure, FailureKind};
use crate::frames::Frame;
use crate::stream::BlockKind;

/// Reads one answer. The format has no blocks: one begins where the kind changes.
#[derive(Default)]
pub(super) struct Completions {
    /// The text or thought that is being said.
    speaking: Option<(Speech, Key)>,
    calls: Calls,
    next: Key,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Speech {
    Text,
    /// With the field it comes in, if it goes back there.
    Thought(Option<&'static str>),
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default, borrow, bound(deserialize = "'de: 'a"))]
    choices: First<Choice<'a>>,
    usage: Option<Tokens>,
    error: Option<IgnoredAny>,
    #[serde(borrow)]
    object: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    /// What servers send that answer in one piece.
    #[serde(borrow)]
    message: Option<Delta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    refusal: Option<Text<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<Text<'a>>,
    #[serde(borrow)]
    reasoning: Option<Text<'a>>,
    #[serde(borrow)]
    reasoning_text: Option<Text<'a>>,
    reasoning_details: Option<Vec<Value>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct CallDelta<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) arguments: Option<JsonText<'a>>,
}

#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the vendors' names")]
struct Tokens {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    /// Moonshot's place for it.
    cached_tokens: Option<u64>,
    /// DeepSeek's place for it.
    prompt_cache_hit_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl Decoder for Completions {
    fn frame(&mut self, frame: Frame<'_>, emit: &mut Emit) -> Result<(), Failure> {
        let data = frame.data.trim_ascii();
        if data.is_empty() {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.finish(StopReason::Stop, emit);
            return Ok(());
        }
        let chunk: Chunk<'_> = match serde_json::from_slice(data) {
            Ok(chunk) => chunk,
            Err(_) if frame.event == "error" => return Err(refused(data)),
            Err(error) => return Err(unreadable(&error)),
        };
        if chunk.error.is_some() || chunk.object.as_deref() == Some("error") || frame.event == "error" {
            return Err(refused(data));
        }
        let choice = chunk.choices.0;
        let told = chunk.usage.as_ref().or_else(|| choice.as_ref()?.usage.as_ref());
        if let Some(tokens) = told {
            emit.usage(tokens.usage());
        }
        let Some(choice) = choice else { return Ok(()) };
        if let Some(delta) = choice.delta.or(choice.message).filter(|_| !emit.is_done()) {
            self.take(delta, emit);
        }
        match choice.finish_reason.as_deref() {
            None | Some("") => {}
            Some(reason) => self.finish(stop_reason(reason)?, emit),
        }
        Ok(())
    }
}

impl Completions {
    pub(super) fn new(names: Names) -> Self {
        Self { calls: Calls::new(names), ..Self::default() }
    }

    fn take(&mut self, delta: Delta<'_>, emit: &mut Emit) {
        let thoughts = [&delta.reasoning_content, &delta.reasoning, &delta.reasoning_text];
        // Some servers send the same thought in two fields.
        let thought = THOUGHT_FIELDS
            .into_iter()
            .zip(thoughts)
            .find_map(|(field, words)| Some((field, words.as_deref().filter(|words| !words.is_empty())?)));
        if let Some((field, words)) = thought {
            self.say(Speech::Thought(Some(field)), words, emit);
        }
        match &delta.content {
            None => {}
            Some(Content::Text(words)) => self.say(Speech::Text, words, emit),
            Some(Content::Parts(parts)) => self.take_parts(parts, emit),
        }
        self.say(Speech::Text, delta.refusal.as_deref().unwrap_or_default(), emit);
        for call in delta.tool_calls.iter().flatten() {
            self.hush(emit);
            self.calls.take(call, &mut self.next, emit);
        }
        self.calls.keep_details(delta.reasoning_details.unwrap_or_default());
    }

    fn take_parts(&mut self, parts: &[Part<'_>], emit: &mut Emit) {
        for part in parts {
            for words in part.thinking.iter().flatten() {
                self.say(Speech::Thought(None), words.text.as_deref().unwrap_or_default(), emit);
            }
            self.say(Speech::Text, part.text.as_deref().unwrap_or_default(), emit);
        }
    }

    fn say(&mut self, speech: Speech, words: &str, emit: &mut Emit) {
        if words.is_empty() {
            return;
        }
        let key = match self.speaking {
            Some((current, key)) if current == speech => key,
            _ => self.begin(speech, emit),
        };
        emit.push(key, words);
    }

    fn begin(&mut self, speech: Speech, emit: &mut Emit) -> Key {
        self.hush(emit);
        let key = self.next;
        self.next += 1;
        match speech {
            Speech::Text => emit.open(key, BlockKind::Text),
            Speech::Thought(field) => {
                emit.open(key, BlockKind::Thinking);
                if let Some(field) = field {
                    emit.sign(key, field);
                }
            }
        }
        self.speaking = Some((speech, key));
        key
    }

    /// What was being said is whole.
    fn hush(&mut self, emit: &mut Emit) {
        if let Some((_, key)) = self.speaking.take() {
            emit.close(key);
        }
    }

    fn finish(&mut self, reason: StopReason, emit: &mut Emit) {
        if !emit.is_done() {
            self.hush(emit);
            self.calls.complete(&mut self.next, emit);
            emit.done(reason);
        }
    }
}

impl Tokens {
    fn usage(&self) -> Usage {
        let details = self.prompt_tokens_details.as_ref();
        let cached = details.and_then(|details| details.cached_tokens);
        let cache_read = cached.or(self.cached_tokens).or(self.prompt_cache_hit_tokens).unwrap_or_default();
        let cache_write = details.and_then(|details| details.cache_write_tokens).unwrap_or_default();
        let prompt = self.prompt_tokens.unwrap_or_default();
        let completion = self.completion_tokens.unwrap_or_default();
        Usage {
            input: prompt.saturating_sub(cache_read).saturating_sub(cache_write),
            output: completion.saturating_add(self.thoughts_beside(prompt, completion)),
            cache_read,
            cache_write,
            ..Usage::default()
        }
    }

    /// Thoughts are a part of the completion, except where the total shows that they were counted beside it.
    fn thoughts_beside(&self, prompt: u64, completion: u64) -> u64 {
        let details = self.completion_tokens_details.as_ref();
        let thoughts = details.and_then(|details| details.reasoning_tokens).unwrap_or_default();
        let with_thoughts = prompt.saturating_add(completion).saturating_add(thoughts);
        if self.total_tokens == Some(with_thoughts) { thoughts } else { 0 }
    }
}

fn stop_reason(reason: &str) -> Result<StopReason, Failure> {
    match reason {
        "length" | "max_tokens" | "model_length" => Ok(StopReason::Length),
        "tool_calls" | "function_call" => Ok(StopReason::ToolUse),
        "content_filter" | "sensitive" => {
            Err(Failure::new(FailureKind::Refused, "the provider's filter stopped the answer"))
        }
        "insufficient_system_resource" => {
            Err(Failure::new(FailureKind::Overloaded, "the provider had too much to do to finish the answer"))
        }
        "error" | "network_error" => {
            Err(Failure::new(FailureKind::Broken, "the provider failed in the middle of the answer"))
        }
        // `stop`, `end`, `eos`, and what is to come.
        _ => Ok(StopReason::Stop),
    }
}

fn refused(data: &[u8]) -> Failure {
    classify(None, &String::from_utf8_lossy(data))
}
