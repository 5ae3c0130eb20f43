//! Handing over what programs print, as fast as they print it: what is kept of it is the sink's affair.

use std::io;
use std::os::fd::OwnedFd;

use tidegate_policy::{Sink, Stream};
use tokio::net::unix::pipe::Receiver;

const CHUNK: usize = 64 * 1024;

/// Reads a stream to its end.
pub(crate) async fn hand_over(from: OwnedFd, stream: Stream, sink: &dyn Sink) -> io::Result<()> {
    rustix::io::ioctl_fionbio(&from, true)?;
    // Not checked to be a pipe: a terminal reads the same.
    let from = Receiver::from_owned_fd_unchecked(from)?;
    let mut buffer = vec![0; CHUNK];
    loop {
        from.readable().await?;
        match from.try_read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => sink.write(stream, &buffer[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // A terminal says EIO when the last program has closed it.
            Err(_) => return Ok(()),
        }
        // Somebody who never stops printing must not keep the thread from everybody else.
        tokio::task::consume_budget().await;
    }
}
