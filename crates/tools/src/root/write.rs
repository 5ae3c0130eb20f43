//! Changing files: what is new is written beside what is old, and takes its place in one step by handle.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::error::PathError;
use super::file::{Content, Stamp, stamp_at};
use super::walk::{End, Found, enter};

/// Distinguishes the temporary files of this process.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// What a file was before it is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Was {
    Absent,
    File(Content),
}

/// New content that lies ready beside its place. Dropped before it is put in place, it is gone.
#[derive(Debug)]
pub(crate) struct Staged<'f> {
    found: &'f Found<'f>,
    folder: &'f File,
    temporary: OsString,
    name: &'f OsStr,
    was: Option<Stamp>,
}

impl Was {
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Absent => None,
            Self::File(content) => Some(&content.bytes),
        }
    }

    /// What a permitted call is bound to: the digest of the content, or that there was none.
    pub(crate) fn digest(&self) -> String {
        let Some(bytes) = self.bytes() else { return "absent".to_owned() };
        Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// The rights that what takes its place gets. Set-uid and its like do not survive a change of content.
    pub(crate) fn mode(&self) -> Option<u32> {
        match self {
            Self::Absent => None,
            Self::File(content) => Some(content.mode & 0o777),
        }
    }

    fn stamp(&self) -> Option<Stamp> {
        match self {
            Self::Absent => None,
            Self::File(content) => Some(content.stamp),
        }
    }
}

impl Found<'_> {
    /// What is there now, to be replaced.
    pub(crate) fn was(&self, cap: u64) -> Result<Was, PathError> {
        match &self.end {
            End::Missing { folder: false, .. } => Ok(Was::Absent),
            End::Missing { .. } => Err(PathError::IsAFolder(self.asked.clone())),
            _ => self.read(cap).map(Was::File),
        }
    }

    /// Makes the folders that are missing on the way to the end.
    pub(crate) fn make_folders(&mut self) -> Result<(), PathError> {
        let End::Missing { names, folder: false } = &mut self.end else { return Ok(()) };
        let Some(last) = names.pop() else { return Ok(()) };
        for name in std::mem::take(names) {
            match rustix::fs::mkdirat(self.folder(), &name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(PathError::io(&self.asked, &error.into())),
            }
            enter(self, &name)?;
        }
        self.end = End::Missing { names: vec![last], folder: false };
        Ok(())
    }

    /// Writes new content beside the end, with these rights or those of any new file. The folder has to exist.
    pub(crate) fn stage<'f>(
        &'f self,
        bytes: &[u8],
        was: &Was,
        mode: Option<u32>,
    ) -> Result<Staged<'f>, PathError> {
        let (name, folder) = (self.last_name()?, self.folder());
        // What takes the place of a private file is private from the start.
        let first = Mode::from_raw_mode(if mode.is_some() { 0o600 } else { 0o644 });
        let (temporary, mut file) = temporary(folder, first).map_err(|error| self.failed(error))?;
        let staged = Staged { found: self, folder, temporary, name, was: was.stamp() };
        file.write_all(bytes).map_err(|error| PathError::io(&self.asked, &error))?;
        if let Some(mode) = mode {
            file.set_permissions(Permissions::from_mode(mode))
                .map_err(|error| PathError::io(&self.asked, &error))?;
        }
        file.sync_all().map_err(|error| PathError::io(&self.asked, &error))?;
        Ok(staged)
    }

    /// Puts back what was there before a change of ours.
    pub(crate) fn restore(&self, was: &Was) -> Result<(), PathError> {
        let name = self.last_name()?;
        let Some(bytes) = was.bytes() else {
            return rustix::fs::unlinkat(self.folder(), name, AtFlags::empty())
                .map_err(|error| self.failed(error));
        };
        let staged = self.stage(bytes, was, was.mode())?;
        rustix::fs::renameat(staged.folder, &staged.temporary, staged.folder, name)
            .map_err(|error| self.failed(error))
    }

    /// Removes the file at the end, if it is still the one that was read.
    pub(crate) fn remove(&self, was: &Was) -> Result<(), PathError> {
        let name = self.last_name()?;
        self.still(name, was.stamp())?;
        rustix::fs::unlinkat(self.folder(), name, AtFlags::empty()).map_err(|error| self.failed(error))?;
        sync(self.folder());
        Ok(())
    }

    fn last_name(&self) -> Result<&OsStr, PathError> {
        match &self.end {
            End::File(name) => Ok(name),
            End::Missing { names, folder: false } if names.len() == 1 => Ok(&names[0]),
            End::Missing { .. } => Err(PathError::Missing(self.asked.clone())),
            End::Folder => Err(PathError::IsAFolder(self.asked.clone())),
        }
    }

    fn still(&self, name: &OsStr, was: Option<Stamp>) -> Result<(), PathError> {
        let now = match stamp_at(self, self.folder(), name) {
            Ok(stamp) => Some(stamp),
            Err(PathError::Missing(_)) => None,
            Err(_) => return Err(PathError::Changed(self.asked.clone())),
        };
        if now == was { Ok(()) } else { Err(PathError::Changed(self.asked.clone())) }
    }

    fn failed(&self, error: Errno) -> PathError {
        PathError::io(&self.asked, &error.into())
    }
}

impl Staged<'_> {
    /// Takes the place of what was there, if that is still what was read.
    pub(crate) fn put(self) -> Result<(), PathError> {
        self.found.still(self.name, self.was)?;
        let renamed = match self.was {
            Some(_) => rustix::fs::renameat(self.folder, &self.temporary, self.folder, self.name),
            None => rename_new(self.folder, &self.temporary, self.name),
        };
        match renamed {
            Ok(()) => sync(self.folder),
            Err(Errno::EXIST) => return Err(PathError::Changed(self.found.asked.clone())),
            Err(error) => return Err(self.found.failed(error)),
        }
        Ok(())
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        // Gone already when it was put in place.
        let _ = rustix::fs::unlinkat(self.folder, &self.temporary, AtFlags::empty());
    }
}

/// Renames to a name that nobody has. File systems that cannot promise that get the plain rename: it was looked at a
/// moment ago.
fn rename_new(folder: &File, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    match rustix::fs::renameat_with(folder, from, folder, to, rustix::fs::RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        done => return done,
    }
    rustix::fs::renameat(folder, from, folder, to)
}

fn temporary(folder: &File, mode: Mode) -> Result<(OsString, File), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".tidegate-{}-{count}.tmp", std::process::id()));
        match rustix::fs::openat(folder, &name, flags, mode) {
            Ok(handle) => return Ok((name, File::from(handle))),
            // Left by a process of the same number.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Makes a rename last. Some file systems cannot, and then the name is as durable as they make it.
fn sync(folder: &File) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(handle) = rustix::fs::openat(folder, ".", flags, Mode::empty()) {
        let _ = rustix::fs::fsync(handle);
    }
}
