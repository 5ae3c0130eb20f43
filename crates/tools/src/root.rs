//! A folder that nothing leaves.
//!
//! It is opened once, and everything below is reached step by step from that handle. The kernel never follows a
//! symbolic link for us: the text of a link is walked like any other path, so it can lead anywhere inside and nowhere
//! else, also when somebody swaps folders and links while we walk. A link at the end of a path is followed in the same
//! way, for reading and for writing: what is written is the file it leads to, inside.
//!
//! Our own state is known by device and inode, whatever name it is reached by, and by name before it exists. The root
//! itself may lie inside it: only what is passed below the root is compared.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

mod error;
mod file;
mod walk;
mod words;
mod write;

pub use error::PathError;
pub(crate) use file::{Entry, Folder, Kind};
pub(crate) use walk::{End, Found};
pub(crate) use write::Was;

use walk::Links;

/// An open folder, and what may not be reached in it.
#[derive(Debug)]
pub struct Root {
    /// As it was named.
    given: PathBuf,
    /// Without links, as it was when it was opened.
    real: PathBuf,
    handle: File,
    device: u64,
    forbidden: Vec<Identity>,
    /// The forbidden folders below this one, by name: they may not exist yet.
    forbidden_names: Vec<PathBuf>,
}

/// Which file something is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(crate) fn of(metadata: &std::fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

impl Root {
    /// Opens a folder by its absolute path. Links on the way to it are followed: whoever configured it chose them.
    pub fn open(path: &Path, forbidden: &[PathBuf]) -> Result<Self, PathError> {
        let shown = path.display().to_string();
        let fail = |error: std::io::Error| PathError::io(&shown, &error);
        let real = std::fs::canonicalize(path).map_err(fail)?;
        let handle = walk::open_root(&real).map_err(|error| PathError::io(&shown, &error.into()))?;
        if file::is_process_table(&handle) {
            return Err(PathError::Forbidden(shown));
        }
        let device = handle.metadata().map_err(fail)?.dev();
        Ok(Self {
            given: path.to_owned(),
            handle,
            device,
            forbidden: forbidden
                .iter()
                .filter_map(|folder| std::fs::metadata(folder).ok())
                .map(|metadata| Identity::of(&metadata))
                .collect(),
            forbidden_names: forbidden
                .iter()
                .filter_map(|folder| real_name(folder).strip_prefix(&real).ok().map(Path::to_owned))
                .filter(|name| name.components().next().is_some())
                .collect(),
            real,
        })
    }

    /// The name of what a path leads to: relative to the root, without `.`, `..` and links; `.` for the root itself.
    /// [`Root::exactly`] with it leads to the same place.
    pub fn normalise(&self, path: &str) -> Result<String, PathError> {
        self.find(path)?.name()
    }

    /// Where a path leads, following links inside the root.
    pub(crate) fn find(&self, path: &str) -> Result<Found<'_>, PathError> {
        walk::walk(self, path, words::steps(self, path)?, Links::Follow)
    }

    /// Where a normalised name leads. A link on the way means that somebody changed something since.
    pub(crate) fn exactly(&self, name: &str) -> Result<Found<'_>, PathError> {
        walk::walk(self, name, name.split('/').map(OsString::from).collect(), Links::Refuse)
    }

    /// The bytes of the file with a normalised name, if there are no more than `cap`.
    pub fn read(&self, name: &str, cap: u64) -> Result<Vec<u8>, PathError> {
        Ok(self.exactly(name)?.read(cap)?.bytes)
    }

    /// The first bytes of the file that a path leads to, at most `most`, following links inside the root.
    pub fn beginning(&self, path: &str, most: u64) -> Result<Vec<u8>, PathError> {
        self.find(path)?.beginning(most)
    }

    /// The absolute path of a normalised name, for people and programs to read.
    pub(crate) fn absolute(&self, name: &str) -> String {
        let path = if name == "." { self.given.clone() } else { self.given.join(name) };
        path.display().to_string()
    }

    /// The same without links, as it was when the root was opened.
    pub(crate) fn real(&self, name: &str) -> Result<String, PathError> {
        let path = if name == "." { self.real.clone() } else { self.real.join(name) };
        path.into_os_string().into_string().map_err(|_| PathError::Name(error::shown(name)))
    }

    fn is_forbidden(&self, identity: Identity) -> bool {
        self.forbidden.contains(&identity)
    }

    fn is_forbidden_name(&self, name: &Path) -> bool {
        self.forbidden_names.iter().any(|forbidden| name.starts_with(forbidden))
    }
}

/// A path without links, also when its end does not exist.
fn real_name(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    for ancestor in path.ancestors() {
        if let Ok(real) = std::fs::canonicalize(ancestor) {
            return missing.iter().rev().fold(real, |path, name| path.join(name));
        }
        if let Some(Component::Normal(name)) = ancestor.components().next_back() {
            missing.push(name);
        }
    }
    path.to_owned()
}
