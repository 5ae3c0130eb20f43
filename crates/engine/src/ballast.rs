//! The ballast: room that is given up when the disk is full, so that what has happened can still be written down.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Written at once.
const BLOCK: usize = 64 << 10;
/// Enough for the ends of every run under way, with their answers.
const BYTES: u64 = 8 << 20;
/// The least that is worth having, and the room with which writing goes on.
const LEAST: u64 = 1 << 20;

pub(crate) struct Ballast {
    path: PathBuf,
    /// The disk was full, and there was not enough room since.
    spent: AtomicBool,
}

/// How large a ballast may be where so much is free: half of it, for the rest is for the work that waits. Where that is
/// too little for one, the disk counts as full.
fn fitting(free: u64) -> Option<u64> {
    let half = (free / 2).min(BYTES);
    (half >= LEAST).then_some(half - half % BLOCK as u64)
}

impl Ballast {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, spent: AtomicBool::new(false) }
    }

    /// Makes the file if it is not there, or a larger one where it is small and there is room now. Without room for it
    /// there is none, and it is tried again later.
    pub(crate) fn lay(&self) {
        let there = fs::metadata(&self.path).map_or(0, |file| file.len());
        let free = self.free_bytes();
        let laid = match fitting(free) {
            Some(bytes) if there < LEAST || there < bytes => self.grown(bytes) || there >= LEAST,
            // It was not given up, so little was missing.
            _ => there >= LEAST && (!self.is_spent() || free >= LEAST),
        };
        match (self.spent.swap(!laid, Ordering::Relaxed), laid) {
            (false, false) => tracing::warn!("the disk is nearly full: no room for the ballast"),
            (true, true) => tracing::info!("the ballast is there again"),
            _ => {}
        }
    }

    fn free_bytes(&self) -> u64 {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        rustix::fs::statvfs(folder).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    fn partial(&self) -> PathBuf {
        self.path.with_extension("partial")
    }

    fn grown(&self, bytes: u64) -> bool {
        let written = self.write(bytes).is_ok();
        if !written {
            // Half a ballast only takes room away from what needs it.
            let _ = fs::remove_file(self.partial());
        }
        written
    }

    /// Written, not only sized: a file with holes frees nothing.
    fn write(&self, bytes: u64) -> io::Result<()> {
        let partial = self.partial();
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        let block = vec![0xa5; BLOCK];
        for _ in 0..bytes / BLOCK as u64 {
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
    fn a_disk_with_little_room_has_a_small_ballast_and_is_not_called_full() {
        let mb = |count: u64| count << 20;
        assert_eq!(fitting(mb(100)), Some(BYTES));
        assert_eq!(fitting(mb(16)), Some(BYTES));
        assert_eq!(fitting(mb(15)), Some(15 << 19), "as large as what is left for the work");
        assert_eq!(fitting(mb(2)), Some(LEAST));
        assert_eq!(fitting(mb(2) - 1), None);
        assert_eq!(fitting(0), None);
    }

    #[test]
    fn a_small_ballast_grows_when_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let ballast = Ballast::new(folder.path().join("ballast"));
        let size = || fs::metadata(folder.path().join("ballast")).unwrap().len();
        ballast.write(LEAST).unwrap();
        assert_eq!(size(), LEAST);
        ballast.lay();
        assert_eq!(size(), BYTES);
    }

    #[test]
    fn ballast_is_real_bytes_given_up_once_and_laid_again() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let ballast = Ballast::new(folder.path().join("ballast"));
        ballast.lay();
        let file = fs::metadata(folder.path().join("ballast")).unwrap();
        assert!(file.blocks() * 512 >= BYTES, "a file with holes");
        assert!(!ballast.is_spent());
        assert!(ballast.free());
        assert!(ballast.is_spent());
        assert!(!ballast.free());
        ballast.lay();
        assert!(!ballast.is_spent());
    }
}
