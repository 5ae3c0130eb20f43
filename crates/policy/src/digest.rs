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

    /// Of a text by itself, for names that have to differ.
    pub fn of_text(text: &str) -> Self {
        let mut writer = Writer::new("text");
        writer.field("text", text);
        writer.finish()
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn of(domain: &str, fields: &[(String, String)]) -> Digest {
        let mut writer = Writer::new(domain);
        for (name, value) in fields {
            writer.field(name, value);
        }
        writer.finish()
    }

    #[test]
    fn a_digest_is_its_text() {
        let digest = of("a", &[]);
        assert_eq!(Digest::stored(digest.as_str().to_owned()), digest);
        assert_eq!(format!("{digest:?}"), digest.as_str());
        assert_eq!(serde_json::to_value(&digest).unwrap(), digest.as_str());
        // SHA-256 over the length of the domain and the domain.
        assert_eq!(digest.as_str(), "3b196fd4907bedf51c3090e9835f2f7cb61e7ee1b2299ea3b8fed9b4183a822a");
    }

    #[test]
    fn a_count_is_part_of_it() {
        let count = |name: &str, count: usize| {
            let mut writer = Writer::new("a");
            writer.count(name, count);
            writer.finish()
        };
        assert_ne!(count("x", 1), count("x", 2));
        assert_ne!(count("x", 1), count("y", 1));
        assert_ne!(count("x", 0), of("a", &[]));
    }

    proptest! {
        #[test]
        fn lists_of_fields_never_flow_into_each_other(
            left in vec(("[ab]{0,2}", "[ab]{0,2}"), 0..4), right in vec(("[ab]{0,2}", "[ab]{0,2}"), 0..4),
        ) {
            prop_assert_eq!(of("d", &left) == of("d", &right), left == right);
        }

        #[test]
        fn domains_are_apart(left in "[ab]{0,3}", right in "[ab]{0,3}", name in "[ab]{0,2}", value in "[ab]{0,2}") {
            let fields = [(name, value)];
            prop_assert_eq!(of(&left, &fields) == of(&right, &fields), left == right);
        }
    }
}
