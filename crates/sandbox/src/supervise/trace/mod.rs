//! Looking at what programs are refused. Only for somebody who asked to see it (`sandbox test`): every program is traced
//! from its beginning, with everything it starts, and each system call that failed is judged.
//!
//! The tracer changes nothing: programs are held as ever, and each call is let go on as it was made. It ends with the
//! supervisor, and so do the programs.

mod calls;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, WaitStatus};
use tidegate_policy::{Refusal, Refused};

use super::memory;
use calls::{Call, Meaning};

/// Different refusals that are told. A program that is refused more has shown what it wants.
const MOST: usize = 500;

/// A call that was begun.
#[derive(Clone, Copy)]
struct Begun {
    number: u64,
    arguments: [u64; 6],
}

/// Traces what a supervisor starts.
pub(super) struct Tracer {
    /// Each traced thread, and the call it is in.
    traced: HashMap<Pid, Option<Begun>>,
    seen: HashSet<Refusal>,
    /// What was not told yet.
    found: Vec<Refusal>,
    /// Readable when something happened to one of them.
    news: OwnedFd,
}

impl Tracer {
    /// Signals of children must be held back, as they are in a supervisor.
    pub(super) fn new() -> io::Result<Self> {
        #[expect(unsafe_code, reason = "no safe call makes a descriptor of signals")]
        // SAFETY: the set is initialised before it is used, and the descriptor is nobody else's.
        let news = unsafe {
            let mut signals = std::mem::zeroed();
            libc::sigemptyset(&raw mut signals);
            libc::sigaddset(&raw mut signals, libc::SIGCHLD);
            let made = libc::signalfd(-1, &raw const signals, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
            if made < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(made)
        };
        Ok(Self { traced: HashMap::new(), seen: HashSet::new(), found: Vec::new(), news })
    }

    /// What was found since the last time.
    pub(super) fn take(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.found)
    }

    /// Takes note that whoever waits has woken up.
    pub(super) fn heard(&self) {
        let mut signals = [0; 1024];
        while rustix::io::read(&self.news, &mut signals).is_ok_and(|count| count > 0) {}
    }

    pub(super) fn forget(&mut self, ended: Pid) {
        self.traced.remove(&ended);
    }

    /// Looks at one that stopped, and lets it go on.
    pub(super) fn look(&mut self, pid: Pid, status: WaitStatus) {
        const CALL: i32 = libc::SIGTRAP | 0x80;
        let Some(signal) = status.stopping_signal() else { return };
        let is_event = status.as_raw() >> 16 != 0;
        let is_new = !self.traced.contains_key(&pid);
        self.traced.entry(pid).or_default();
        let deliver = match signal {
            _ if is_new => {
                let _ = request(libc::PTRACE_SETOPTIONS, pid, 0, OPTIONS);
                0
            }
            CALL => {
                self.step(pid);
                0
            }
            _ if is_event => 0,
            signal => signal,
        };
        // One that is gone meanwhile needs nothing.
        let _ = request(libc::PTRACE_SYSCALL, pid, 0, usize::try_from(deliver).unwrap_or_default());
    }

    /// A call begins or has ended.
    fn step(&mut self, pid: Pid) {
        match Step::of(pid) {
            Some(Step::Begins(begun)) => {
                self.traced.insert(pid, Some(begun));
            }
            Some(Step::Failed(error)) => {
                if let Some(begun) = self.traced.get_mut(&pid).and_then(Option::take) {
                    let refusal = judge(pid, begun, error);
                    self.found_one(refusal);
                }
            }
            Some(Step::Worked) | None => {}
        }
    }

    fn found_one(&mut self, refusal: Option<Refusal>) {
        let Some(refusal) = refusal.filter(|_| self.seen.len() < MOST) else { return };
        if self.seen.insert(refusal.clone()) {
            self.found.push(refusal);
        }
    }
}

impl AsFd for Tracer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}

/// Everything it starts is traced as well, and nothing outlives the tracer.
const OPTIONS: usize = (libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_EXITKILL) as usize;

