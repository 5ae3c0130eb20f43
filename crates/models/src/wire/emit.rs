//! Where decoders put what they read: it keeps the stream's promises whatever a server sends.

use std::collections::VecDeque;

use serde_json::Value;
use tidegate_protocol::{Block, StopReason, Usage};

use crate::stream::{BlockKind, ModelEvent};

/// A decoder's own name for a block, such as the vendor's index of it.
pub(crate) type Key = u64;

/// Collects the events of one answer.
#[derive(Default)]
pub(crate) struct Emit {
    events: VecDeque<ModelEvent>,
    open: Vec<Open>,
    next: usize,
    usage: Option<Usage>,
    ended: Option<StopReason>,
    /// Whether a tool call was completed: some vendors do not say so in their reason.
    called: bool,
}

struct Open {
    key: Key,
    index: usize,
    kind: BlockKind,
    /// Text, thought, or the arguments' JSON.
    text: String,
    signature: Option<String>,
    redacted: bool,
    /// A call that the server ended without whole arguments. Only what follows tells whether it was cut off.
    doubtful: bool,
}

impl Emit {
    /// Begins a block. A key that is open already stays as it is: servers repeat themselves.
    pub(crate) fn open(&mut self, key: Key, kind: BlockKind) {
        if self.ended.is_some() || self.is_open(key) {
            return;
        }
        // The model went on: what it said before was whole.
        while let Some(at) = self.open.iter().position(|open| open.doubtful) {
            let open = self.open.remove(at);
            self.finish(open);
        }
        let index = self.next;
        self.next += 1;
        self.events.push_back(ModelEvent::BlockStart { index, kind: kind.clone() });
        let (text, signature) = (String::new(), None);
        self.open.push(Open { key, index, kind, text, signature, redacted: false, doubtful: false });
    }

    pub(crate) fn is_open(&self, key: Key) -> bool {
        self.open.iter().any(|open| open.key == key)
    }

    /// Continues a block. What belongs to none that is open is left out.
    pub(crate) fn push(&mut self, key: Key, delta: &str) {
        if delta.is_empty() {
            return;
        }
        let Some(open) = self.open.iter_mut().find(|open| open.key == key) else { return };
        open.text.push_str(delta);
        let (index, text) = (open.index, delta.to_owned());
        self.events.push_back(match open.kind {
            BlockKind::Text => ModelEvent::TextDelta { index, text },
            BlockKind::Thinking => ModelEvent::ThinkingDelta { index, text },
            BlockKind::ToolCall { .. } => ModelEvent::ArgumentsDelta { index, json: text },
        });
    }

    /// What a block has got so far.
    pub(crate) fn text(&self, key: Key) -> Option<&str> {
        self.open.iter().find(|open| open.key == key).map(|open| open.text.as_str())
    }

    /// Sets what the provider wants back with the block: a text's, thought's or call's signature.
    pub(crate) fn sign(&mut self, key: Key, signature: impl Into<String>) {
        if let Some(open) = self.open.iter_mut().find(|open| open.key == key) {
            open.signature = Some(signature.into());
        }
    }

    /// Adds to the signature, for those that come in pieces.
    pub(crate) fn sign_more(&mut self, key: Key, signature: &str) {
        if let Some(open) = self.open.iter_mut().find(|open| open.key == key) {
            open.signature.get_or_insert_default().push_str(signature);
        }
    }

    /// The block's words are hidden; its signature holds them.
    pub(crate) fn redact(&mut self, key: Key) {
        if let Some(open) = self.open.iter_mut().find(|open| open.key == key) {
            open.redacted = true;
        }
    }

    /// The whole of a block, where the server says it once more at the end: what is missing is added, and what was
    /// heard wrongly is put right in the block, whose end counts.
    pub(crate) fn settle(&mut self, key: Key, whole: &str) {
        let Some(open) = self.open.iter_mut().find(|open| open.key == key) else { return };
        match whole.strip_prefix(open.text.as_str()).map(str::to_owned) {
            Some(rest) => self.push(key, &rest),
            None => whole.clone_into(&mut open.text),
        }
    }

