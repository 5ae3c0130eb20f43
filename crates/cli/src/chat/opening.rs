//! What a conversation at the terminal begins with, as the command line asks for it.

use tidegate_protocol::api::Ask;
use tidegate_protocol::{JoinMode, ThinkingLevel};
use tidegate_routing::literal;

use super::app::Join;
use super::choice::Choice;

#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) session: String,
    pub(crate) agent: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) thinking: Option<ThinkingLevel>,
    /// The first message begins the conversation anew.
    pub(crate) fresh: bool,
    /// A program reads the answers: an object a line.
    pub(crate) json: bool,
}

impl Opening {
    /// What was chosen for the conversation since is no longer wished otherwise.
    pub(super) fn overruled(&mut self, choice: &Choice) {
        self.model.take_if(|_| choice.model.is_some());
        self.thinking.take_if(|_| choice.thinking);
    }

    /// A message of this conversation. Only the first one begins it anew.
    pub(super) fn message(&mut self, text: String, key: String, join: Join) -> Ask {
        let meant = literal(&text).map(str::to_owned);
        Ask {
            commands: meant.is_none(),
            text: meant.unwrap_or(text),
            session: self.session.clone(),
            agent: self.agent.clone(),
            new_session: std::mem::take(&mut self.fresh),
            provider: None,
            model: self.model.clone(),
            profile: None,
            thinking: self.thinking,
            timeout_ms: None,
            key,
            tools: None,
            dry_run: false,
            join: match join {
                Join::Queue => None,
                Join::Steer => Some(JoinMode::Steer),
            },
        }
    }
}
