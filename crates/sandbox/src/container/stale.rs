//! Containers whose gateway died together with their supervisors. The next gateway of the same installation removes them.

use std::time::Duration;

use super::Container;
use crate::process::is_answered_for;

const LIMIT: Duration = Duration::from_mins(1);

impl Container {
    /// Removes what nobody answers for any more.
    pub(super) async fn remove_stale(&self) {
        for name in self.list().await {
            if !is_answered_for(&name) {
                self.remove(&name).await;
            }
        }
    }

    async fn list(&self) -> Vec<String> {
        let ours = format!("label=tidegate.home={}", self.home());
        let words = ["ps", "--all", "--filter", &ours, "--format", "{{.Names}}"];
        match self.cli.ask(&words, LIMIT).await {
            Ok(answer) => answer.stdout.lines().map(|name| name.trim().to_owned()).collect(),
            Err(why) => {
                tracing::warn!(engine = self.cli.engine.name(), why, "containers cannot be listed");
                Vec::new()
            }
        }
    }

    async fn remove(&self, name: &str) {
        let Ok(vessel) = self.cli.vessel(name) else { return };
        let words: Vec<_> = vessel.remove.iter().map(String::as_str).collect();
        match self.cli.ask(&words, LIMIT).await {
            Ok(_) => tracing::info!(name, "a container that an earlier gateway left was removed"),
            Err(why) => {
                tracing::warn!(name, why, "a container that an earlier gateway left cannot be removed");
            }
        }
    }
}
