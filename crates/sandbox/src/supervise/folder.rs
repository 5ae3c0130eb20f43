//! Entering the folder that programs start in, by the name it was permitted under and without following a link.
//!
//! The name has no links in it. One that is there now was put there since, and leads to another folder.

use std::fs::File;
use std::io;

use rustix::fs::{Mode, OFlags};

/// A handle to pass through; where the system can, without the right to list.
#[cfg(target_os = "linux")]
const PASS: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PASS: OFlags = OFlags::RDONLY;

/// Enters an absolute path step by step.
pub(super) fn enter(path: &str) -> io::Result<()> {
    Ok(rustix::process::fchdir(open(path)?)?)
}

/// Which folder is at an absolute path: its device and inode.
#[cfg(target_os = "linux")]
pub(super) fn identity(path: &str) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let folder = open(path)?.metadata()?;
    Ok((folder.dev(), folder.ino()))
}

fn open(path: &str) -> io::Result<File> {
    let Some(below) = path.strip_prefix('/') else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute"));
    };
    let flags = PASS | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = File::from(rustix::fs::open("/", flags, Mode::empty())?);
    for name in below.split('/').filter(|name| !name.is_empty()) {
        folder = File::from(rustix::fs::openat(&folder, name, flags, Mode::empty())?);
    }
    Ok(folder)
}
