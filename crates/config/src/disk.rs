//! Files that are whole or not there: bounded reads, atomic private writes, a lock the system releases.
//!
//! Owns the bytes on disk and their modes (0600 for files, 0700 for folders it makes). A reader never sees half a
//! file and a killed writer leaves the old one. Knows nothing about what a file says.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::StoreError;

/// A config is written by hand; a file beyond this is something else.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
const LOCK_WAIT: Duration = Duration::from_secs(10);
const LOCK_RETRY: Duration = Duration::from_millis(5);
const TEMPORARY_SUFFIX: &str = ".tmp";

/// The bytes of a file, if it exists. A folder, a pipe or a file that is too large is an error, not a wait.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("larger than {} MiB", MAX_BYTES / 1024 / 1024)));
    }
    Ok(Some(bytes))
}

/// The text of a file that must exist.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read(path)?.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such file"))?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("not UTF-8 text"))
}

/// Whether somebody else on this computer may read the file.
pub(crate) fn is_shared(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

/// Replaces a file as a whole. A symbolic link stays one: its target is replaced.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let target = link_target(path).map_err(|error| StoreError::io("cannot be resolved", path, error))?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    private_folder(folder)?;
    let temporary =
        temporary_name(&target).map_err(|error| StoreError::io("cannot be written", &target, error))?;
    let written = write_new(&temporary, bytes).and_then(|()| fs::rename(&temporary, &target));
    if let Err(error) = written {
        // The write failed already; a leftover is swept by the next one.
        let _ = fs::remove_file(&temporary);
        return Err(StoreError::io("cannot be written", &target, error));
    }
    // Without this a power cut may bring the old name back after we said it was done.
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| StoreError::io("cannot be synced", folder, error))
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    // The mode of `open` is narrowed by the umask; what we promise is exactly 0600.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The file a path leads to, which need not exist.
fn link_target(path: &Path) -> io::Result<PathBuf> {
    /// As many as the system follows.
    const MAX_LINKS: usize = 40;
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = target.parent().unwrap_or(Path::new("")).join(next),
            // Not a link, or nothing there.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                return Ok(target);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

fn temporary_name(target: &Path) -> io::Result<PathBuf> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let name = format!("{}{:016x}{TEMPORARY_SUFFIX}", temporary_prefix(target), u64::from_ne_bytes(random));
    Ok(target.with_file_name(name))
}

fn temporary_prefix(target: &Path) -> String {
    format!(".{}.", target.file_name().unwrap_or_default().to_string_lossy())
}

/// Removes what killed writers left beside a file. Only for the holder of the lock, when no other can be writing.
pub(crate) fn sweep_temporaries(path: &Path) {
    let Ok(target) = link_target(path) else { return };
    let prefix = temporary_prefix(&target);
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let random = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(TEMPORARY_SUFFIX));
        if random.is_some_and(|random| random.len() == 16 && random.bytes().all(|b| b.is_ascii_hexdigit())) {
            // Only tidiness depends on it.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes a folder and those above it that are missing, for this user only.
pub(crate) fn private_folder(folder: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| StoreError::io("folder cannot be made", folder, error))
}

/// A lock on a file, held until dropped and released by the system when the process dies.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the open file is the lock")] File);

impl Lock {
    pub(crate) fn take(path: &Path) -> Result<Self, StoreError> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(|error| StoreError::io("cannot be opened", path, error))?;
        let deadline = Instant::now() + LOCK_WAIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOCK_RETRY),
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Busy { lock: path.to_owned(), seconds: LOCK_WAIT.as_secs() });
                }
                Err(TryLockError::Error(error)) => {
                    return Err(StoreError::io("cannot be locked", path, error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_written_file_is_private_whatever_the_umask_and_the_old_mode() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("new/config.json5");
        for umask in [0o022, 0o000] {
            let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
            write_atomic(&file, b"{}").unwrap();
            rustix::process::umask(before);
            assert_eq!(mode(&file), 0o600);
        }
        assert_eq!(mode(&home.path().join("new")), 0o700);
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert!(is_shared(&file));
        write_atomic(&file, b"{}").unwrap();
        assert!(!is_shared(&file));
    }

    #[test]
    fn a_symbolic_link_stays_and_its_target_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let (target, link, chain) =
            (home.path().join("real"), home.path().join("link"), home.path().join("chain"));
        symlink("real", &link).unwrap();
        symlink(&link, &chain).unwrap();
        for bytes in [b"first".as_slice(), b"second"] {
            write_atomic(&chain, bytes).unwrap();
            assert_eq!(fs::read(&target).unwrap(), bytes);
        }
        assert!(
            fs::symlink_metadata(&link).unwrap().is_symlink()
                && fs::symlink_metadata(&chain).unwrap().is_symlink()
        );
        symlink("loop", home.path().join("loop")).unwrap();
        assert!(write_atomic(&home.path().join("loop"), b"x").is_err());
    }

    #[test]
    fn what_killed_writers_left_is_swept_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let keep = [
            "config.json5",
            ".config.json5.swp",
            ".config.json5.0123456789abcdef",
            ".other.0123456789abcdef.tmp",
        ];
        for name in keep.iter().chain(&[".config.json5.0123456789abcdef.tmp"]) {
            fs::write(home.path().join(name), "x").unwrap();
        }
        sweep_temporaries(&home.path().join("config.json5"));
        let mut left: Vec<_> =
            fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let mut expected = keep.map(std::ffi::OsString::from).to_vec();
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn what_is_no_plain_file_of_a_sane_size_is_refused() {
        let home = tempfile::tempdir().unwrap();
        assert!(read(&home.path().join("none")).unwrap().is_none());
        assert!(read(home.path()).is_err());
        let large = home.path().join("large");
        File::create(&large).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(read(&large).unwrap_err().to_string().contains("larger than 4 MiB"));
        assert!(read(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_leftover() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("config.json5");
        fs::create_dir_all(folder.join("sub")).unwrap();
        assert!(write_atomic(&folder, b"x").is_err());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
