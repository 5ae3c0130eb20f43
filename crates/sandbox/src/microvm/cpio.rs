//! The archive that a kernel unpacks as its first file system (`newc`).

use std::fmt::Write as _;

const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// An archive in the making. Folders have to come before what is in them.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub(super) fn folder(&mut self, name: &str, mode: u32) {
        self.entry(name, FOLDER | mode, &[]);
    }

    pub(super) fn file(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entry(name, FILE | mode, content);
    }

    pub(super) fn link(&mut self, name: &str, to: &str) {
        self.entry(name, LINK | 0o777, to.as_bytes());
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let numbers =
            [self.entries, mode, 0, 0, 1, 0, length(content.len()), 0, 0, 0, 0, length(name.len() + 1), 0];
        let mut header = "070701".to_owned();
        for number in numbers {
            let _ = write!(header, "{number:08x}");
        }
        self.bytes.extend(header.as_bytes());
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_what_was_put_into_it_at_multiples_of_four() {
        let mut archive = Archive::default();
        archive.folder("etc", 0o755);
        archive.file("etc/name", 0o644, b"value");
        archive.link("bin", "usr/bin");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let entry = &bytes[112 + 4..];
        assert_eq!(&entry[..22], b"07070100000002000081a4");
        assert_eq!(&entry[110..119], b"etc/name\0");
        assert_eq!(&entry[120..128], b"value\0\0\0");
        assert!(bytes.windows(11).any(|window| window == b"TRAILER!!!\0"));
    }
}
