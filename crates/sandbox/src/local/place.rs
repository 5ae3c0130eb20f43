//! The folders that the programs of one place have to themselves.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use tidegate_policy::RunError;

/// They stay when a program ends: the next one finds what the last one left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlaceFolders {
    pub(super) tmp: PathBuf,
    pub(super) home: PathBuf,
}

impl PlaceFolders {
    /// Makes them, for the owner of the gateway alone.
    pub(super) fn make(places: &Path, place: &str) -> Result<Self, RunError> {
        let own = places.join(place);
        let folders = Self { tmp: own.join("tmp"), home: own.join("home") };
        for folder in [&folders.tmp, &folders.home] {
            make(folder).map_err(|error| RunError::Folder {
                path: folder.display().to_string(),
                cause: error.to_string(),
            })?;
        }
        Ok(folders)
    }
}

fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
