//! Short names made of long ones: the same text always gives the same.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// The first `length` hexadecimal digits of the text's SHA-1, 40 at most. It tells texts apart; it proves nothing.
pub(crate) fn short(text: &str, length: usize) -> String {
    let sum = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    let mut hex = sum.as_ref().iter().fold(String::new(), |mut hex, byte| {
        // Writing into a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    hex.truncate(length);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_is_the_beginning_of_the_sha_1() {
        assert_eq!(short("a", 9), "86f7e437f");
        assert_eq!(short("a", 99), "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8");
    }
}
