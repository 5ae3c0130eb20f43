//! What model calls used, as the store keeps it.

use tidegate_models::{CallOutcome, CallRecord};
use tidegate_protocol::{AgentId, SessionKey};
use tidegate_runtime::new_id;
use tidegate_storage::NewCall;

use crate::error::EngineError;
use crate::start::Core;

impl Core {
    /// The rows for these calls. `purpose` says what they were made for: `turn`, `test`.
    pub(crate) fn new_calls(
        &self,
        agent: &AgentId,
        session: Option<&SessionKey>,
        purpose: &str,
        calls: Vec<CallRecord>,
    ) -> Result<Vec<NewCall>, EngineError> {
        let row = |call: CallRecord| {
            Ok(NewCall {
                id: new_id(self.clock.as_ref())?,
                agent: agent.clone(),
                session: session.cloned(),
                purpose: purpose.to_owned(),
                provider: call.model.provider,
                model: call.model.model,
                profile_id: call.profile_id,
                usage: call.usage,
                estimated: call.estimated,
                outcome: match call.outcome {
                    CallOutcome::Answered => "ok",
                    CallOutcome::Failed(kind) => kind.as_str(),
                    CallOutcome::Dropped => "dropped",
                }
                .to_owned(),
                started_at: call.started_at,
                day: self.settings.zone().day(call.started_at),
            })
        };
        calls.into_iter().map(row).collect()
    }
}
