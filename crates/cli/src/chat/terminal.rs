//! The real terminal: its mode, its size, what is typed and what is written.

use std::io::{self, Read as _, Write as _};

use rustix::process::{self, Signal};
use rustix::termios::{self, ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, Termios};
use tidegate_runtime::spawn_thread;
use tokio::sync::mpsc;

/// Pastes come between marks.
const PASTES_MARKED: &str = "\x1b[?2004h";
const AS_IT_WAS: &str = "\x1b[?2004l\x1b[?2026l\x1b[?25h";
/// Bytes that are read at once.
const CHUNK: usize = 4 << 10;
/// Chunks that may wait for being understood.
const CHUNKS: usize = 64;

/// The terminal, with every key told at once. It is as it was before when this is dropped, also by a panic.
pub(super) struct Raw {
    before: Termios,
    raw: Termios,
}

impl Raw {
    pub(super) fn enter() -> io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.input_modes &= !(InputModes::BRKINT
            | InputModes::ICRNL
            | InputModes::INPCK
            | InputModes::ISTRIP
            | InputModes::IXON);
        raw.output_modes &= !OutputModes::OPOST;
        raw.control_modes |= ControlModes::CS8;
        raw.local_modes &= !(LocalModes::ECHO | LocalModes::ICANON | LocalModes::IEXTEN | LocalModes::ISIG);
        let raw = Self { before, raw };
        raw.resume()?;
        Ok(raw)
    }

    /// Takes the terminal again, whatever others made of it meanwhile.
    pub(super) fn resume(&self) -> io::Result<()> {
        termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.raw)?;
        write(PASTES_MARKED)
    }

    /// The terminal as it was before.
    fn restore(&self) {
        // Nothing can be done for a terminal that went away.
        let _ = write(AS_IT_WAS);
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }

    /// Gives the terminal back and stops, until whoever started this program lets it go on.
    pub(super) fn suspend(&self) -> io::Result<()> {
        self.restore();
        process::kill_process(process::getpid(), Signal::STOP)?;
        Ok(())
    }
}

/// Whether somebody would let this program go on after it stopped: a shell that controls its jobs.
pub(super) fn can_be_continued() -> bool {
    let Some(parent) = process::getppid() else { return false };
    let (ours, theirs) = (Belonging::of(process::getpid()), Belonging::of(parent));
    theirs.session == ours.session && theirs.group != ours.group
}

/// The session and the group of a process. Inside a container each is 0 when whoever leads it is outside, which the safe
/// wrappers of these two calls hold to be impossible.
struct Belonging {
    session: i32,
    group: i32,
}

impl Belonging {
    fn of(process: process::Pid) -> Self {
        let pid = process.as_raw_nonzero().get();
        #[expect(unsafe_code, reason = "rustix must not be given the answer 0")]
        // SAFETY: both calls take a number and touch no memory of ours.
        let (session, group) = unsafe { (libc::getsid(pid), libc::getpgid(pid)) };
        Self { session, group }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Columns and rows.
pub(super) fn size() -> (usize, usize) {
    let found = termios::tcgetwinsize(io::stdout()).ok();
    let found = found.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    found.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((80, 24))
}

pub(super) fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// What is typed, in pieces. It ends when the terminal goes away.
pub(super) fn keyboard() -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let (typed, pieces) = mpsc::channel(CHUNKS);
    // It waits for a key until the process ends.
    spawn_thread("chat.keyboard", move || {
        let mut input = io::stdin().lock();
        let mut chunk = [0; CHUNK];
        loop {
            match input.read(&mut chunk) {
                Ok(read @ 1..) => {
                    let piece = chunk.get(..read).unwrap_or_default().to_vec();
                    if typed.blocking_send(piece).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return,
            }
        }
    })?;
    Ok(pieces)
}
