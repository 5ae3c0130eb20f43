//! Containers whose gateway died together with their supervisors. The next gateway of the same installation removes them.

use std::fs;
use std::time::Duration;

use super::Container;

const LIMIT: Duration = Duration::from_secs(60);

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
            Err(why) => tracing::warn!(name, why, "a container that an earlier gateway left cannot be removed"),
        }
    }
}

/// This process, as the names of its containers have it: its id, and when it was started.
pub(super) fn ourselves() -> String {
    let pid = std::process::id();
    format!("{pid}-{}", started(pid).unwrap_or_default())
}

/// Whether the process that made the container of this name still runs. A name of somebody else's making is left alone.
fn is_answered_for(name: &str) -> bool {
    let mut fields = name.rsplitn(4, '-');
    let (Some(_number), Some(start), Some(pid), Some(_place)) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return true;
    };
    let (Ok(pid), Ok(start)) = (pid.parse(), start.parse()) else { return true };
    start == 0 || started(pid) == Some(start)
}

/// When a process was started, in the kernel's own units; nothing if there is none.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&stat[end + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}
