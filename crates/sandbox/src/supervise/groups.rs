//! Control groups: where they may be made, the kernel itself holds memory and processes of a plan.
//!
//! The plan's group lies in that of the supervisor, so that whatever holds the gateway also holds its programs.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidegate_policy::{Limits, Resource};

const ROOT: &str = "/sys/fs/cgroup";

/// Supervisors and the bridge, which are no programs of the plan.
const OURS: u64 = 8;

/// How long the kernel may take to notice that a group is empty.
const EMPTY: Duration = Duration::from_millis(500);

/// The group of one plan, or nothing where none can be made. Dropping it removes it.
#[derive(Default)]
pub(super) struct Groups {
    folders: Vec<(PathBuf, Holds)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Memory,
    Processes,
    Both,
}

impl Holds {
    /// Where each controller has groups of its own, a thread that moves itself stops nobody; to move a whole process the
    /// kernel waits until every processor has come to rest, which takes longer than most programs run.
    fn door(self) -> &'static str {
        match self {
            Self::Memory | Self::Processes => "tasks",
            Self::Both => "cgroup.procs",
        }
    }
}

impl Groups {
    pub(super) fn make(limits: Limits) -> Self {
        let Ok(own) = fs::read_to_string("/proc/self/cgroup") else { return Self::default() };
        let name = format!("tidegate-{}", std::process::id());
        let mut made = Self::default();
        for (folder, holds) in places(&own, Path::new(ROOT)) {
            clear(&folder);
            let folder = folder.join(&name);
            if fs::create_dir(&folder).is_ok() {
                let set = set(&folder, holds, limits);
                made.folders.push((folder, holds));
                if set.is_err() {
                    made.folders.pop().map(|(folder, _)| fs::remove_dir(folder));
                }
            }
        }
        made
    }

    /// What a process with one thread writes to in order to join.
    pub(super) fn doors(&self) -> io::Result<Vec<File>> {
        let open =
            |(folder, holds): &(PathBuf, Holds)| File::options().write(true).open(folder.join(holds.door()));
        self.folders.iter().map(open).collect()
    }

    /// What the kernel refused or killed for, if it did.
    pub(super) fn exceeded(&self) -> Option<Resource> {
        self.folders.iter().find_map(|(folder, holds)| {
            let memory = || {
                count(folder, "memory.events", "oom_kill") + count(folder, "memory.oom_control", "oom_kill")
                    > 0
            };
            let processes = || count(folder, "pids.events", "max") > 0;
            match holds {
                Holds::Memory | Holds::Both if memory() => Some(Resource::Memory),
                Holds::Processes | Holds::Both if processes() => Some(Resource::Processes),
                _ => None,
            }
        })
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for (folder, _) in &self.folders {
            let deadline = Instant::now() + EMPTY;
            let mut pause = Duration::from_micros(50);
            while fs::remove_dir(folder).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
                if Instant::now() >= deadline {
                    break;
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(2));
            }
        }
    }
}

/// Where groups are made, by what the kernel says about our own.
fn places(own: &str, root: &Path) -> Vec<(PathBuf, Holds)> {
    let mut places = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let below = path.trim_start_matches('/');
        match controllers {
            "" if root.join("cgroup.controllers").exists() => {
                let folder = root.join(below);
                if delegates(&folder) {
                    places.push((folder, Holds::Both));
                }
            }
            "memory" => places.push((root.join("memory").join(below), Holds::Memory)),
            "pids" => places.push((root.join("pids").join(below), Holds::Processes)),
            _ => {}
        }
    }
    places
}

/// Whether groups below this one can be given limits.
fn delegates(folder: &Path) -> bool {
    let control = folder.join("cgroup.subtree_control");
    let given =
        |text: &str| ["memory", "pids"].iter().all(|name| text.split_whitespace().any(|word| word == *name));
    let is_given = || fs::read_to_string(&control).is_ok_and(|text| given(&text));
    is_given() || (fs::write(&control, "+memory +pids").is_ok() && is_given())
}

fn set(folder: &Path, holds: Holds, limits: Limits) -> io::Result<()> {
    let put = |name: &str, value: String| fs::write(folder.join(name), value);
    let processes = (u64::from(limits.processes) + OURS).to_string();
    match holds {
        Holds::Memory => {
            put("memory.limit_in_bytes", limits.memory.to_string())?;
            // Absent where swap is not counted.
            let _ = put("memory.memsw.limit_in_bytes", limits.memory.to_string());
            Ok(())
        }
        Holds::Processes => put("pids.max", processes),
        Holds::Both => {
            put("memory.max", limits.memory.to_string())?;
            let _ = put("memory.swap.max", "0".to_owned());
            put("pids.max", processes)
        }
    }
}

/// A number in a file of lines with a word and a number.
fn count(folder: &Path, file: &str, word: &str) -> u64 {
    let Ok(text) = fs::read_to_string(folder.join(file)) else { return 0 };
    let found = text.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok());
    found.unwrap_or_default()
}

/// Removes what supervisors left that were killed.
fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix("tidegate-")) else { continue };
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            // The kernel refuses as long as somebody is in it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_lie_in_the_one_that_we_are_in() {
        let root = tempfile::tempdir().unwrap();
        let own = "8:pids:/\n4:memory:/a/b\n1:name=systemd:/x\n0::/a/c\n";
        let expected =
            [(root.path().join("pids"), Holds::Processes), (root.path().join("memory/a/b"), Holds::Memory)];
        assert_eq!(places(own, root.path()), expected);
        // One hierarchy for all, as far as it is given away.
        let folder = root.path().join("a/c");
        fs::create_dir_all(&folder).unwrap();
        fs::write(root.path().join("cgroup.controllers"), "memory pids").unwrap();
        fs::write(folder.join("cgroup.subtree_control"), "cpu memory pids").unwrap();
        assert_eq!(places("0::/a/c\n", root.path()), [(folder, Holds::Both)]);
    }
}
