//! What an approval is bound to: one value over everything a call would do.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Equal only for calls that would do exactly the same thing, for the same requester in the same place.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest(String);

impl Digest {
    /// As a row kept it.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Takes fields in order, each with its name and length before it: no two lists of fields share their bytes.
pub(crate) struct Writer(Sha256);

impl Writer {
    pub(crate) fn new(domain: &str) -> Self {
        let mut writer = Self(Sha256::new());
        writer.bytes(domain.as_bytes());
        writer
    }

    pub(crate) fn field(&mut self, name: &str, value: &str) {
        self.bytes(name.as_bytes());
        self.bytes(value.as_bytes());
    }

    /// The number of things that follow, so that lists cannot flow into each other.
    pub(crate) fn count(&mut self, name: &str, count: usize) {
        self.field(name, &count.to_string());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        use fmt::Write as _;
        let hash = self.0.finalize();
        Digest(hash.iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }))
    }
}
