//! Where an agent works, and when it goes round in circles.

use std::path::PathBuf;

use tidegate_protocol::AgentId;
use tidegate_tools::LoopLimits;

use super::Settings;
use crate::home::Home;

impl Settings {
    /// The folder the agent's tools work in: the configured one, or one in the home.
    pub(crate) fn workspace(&self, agent: &AgentId, home: &Home) -> PathBuf {
        let configured = self.config.agents.list.iter().find(|known| known.id == agent.as_str());
        match configured.and_then(|agent| agent.workspace.as_deref()) {
            Some(path) => home.root().join(path),
            None => home.workspace(agent),
        }
    }

    /// When repetition is noticed, if it is looked for.
    pub(crate) fn loop_limits(&self) -> Option<LoopLimits> {
        let loops = &self.config.tools.loop_detection;
        let limits = LoopLimits {
            warn_at: usize::try_from(loops.warn_at).unwrap_or(usize::MAX),
            stop_at: usize::try_from(loops.stop_at).unwrap_or(usize::MAX),
            ..LoopLimits::default()
        };
        loops.enabled.then_some(limits)
    }
}
