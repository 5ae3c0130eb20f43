//! Allowing a command for good before it was ever asked about.

use std::sync::Arc;

use tidegate_policy::Principal;
use tidegate_policy::approval::{AllowMatch, AllowRule};
use tidegate_policy::exec;
use tidegate_protocol::api::Asking;
use tidegate_protocol::{Scope, ToolCall, ToolSource};
use tokio_util::sync::CancellationToken;

use super::invoke::{Calling, Invoke};
use crate::error::EngineError;
use crate::start::Engine;

/// Why there is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// It cannot be read as a command.
    #[error("{0}")]
    Unreadable(String),
    /// A shell, a program that starts others, an unknown one: such commands ask every time.
    #[error("no rule can cover this command: it asks every time")]
    CannotBeSaved,
}

impl Engine {
    /// Saves the rule that `allow-always` would save for this command: exactly its words, or only so many of them.
    pub async fn allow_command(
        &self,
        principal: &Principal,
        scope: &Scope,
        command: &str,
        prefix: Option<u32>,
    ) -> Result<Result<AllowRule, NotAllowed>, EngineError> {
        let invoke = Invoke {
            principal: principal.clone(),
            scope: scope.clone(),
            session: "cli".to_owned(),
            run: None,
            call: ToolCall {
                id: "allowlist".to_owned(),
                name: "exec".to_owned(),
                args: serde_json::json!({ "command": command }),
                source: ToolSource::Cli,
            },
            root: None,
            model: None,
            subagent: false,
            asking: Asking::Nobody,
            allow: None,
            also: Vec::new(),
        };
        let never = CancellationToken::new();
        let prepared = match Calling::new(&self.core, invoke, never, Arc::new(|_| {}))?.prepare().await {
            Ok(prepared) => prepared,
            Err(failure) => return Ok(Err(NotAllowed::Unreadable(failure.message))),
        };
        let matches = match (prefix, prepared.plan()) {
            (Some(prefix), Some(plan)) => exec::suggestion(plan, Some(prefix)),
            _ => AllowMatch::of(&prepared),
        };
        let Some(matches) = matches else { return Ok(Err(NotAllowed::CannotBeSaved)) };
        let tool = prepared.tool().to_owned();
        Ok(Ok(self.save_allow_rule(principal, scope.clone(), tool, matches).await?))
    }
}
