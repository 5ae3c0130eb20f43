//! How far an inbox was read, and whether the file in its place is still the one that was read.
//!
//! The bytes before the offset decide, together with the file's own identity. The device number is left out: it may
//! change with every mount, and an inbox must not be answered again because a container was restarted.

use std::fmt::Write as _;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// This many bytes before the offset are remembered.
pub(super) const WINDOW: u64 = 1024;

/// Where to read on. Kept by the sink as a small JSON text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    /// Counts how often the inbox began anew, so that its lines have new ids each time.
    pub(super) generation: u64,
    pub(super) file: Identity,
    /// Everything before it was accepted. The start of a line.
    pub(super) offset: u64,
    /// Fingerprint of the bytes just before the offset.
    pub(super) before: String,
}

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    inode: u64,
    /// Nanoseconds since the epoch, where the file system says so: inode numbers are used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<u64>,
}

impl Identity {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self { inode: metadata.ino(), born: born.and_then(|age| u64::try_from(age.as_nanos()).ok()) }
    }

    fn is(self, other: Self) -> bool {
        let same_birth = self.born.zip(other.born).is_none_or(|(one, two)| one == two);
        self.inode == other.inode && same_birth
    }
}

impl Cursor {
    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The start of a file that nothing was read of.
    pub(super) fn start(generation: u64, file: Identity) -> Self {
        Self { generation, file, offset: 0, before: fingerprint(b"") }
    }

    /// The place to go on in the file that is there now. `before` are its bytes before the offset, fewer if it ends
    /// earlier.
    pub(super) fn resume(held: Option<&Self>, file: Identity, before: &[u8]) -> Self {
        match held {
            None => Self::start(1, file),
            // Nothing of this generation was read: no line has an id yet.
            Some(held) if held.offset == 0 => Self::start(held.generation, file),
            Some(held) if held.file.is(file) && held.before == fingerprint(before) => {
                Self { file, ..held.clone() }
            }
            Some(held) => Self::start(held.generation + 1, file),
        }
    }

    /// Where the remembered bytes begin.
    pub(super) fn window_start(&self) -> u64 {
        self.offset.saturating_sub(WINDOW)
    }
}

/// The fingerprint of a window. Its length is part of it, so a shorter file never has the fingerprint of a longer one.
pub(super) fn fingerprint(window: &[u8]) -> String {
    let digest = Sha256::digest(window);
    digest.iter().take(16).fold(format!("{}-", window.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Identity = Identity { inode: 7, born: Some(5) };

    fn held() -> Cursor {
        Cursor { generation: 2, file: FILE, offset: 3, before: fingerprint(b"hi\n") }
    }

    #[test]
    fn a_cursor_comes_back_from_its_text_whatever_a_newer_release_adds() {
        let text = serde_json::to_string(&held()).unwrap();
        assert_eq!(Cursor::parse(&text).unwrap(), held());
        let newer = text.replacen('{', r#"{"new":1,"#, 1);
        assert_eq!(Cursor::parse(&newer).unwrap(), held());
        assert!(Cursor::parse("42").is_err());
    }

    #[test]
    fn the_same_file_with_the_same_bytes_goes_on() {
        assert_eq!(Cursor::resume(Some(&held()), FILE, b"hi\n"), held());
        let unborn = Identity { born: None, ..FILE };
        assert_eq!(
            Cursor::resume(Some(&held()), unborn, b"hi\n").offset,
            3,
            "a system that forgot the birth"
        );
    }

    #[test]
    fn any_other_file_starts_anew_with_new_ids() {
        for (file, before) in [
            (FILE, &b"ho\n"[..]),
            (FILE, b"hi"),
            (FILE, b""),
            (Identity { inode: 8, ..FILE }, b"hi\n"),
            (Identity { born: Some(6), ..FILE }, b"hi\n"),
        ] {
            assert_eq!(Cursor::resume(Some(&held()), file, before), Cursor::start(3, file));
        }
    }

    #[test]
    fn a_file_that_nothing_was_read_of_keeps_its_generation() {
        let other = Identity { inode: 8, born: None };
        assert_eq!(Cursor::resume(None, FILE, b""), Cursor::start(1, FILE));
        assert_eq!(Cursor::resume(Some(&Cursor::start(2, FILE)), other, b""), Cursor::start(2, other));
    }
}
