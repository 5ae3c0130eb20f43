//! Signals of a process that stays: heard from the moment it says that it is there, the second one as well.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from its making on. A signal that comes while nobody waits is kept.
pub(crate) struct Signals {
    hang_up: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next one, as its conventional exit code (128 + number).
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.hang_up.recv() => 129,
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }
}