/// Has the calling process traced by its parent. It runs between fork and exec.
pub(super) fn be_traced() -> io::Result<()> {
    #[expect(unsafe_code, reason = "no safe call asks for it")]
    // SAFETY: it touches no memory, and the call is one of those allowed between fork and exec.
    let result = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn request(what: libc::c_uint, pid: Pid, address: usize, data: usize) -> io::Result<i64> {
    #[expect(unsafe_code, reason = "no safe call traces")]
    // SAFETY: for the requests made here, memory of ours is written only where `data` points to a buffer that is as
    // large as `address` says.
    let result = unsafe { libc::ptrace(what, pid.as_raw_nonzero().get(), address, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

enum Step {
    Begins(Begun),
    Worked,
    Failed(i32),
}

impl Step {
    /// Asks the kernel, which answers in the same form on every architecture.
    fn of(pid: Pid) -> Option<Self> {
        const GET_CALL: libc::c_uint = 0x420e;
        const BEGINS: u8 = 1;
        const ENDS: u8 = 2;
        let mut answer = [0_u64; 16];
        let size = size_of_val(&answer);
        request(GET_CALL, pid, size, answer.as_mut_ptr() as usize).ok()?;
        let [head, _, _, first, rest @ ..] = answer;
        match head.to_ne_bytes()[0] {
            BEGINS => {
                let arguments = rest.get(..6)?.try_into().ok()?;
                Some(Self::Begins(Begun { number: first, arguments }))
            }
            ENDS if rest[0].to_ne_bytes()[0] == 0 => Some(Self::Worked),
            ENDS => Some(Self::Failed(i32::try_from(first.cast_signed()).ok()?.checked_neg()?)),
            _ => None,
        }
    }
}

/// Whether a call that failed was refused, and what it wanted.
fn judge(pid: Pid, begun: Begun, error: i32) -> Option<Refusal> {
    let Call { name, meaning } = calls::of(begun.number);
    let argument = |index: usize| begun.arguments.get(index).copied().unwrap_or_default();
    let what = match meaning {
        Meaning::Path { at, path, write } if calls::hides(error) => Refused::Path {
            path: path_of(pid, at.map(argument), argument(path))?,
            write: write.applies(argument),
        },
        Meaning::Address { place, length } if calls::cuts_off(error) => {
            let length = usize::try_from(argument(length)).unwrap_or_default();
            Refused::Address(calls::address(&memory::read(
                number(pid),
                argument(place),
                length.min(memory::LONGEST),
            ))?)
        }
        Meaning::Family if error == libc::EAFNOSUPPORT || calls::forbids(error) => {
            Refused::Address(calls::family(argument(0)))
        }
        _ if calls::forbids(error) => Refused::Call,
        _ => return None,
    };
    let refusal = Refusal { call: name, what, error };
    (!is_only_absent(&refusal)).then_some(refusal)
}

/// A file that was to be changed, in a folder that is there: nobody made it yet.
fn is_only_absent(refusal: &Refusal) -> bool {
    let Refused::Path { path, write: true } = &refusal.what else { return false };
    let folder = Path::new(path).parent();
    refusal.error == libc::ENOENT && folder.is_some_and(|folder| std::fs::symlink_metadata(folder).is_ok())
}

/// The path that a call was given, from the folder that it counts from.
fn path_of(pid: Pid, at: Option<u64>, pointer: u64) -> Option<String> {
    let text = memory::text(number(pid), pointer)?;
    let path = PathBuf::from(String::from_utf8_lossy(&text).into_owned());
    if path.as_os_str().is_empty() {
        return None;
    }
    // A number below zero stands for the folder that the program is in.
    let folder = match at.map(|at| i32::try_from(at & 0xffff_ffff)) {
        Some(Ok(descriptor)) => format!("/proc/{}/fd/{descriptor}", pid.as_raw_nonzero()),
        _ => format!("/proc/{}/cwd", pid.as_raw_nonzero()),
    };
    let from = if path.is_absolute() { PathBuf::from("/") } else { std::fs::read_link(folder).ok()? };
    Some(plain(&from.join(path)).display().to_string())
}

/// Without `.` and `..`, as far as that can be said of a path by itself.
fn plain(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().cast_unsigned()
}
