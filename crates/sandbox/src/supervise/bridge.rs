//! The bridge: from a port of the sandbox's loopback to the socket of the gateway's proxy. It carries bytes and looks at
//! none: the proxy outside decides.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use rustix::net::Shutdown;

use super::READY;

/// Carries connections until it is killed. The listening port is the standard input, unless it has to open one.
pub(super) fn carry(socket: &Path, port: Option<u16>) -> ExitCode {
    let port = match port {
        Some(port) => open(port, socket),
        None => io::stdin().as_fd().try_clone_to_owned().map(TcpListener::from),
    };
    let Ok(port) = port else { return ExitCode::FAILURE };
    loop {
        let Ok((inside, _)) = port.accept() else { return ExitCode::FAILURE };
        // Whoever connects to a proxy that is gone is told by the end of the connection.
        let Ok(outside) = UnixStream::connect(socket) else { continue };
        let _ = join(OwnedFd::from(inside), OwnedFd::from(outside));
    }
}

/// Listens, says so, and has nothing to say any more: whoever waits for that reads to the end. A socket that nobody here
/// can connect to is no way out, and is known before any program runs.
fn open(port: u16, socket: &Path) -> io::Result<TcpListener> {
    let port = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port))?;
    drop(UnixStream::connect(socket)?);
    writeln!(io::stdout(), "{READY}")?;
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(port)
}

fn join(inside: OwnedFd, outside: OwnedFd) -> io::Result<()> {
    let back = (outside.try_clone()?, inside.try_clone()?);
    drop(tidegate_runtime::spawn_thread("bridge", move || pass_on(inside, outside))?);
    drop(tidegate_runtime::spawn_thread("bridge", move || pass_on(back.0, back.1))?);
    Ok(())
}

fn pass_on(from: OwnedFd, to: OwnedFd) {
    let (mut from, mut to) = (File::from(from), File::from(to));
    // However it ends, the other side is told that nothing more comes.
    let _ = io::copy(&mut from, &mut to);
    let _ = rustix::net::shutdown(&to, Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_to_a_socket_where_nobody_listens_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let error = open(0, &folder.path().join("proxy")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
