//! Changing the modes of files for programs that Landlock holds.
//!
//! Landlock has no word about modes: a program could change those of any file of its user. So the filter hands these
//! calls to the supervisor, which finds the file, makes sure that it lies where the program may write and belongs to its
//! user, and changes it itself. The program only hears what came of it. Between the look and the deed nothing can be
//! exchanged: both are about a file that the supervisor holds open.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use super::memory;
use crate::seccomp::FCHMODAT2;

/// What the kernel hands over: an id, who calls, and the call.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Asked {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    arch: u32,
    pointer: u64,
    arguments: [u64; 6],
}

/// What the caller is to hear.
#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const RECEIVE: libc::Ioctl = 0xC050_2100_u32 as libc::Ioctl;
const SEND: libc::Ioctl = 0xC018_2101_u32 as libc::Ioctl;
const IS_VALID: libc::Ioctl = 0x4008_2102_u32 as libc::Ioctl;

/// Programs at once that are listened to: those of the longest pipeline.
const MOST: usize = 256;

/// Calls that are answered in one turn. Whoever asks without end must not keep the supervisor from hearing the gateway
/// and from looking at the limits.
const TURN: usize = 64;

/// Answers the calls of the programs of one plan.
pub(super) struct Modes {
    /// Where programs send what their calls come by.
    door: OwnedFd,
    listeners: Vec<OwnedFd>,
    /// Where files may be changed, without links.
    writable: Vec<PathBuf>,
}

/// A file and the mode it is to have.
struct Wish {
    file: OwnedFd,
    mode: Mode,
}

impl Modes {
    pub(super) fn new(door: OwnedFd, writable: &[String]) -> Self {
        let real = writable.iter().filter_map(|folder| Path::new(folder).canonicalize().ok());
        Self { door, listeners: Vec::new(), writable: real.collect() }
    }

    /// What to wait for.
    pub(super) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.listeners.iter().map(OwnedFd::as_fd).chain([self.door.as_fd()])
    }

    /// Answers what was asked meanwhile, as much of it as one turn allows, every program alike. The rest is still there
    /// when it is waited for again.
    pub(super) fn attend(&mut self) {
        for _ in 0..MOST {
            let Some(listener) = self.arrived() else { break };
            self.listeners.push(listener);
            self.listeners.truncate(MOST);
        }
        let writable = &self.writable;
        let each = (TURN / self.listeners.len().max(1)).max(1);
        self.listeners.retain(|listener| attend(listener.as_fd(), writable, each));
    }

    /// A program that was started since.
    fn arrived(&self) -> Option<OwnedFd> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        rustix::net::recvmsg(&self.door, &mut [io::IoSliceMut::new(&mut byte)], &mut ancillary, flags)
            .ok()?;
        ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut received) => received.next(),
            _ => None,
        })
    }
}

/// Hands what calls come by to the supervisor. It runs between fork and exec.
pub(super) fn hand_over(door: BorrowedFd<'_>, listener: BorrowedFd<'_>) -> io::Result<()> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
    let listeners = [listener];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    message.push(SendAncillaryMessage::ScmRights(&listeners));
    rustix::net::sendmsg(door, &[io::IoSlice::new(b"l")], &mut message, SendFlags::empty())?;
    Ok(())
}

