//! Ending processes that do not want to end. Used by the supervisor for what it started, and by the gateway for what a
//! supervisor left that was killed itself.

#[cfg(target_os = "linux")]
pub(crate) use linux::{end_children, end_session, end_tree, everything_below, tell_children};

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashSet;
    use std::fs;
    use std::io::Read as _;
    use std::time::{Duration, Instant};

    use rustix::io::Errno;
    use rustix::process::{
        Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal, waitid,
    };

    /// For everything to be gone. What is left after that cannot be killed: it belongs to somebody else, or hangs in
    /// the kernel.
    const LIMIT: Duration = Duration::from_secs(10);

    /// A process. The time of its start tells it from a later one with the same id.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub(super) struct Process {
        pid: u32,
        parent: u32,
        session: u32,
        started: u64,
        /// Only waited for by its parent. One whose first thread ended while others go on looks like that, too.
        dead: bool,
    }

    /// Which processes are meant.
    #[derive(Clone, Copy)]
    enum Group {
        /// Everything below a process, not the process itself.
        Below(u32),
        /// Everything in the session of a process but the process itself.
        Session(u32),
    }

    /// Ends everything below this process. `reap` waits for what has ended and says whether anything is left; that is
    /// certain, for whatever loses its parent becomes a child of the supervisor. Returns how many are left.
    pub(crate) fn end_children(mut reap: impl FnMut() -> bool) -> usize {
        end(Group::Below(std::process::id()), |_| !reap())
    }

    /// The ids of everything below this process.
    pub(crate) fn everything_below() -> Vec<u32> {
        // To look through a machine's processes takes longer than most programs. Without a child there is nothing to
        // find: whatever loses its parent becomes one.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if matches!(waitid(WaitId::All, options), Err(Errno::CHILD)) {
            return Vec::new();
        }
        look(Group::Below(std::process::id()), |_| {}).iter().map(|process| process.pid).collect()
    }

    /// Ends everything below a process, not the process itself. Returns how many are left.
    pub(crate) fn end_tree(root: u32) -> usize {
        end(Group::Below(root), <[_]>::is_empty)
    }

    /// Ends everything in the session of a process that is dead and not yet waited for: nobody else can have its id.
    pub(crate) fn end_session(leader: u32) -> usize {
        end(Group::Session(leader), <[_]>::is_empty)
    }

    /// Sends signals to everything below this process.
    pub(crate) fn tell_children(signals: &[Signal]) {
        look(Group::Below(std::process::id()), |process| {
            for signal in signals {
                send(process, *signal);
            }
        });
    }

    /// Ends a group until all is gone. Returns how many are left.
    ///
    /// What forks faster than it can be killed is stopped first: what is stopped cannot fork, so that each look finds
    /// fewer that are new.
    fn end(group: Group, mut gone: impl FnMut(&[Process]) -> bool) -> usize {
        let deadline = Instant::now() + LIMIT;
        let mut pause = Duration::from_micros(100);
        loop {
            let mut stopped = HashSet::new();
            let found = loop {
                let before = stopped.len();
                let found = look(group, |process| {
                    if stopped.insert((process.pid, process.started)) {
                        send(process, Signal::STOP);
                    }
                });
                if stopped.len() == before || Instant::now() >= deadline {
                    break found;
                }
            };
            if gone(&found) {
                return 0;
            }
            for process in &found {
                send(process, Signal::KILL);
            }
            if Instant::now() >= deadline {
                return found.len().max(1);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Finds those of a group that live. Each is handed to `meet` as soon as it is seen: on a busy machine the one who
    /// was seen first may have made room for its successor before the last is seen.
    fn look(group: Group, mut meet: impl FnMut(&Process)) -> Vec<Process> {
        let mut all = Vec::new();
        let mut found = Vec::new();
        let mut met = HashSet::new();
        for process in processes() {
            let belongs = match group {
                Group::Below(root) => {
                    process.pid != root && (process.parent == root || met.contains(&process.parent))
                }
                Group::Session(leader) => process.session == leader && process.pid != leader,
            };
            if belongs {
                met.insert(process.pid);
                found.push(process);
                if !process.dead {
                    meet(&process);
                }
            }
            all.push(process);
        }
        if let Group::Below(root) = group {
            // Those who were seen before their parents: ids wrap around.
            for process in below(root, &all) {
                if met.insert(process.pid) {
                    found.push(process);
                    if !process.dead {
                        meet(&process);
                    }
                }
            }
        }
        found.retain(|process| !process.dead);
        found
    }

    /// A signal for this process and no other, should it have ended meanwhile and its id have a new owner.
    fn send(process: &Process, signal: Signal) {
        let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return };
        let handle = pidfd_open(pid, PidfdFlags::empty());
        if read(process.pid).is_none_or(|now| now.started != process.started) {
            return;
        }
        // Whoever is gone, or is not ours to kill, is looked at again by `end`.
        let _ = match handle {
            Ok(handle) => pidfd_send_signal(handle, signal),
            // Kernels before 5.3 know processes by their ids only.
            Err(_) => kill_process(pid, signal),
        };
    }

    pub(super) fn below(root: u32, all: &[Process]) -> Vec<Process> {
        let mut parents = HashSet::from([root]);
        let mut below = Vec::new();
        loop {
            let before = below.len();
            for process in all {
                if parents.contains(&process.parent) && process.pid != root && parents.insert(process.pid) {
                    below.push(*process);
                }
            }
            if below.len() == before {
                return below;
            }
        }
    }

    /// All processes, each read when it is asked for.
    fn processes() -> impl Iterator<Item = Process> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?))
    }

    fn read(pid: u32) -> Option<Process> {
        // One call reads it all: names are short, and there are 52 numbers.
        let mut stat = [0; 2048];
        let length = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut stat).ok()?;
        parse(pid, stat.get(..length)?)
    }

    /// The name is in parentheses and may contain anything, also parentheses; the rest is numbers.
    pub(super) fn parse(pid: u32, stat: &[u8]) -> Option<Process> {
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let text = std::str::from_utf8(&stat[end + 1..]).ok()?;
        let fields: Vec<_> = text.split_ascii_whitespace().collect();
        Some(Process {
            pid,
            dead: matches!(*fields.first()?, "Z" | "X") && matches!(*fields.get(17)?, "0" | "1"),
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn process(pid: u32, parent: u32) -> Process {
            Process { pid, parent, session: 1, started: 5, dead: false }
        }

        #[test]
        fn a_process_may_call_itself_anything() {
            let tail = "S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 0 0";
            let stat = format!("12 (a) R 1 1 (\n) {tail}");
            let expected = Process { pid: 12, parent: 7, session: 9, started: 4711, dead: false };
            assert_eq!(parse(12, stat.as_bytes()), Some(expected));
            assert_eq!(parse(12, b"12 (x) S 7"), None);
        }

        #[test]
        fn a_process_is_alive_as_long_as_one_of_its_threads() {
            let is_dead = |threads: u32| {
                let stat = format!("12 (a) Z 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 4711 0 0");
                parse(12, stat.as_bytes()).unwrap().dead
            };
            assert_eq!([is_dead(1), is_dead(2)], [true, false]);
        }

        #[test]
        fn a_tree_is_ended_up_to_its_root() {
            let text = "(setsid sleep 1000 & sleep 1000) & trap '' TERM; while :; do sleep 0.01; done";
            let mut root = std::process::Command::new("sh").args(["-c", text]).spawn().unwrap();
            while look(Group::Below(root.id()), |_| {}).len() < 3 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let known = look(Group::Below(root.id()), |_| {});
            // The root goes on, so that there is always a new child: not all can be ended, but all that were there.
            send(&read(root.id()).unwrap(), Signal::STOP);
            assert_eq!(end_tree(root.id()), 0);
            let root_went_on = root.try_wait().unwrap().is_none();
            root.kill().unwrap();
            root.wait().unwrap();
            assert!(root_went_on);
            // This root is no subreaper: what lost its parent to the sweep is dying out of its sight.
            let deadline = Instant::now() + LIMIT;
            for process in known {
                while read(process.pid).is_some_and(|now| !now.dead && now.started == process.started) {
                    assert!(Instant::now() < deadline, "{process:?} lives");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }

        #[test]
        fn everything_below_a_process_is_found_in_any_order() {
            let all =
                [process(3, 9), process(9, 5), process(5, 1), process(6, 1), process(4, 3), process(1, 0)];
            let mut pids: Vec<_> = below(5, &all).iter().map(|process| process.pid).collect();
            pids.sort_unstable();
            assert_eq!(pids, [3, 4, 9]);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{end_session, end_tree};

/// Elsewhere nobody can say what belongs to a process; the supervisor kills the groups that it knows.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    pub(crate) fn end_tree(_root: u32) -> usize {
        0
    }

    pub(crate) fn end_session(_leader: u32) -> usize {
        0
    }
}
