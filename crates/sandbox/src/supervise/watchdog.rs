//! Sees to it that the programs of a plan do not use up more together than they may.
//!
//! Where the kernel counts for us (control groups), it is asked; else the processes are looked at from time to time, so
//! that a plan may go over a limit for a moment. What is written to disks is always counted that way.

use std::fs;
use std::time::{Duration, Instant};

use tidegate_policy::{Limits, Resource};

use super::groups::Groups;
use crate::order::Ending;
use crate::sweep;

/// How often it looks: a moment after a start, when most of what is started is over, and then from time to time.
const FIRST: Duration = Duration::from_millis(50);
const OFTEN: Duration = Duration::from_millis(200);

/// With nothing to look after, it never looks.
#[derive(Default)]
pub(super) struct Watchdog {
    of: Option<Limits>,
    pub(super) groups: Groups,
    next: Option<Instant>,
}

/// What all processes use together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Use {
    memory: u64,
    processes: u64,
    disk: u64,
}

impl Watchdog {
    pub(super) fn new(limits: Limits) -> Self {
        Self { of: Some(limits), groups: Groups::make(limits), next: Some(Instant::now() + FIRST) }
    }

    /// For what is limited by somebody else but for what it writes.
    pub(super) fn of_disks(disk: u64) -> Self {
        let limits = Limits { memory: u64::MAX, processes: u32::MAX, disk };
        Self { of: Some(limits), groups: Groups::default(), next: Some(Instant::now() + FIRST) }
    }

    /// How long until it wants to look again.
    pub(super) fn pause(&self, at_most: Duration) -> Duration {
        self.next.map_or(at_most, |next| next.saturating_duration_since(Instant::now()).min(at_most))
    }

    /// How the plan is to end, if it is time to look and it uses too much.
    pub(super) fn barks(&mut self) -> Option<Ending> {
        if self.next? > Instant::now() {
            return None;
        }
        self.next = Some(Instant::now() + OFTEN);
        self.looks()
    }

    /// An ending that the kernel made for a limit, told as that.
    pub(super) fn told(&self, ending: Ending) -> Ending {
        match (ending, self.of) {
            (Ending::Signal(FILE_TOO_LARGE), Some(limits)) => {
                Ending::Limit { what: Resource::Disk, limit: limits.disk }
            }
            (ending, _) => ending,
        }
    }

    /// The same at once.
    pub(super) fn looks(&self) -> Option<Ending> {
        let limits = self.of?;
        let what = self.groups.exceeded().or_else(|| exceeded(&usage(), &limits))?;
        let limit = match what {
            Resource::Memory => limits.memory,
            Resource::Processes => limits.processes.into(),
            Resource::Disk => limits.disk,
        };
        Some(Ending::Limit { what, limit })
    }
}

/// What the kernel ends a program with whose file grows beyond the limit.
const FILE_TOO_LARGE: i32 = libc::SIGXFSZ;

fn exceeded(usage: &Use, limits: &Limits) -> Option<Resource> {
    let over = [
        (Resource::Memory, usage.memory > limits.memory),
        // Supervisors and bubblewrap are among them.
        (Resource::Processes, usage.processes > u64::from(limits.processes) + 8),
        (Resource::Disk, usage.disk > limits.disk),
    ];
    over.into_iter().find_map(|(what, is_over)| is_over.then_some(what))
}

fn usage() -> Use {
    let mut shared = 0;
    let mut sum = Use { disk: written("self"), ..Use::default() };
    for pid in sweep::everything_below() {
        let pid = pid.to_string();
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default()
        };
        sum.processes += number("Threads:");
        sum.memory += number("RssAnon:") * 1024 + number("VmSwap:") * 1024;
        // Shared by several, it is there once.
        shared = shared.max(number("RssShmem:") * 1024);
        sum.disk += written(&pid);
    }
    sum.memory += shared;
    sum
}

/// What a process, and the children that it waited for, wrote to disks.
fn written(pid: &str) -> u64 {
    let Ok(io) = fs::read_to_string(format!("/proc/{pid}/io")) else { return 0 };
    let number = |name: &str| {
        let line = io.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().parse::<u64>().ok()).unwrap_or_default()
    };
    number("write_bytes:").saturating_sub(number("cancelled_write_bytes:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the kernel does not count for us.
    #[test]
    fn what_everything_below_uses_is_counted() {
        use std::io::BufRead as _;
        use std::process::{Command, Stdio};
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let script = "sleep 100 & sleep 100 & head -c 30000000 /dev/zero > file; sync file
            x=$(head -c 30000000 /dev/zero | tr '\\0' x); echo ready; read line; kill %1 %2 2>/dev/null";
        let mut shell = Command::new("bash")
            .args(["-c", script])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let found = usage();
        drop(shell.stdin.take());
        let _ = shell.wait();
        assert!(found.processes >= 3 && found.memory >= 30_000_000 && found.disk >= 30_000_000, "{found:?}");
    }

    #[test]
    fn a_plan_may_use_what_it_may_and_no_more() {
        let limits = Limits { memory: 100, processes: 4, disk: 10 };
        let just = Use { memory: 100, processes: 12, disk: 10 };
        assert_eq!(exceeded(&just, &limits), None);
        for (usage, what) in [
            (Use { memory: 101, ..just }, Resource::Memory),
            (Use { processes: 13, ..just }, Resource::Processes),
            (Use { disk: 11, ..just }, Resource::Disk),
        ] {
            assert_eq!(exceeded(&usage, &limits), Some(what));
        }
    }
}
