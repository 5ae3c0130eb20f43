//! What a webhook asks for, once it is read.

use serde_json::{Value, json};
use tidegate_config::schema::WakeMode;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Tell the agent something in its main conversation.
    Wake { text: String, mode: WakeMode },
    /// Give it work in a conversation of its own.
    Agent(Box<Work>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Work {
    pub(super) message: String,
    pub(super) name: Option<String>,
    pub(super) mode: WakeMode,
    pub(super) session: Option<String>,
    pub(super) deliver: Option<bool>,
    /// Its content is the owner's own.
    pub(super) trusted: Option<bool>,
    pub(super) channel: Option<String>,
    pub(super) to: Option<String>,
    pub(super) model: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) timeout_seconds: Option<u32>,
}

impl Action {
    /// As upstream writes it.
    pub(super) fn recorded(&self) -> Value {
        let mut out = match self {
            Self::Wake { text, mode } => json!({ "kind": "wake", "text": text, "mode": mode }),
            Self::Agent(work) => json!({
                "kind": "agent", "message": work.message, "name": work.name, "wakeMode": work.mode,
                "sessionKey": work.session, "deliver": work.deliver,
                "allowUnsafeExternalContent": work.trusted, "channel": work.channel, "to": work.to,
                "model": work.model, "thinking": work.thinking, "timeoutSeconds": work.timeout_seconds,
            }),
        };
        if let Some(fields) = out.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        out
    }
}
