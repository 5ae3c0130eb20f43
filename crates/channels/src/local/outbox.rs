//! The outbox file: appending a row so that it is there whole or not at all, and finding it again.
//!
//! Blocking file work, called from a thread that may block. A row is there once its JSON is whole; the line end that
//! belongs to it is added by whoever comes next, if a killed writer left it out.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tidegate_protocol::{Found, SendOutcome};
use tidegate_runtime::fault;

use super::row::has_key;
use super::{make_folder, needs_a_person, require_plain_file};

/// Reading back looks at this many bytes from the end.
const MAX_READ_BACK: u64 = 16 * 1024 * 1024;
/// A full disk is tried again after this time.
const RETRY_MS: i64 = 5_000;

pub(super) struct Outbox {
    path: PathBuf,
    /// One at a time: lengths are compared before and after a write.
    turn: Mutex<()>,
}

/// Writes everything, or says how many bytes went in before it failed.
type Write = fn(&File, &[u8]) -> Result<(), (u64, io::Error)>;

impl Outbox {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, turn: Mutex::new(()) }
    }

    /// Appends a row, given without its line end. `id` is what the row is found by.
    pub(super) fn append(&self, row: &str, id: String, now: i64) -> SendOutcome {
        self.append_by(write_whole, row, id, now)
    }

    fn append_by(&self, write: Write, row: &str, id: String, now: i64) -> SendOutcome {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, tail) = match self.open_to_append() {
            Ok(opened) => opened,
            Err(error) => return self.not_opened(&error, now),
        };
        let line_end = if tail.torn { "\n" } else { "" };
        let line = format!("{line_end}{row}\n");
        if let Err((written, error)) = write(&file, line.as_bytes()) {
            return self.not_written(&file, tail.len, written, &error, now);
        }
        fault::point("channels.local.half_sent");
        match self.sync(&file, tail.len == 0) {
            Ok(()) => SendOutcome::Sent { id },
            Err(error) => {
                SendOutcome::Unknown { reason: self.trouble("cannot be synced to the disk", &error) }
            }
        }
    }

    /// Looks for the row with that key. What is found is made durable and gets its line end before it counts as sent.
    pub(super) fn find(&self, key: &str) -> Found {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        match self.find_row(key) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Absent,
            Err(error) => Found::Unknown { reason: self.trouble("cannot be read back", &error) },
        }
    }

    fn find_row(&self, key: &str) -> io::Result<Found> {
        let file = OpenOptions::new().read(true).append(true).open(&self.path)?;
        let len = plain_len(&file)?;
        let start = len.saturating_sub(MAX_READ_BACK);
        let mut bytes = vec![0; usize::try_from(len - start).unwrap_or(0)];
        file.read_exact_at(&mut bytes, start)?;
        let mut lines = bytes.split(|byte| *byte == b'\n').rev();
        let torn = lines.next().is_some_and(|last| has_key(last, key));
        if torn {
            (&file).write_all(b"\n")?;
        }
        if torn || lines.any(|line| has_key(line, key)) {
            self.sync(&file, true)?;
            return Ok(Found::Sent { id: key.to_owned() });
        }
        if start == 0 {
            return Ok(Found::Absent);
        }
        let reason = format!(
            "the outbox {} has no such row in its last {MAX_READ_BACK} bytes, and it is longer",
            self.path.display()
        );
        Ok(Found::Unknown { reason })
    }

    fn open_to_append(&self) -> io::Result<(File, Tail)> {
        make_folder(&self.path)?;
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)?;
        let len = plain_len(&file)?;
        let mut last = [b'\n'];
        if len > 0 {
            file.read_exact_at(&mut last, len - 1)?;
        }
        Ok((file, Tail { len, torn: last != [b'\n'] }))
    }

    /// A new file is only there once its folder is durable too.
    fn sync(&self, file: &File, with_folder: bool) -> io::Result<()> {
        file.sync_data()?;
        match self.path.parent().filter(|_| with_folder) {
            Some(folder) if folder != Path::new("") => File::open(folder)?.sync_all(),
            _ => Ok(()),
        }
    }

    /// Nothing was written.
    fn not_opened(&self, error: &io::Error, now: i64) -> SendOutcome {
        let reason = self.trouble("cannot be opened", error);
        if needs_a_person(error) {
            let reason = format!("{reason}; let this user write it, or name another file in channels.local");
            return SendOutcome::Rejected { reason };
        }
        SendOutcome::NotSent { retry_at: now + RETRY_MS, reason }
    }

    /// Takes back what a failed write left. Only if that worked it is certain that no row is there: what was written
    /// may lack no more than its line end.
    fn not_written(
        &self,
        file: &File,
        before: u64,
        written: u64,
        error: &io::Error,
        now: i64,
    ) -> SendOutcome {
        let reason = self.trouble("cannot be written", error);
        let only_ours = file.metadata().is_ok_and(|metadata| metadata.len() == before + written);
        if written == 0 || (only_ours && file.set_len(before).is_ok()) {
            return SendOutcome::NotSent { retry_at: now + RETRY_MS, reason };
        }
        SendOutcome::Unknown { reason }
    }

    fn trouble(&self, what: &str, error: &io::Error) -> String {
        format!("the outbox {} {what}: {error}", self.path.display())
    }
}

