//! The ballast: room that is given up when the disk is full, so that what has happened can still be written down.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Enough for the ends of every run under way, with their answers.
const BYTES: usize = 8 << 20;
/// Room with which writing goes on.
const SOME: u64 = 1 << 20;

pub(crate) struct Ballast {
    path: PathBuf,
    /// The disk was full, and there was not enough room since.
    spent: AtomicBool,
}

impl Ballast {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, spent: AtomicBool::new(false) }
    }

    /// Makes the file if it is not there. Without room for it there is none, and it is tried again later.
    pub(crate) fn lay(&self) {
        let whole = fs::metadata(&self.path).is_ok_and(|file| file.len() == BYTES as u64);
        let laid = if whole {
            // It was not given up, so little was missing.
            !self.is_spent() || self.has_room(SOME)
        } else {
            self.has_room(2 * BYTES as u64) && self.write().is_ok()
        };
        if !laid && !whole {
            // Half a ballast only takes room away from what needs it.
            let _ = fs::remove_file(self.partial());
        }
        match (self.spent.swap(!laid, Ordering::Relaxed), laid) {
            (false, false) => tracing::warn!("the disk is nearly full: no room for the ballast"),
            (true, true) => tracing::info!("the ballast is there again"),
            _ => {}
        }
    }

    /// A new one only where twice its size is free: room that somebody just made is for the work that waits.
    fn has_room(&self, bytes: u64) -> bool {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= bytes)
    }

    fn partial(&self) -> PathBuf {
        self.path.with_extension("partial")
    }

    /// Written, not only sized: a file with holes frees nothing.
    fn write(&self) -> io::Result<()> {
        let partial = self.partial();
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        let block = vec![0xa5; 64 << 10];
        for _ in 0..BYTES / block.len() {
            file.write_all(&block)?;
        }
        file.sync_all()?;
        drop(file);
        fs::rename(&partial, &self.path)
    }

    /// Gives the room up. Answers whether there was any.
    pub(crate) fn free(&self) -> bool {
        // Said first: whoever sees that the file is gone finds out why.
        self.spent.store(true, Ordering::Relaxed);
        let _ = fs::remove_file(self.partial());
        let freed = fs::remove_file(&self.path).is_ok();
        if freed {
            tracing::warn!("the disk is full: gave up the ballast");
            // The room is free once the folder knows.
            let _ =
                self.path.parent().map(File::open).map(|folder| folder.and_then(|folder| folder.sync_all()));
        }
        freed
    }

    /// A write was refused that may not have the ballast's room.
    pub(crate) fn note_full(&self) {
        self.spent.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ballast_is_real_bytes_given_up_once_and_laid_again() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let ballast = Ballast::new(folder.path().join("ballast"));
        ballast.lay();
        let file = fs::metadata(folder.path().join("ballast")).unwrap();
        assert!(file.blocks() * 512 >= BYTES as u64, "a file with holes");
        assert!(!ballast.is_spent());
        assert!(ballast.free());
        assert!(ballast.is_spent());
        assert!(!ballast.free());
        ballast.lay();
        assert!(!ballast.is_spent());
    }
}
