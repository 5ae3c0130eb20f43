//! What was typed before, kept in a file of the home: one JSON text a line, the newest last, for its owner only.
//!
//! Several terminals may write at once. Whoever shortens the file puts a new one in its place under a lock, and whoever
//! finds another file in the place of the one it locked opens it again.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use tidegate_runtime::redact;

/// How many are kept.
const MOST: usize = 1_000;
/// The file may grow this far beyond before it is shortened.
const SLACK: usize = 200;
/// A longer text is remembered by this process only.
const LONGEST: usize = 64 << 10;

pub(super) struct History {
    path: PathBuf,
}

impl History {
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The newest texts, the newest last. A file that is not there or cannot be read is an empty one.
    pub(super) fn load(&self) -> Vec<String> {
        let mut entries = File::open(&self.path).map(|file| read(&file)).unwrap_or_default();
        entries.drain(..entries.len().saturating_sub(MOST));
        entries
    }

    /// Keeps a text, unless it must not be kept: it begins with a blank, or holds what looks like a secret.
    pub(super) fn append(&self, text: &str) -> io::Result<()> {
        if !is_kept(text) {
            return Ok(());
        }
        let mut file = self.locked()?;
        let mut line = serde_json::to_string(text)?;
        line.push('\n');
        file.write_all(line.as_bytes())?;
        let entries = read(&File::open(&self.path)?);
        if entries.len() > MOST + SLACK {
            self.shorten(&entries)?;
        }
        Ok(())
    }

    /// The file that is in its place, locked until it is dropped.
    fn locked(&self) -> io::Result<File> {
        loop {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            let held = file.metadata()?;
            match std::fs::metadata(&self.path) {
                Ok(there) if (there.dev(), there.ino()) == (held.dev(), held.ino()) => return Ok(file),
                _ => {}
            }
        }
    }

    fn shorten(&self, entries: &[String]) -> io::Result<()> {
        let fresh = self.path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        for entry in entries.iter().skip(entries.len().saturating_sub(MOST)) {
            writeln!(file, "{}", serde_json::to_string(entry)?)?;
        }
        std::fs::rename(&fresh, &self.path)
    }
}

fn is_kept(text: &str) -> bool {
    let plain = !text.starts_with(' ') && !text.trim().is_empty();
    plain && text.len() <= LONGEST && redact(text) == text
}

/// Lines that are no text were torn by a crash or written by hand; the others still count.
fn read(file: &File) -> Vec<String> {
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> (tempfile::TempDir, History) {
        let folder = tempfile::tempdir().unwrap();
        let history = History::at(folder.path().join("chat_history"));
        (folder, history)
    }

    #[test]
    fn texts_come_back_in_their_order_and_for_their_owner_only() {
        let (_folder, history) = history();
        assert!(history.load().is_empty());
        for text in ["one", "two\nlines", "你好"] {
            history.append(text).unwrap();
        }
        assert_eq!(history.load(), ["one", "two\nlines", "你好"]);
        assert_eq!(std::fs::metadata(&history.path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_begins_with_a_blank_or_holds_a_secret_is_not_kept() {
        let (_folder, history) = history();
        let key = ["use sk", "-ant-", "api03-", &"abcdefghij".repeat(4)].concat();
        for text in [" hidden", "", "  ", key.as_str(), &"x".repeat(LONGEST + 1)] {
            history.append(text).unwrap();
        }
        assert!(history.load().is_empty(), "{:?}", history.load());
    }

    #[test]
    fn a_torn_line_costs_only_itself() {
        let (_folder, history) = history();
        history.append("one").unwrap();
        let mut file = OpenOptions::new().append(true).open(&history.path).unwrap();
        file.write_all(b"\"torn\n").unwrap();
        history.append("two").unwrap();
        assert_eq!(history.load(), ["one", "two"]);
    }

    #[test]
    fn several_writers_lose_nothing_while_the_file_is_shortened() {
        let (_folder, history) = history();
        let each = 400;
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let history = &history;
                scope.spawn(move || {
                    for at in 0..each {
                        history.append(&format!("{writer}-{at}")).unwrap();
                    }
                });
            }
        });
        let kept = history.load();
        assert_eq!(kept.len(), MOST);
        for writer in 0..4 {
            // What is left of each is its newest, in order and without a gap.
            let prefix = format!("{writer}-");
            let mine: Vec<usize> =
                kept.iter().filter_map(|text| text.strip_prefix(&prefix)?.parse().ok()).collect();
            assert!(mine.windows(2).all(|pair| pair[1] == pair[0] + 1), "{mine:?}");
            assert!(mine.is_empty() || mine.last() == Some(&(each - 1)), "{mine:?}");
        }
    }
}
