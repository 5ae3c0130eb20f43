//! The files of an agent's folder that are part of its instructions: read when they change, never written, and none is
//! made. A turn costs a look at each, no more.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tidegate_agent::context::BootstrapFile;
use tidegate_tools::Root;

/// In the order they are shown.
const NAMES: [&str; 7] =
    ["AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", "BOOTSTRAP.md"];
/// What was remembered, under either name; the first that is there.
const MEMORY: [&str; 2] = ["MEMORY.md", "memory.md"];
/// Bytes that are read of a file.
const MOST: u64 = 64 * 1024;
/// Stands at the end of a file that has more.
const GOES_ON: &str = "\n[the file goes on; only its first 64 KB are read]";
/// Folders that are remembered. There are as many as agents.
const FOLDERS: usize = 64;

/// The folders of agents, as far as they were read.
#[derive(Debug, Default)]
pub(crate) struct Workspaces {
    read: Mutex<HashMap<PathBuf, Vec<Remembered>>>,
}

#[derive(Debug, Clone)]
struct Remembered {
    stamp: Option<Stamp>,
    file: BootstrapFile,
}

/// What changes when somebody replaces or rewrites a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Workspaces {
    /// The files of a folder, in the order they are shown; those that are not there without a text. A link is followed
    /// inside the folder only, and nothing `forbidden` is read.
    pub(crate) fn bootstrap(&self, folder: &Path, forbidden: &[PathBuf]) -> Vec<BootstrapFile> {
        let before = self.read.lock().unwrap_or_else(PoisonError::into_inner).get(folder).cloned();
        let before = before.unwrap_or_default();
        let stamp = |name: &str| Stamp::of(&folder.join(name));
        let memory = MEMORY.into_iter().find(|name| stamp(name).is_some());
        let mut root: Option<Root> = None;
        let mut files = Vec::new();
        for name in NAMES.into_iter().chain(memory) {
            let stamp = stamp(name);
            let known = before.iter().find(|known| known.file.name == name && known.stamp == stamp);
            files.push(known.cloned().unwrap_or_else(|| {
                let text = stamp.and_then(|_| {
                    root = root.take().or_else(|| Root::open(folder, forbidden).ok());
                    text_of(root.as_ref()?, name)
                });
                Remembered { stamp, file: BootstrapFile { name: name.to_owned(), text } }
            }));
        }
        self.remember(folder, &files);
        files.into_iter().map(|known| known.file).collect()
    }

    fn remember(&self, folder: &Path, files: &[Remembered]) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.len() >= FOLDERS && !read.contains_key(folder) {
            read.clear();
        }
        read.insert(folder.to_owned(), files.to_vec());
    }
}

impl Stamp {
    /// Of what a path leads to, if anything. It says nothing about whether that may be read.
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

fn text_of(root: &Root, name: &str) -> Option<String> {
    let read = root.beginning(name, MOST + 1).inspect_err(|error| {
        tracing::warn!(file = name, %error, "a file of the workspace is left out of the instructions");
    });
    let bytes = read.ok()?;
    let most = usize::try_from(MOST).unwrap_or(usize::MAX);
    Some(match bytes.get(..most) {
        Some(beginning) if bytes.len() > most => whole_characters(beginning) + GOES_ON,
        _ => String::from_utf8_lossy(&bytes).into_owned(),
    })
}

/// The text without half a character at its end.
fn whole_characters(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or_default()).into_owned()
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}
