//! Ollama's lines. Calls arrive whole and mostly without ids.

use serde::Deserialize;
use serde_json::Value;
use tidegate_protocol::{StopReason, Usage};

use crate::classify::classify;
use crate::failure::{Failure, FailureKind};
use crate::frames::Frame;
use crate::request::Request;
use crate::stream::BlockKind;
use crate::wire::borrowed::Text;
use crate::wire::pieces::CallIds;
use crate::wire::{Decoder, Emit, Key};

pub(super) struct Decode {
    ids: CallIds,
    /// Whether the block that is being written is a thought; its key is the number of blocks before it.
    thinks: Option<bool>,
    key: Key,
}

impl Decode {
    pub(super) fn new(request: &Request) -> Self {
        Self { ids: CallIds::after(&request.messages), thinks: None, key: 0 }
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    message: Option<Said<'a>>,
    #[serde(default)]
    done: bool,
    #[serde(borrow)]
    done_reason: Option<Text<'a>>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
    #[serde(borrow)]
    thinking: Option<Text<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    arguments: Option<Value>,
}

impl Decoder for Decode {
    fn frame(&mut self, frame: Frame<'_>, emit: &mut Emit) -> Result<(), Failure> {
        let line: Line<'_> = serde_json::from_slice(frame.data).map_err(|error| {
            Failure::new(FailureKind::Broken, format!("a line of the answer cannot be read: {error}"))
        })?;
        if line.error.is_some() {
            return Err(classify(None, &String::from_utf8_lossy(frame.data)));
        }
        if let Some(said) = line.message.filter(|_| !emit.is_done()) {
            self.words(true, said.thinking.as_deref().unwrap_or_default(), emit);
            self.words(false, said.content.as_deref().unwrap_or_default(), emit);
            for call in said.tool_calls.unwrap_or_default() {
                self.call(call, emit);
            }
        }
        if line.done {
            let input = line.prompt_eval_count.unwrap_or_default();
            emit.usage(Usage { input, output: line.eval_count.unwrap_or_default(), ..Usage::default() });
            let cut = line.done_reason.as_deref() == Some("length");
            emit.done(if cut { StopReason::Length } else { StopReason::Stop });
        }
        Ok(())
    }
}

impl Decode {
    fn words(&mut self, thought: bool, text: &str, emit: &mut Emit) {
        if text.is_empty() {
            return;
        }
        if self.thinks != Some(thought) {
            self.end_block(emit);
            self.thinks = Some(thought);
            emit.open(self.key, if thought { BlockKind::Thinking } else { BlockKind::Text });
        }
        emit.push(self.key, text);
    }

    fn call(&mut self, call: Call<'_>, emit: &mut Emit) {
        self.end_block(emit);
        let Function { name, arguments } = call.function;
        let id = self.ids.next(call.id.as_deref(), &name);
        emit.open(self.key, BlockKind::ToolCall { id, name: name.to_string() });
        match arguments {
            // Some models' templates leave them as text.
            Some(Value::String(text)) => emit.push(self.key, &text),
            Some(Value::Null) | None => emit.push(self.key, "{}"),
            Some(arguments) => emit.push(self.key, &arguments.to_string()),
        }
        emit.close(self.key);
        self.key += 1;
    }

    fn end_block(&mut self, emit: &mut Emit) {
        if self.thinks.take().is_some() {
            emit.close(self.key);
            self.key += 1;
        }
    }
}
