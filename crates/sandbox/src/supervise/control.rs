//! The supervisor's side of the socket to the gateway.

use std::fs::{self, File};
use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::order::{ASK, KILL, Order, Report, line};

/// The socket. No program ever gets it: it would keep the supervisor alive, or speak in its name.
pub(super) struct Control {
    socket: UnixStream,
}

/// What the gateway can want once a plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    /// The programs are to be asked to end.
    Ask,
    Kill,
    /// It is dead, or nobody there cares any more.
    Gone,
}

/// The standard streams of the programs.
pub(super) struct Streams {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Control {
    /// Takes the socket from the standard input, where the gateway put it, and leaves nothing to read there.
    pub(super) fn take() -> io::Result<Self> {
        let socket = fcntl_dupfd_cloexec(io::stdin(), 3)?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        Ok(Self { socket: socket.into() })
    }

    pub(super) fn receive(&mut self) -> io::Result<(Streams, Order)> {
        let streams = self.receive_streams()?;
        let mut order = Vec::new();
        let mut chunk = [0; 8 * 1024];
        while order.last() != Some(&b'\n') {
            match self.socket.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => order.extend_from_slice(&chunk[..count]),
            }
            // Somebody who cannot wait may already want the end.
            if let [.., b'\n', KILL] = order[..] {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        Ok((streams, serde_json::from_slice(&order)?))
    }

    fn receive_streams(&self) -> io::Result<Streams> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        #[cfg(target_os = "linux")]
        let flags = RecvFlags::CMSG_CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = RecvFlags::empty();
        rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
        let mut streams = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                streams.extend(received);
            }
        }
        for stream in &streams {
            fcntl_setfd(stream, FdFlags::CLOEXEC)?;
        }
        let streams: Result<[OwnedFd; 3], _> = streams.try_into();
        let [stdin, stdout, stderr] = streams.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Streams { stdin, stdout, stderr })
    }

    /// What the gateway wants, if it has said anything.
    pub(super) fn demand(&self) -> Option<Demand> {
        let mut bytes = [0; 16];
        let (bytes, _) = match rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((count, _)) => bytes.split_at(count),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return None,
            Err(_) => return Some(Demand::Gone),
        };
        match bytes {
            [] => Some(Demand::Gone),
            bytes if bytes.contains(&KILL) => Some(Demand::Kill),
            bytes => bytes.contains(&ASK).then_some(Demand::Ask),
        }
    }

    /// Says something. If nobody listens any more there is nobody to tell.
    pub(super) fn report(&mut self, report: &Report) {
        if let Ok(line) = line(report) {
            let _ = self.socket.write_all(&line);
        }
    }
}

/// Whatever the gateway inherited from whoever started it goes no further.
pub(super) fn keep_to_ourselves() -> io::Result<()> {
    let open: Vec<i32> = fs::read_dir("/dev/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in open {
        #[expect(unsafe_code, reason = "descriptors nobody told us about have no owner to borrow from")]
        // SAFETY: nothing is closed; a number that is not open any more, such as that of the folder, is refused.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
    }
    Ok(())
}
