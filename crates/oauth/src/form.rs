//! `name=value&…` as forms and queries write it.

use std::fmt::Write as _;

/// Writes pairs, everything but letters, digits and `-._~` escaped.
pub fn encode(pairs: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        if !out.is_empty() {
            out.push('&');
        }
        escape(name, &mut out);
        out.push('=');
        escape(value, &mut out);
    }
    out
}

/// One name or value.
pub fn escaped(text: &str) -> String {
    let mut out = String::new();
    escape(text, &mut out);
    out
}

fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// The first value of a name.
pub fn value(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (unescape(key) == name).then(|| unescape(value))
    })
}

fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = || {
            let digits = bytes.get(at + 1..at + 3)?;
            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        };
        match (bytes[at], escaped()) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
                continue;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_values_are_escaped() {
        let pairs = [("scope", "openid profile"), ("redirect_uri", "http://localhost:1455/auth/callback")];
        assert_eq!(
            encode(&pairs),
            "scope=openid%20profile&redirect_uri=http%3A%2F%2Flocalhost%3A1455%2Fauth%2Fcallback"
        );
        assert_eq!(value("a=1&b=x+y%2", "b").as_deref(), Some("x y%2"));
        assert_eq!(value("a&b=%C3%A9", "b").as_deref(), Some("é"));
        assert_eq!(value("a=1", "b"), None);
    }

    proptest! {
        #[test]
        fn any_value_is_read_as_it_was_written(name in "[a-z]{1,5}", text in any::<String>()) {
            let written = encode(&[("first", "x"), (&name, &text), ("last", "y")]);
            prop_assert_eq!(value(&written, &name), Some(text));
        }

        #[test]
        fn any_text_passes_without_a_panic(text in any::<String>()) {
            let _ = value(&text, "code");
        }
    }
}