/// Answers at most so many calls. Says whether there is still anybody who could ask.
fn attend(listener: BorrowedFd<'_>, writable: &[PathBuf], at_most: usize) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    for _ in 0..at_most {
        let mut events = [PollFd::new(&listener, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !matches!(poll(&mut events, Some(&now)), Ok(1)) {
            return true;
        }
        if !events[0].revents().contains(PollFlags::IN) {
            return false;
        }
        let mut asked = Asked::default();
        if !call(listener, RECEIVE, &mut asked) {
            // Whoever asked was killed meanwhile.
            return true;
        }
        let answer = answer(listener, &asked, writable);
        let error = answer.err().map_or(0, |error| -error.raw_os_error());
        call(listener, SEND, &mut Answer { id: asked.id, value: 0, error, flags: 0 });
    }
    true
}

fn call<T>(listener: BorrowedFd<'_>, request: libc::Ioctl, with: &mut T) -> bool {
    #[expect(unsafe_code, reason = "no safe call speaks to a filter")]
    // SAFETY: each request reads or writes a value of exactly the type that it is given here.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), request, std::ptr::from_mut(with)) };
    result == 0
}

fn answer(listener: BorrowedFd<'_>, asked: &Asked, writable: &[PathBuf]) -> Result<(), Errno> {
    let Wish { file, mode } = wish(asked)?;
    // The number of a process that is gone may be somebody else's by now.
    if !call(listener, IS_VALID, &mut { asked.id }) {
        return Err(Errno::SRCH);
    }
    let place = rustix::fs::readlink(link(&file), Vec::new())?;
    let place = Path::new(OsStr::from_bytes(place.as_bytes()));
    let found = rustix::fs::fstat(&file)?;
    let is_folder = rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir();
    let is_ours = found.st_uid == rustix::process::geteuid().as_raw();
    // A program that runs with the rights of its file's owner is more than anybody in a sandbox is to make.
    let gives_rights = mode.contains(Mode::SUID) || (mode.contains(Mode::SGID) && !is_folder);
    if !is_ours || gives_rights || !writable.iter().any(|folder| place.starts_with(folder)) {
        return Err(Errno::PERM);
    }
    rustix::fs::chmodat(rustix::fs::CWD, link(&file), mode, AtFlags::empty())
}

fn link(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// What a call is about.
fn wish(asked: &Asked) -> Result<Wish, Errno> {
    let [first, second, third, fourth, ..] = asked.arguments;
    let number = libc::c_long::from(asked.number);
    let mode = |bits: u64| Mode::from_raw_mode(u32::try_from(bits & 0o7777).unwrap_or_default());
    #[cfg(target_arch = "x86_64")]
    if number == libc::SYS_chmod {
        let here = u64::from(libc::AT_FDCWD.cast_unsigned());
        return Ok(Wish { file: open(asked, here, first, 0)?, mode: mode(second) });
    }
    match number {
        libc::SYS_fchmod => Ok(Wish { file: opened(asked, first)?, mode: mode(second) }),
        libc::SYS_fchmodat => Ok(Wish { file: open(asked, first, second, 0)?, mode: mode(third) }),
        FCHMODAT2 => Ok(Wish { file: open(asked, first, second, fourth)?, mode: mode(third) }),
        _ => Err(Errno::NOSYS),
    }
}

/// The file that a program has open under this number.
fn opened(asked: &Asked, number: u64) -> Result<OwnedFd, Errno> {
    let number = number & 0xffff_ffff;
    let file = format!("/proc/{}/fd/{number}", asked.pid);
    let missing = |error| if error == Errno::NOENT { Errno::BADF } else { error };
    rustix::fs::open(file, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(missing)
}

/// The file at a path, counted from a folder that the program has open, or from where it is. Links are followed with the
/// supervisor's rights: where that leads is judged afterwards, and opening it like this does nothing to it.
fn open(asked: &Asked, folder: u64, path: u64, flags: u64) -> Result<OwnedFd, Errno> {
    let path = memory::text(asked.pid, path).ok_or(Errno::FAULT)?;
    let path = as_caller_means(asked.pid, path);
    let has = |flag: i32| flags & u64::from(flag.cast_unsigned()) != 0;
    if path.is_empty() {
        return if has(libc::AT_EMPTY_PATH) { opened(asked, folder) } else { Err(Errno::NOENT) };
    }
    let base = match i32::try_from(folder & 0xffff_ffff) {
        Ok(number) => format!("/proc/{}/fd/{number}", asked.pid),
        Err(_) => format!("/proc/{}/cwd", asked.pid),
    };
    let base = rustix::fs::open(base, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let follow = if has(libc::AT_SYMLINK_NOFOLLOW) { OFlags::NOFOLLOW } else { OFlags::empty() };
    rustix::fs::openat(&base, &path[..], OFlags::PATH | OFlags::CLOEXEC | follow, Mode::empty())
}

/// A path as the one who calls means it: what leads to "the process that looks" would lead to the supervisor.
fn as_caller_means(pid: u32, path: Vec<u8>) -> Vec<u8> {
    let Some(absolute) = path.strip_prefix(b"/") else { return path };
    let mut words = absolute.split(|byte| *byte == b'/').filter(|word| !matches!(*word, b"" | b"."));
    let start = match (words.next(), words.next()) {
        (Some(b"proc"), Some(b"self")) => format!("/proc/{pid}"),
        (Some(b"proc"), Some(b"thread-self")) => format!("/proc/{pid}/task/{pid}"),
        (Some(b"dev"), Some(b"fd")) => format!("/proc/{pid}/fd"),
        _ => return path,
    };
    let mut meant = start.into_bytes();
    for word in words {
        meant.push(b'/');
        meant.extend_from_slice(word);
    }
    meant
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_itself_is_the_one_that_calls() {
        let meant = |path: &str| String::from_utf8(as_caller_means(7, path.into())).unwrap();
        assert_eq!(meant("/proc/self/fd/3"), "/proc/7/fd/3");
        assert_eq!(meant("//proc/./self//cwd/a"), "/proc/7/cwd/a");
        assert_eq!(meant("/proc/thread-self/cwd"), "/proc/7/task/7/cwd");
        assert_eq!(meant("/dev/fd/3"), "/proc/7/fd/3");
        for other in ["/proc/8/fd/3", "proc/self", "/proc/selfish", "/home/proc/self", "/"] {
            assert_eq!(meant(other), other);
        }
    }
}
