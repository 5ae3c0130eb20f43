//! The standard streams of a plan: the ends that its programs get, and the ends that stay here.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tidegate_policy::{PtySize, Start, Stream};

/// Both ends of every stream.
pub(crate) struct Wires {
    /// Input, output, errors: what the programs get.
    pub(crate) theirs: [OwnedFd; 3],
    pub(crate) outputs: Vec<(Stream, OwnedFd)>,
    pub(crate) input: Option<InputEnd>,
}

/// Where input is written to.
pub(crate) enum InputEnd {
    Pipe(OwnedFd),
    /// A terminal has no end of its own: it is typed.
    Terminal(OwnedFd),
}

impl Wires {
    pub(crate) fn new(start: Start) -> io::Result<Self> {
        match start.pty {
            Some(size) => terminal(size, start.input),
            None => pipes(start.input),
        }
    }
}

fn nothing_to_read() -> io::Result<OwnedFd> {
    Ok(File::open("/dev/null")?.into())
}

fn pipes(with_input: bool) -> io::Result<Wires> {
    let (stdout, their_stdout) = io::pipe()?;
    let (stderr, their_stderr) = io::pipe()?;
    let (their_stdin, input) = if with_input {
        let (their_stdin, stdin) = io::pipe()?;
        (their_stdin.into(), Some(InputEnd::Pipe(stdin.into())))
    } else {
        (nothing_to_read()?, None)
    };
    Ok(Wires {
        theirs: [their_stdin, their_stdout.into(), their_stderr.into()],
        outputs: vec![(Stream::Stdout, stdout.into()), (Stream::Stderr, stderr.into())],
        input,
    })
}

fn terminal(size: PtySize, with_input: bool) -> io::Result<Wires> {
    let (ours, theirs) = open_terminal()?;
    tcsetwinsize(&ours, Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    let (stdin, input) = if with_input {
        (theirs.try_clone()?, Some(InputEnd::Terminal(ours.try_clone()?)))
    } else {
        (nothing_to_read()?, None)
    };
    Ok(Wires { theirs: [stdin, theirs.try_clone()?, theirs], outputs: vec![(Stream::Stdout, ours)], input })
}

/// A new terminal: our end and that of the programs. It must not become the gateway's own.
#[cfg(target_os = "linux")]
fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
    Ok((ours, theirs))
}

#[cfg(not(target_os = "linux"))]
fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::fs::{Mode, OFlags};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = rustix::pty::ptsname(&ours, Vec::new())?;
    let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((ours, theirs))
}