/// How the file ends.
struct Tail {
    len: u64,
    /// The last line lacks its end: its writer was killed.
    torn: bool,
}

fn plain_len(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    require_plain_file(&metadata)?;
    Ok(metadata.len())
}

/// One write for the whole line, so that readers and other writers never see a part of it; the system may still take
/// only some of it when the disk is full.
fn write_whole(mut file: &File, line: &[u8]) -> Result<(), (u64, io::Error)> {
    let mut written = 0;
    while written < line.len() {
        match file.write(&line[written..]) {
            Ok(0) => return Err((written as u64, io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((written as u64, error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const OLD: &str = "{\"key\":\"old\"}\n";
    const ROW: &str = r#"{"output":{"text":"x"},"key":"new"}"#;

    fn outbox(content: &str) -> (tempfile::TempDir, Outbox) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outbox");
        fs::write(&path, content).unwrap();
        (folder, Outbox::new(path))
    }

    fn full_after(file: &File, part: &[u8]) -> Result<(), (u64, io::Error)> {
        write_whole(file, part)?;
        Err((part.len() as u64, io::ErrorKind::StorageFull.into()))
    }

    fn later() -> SendOutcome {
        SendOutcome::NotSent { retry_at: 5_007, reason: String::new() }
    }

    /// The reason is for people, and compared elsewhere.
    fn without_reason(outcome: SendOutcome) -> SendOutcome {
        let reason = String::new();
        match outcome {
            SendOutcome::NotSent { retry_at, .. } => SendOutcome::NotSent { retry_at, reason },
            SendOutcome::Unknown { .. } => SendOutcome::Unknown { reason },
            other => other,
        }
    }

    #[test]
    fn a_full_disk_leaves_the_file_as_it_was_and_is_tried_again() {
        let nothing: Write = |file, _| full_after(file, b"");
        let half: Write = |file, line| full_after(file, &line[..line.len() / 2]);
        let all_but_the_end: Write = |file, line| full_after(file, &line[..line.len() - 1]);
        for content in [OLD, "{\"torn"] {
            for write in [nothing, half, all_but_the_end] {
                let (_folder, outbox) = outbox(content);
                let outcome = outbox.append_by(write, ROW, "new".to_owned(), 7);
                assert_eq!(without_reason(outcome), later());
                assert_eq!(fs::read_to_string(&outbox.path).unwrap(), content);
                assert_eq!(outbox.find("new"), Found::Absent);
            }
        }
    }

    #[test]
    fn what_cannot_be_taken_back_is_unknown_and_found_if_it_is_whole() {
        // Somebody else's row came in between, so the file must not be cut.
        let meddled: Write = |file, line| {
            write_whole(file, &line[..line.len() - 1])?;
            write_whole(file, b"\n{}\n")?;
            Err((line.len() as u64 - 1, io::ErrorKind::StorageFull.into()))
        };
        let (_folder, outbox) = outbox(OLD);
        let outcome = outbox.append_by(meddled, ROW, "new".to_owned(), 7);
        assert_eq!(without_reason(outcome), SendOutcome::Unknown { reason: String::new() });
        assert_eq!(fs::read_to_string(&outbox.path).unwrap(), format!("{OLD}{ROW}\n{{}}\n"));
        assert_eq!(outbox.find("new"), Found::Sent { id: "new".to_owned() });
    }

    #[test]
    fn a_row_that_lacks_only_its_end_gets_it_when_it_is_found() {
        let (_folder, outbox) = outbox(&format!("{OLD}{ROW}"));
        assert_eq!(outbox.find("new"), Found::Sent { id: "new".to_owned() });
        assert_eq!(fs::read_to_string(&outbox.path).unwrap(), format!("{OLD}{ROW}\n"));
        assert_eq!(outbox.find("new"), Found::Sent { id: "new".to_owned() });
        assert_eq!(fs::read_to_string(&outbox.path).unwrap(), format!("{OLD}{ROW}\n"));
    }

    #[test]
    fn a_row_too_far_back_is_neither_found_nor_said_to_be_absent() {
        let (_folder, outbox) = outbox(OLD);
        let file = OpenOptions::new().append(true).open(&outbox.path).unwrap();
        let filler = format!("{}\n", "x".repeat(1024 * 1024));
        (0..16).for_each(|_| write_whole(&file, filler.as_bytes()).unwrap());
        assert!(matches!(outbox.find("old"), Found::Unknown { .. }));
        assert_eq!(outbox.append(ROW, "new".to_owned(), 7), SendOutcome::Sent { id: "new".to_owned() });
        assert_eq!(outbox.find("new"), Found::Sent { id: "new".to_owned() });
    }

    #[test]
    fn only_what_a_person_can_mend_is_refused_for_good() {
        let (_folder, outbox) = outbox("");
        for (kind, refused) in [
            (io::ErrorKind::PermissionDenied, true),
            (io::ErrorKind::ReadOnlyFilesystem, true),
            (io::ErrorKind::StorageFull, false),
            (io::ErrorKind::QuotaExceeded, false),
        ] {
            let outcome = outbox.not_opened(&kind.into(), 7);
            assert_eq!(matches!(outcome, SendOutcome::Rejected { .. }), refused, "{kind:?}");
        }
    }
}
