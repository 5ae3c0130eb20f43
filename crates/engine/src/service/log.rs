//! What a service writes, in a file that never grows past its bounds.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tidegate_policy::{Sink, Stream};

/// Bytes of one file.
pub(super) const LARGEST: u64 = 4 << 20;
/// Older files that are kept.
const OLDER: u32 = 2;

pub(super) struct Log {
    path: PathBuf,
    open: Mutex<Option<(File, u64)>>,
    largest: u64,
}

impl Log {
    pub(super) fn open(path: &Path, largest: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = append(path)?;
        Ok(Self { path: path.to_owned(), open: Mutex::new(Some(file)), largest })
    }

    /// A line of our own between those of the service.
    pub(super) fn say(&self, line: &str) {
        self.take(format!("--- {line}\n").as_bytes());
    }

    fn take(&self, bytes: &[u8]) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in bytes.chunks(usize::try_from(self.largest).unwrap_or(usize::MAX)) {
            let size = u64::try_from(piece.len()).unwrap_or(u64::MAX);
            if open.as_ref().is_some_and(|(_, written)| written + size > self.largest) {
                *open = None;
                rotate(&self.path);
                *open = append(&self.path).ok();
            }
            // A full disk loses what a service says, and nothing else.
            if let Some((file, written)) = open.as_mut() {
                let _ = file.write_all(piece);
                *written += size;
            }
        }
    }
}

impl Sink for Log {
    fn write(&self, _stream: Stream, bytes: &[u8]) {
        self.take(bytes);
    }
}

fn append(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let written = file.metadata()?.len();
    Ok((file, written))
}

fn rotate(path: &Path) {
    let older = |number: u32| PathBuf::from(format!("{}.{number}", path.display()));
    for number in (1..OLDER).rev() {
        let _ = std::fs::rename(older(number), older(number + 1));
    }
    let _ = std::fs::rename(path, older(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_three_files_of_bounded_size_with_the_newest_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("services/db.log");
        let log = Log::open(&path, 1_000).unwrap();
        for number in 0..2_000 {
            log.write(Stream::Stdout, format!("line {number}\n").as_bytes());
        }
        log.write(Stream::Stderr, &[b'x'; 5_000]);
        let files: Vec<_> = std::fs::read_dir(folder.path().join("services")).unwrap().flatten().collect();
        assert_eq!(files.len(), 3);
        assert!(files.iter().all(|file| file.metadata().unwrap().len() <= 1_000));
        drop(log);
        let log = Log::open(&path, 1_000).unwrap();
        log.say("again");
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("--- again\n"));
    }
}
