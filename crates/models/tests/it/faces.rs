//! Every wire format, and how each differs in what it can carry.

use serde_json::{Value, json};

/// A model of a provider that speaks one format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Face {
    pub(crate) provider: &'static str,
    pub(crate) model: &'static str,
    pub(crate) api: &'static str,
    /// What is behind the server's address in the provider's base URL.
    pub(crate) prefix: &'static str,
    /// The credential that is found for it.
    pub(crate) profile: &'static str,
    /// What becomes of a tool call's id.
    pub(crate) call_ids: [&'static str; 2],
    /// Whether the provider says what it read from its cache, and what it wrote to it.
    pub(crate) cache: [bool; 2],
    /// Whether it has a word for an answer that its filter declined.
    pub(crate) refuses: bool,
    /// Whether a call's arguments come in pieces.
    pub(crate) pieces: bool,
    pub(crate) thoughts: Thoughts,
}

/// What becomes of a thought's signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thoughts {
    /// It is the thought's own.
    Signed,
    /// It is inside the item that the thought was.
    Sealed,
    /// It is on what follows the thought.
    Behind,
    /// There is none.
    Open,
}

const PLAIN: [&str; 2] = ["call_1", "call_2"];
const PAIRED: [&str; 2] = ["call_1|fc_0000", "call_2|fc_0001"];

pub(crate) const ANTHROPIC: Face = Face {
    provider: "anthropic",
    model: "claude-sonnet-4-5",
    api: "anthropic-messages",
    prefix: "",
    profile: "anthropic/config",
    call_ids: PLAIN,
    cache: [true, true],
    refuses: true,
    pieces: true,
    thoughts: Thoughts::Signed,
};

pub(crate) const COMPLETIONS: Face = Face {
    provider: "deepseek",
    model: "deepseek-reasoner",
    api: "openai-completions",
    prefix: "",
    profile: "deepseek/config",
    call_ids: PLAIN,
    cache: [true, false],
    thoughts: Thoughts::Open,
    ..ANTHROPIC
};

pub(crate) const RESPONSES: Face = Face {
    provider: "openai",
    model: "gpt-5.2",
    api: "openai-responses",
    prefix: "/v1",
    profile: "openai/config",
    call_ids: PAIRED,
    cache: [true, false],
    thoughts: Thoughts::Sealed,
    ..ANTHROPIC
};

pub(crate) const CODEX: Face = Face {
    provider: "openai-codex",
    model: "gpt-5.2-codex",
    api: "openai-codex-responses",
    prefix: "/backend-api/codex",
    profile: "openai-codex/config",
    ..RESPONSES
};

pub(crate) const GOOGLE: Face = Face {
    provider: "google",
    model: "gemini-2.5-flash",
    api: "google-generative-ai",
    prefix: "/v1beta",
    profile: "google/config",
    cache: [true, false],
    pieces: false,
    thoughts: Thoughts::Behind,
    ..ANTHROPIC
};

pub(crate) const OLLAMA: Face = Face {
    provider: "ollama",
    model: "qwen3:8b",
    api: "ollama",
    profile: "ollama/config",
    cache: [false, false],
    refuses: false,
    pieces: false,
    thoughts: Thoughts::Open,
    ..ANTHROPIC
};

pub(crate) const BEDROCK: Face = Face {
    provider: "amazon-bedrock",
    model: "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
    api: "bedrock-converse-stream",
    profile: "amazon-bedrock/config",
    ..ANTHROPIC
};

/// Anthropic's format behind GitHub, with a token of the environment that has to be exchanged first.
pub(crate) const COPILOT_CLAUDE: Face = Face {
    provider: "github-copilot",
    model: "claude-sonnet-4.5",
    profile: "github-copilot/env",
    ..ANTHROPIC
};

pub(crate) const COPILOT_GPT: Face = Face {
    provider: "github-copilot",
    model: "gpt-5.2",
    prefix: "",
    profile: "github-copilot/env",
    ..RESPONSES
};

pub(crate) const ALL: [Face; 9] =
    [ANTHROPIC, COMPLETIONS, RESPONSES, CODEX, GOOGLE, OLLAMA, BEDROCK, COPILOT_CLAUDE, COPILOT_GPT];

impl Face {
    pub(crate) fn reference(&self) -> String {
        format!("{}/{}", self.provider, self.model)
    }

    /// The configuration of its provider: at that address, with one price for all so that costs can be compared.
    pub(crate) fn entry(&self, server: &str, key: &str) -> Value {
        let model = json!({
            "id": self.model, "api": self.api, "reasoning": true, "input": ["text", "image"],
            "contextWindow": 100_000, "maxTokens": 20_000,
            "cost": {"input": 1.0, "output": 2.0, "cacheRead": 0.5, "cacheWrite": 4.0},
        });
        let mut entry = json!({"baseUrl": format!("{server}{}", self.prefix), "models": [model]});
        if self.profile.ends_with("/config") {
            entry["apiKey"] = key.into();
        }
        entry
    }
}

/// One test a format for a promise `async fn promise(face: Face)`.
macro_rules! for_every_face {
    ($($promise:ident),+ $(,)?) => {$(
        mod $promise {
            use crate::faces;

            #[tokio::test]
            async fn anthropic() {
                super::$promise(faces::ANTHROPIC).await;
            }

            #[tokio::test]
            async fn completions() {
                super::$promise(faces::COMPLETIONS).await;
            }

            #[tokio::test]
            async fn responses() {
                super::$promise(faces::RESPONSES).await;
            }

            #[tokio::test]
            async fn codex() {
                super::$promise(faces::CODEX).await;
            }

            #[tokio::test]
            async fn google() {
                super::$promise(faces::GOOGLE).await;
            }

            #[tokio::test]
            async fn ollama() {
                super::$promise(faces::OLLAMA).await;
            }

            #[tokio::test]
            async fn bedrock() {
                super::$promise(faces::BEDROCK).await;
            }

            #[tokio::test]
            async fn copilot_as_anthropic() {
                super::$promise(faces::COPILOT_CLAUDE).await;
            }

            #[tokio::test]
            async fn copilot_as_responses() {
                super::$promise(faces::COPILOT_GPT).await;
            }
        }
    )+};
}

pub(crate) use for_every_face;
