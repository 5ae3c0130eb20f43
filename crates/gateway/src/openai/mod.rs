//! The dialect of OpenAI's HTTP interface (`/v1`), for programs and official SDKs. Its shapes never leave this folder.

mod completions;
mod embeddings;
mod error;
mod listening;
mod models;
mod prompt;
mod question;
mod response_stream;
mod responses;
mod route;
mod said;
mod told;
mod tools;
mod turn;
mod wire;

use tidegate_protocol::{Place, SessionKey};

pub(crate) use completions::completions;
pub(crate) use embeddings::embeddings;
pub(crate) use error::error_body;
pub(crate) use models::{model, models};
pub(crate) use responses::responses;
pub(crate) use route::Branded;

pub(crate) fn is_its_path(path: &str) -> bool {
    path.starts_with("/v1/") || path == "/responses"
}

/// Whether a conversation was begun for one request only.
pub(crate) fn is_one_off(key: &SessionKey) -> bool {
    matches!(&key.place, Place::Named { name } if route::is_one_off(name))
}

/// What the recorded cases of other gateways are put to.
pub(crate) mod recorded {
    use axum::http::HeaderMap;
    use serde_json::{Value, json};

    use super::prompt::Prompt;
    use super::route::{self, Surface};
    use super::said;

    fn prompt(said: &[said::Said]) -> Value {
        let Prompt { message, instructions } = Prompt::read(said);
        let mut out = json!({ "message": message });
        if let Some(instructions) = instructions {
            out["extraSystemPrompt"] = instructions.into();
        }
        out
    }

    pub(crate) fn chat_prompt(messages: &[Value]) -> Value {
        prompt(&said::of_messages(messages))
    }

    pub(crate) fn response_prompt(input: &Value) -> Value {
        prompt(&said::of_input(input))
    }

    /// The agent and the conversation, as upstream writes its keys.
    pub(crate) fn routing(headers: &HeaderMap, model: Option<&str>, user: Option<&str>) -> (String, String) {
        let agent = route::agent(headers, model).unwrap_or("main").to_owned();
        let name = route::conversation(Surface::Completions, headers, user, "").name;
        let key = format!("agent:{agent}:{name}");
        (agent, key)
    }
}
