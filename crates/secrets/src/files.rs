//! Files that hold secrets: private, replaced as a whole, changed by one process at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::error::SecretsError;

/// Far more than a thousand credentials.
const FILE_LIMIT: u64 = 16 << 20;

pub(crate) fn io_error(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> SecretsError {
    move |cause| SecretsError::Io { path: path.to_owned(), action, cause: cause.to_string() }
}

/// Makes the folder, or closes one that others may read. Answers whether it had to be closed.
pub(crate) fn private_folder(path: &Path) -> Result<bool, SecretsError> {
    let failed = io_error(path, "make the folder");
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    mend(path, 0o700)
}

/// What a mode allows to the group and to everybody else.
const OTHERS: u32 = 0o077;

/// Takes away what others may do with a file. Answers whether there was anything to take.
fn mend(path: &Path, mode: u32) -> Result<bool, SecretsError> {
    let metadata = fs::metadata(path).map_err(io_error(path, "look at it"))?;
    if metadata.permissions().mode() & OTHERS == 0 {
        return Ok(false);
    }
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(io_error(path, "make it private"))?;
    Ok(true)
}

/// What was read, and whether the file was open to others until now.
pub(crate) struct PrivateText {
    pub(crate) text: Zeroizing<String>,
    pub(crate) mended: bool,
}

/// `None` when there is no such file.
pub(crate) fn read_private(path: &Path) -> Result<Option<PrivateText>, SecretsError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(path, "read it")(error)),
    };
    let mended = mend(path, 0o600)?;
    let length = file.metadata().map_err(io_error(path, "read it"))?.len();
    if length > FILE_LIMIT {
        return Err(SecretsError::Damaged { path: path.to_owned(), cause: "it is too large".to_owned() });
    }
    // Room for all of it, so that no smaller copy is left behind unwiped.
    let mut text = Zeroizing::new(String::with_capacity(usize::try_from(length).unwrap_or(0) + 1));
    match file.take(FILE_LIMIT).read_to_string(&mut text) {
        Ok(_) => Ok(Some(PrivateText { text, mended })),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(SecretsError::Damaged { path: path.to_owned(), cause: "it is not text".to_owned() })
        }
        Err(error) => Err(io_error(path, "read it")(error)),
    }
}

/// Replaces the file as a whole: whoever reads sees the old one or the new one, also after a power cut.
///
/// Called under the lock, so the temporary name has one user; one left by a killed process is written over.
pub(crate) fn write_private(path: &Path, text: &[u8]) -> Result<(), SecretsError> {
    let temporary = path.with_extension("tmp");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(io_error(&temporary, "remove it")(error));
        }
        _ => {}
    }
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().map_err(|cause| {
        let _ = fs::remove_file(&temporary);
        io_error(path, "write it")(cause)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    Readers,
    OneWriter,
}

/// A lock of the operating system: it ends with this value or with the process, however that ends. The file stays.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// `None` when another holds it.
pub(crate) fn try_lock(path: &Path, share: Share) -> Result<Option<Lock>, SecretsError> {
    let file = open_lock(path)?;
    Ok(try_flock(path, &file, share)?.then_some(Lock { _file: file }))
}

/// Waits for the lock, but no longer than `wait`.
pub(crate) fn lock(path: &Path, share: Share, wait: Duration) -> Result<Lock, SecretsError> {
    let file = open_lock(path)?;
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    while !try_flock(path, &file, share)? {
        if start.elapsed() >= wait {
            return Err(SecretsError::Busy { path: path.to_owned() });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    Ok(Lock { _file: file })
}

fn open_lock(path: &Path) -> Result<File, SecretsError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(io_error(path, "lock it"))
}

fn try_flock(path: &Path, file: &File, share: Share) -> Result<bool, SecretsError> {
    let operation = match share {
        Share::Readers => FlockOperation::NonBlockingLockShared,
        Share::OneWriter => FlockOperation::NonBlockingLockExclusive,
    };
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(errno) => Err(io_error(path, "lock it")(errno.into())),
    }
}

/// The first program of that name in the search path.
pub(crate) fn in_search_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_written_file_is_private_and_a_left_over_is_written_over() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.json");
        fs::write(home.path().join("x.tmp"), "half").unwrap();
        write_private(&path, b"whole").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(mode(&path), 0o600);
        assert!(!home.path().join("x.tmp").exists());
    }

    #[test]
    fn what_others_may_read_is_made_private() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.json");
        fs::write(&path, "text").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let read = read_private(&path).unwrap().unwrap();
        assert_eq!((read.text.as_str(), read.mended, mode(&path)), ("text", true, 0o600));
        assert!(!read_private(&path).unwrap().unwrap().mended);
        let folder = home.path().join("open");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        assert!(private_folder(&folder).unwrap());
        assert_eq!(mode(&folder), 0o700);
    }

    #[test]
    fn a_lock_keeps_others_out_until_it_is_dropped() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.lock");
        let held = lock(&path, Share::OneWriter, Duration::ZERO).unwrap();
        assert!(try_lock(&path, Share::Readers).unwrap().is_none());
        let error = lock(&path, Share::OneWriter, Duration::from_millis(30)).unwrap_err();
        assert!(matches!(&error, SecretsError::Busy { .. }), "{error}");
        assert!(error.to_string().contains("x.lock"), "{error}");
        drop(held);
        let _first = try_lock(&path, Share::Readers).unwrap().unwrap();
        let _second = try_lock(&path, Share::Readers).unwrap().unwrap();
        assert!(try_lock(&path, Share::OneWriter).unwrap().is_none());
    }
}