    /// Leaves a block without an end: a call that was cut off is never run.
    pub(crate) fn abandon(&mut self, key: Key) {
        self.open.retain(|open| open.key != key);
    }

    /// Ends a block. One that is not open has ended before.
    pub(crate) fn close(&mut self, key: Key) {
        if let Some(at) = self.open.iter().position(|open| open.key == key) {
            let open = self.open.remove(at);
            self.finish(open);
        }
    }

    /// Ends a block because the server says that it is over. A call whose arguments are no whole object waits for what
    /// follows: the model wrote nonsense, which it is then shown, or it reached its limit.
    pub(crate) fn close_unless_doubtful(&mut self, key: Key) {
        let is_doubtful =
            |open: &Open| matches!(open.kind, BlockKind::ToolCall { .. }) && !is_whole_object(&open.text);
        match self.open.iter_mut().find(|open| open.key == key) {
            Some(open) if is_doubtful(open) => open.doubtful = true,
            _ => self.close(key),
        }
    }

    pub(crate) fn close_all(&mut self) {
        for open in std::mem::take(&mut self.open) {
            self.finish(open);
        }
    }

    fn finish(&mut self, open: Open) {
        let Open { index, kind, text, signature, redacted, .. } = open;
        let block = match kind {
            BlockKind::Text => Block::Text { text, text_signature: signature },
            BlockKind::Thinking => {
                Block::Thinking { thinking: text, thinking_signature: signature, redacted }
            }
            BlockKind::ToolCall { id, name } => {
                self.called = true;
                Block::ToolCall { id, name, arguments: arguments(text), thought_signature: signature }
            }
        };
        self.events.push_back(ModelEvent::BlockEnd { index, block });
    }

    /// What is known of the tokens by now; the last word counts.
    pub(crate) fn usage(&mut self, usage: Usage) {
        self.usage = Some(usage);
    }

    /// The tokens known so far, to be refined.
    pub(crate) fn usage_so_far(&self) -> Usage {
        self.usage.unwrap_or_default()
    }

    pub(crate) fn known_usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The model stopped. Everything that is open ends; later events are left out, but usage may still come. Where the
    /// answer reached its limit, a call without whole arguments was cut off and has no end.
    pub(crate) fn done(&mut self, reason: StopReason) {
        if self.ended.is_none() {
            if reason == StopReason::Length {
                self.open.retain(|open| {
                    !matches!(open.kind, BlockKind::ToolCall { .. }) || is_whole_object(&open.text)
                });
            }
            self.close_all();
            let called = self.called && reason == StopReason::Stop;
            self.ended = Some(if called { StopReason::ToolUse } else { reason });
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether anything was begun: from then on the call may not be repeated.
    pub(crate) fn has_begun(&self) -> bool {
        self.next > 0
    }

    pub(crate) fn next_event(&mut self) -> Option<ModelEvent> {
        self.events.pop_front()
    }

    /// The end of a whole answer.
    pub(crate) fn conclude(&mut self, reason: StopReason) {
        self.events.extend(self.usage.map(ModelEvent::Usage));
        self.events.push_back(ModelEvent::Done(reason));
    }

    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        self.ended
    }

    /// The end of a broken one: text and thought that had begun are kept, a call that was cut off is not.
    pub(crate) fn fail(&mut self, failure: crate::failure::Failure) {
        for open in std::mem::take(&mut self.open) {
            if !matches!(open.kind, BlockKind::ToolCall { .. }) {
                self.finish(open);
            }
        }
        self.events.extend(self.usage.map(ModelEvent::Usage));
        self.events.push_back(ModelEvent::Failed(failure));
    }
}

/// Whether a call's arguments came to their end.
pub(crate) fn is_whole_object(json: &str) -> bool {
    json.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok()
}

/// A call's arguments. What is no JSON stays text: the tool's own check then shows the model what it wrote, and half an
/// argument is never taken for a whole one.
fn arguments(json: String) -> Value {
    if json.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(&json).unwrap_or(Value::String(json))
}
