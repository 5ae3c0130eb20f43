//! Reading what a path leads to: regular files and lists of folders, nothing else.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::error::{PathError, shown};
use super::walk::{End, Found, Passed, step_into};
use super::{Identity, Root};

/// How many entries of one folder are looked at.
pub(crate) const MAX_ENTRIES: usize = 50_000;

/// A file as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pub(super) stamp: Stamp,
    pub(super) mode: u32,
}

/// What changes when somebody replaces or rewrites a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    identity: Identity,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Something in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    Other,
}

/// A folder open for looking around.
#[derive(Debug)]
pub(crate) struct Folder {
    handle: File,
    device: u64,
}

impl Stamp {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            identity: Identity::of(metadata),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Found<'_> {
    /// Reads the file at the end.
    pub(crate) fn read(&self, cap: u64) -> Result<Content, PathError> {
        read_in(self.root, self.folder(), self.device(), self.file_name()?, &self.asked, cap)
    }

    /// Reads no more than the beginning of the file at the end.
    pub(super) fn beginning(&self, most: u64) -> Result<Vec<u8>, PathError> {
        let file = open_regular(self.root, self.folder(), self.device(), self.file_name()?, &self.asked)?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).map_err(|error| PathError::io(&self.asked, &error))?;
        Ok(bytes)
    }

    fn file_name(&self) -> Result<&OsStr, PathError> {
        match &self.end {
            End::File(name) => Ok(name),
            End::Folder => Err(PathError::IsAFolder(self.asked.clone())),
            End::Missing { .. } => Err(PathError::Missing(self.asked.clone())),
        }
    }

    /// The folder at the end.
    pub(crate) fn open_folder(&self) -> Result<Folder, PathError> {
        match &self.end {
            End::Folder => {}
            End::File(_) => return Err(PathError::NotAFolder(self.asked.clone())),
            End::Missing { .. } => return Err(PathError::Missing(self.asked.clone())),
        }
        self.again(self.folder(), self.device())
    }

    /// The folders from the root to the one at the end, each with its path from the root.
    pub(crate) fn folders(&self) -> Result<Vec<(PathBuf, Folder)>, PathError> {
        self.open_folder()?;
        let mut folders = vec![(PathBuf::new(), self.again(&self.root.handle, self.root.device)?)];
        let mut path = PathBuf::new();
        for passed in &self.passed {
            path.push(&passed.name);
            folders.push((path.clone(), self.again(&passed.handle, passed.device)?));
        }
        Ok(folders)
    }

    fn again(&self, handle: &File, device: u64) -> Result<Folder, PathError> {
        let handle = handle.try_clone().map_err(|error| PathError::io(&self.asked, &error))?;
        Ok(Folder { handle, device })
    }
}

impl Folder {
    /// What is in it, by name, without `.` and `..`; and whether that is all.
    pub(crate) fn entries(&self) -> std::io::Result<(Vec<Entry>, bool)> {
        let mut entries = Vec::new();
        // The handle is for passing through; listing takes one of its own.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = rustix::fs::openat(&self.handle, ".", flags, Mode::empty())?;
        for entry in rustix::fs::Dir::new(listed)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if entries.len() == MAX_ENTRIES {
                return Ok((sorted(entries), false));
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    match rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                        Err(_) => continue,
                    }
                }
                known => known,
            };
            entries.push(Entry { name: name.to_owned(), kind: Kind::of(kind) });
        }
        Ok((sorted(entries), true))
    }

    /// A folder in it; links are not followed.
    pub(crate) fn enter(&self, root: &Root, name: &OsStr, path: &Path) -> Result<Self, PathError> {
        let asked = shown(&path.to_string_lossy());
        if root.is_forbidden_name(path) {
            return Err(PathError::Forbidden(asked));
        }
        let Passed { handle, device, .. } = step_into(root, &self.handle, self.device, name, &asked)?;
        Ok(Self { handle, device })
    }

    /// A regular file in it; links are not followed.
    pub(crate) fn read(&self, root: &Root, name: &OsStr, cap: u64) -> Result<Content, PathError> {
        read_in(root, &self.handle, self.device, name, &shown(&name.to_string_lossy()), cap)
    }

    /// Where a link in it says it leads.
    pub(crate) fn link_text(&self, name: &OsStr) -> Option<String> {
        let text = rustix::fs::readlinkat(&self.handle, name, Vec::new()).ok()?;
        Some(text.to_string_lossy().into_owned())
    }
}

impl Kind {
    fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    entries
}

fn read_in(
    root: &Root,
    folder: &File,
    device: u64,
    name: &OsStr,
    asked: &str,
    cap: u64,
) -> Result<Content, PathError> {
    let fail = |error: std::io::Error| PathError::io(asked, &error);
    let mut file = open_regular(root, folder, device, name, asked)?;
    let metadata = file.metadata().map_err(fail)?;
    let too_large = |size| PathError::TooLarge { path: asked.to_owned(), size, cap };
    if metadata.len() > cap {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    // It may grow while it is read.
    (&mut file).take(cap + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > cap {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(Content { bytes, stamp: Stamp::of(&metadata), mode: metadata.mode() })
}

/// Opens a file for reading if it is a regular one. It is looked at before it is opened, because opening a device can
/// do something, and after, because it may have been swapped.
fn open_regular(
    root: &Root,
    folder: &File,
    device: u64,
    name: &OsStr,
    asked: &str,
) -> Result<File, PathError> {
    let fail = |error: Errno| PathError::io(asked, &error.into());
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(PathError::IsAFolder(asked.to_owned())),
        FileType::Symlink => return Err(PathError::Changed(asked.to_owned())),
        _ => return Err(PathError::Special(asked.to_owned())),
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty()).map_err(fail)?);
    let metadata = file.metadata().map_err(|error| PathError::io(asked, &error))?;
    if !metadata.is_file() {
        return Err(PathError::Changed(asked.to_owned()));
    }
    let other_system = metadata.dev() != device;
    if root.is_forbidden(Identity::of(&metadata)) || (other_system && is_process_table(&file)) {
        return Err(PathError::Forbidden(asked.to_owned()));
    }
    Ok(file)
}

/// What a name in a folder is now, if it is a regular file.
pub(super) fn stamp_at(found: &Found<'_>, folder: &File, name: &OsStr) -> Result<Stamp, PathError> {
    let file = open_regular(found.root, folder, found.device(), name, &found.asked)?;
    let metadata = file.metadata().map_err(|error| PathError::io(&found.asked, &error))?;
    Ok(Stamp::of(&metadata))
}

/// Whether this is on the file system of processes: its links lead past every folder, and its files hold the
/// environment and memory of this program.
#[cfg(target_os = "linux")]
pub(super) fn is_process_table(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|stat| stat.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_process_table(_file: &File) -> bool {
    false
}
