//! Processes that do not want to die, for tests about killing them. Every script here bounds itself: it starts a fixed
//! number of processes, none of which starts another, and each ends by itself after two minutes.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::gateway::live::eventually;
use crate::home::Home;

/// Commands run without a question.
pub(super) const TRUSTING: &str =
    "{ tools: { profile: 'coding', exec: { host: 'gateway', security: 'full', ask: 'off' } } }";

/// The variable that everything below a command inherits.
const MARK: &str = "TIDEGATE_TEST_BROOD";

/// How many of a brood ignore signals in the foreground.
const DEAF: usize = 30;
/// How many of a brood left their session and their parent.
const DAEMONS: usize = 5;

/// Ignores what can be ignored, and forks: children that stay, and daemons that left their session and their parent.
/// The word after its name is what it does then: `wait`, `leave`, or print `some` (20 MB) or `much` (300 MB) and leave.
const SCRIPT: &str = "trap '' TERM HUP INT QUIT
i=0
while [ $i -lt 30 ]; do sleep 120 & i=$((i + 1)); done
i=0
while [ $i -lt 5 ]; do (setsid sh -c 'trap \"\" TERM HUP; (exec sleep 120) & exit 0' &); i=$((i + 1)); done
case $1 in
    some) head -c 20000000 /dev/zero | tr '\\0' x; exit 0 ;;
    much) head -c 300000000 /dev/zero | tr '\\0' x; exit 0 ;;
    leave) exit 0 ;;
esac
wait
";

/// One family of processes, known by a mark that no other test has.
pub(super) struct Brood {
    mark: String,
}

impl Brood {
    /// Puts the script where `exec` finds it.
    pub(super) fn new(home: &Home, root: &Path) -> Self {
        fs::write(root.join("brood.sh"), SCRIPT).unwrap();
        let mark = home.around().file_name().unwrap().to_string_lossy().into_owned();
        Self { mark }
    }

    /// The arguments of the call that starts it.
    pub(super) fn args(&self, then: &str, more: &Value) -> String {
        let mut args = json!({ "command": format!("sh brood.sh {then}"), "env": { (MARK): self.mark } });
        for (name, value) in more.as_object().unwrap() {
            args[name] = value.clone();
        }
        args.to_string()
    }

    /// Those that live.
    pub(super) fn alive(&self) -> Vec<u32> {
        let mark = format!("{MARK}={}", self.mark);
        let marked = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let pids =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(marked).collect()
    }

    /// Waits until all of them are there; answers the supervisors above them.
    pub(super) fn grown(&self) -> Vec<u32> {
        eventually("the brood grows", || (self.alive().len() > DEAF + DAEMONS).then_some(()));
        // A daemon whose parent ended is a child of the supervisor from then on.
        let supervisors = eventually("its daemons have left their parents", || {
            let parents: Vec<u32> = self.alive().into_iter().filter_map(parent).collect();
            let mut supervisors: Vec<u32> = parents.into_iter().filter(|pid| is_supervisor(*pid)).collect();
            let adopted = supervisors.len();
            supervisors.sort_unstable();
            supervisors.dedup();
            (adopted > DAEMONS).then_some(supervisors)
        });
        assert_eq!(supervisors.len(), 1, "one supervisor answers for all of them: {supervisors:?}");
        supervisors
    }

    /// All of it is gone, and so are its supervisors; soon, where whoever killed it could not wait.
    pub(super) fn gone(&self, supervisors: &[u32]) {
        eventually("everything is gone", || self.alive().is_empty().then_some(()));
        eventually("the supervisor is gone", || {
            supervisors.iter().all(|pid| !is_supervisor(*pid)).then_some(())
        });
    }
}

impl Drop for Brood {
    /// A test that failed leaves nothing behind either.
    fn drop(&mut self) {
        for pid in self.alive() {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
        }
    }
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn is_supervisor(pid: u32) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.split(|byte| *byte == 0).nth(1) == Some(b"__supervise")
}
