//! Looking through a folder and what is below it, by handle: links are not followed, our state is not entered, and what
//! `.gitignore` files name is left out.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::Stop;
use crate::root::{Entry, Folder, Found, Kind, Root};
use crate::tool::ToolFailure;

/// How deep is looked: each folder on the way is an open handle.
const MAX_DEPTH: usize = 60;
/// How many entries are looked at.
const MAX_VISITED: usize = 200_000;
const IGNORE_FILE: &str = ".gitignore";
const IGNORE_CAP: u64 = 1024 * 1024;

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    More,
    Enough,
}

/// Something that was come upon.
pub(super) struct Visit<'a> {
    /// The folder it is in.
    pub(super) folder: &'a Folder,
    /// From the root.
    pub(super) path: &'a Path,
    pub(super) entry: &'a Entry,
}

/// Looks at everything below a folder, in order of names. Says whether all of it was looked at.
pub(super) fn look(
    root: &Root,
    start: &Found<'_>,
    stop: &Stop,
    visit: &mut dyn FnMut(&Visit<'_>) -> Next,
) -> Result<bool, ToolFailure> {
    let mut folders = start.folders()?;
    let (path, folder) = folders.pop().ok_or_else(|| ToolFailure::execution("there is no folder"))?;
    // The rules of the folders above hold here too.
    let ignored = folders.iter().map(|(path, folder)| rules(root, folder, path)).collect();
    let mut look = Look { root, stop, visit, ignored, visited: 0, all: true };
    look.folder(&folder, &path, 0)?;
    Ok(look.all)
}

struct Look<'a> {
    root: &'a Root,
    stop: &'a Stop,
    visit: &'a mut dyn FnMut(&Visit<'_>) -> Next,
    ignored: Vec<Gitignore>,
    visited: usize,
    all: bool,
}

impl Look<'_> {
    fn folder(&mut self, folder: &Folder, path: &Path, depth: usize) -> Result<Next, ToolFailure> {
        self.stop.check()?;
        // A folder that cannot be listed is not a reason to show nothing.
        let Ok((entries, whole)) = folder.entries() else {
            self.all = false;
            return Ok(Next::More);
        };
        self.all &= whole;
        self.ignored.push(rules(self.root, folder, path));
        let mut next = Next::More;
        for entry in &entries {
            next = self.entry(folder, &path.join(&entry.name), entry, depth)?;
            if next == Next::Enough {
                break;
            }
        }
        self.ignored.pop();
        Ok(next)
    }

    fn entry(
        &mut self,
        folder: &Folder,
        path: &Path,
        entry: &Entry,
        depth: usize,
    ) -> Result<Next, ToolFailure> {
        let is_folder = entry.kind == Kind::Folder;
        if (is_folder && entry.name == ".git") || self.is_ignored(path, is_folder) {
            return Ok(Next::More);
        }
        self.visited += 1;
        if self.visited > MAX_VISITED {
            self.all = false;
            return Ok(Next::Enough);
        }
        let inner = match is_folder.then(|| folder.enter(self.root, &entry.name, path)) {
            Some(Ok(inner)) => Some(inner),
            // Off limits, or gone: as if it were not there.
            Some(Err(_)) => return Ok(Next::More),
            None => None,
        };
        if (self.visit)(&Visit { folder, path, entry }) == Next::Enough {
            return Ok(Next::Enough);
        }
        match inner {
            Some(inner) if depth < MAX_DEPTH => self.folder(&inner, path, depth + 1),
            Some(_) => {
                self.all = false;
                Ok(Next::More)
            }
            None => Ok(Next::More),
        }
    }

    /// The nearest folder that says something about a path decides.
    fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        let said = self.ignored.iter().rev().map(|rules| rules.matched(path, is_folder));
        said.into_iter().find(|said| !said.is_none()).is_some_and(|said| said.is_ignore())
    }
}

fn rules(root: &Root, folder: &Folder, path: &Path) -> Gitignore {
    let Ok(content) = folder.read(root, OsStr::new(IGNORE_FILE), IGNORE_CAP) else {
        return Gitignore::empty();
    };
    let mut builder = GitignoreBuilder::new(path);
    for line in String::from_utf8_lossy(&content.bytes).lines() {
        // A line that is no pattern says nothing, as in git.
        let _ = builder.add_line(None::<PathBuf>, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
