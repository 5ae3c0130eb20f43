//! What somebody types into a running plan.

use std::io;
use tidegate_policy::RunError;
use tokio::net::unix::pipe::Sender;

use crate::wires::InputEnd;

/// What a terminal takes for the end of the input.
const END: u8 = 4;

pub(crate) struct Input {
    to: Sender,
    terminal: bool,
    /// A terminal takes the end only at the beginning of a line; elsewhere it only passes on what was typed so far.
    at_line_start: bool,
}

impl Input {
    pub(crate) fn new(end: InputEnd) -> io::Result<Self> {
        let (to, terminal) = match end {
            InputEnd::Pipe(to) => (to, false),
            InputEnd::Terminal(to) => (to, true),
        };
        rustix::io::ioctl_fionbio(&to, true)?;
        // Not checked to be a pipe: a terminal is written to in the same way.
        let to = Sender::from_owned_fd_unchecked(to)?;
        Ok(Self { to, terminal, at_line_start: true })
    }

    pub(crate) async fn write(&mut self, mut bytes: &[u8]) -> Result<(), RunError> {
        while let [.., last] = bytes {
            let last = *last;
            self.to.writable().await.map_err(|_| RunError::Ended)?;
            match self.to.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_nobody_reads) => return Err(RunError::Ended),
            }
            self.at_line_start = matches!(last, b'\n' | b'\r');
        }
        Ok(())
    }

    /// Ends the input. A pipe ends by being dropped.
    pub(crate) async fn close(mut self) -> Result<(), RunError> {
        if !self.terminal {
            return Ok(());
        }
        let end: &[u8] = if self.at_line_start { &[END] } else { &[END, END] };
        self.write(end).await
    }
}
