//! Revisions: the texts a config had, newest last.
//!
//! Each is one private file that holds the text and the document with its includes, so that an old config comes
//! back even when an included file has changed since. Owns numbering and the bound on their count. Never decides
//! whether a text is good; the newest one that was is kept whatever comes after it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::disk;
use crate::error::StoreError;

/// Revisions kept at most.
pub(crate) const MAX_REVISIONS: usize = 50;

/// One text the config had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    pub number: u64,
    pub saved_at_ms: i64,
    /// SHA-256, in hex, of the text.
    pub hash: String,
    /// Whether the text was a valid config when it was saved.
    pub good: bool,
}

/// A revision with its content, as it stands in its file.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Saved {
    #[serde(flatten)]
    pub(crate) revision: Revision,
    pub(crate) source: String,
    /// The document with its includes, before variables; null for a text that was not good.
    pub(crate) document: Value,
}

/// The SHA-256 of a text, in hex.
pub(crate) fn hash_of(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The folder of revisions.
#[derive(Debug, Clone)]
pub(crate) struct Revisions(PathBuf);

impl Revisions {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// Every revision that can be read, oldest first. A damaged one is passed over: it can never be in force.
    pub(crate) fn list(&self) -> Result<Vec<Revision>, StoreError> {
        let numbers = self.numbers()?;
        Ok(numbers.into_iter().filter_map(|number| Some(self.read(number)?.revision)).collect())
    }

    pub(crate) fn read(&self, number: u64) -> Option<Saved> {
        let bytes = disk::read(&self.file(number)).ok()??;
        let saved: Saved = serde_json::from_slice(&bytes).ok()?;
        let whole =
            saved.revision.number == number && saved.revision.hash == hash_of(saved.source.as_bytes());
        whole.then_some(saved)
    }

    /// The newest revision that was good.
    pub(crate) fn last_good(&self) -> Result<Option<Saved>, StoreError> {
        Ok(self
            .numbers()?
            .into_iter()
            .rev()
            .filter_map(|number| self.read(number))
            .find(|saved| saved.revision.good))
    }

    /// Saves a text as the newest revision, unless it is that already. Only for the holder of the lock.
    pub(crate) fn save(
        &self,
        source: &str,
        document: &Value,
        good: bool,
        now_ms: i64,
    ) -> Result<Revision, StoreError> {
        let hash = hash_of(source.as_bytes());
        let numbers = self.numbers()?;
        let newest = numbers.last().copied();
        if let Some(saved) = newest.and_then(|number| self.read(number)) {
            // A text that was good stays so when it is seen from a shell that lacks its variables.
            let adds_nothing = if good { saved.revision.good && saved.document == *document } else { true };
            if saved.revision.hash == hash && adds_nothing {
                return Ok(saved.revision);
            }
        }
        let revision = Revision { number: newest.unwrap_or(0) + 1, saved_at_ms: now_ms, hash, good };
        let saved =
            Saved { revision: revision.clone(), source: source.to_owned(), document: document.clone() };
        let file = self.file(revision.number);
        let bytes = serde_json::to_vec(&saved)
            .map_err(|error| StoreError::io("cannot be written", &file, error.into()))?;
        disk::write_atomic(&file, &bytes)?;
        self.prune()?;
        Ok(revision)
    }

    fn prune(&self) -> Result<(), StoreError> {
        let numbers = self.numbers()?;
        let surplus = numbers.len().saturating_sub(MAX_REVISIONS);
        if surplus == 0 {
            return Ok(());
        }
        let last_good = self.last_good()?.map(|saved| saved.revision.number);
        for number in numbers.into_iter().take(surplus).filter(|number| Some(*number) != last_good) {
            let file = self.file(number);
            fs::remove_file(&file).map_err(|error| StoreError::io("cannot be removed", &file, error))?;
        }
        Ok(())
    }

    /// The numbers in use, damaged revisions included, so that none is given twice.
    fn numbers(&self) -> Result<Vec<u64>, StoreError> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io("cannot be read", &self.0, error)),
        };
        let number = |name: &str| name.strip_suffix(".json").filter(|n| n.len() == 8)?.parse::<u64>().ok();
        let mut numbers: Vec<u64> =
            entries.flatten().filter_map(|entry| number(&entry.file_name().to_string_lossy())).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn file(&self, number: u64) -> PathBuf {
        self.0.join(format!("{number:08}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_hash_of_nothing_is_the_known_one() {
        assert_eq!(hash_of(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn the_same_text_again_is_no_new_revision_and_an_older_one_again_is() {
        let home = tempfile::tempdir().unwrap();
        let revisions = Revisions::new(home.path().join("revisions"));
        let number = |text: &str| revisions.save(text, &json!({}), true, 1).unwrap().number;
        assert_eq!((number("a"), number("a"), number("b"), number("a")), (1, 1, 2, 3));
        assert_eq!(revisions.list().unwrap().len(), 3);
    }

    #[test]
    fn the_newest_fifty_are_kept_and_always_the_last_good_one() {
        let home = tempfile::tempdir().unwrap();
        let revisions = Revisions::new(home.path().to_owned());
        revisions.save("good", &json!({}), true, 0).unwrap();
        for index in 0..60 {
            revisions.save(&index.to_string(), &Value::Null, false, index).unwrap();
        }
        let list = revisions.list().unwrap();
        assert_eq!(list.len(), MAX_REVISIONS + 1);
        assert_eq!((list[0].number, list[1].number, list[50].number), (1, 12, 61));
        assert_eq!(revisions.last_good().unwrap().unwrap().source, "good");
    }

    #[test]
    fn a_damaged_revision_is_passed_over_and_its_number_not_given_again() {
        let home = tempfile::tempdir().unwrap();
        let revisions = Revisions::new(home.path().to_owned());
        revisions.save("one", &json!({}), true, 0).unwrap();
        revisions.save("two", &json!({}), true, 0).unwrap();
        let file = revisions.file(2);
        let torn = fs::read_to_string(&file).unwrap().replace("two", "tw");
        fs::write(&file, torn).unwrap();
        fs::write(home.path().join("00000003.json"), "{").unwrap();
        assert_eq!(revisions.last_good().unwrap().unwrap().revision.number, 1);
        assert_eq!(revisions.save("four", &json!({}), true, 0).unwrap().number, 4);
    }
}
