//! Signals of a process that stays: heard from the moment it says that it is there, the second one as well.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// 128 + SIGHUP.
const HANG_UP: u8 = 129;

/// Whether the process belongs to a terminal that is still there.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

/// What a signal asks of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// To end; with the conventional exit code (128 + number).
    End(u8),
    /// To read its configuration anew.
    Reload,
}

/// Listens from its making on. A signal that comes while nobody waits is kept.
pub(crate) struct Signals {
    hang_up: Signal,
    interrupt: Signal,
    terminate: Signal,
    /// There was a terminal when it began.
    had_terminal: bool,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            had_terminal: has_terminal(),
        })
    }

    /// The next one, for a process that takes a hang-up for a wish. A terminal that was closed hangs up as well: then
    /// it is the end.
    pub(crate) async fn heard(&mut self) -> Heard {
        match self.next().await {
            HANG_UP if !self.had_terminal || has_terminal() => Heard::Reload,
            code => Heard::End(code),
        }
    }

    /// The next one, as its conventional exit code (128 + number).
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.hang_up.recv() => HANG_UP,
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }
}
