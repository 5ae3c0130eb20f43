//! The walk from the root's handle to what a path names, one step at a time.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::error::{PathError, shown};
use super::words::{is_nothing, link_steps};
use super::{Identity, Root, file};

/// How many links a path may lead through, as in the kernel.
const MAX_LINKS: usize = 40;
/// How many folders deep a path may go: each is an open handle.
pub(super) const MAX_DEPTH: usize = 100;

/// What becomes of links on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// Their text is walked, inside the root.
    Follow,
    /// There should be none.
    Refuse,
}

/// Where a path leads.
#[derive(Debug)]
pub(crate) struct Found<'r> {
    pub(super) root: &'r Root,
    /// The folders passed, the last one deepest.
    pub(super) passed: Vec<Passed>,
    pub(crate) end: End,
    /// The path as it was given, for errors.
    pub(super) asked: String,
}

#[derive(Debug)]
pub(super) struct Passed {
    pub(super) name: OsString,
    pub(super) handle: File,
    pub(super) device: u64,
}

/// What is at the end of a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The last folder passed.
    Folder,
    /// Something else in the last folder passed, by this name.
    File(OsString),
    /// Nothing yet: these names below the last folder passed. `folder` when only a folder can be meant.
    Missing { names: Vec<OsString>, folder: bool },
}

impl Found<'_> {
    /// The normalised name.
    pub(crate) fn name(&self) -> Result<String, PathError> {
        let path = self.path();
        if path.as_os_str().is_empty() {
            return Ok(".".to_owned());
        }
        path.into_os_string().into_string().map_err(|_| PathError::Name(self.asked.clone()))
    }

    /// The folder that holds the end, or is the end.
    pub(crate) fn folder(&self) -> &File {
        self.passed.last().map_or(&self.root.handle, |passed| &passed.handle)
    }

    pub(super) fn device(&self) -> u64 {
        self.passed.last().map_or(self.root.device, |passed| passed.device)
    }

    pub(super) fn path(&self) -> PathBuf {
        let mut path: PathBuf = self.passed.iter().map(|passed| &passed.name).collect();
        match &self.end {
            End::Folder => {}
            End::File(name) => path.push(name),
            End::Missing { names, .. } => path.extend(names),
        }
        path
    }
}

pub(super) fn walk<'r>(
    root: &'r Root,
    asked: &str,
    mut pending: VecDeque<OsString>,
    links: Links,
) -> Result<Found<'r>, PathError> {
    let mut found = Found { root, passed: Vec::new(), end: End::Folder, asked: shown(asked) };
    let mut followed = 0;
    while let Some(step) = pending.pop_front() {
        if is_nothing(&step) {
            continue;
        }
        if step == ".." {
            found.passed.pop().ok_or_else(|| PathError::Outside(found.asked.clone()))?;
            continue;
        }
        match kind_at(found.folder(), &step) {
            Err(Errno::NOENT) => {
                found.end = missing(&found.asked, step, pending)?;
                break;
            }
            Err(error) => return Err(PathError::io(&found.asked, &error.into())),
            Ok(FileType::Directory) => enter(&mut found, &step)?,
            Ok(FileType::Symlink) if links == Links::Refuse => return Err(PathError::Changed(found.asked)),
            Ok(FileType::Symlink) => {
                followed += 1;
                if followed > MAX_LINKS {
                    return Err(PathError::Loop(found.asked));
                }
                follow(&mut found, &step, &mut pending)?;
            }
            Ok(_) if pending.is_empty() => found.end = End::File(step),
            Ok(_) => return Err(PathError::NotAFolder(found.asked)),
        }
    }
    if root.is_forbidden_name(&found.path()) {
        return Err(PathError::Forbidden(found.asked));
    }
    Ok(found)
}

/// Opens a folder and stands in it.
pub(super) fn enter(found: &mut Found<'_>, name: &OsStr) -> Result<(), PathError> {
    if found.passed.len() == MAX_DEPTH {
        return Err(PathError::TooLong(found.asked.clone()));
    }
    let passed = step_into(found.root, found.folder(), found.device(), name, &found.asked)?;
    found.passed.push(passed);
    Ok(())
}

/// Opens a folder inside another, unless it may not be reached.
pub(super) fn step_into(
    root: &Root,
    folder: &File,
    device: u64,
    name: &OsStr,
    asked: &str,
) -> Result<Passed, PathError> {
    let handle = open_folder(folder, name).map_err(|error| PathError::io(asked, &error.into()))?;
    let metadata = handle.metadata().map_err(|error| PathError::io(asked, &error))?;
    let other_system = metadata.dev() != device;
    if root.is_forbidden(Identity::of(&metadata)) || (other_system && file::is_process_table(&handle)) {
        return Err(PathError::Forbidden(asked.to_owned()));
    }
    Ok(Passed { name: name.to_owned(), handle, device: metadata.dev() })
}

/// Puts the text of a link before the steps that are left.
fn follow(found: &mut Found<'_>, name: &OsStr, pending: &mut VecDeque<OsString>) -> Result<(), PathError> {
    let text = rustix::fs::readlinkat(found.folder(), name, Vec::new())
        .map_err(|error| PathError::io(&found.asked, &error.into()))?;
    let (steps, from_root) =
        link_steps(found.root, text.as_bytes()).ok_or_else(|| PathError::Outside(found.asked.clone()))?;
    if from_root {
        found.passed.clear();
    }
    for step in steps.into_iter().rev() {
        pending.push_front(step);
    }
    Ok(())
}

fn missing(asked: &str, first: OsString, pending: VecDeque<OsString>) -> Result<End, PathError> {
    let folder = pending.back().is_some_and(|step| is_nothing(step));
    let names: Vec<_> =
        std::iter::once(first).chain(pending.into_iter().filter(|step| !is_nothing(step))).collect();
    if names.iter().any(|name| name == "..") {
        return Err(PathError::Missing(asked.to_owned()));
    }
    if names.len() > MAX_DEPTH {
        return Err(PathError::TooLong(asked.to_owned()));
    }
    Ok(End::Missing { names, folder })
}

fn kind_at(folder: &File, name: &OsStr) -> Result<FileType, Errno> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// A handle to pass through; where the system can, without the right to list.
#[cfg(target_os = "linux")]
const PASS: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PASS: OFlags = OFlags::RDONLY;

pub(super) fn open_folder(folder: &File, name: &OsStr) -> Result<File, Errno> {
    let flags = PASS | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty()).map(File::from)
}

pub(super) fn open_root(path: &Path) -> Result<File, Errno> {
    let flags = PASS | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle: OwnedFd = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(File::from(handle))
}
