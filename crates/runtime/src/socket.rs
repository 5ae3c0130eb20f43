//! Unix sockets whose path may be long. The system takes 107 bytes; a home folder may lie deeper than that.
//!
//! A long path is reached through its opened folder (`/proc/self/fd/<n>/<name>`). A socket appears under its name only
//! after its mode is 0600, because the mode is the authentication of whoever connects.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use tokio::net::{UnixListener, UnixStream};

/// Longest path in a socket address, without the closing zero.
const LONGEST: usize = 107;
/// How long a full queue of the listener is waited for.
const QUEUE_PATIENCE: Duration = Duration::from_secs(2);

/// A path the system takes for a socket, and the open folder that keeps it valid.
struct Reachable {
    path: PathBuf,
    _folder: Option<File>,
}

fn reachable(path: &Path) -> io::Result<Reachable> {
    if path.as_os_str().as_bytes().len() <= LONGEST {
        return Ok(Reachable { path: path.to_owned(), _folder: None });
    }
    let invalid =
        || io::Error::new(io::ErrorKind::InvalidInput, "the path of a socket needs a folder and a name");
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Err(invalid()) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = File::from(rustix::fs::open(folder, flags, Mode::empty())?);
    let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok(Reachable { path, _folder: Some(folder) })
}

/// Listens on `path`, for its owner only. A file that is there already is replaced: whoever calls this holds the lock
/// that makes it the only listener, so that file was left by a process that died.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    let fresh = path.with_extension("new");
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&reachable(&fresh)?.path)?;
    fs::set_permissions(&fresh, Permissions::from_mode(0o600))?;
    fs::rename(&fresh, path)?;
    Ok(listener)
}

/// Connects to a socket. `NotFound` and `ConnectionRefused` mean that nobody listens.
pub async fn connect(path: &Path) -> io::Result<UnixStream> {
    let reachable = reachable(path)?;
    let start = Instant::now();
    loop {
        match UnixStream::connect(&reachable.path).await {
            // Somebody listens, but has not taken those before us yet.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && start.elapsed() < QUEUE_PATIENCE => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn talks(path: &Path) {
        let listener = bind(path).unwrap();
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut caller = connect(path).await.unwrap();
        let (mut callee, _) = listener.accept().await.unwrap();
        caller.write_all(b"hello").await.unwrap();
        drop(caller);
        let mut heard = String::new();
        callee.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "hello");
    }

    #[tokio::test]
    async fn a_socket_can_be_reached_however_deep_its_folder_lies() {
        let root = tempfile::tempdir().unwrap();
        for depth in [0, 1, 12] {
            let folder =
                (0..depth).fold(root.path().to_owned(), |path, _| path.join("a-folder-with-a-long-name"));
            fs::create_dir_all(&folder).unwrap();
            talks(&folder.join("control.sock")).await;
        }
    }

    #[tokio::test]
    async fn a_socket_left_by_a_dead_process_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("control.sock");
        drop(bind(&path).unwrap());
        assert_eq!(connect(&path).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        talks(&path).await;
    }

    #[tokio::test]
    async fn a_socket_that_is_not_there_is_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let long = root.path().join("x".repeat(120));
        for path in [root.path().join("control.sock"), long.join("control.sock")] {
            assert_eq!(connect(&path).await.unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }
}
