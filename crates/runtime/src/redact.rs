//! The second net under the secret types: whatever is printed or logged passes here, and what looks like a
//! credential is blotted out.

use std::borrow::Cow;

/// Beginnings of well-known credentials, and how long one must be to count.
const PREFIXES: &[(&str, usize)] = &[
    ("sk-", 16),
    ("xoxb-", 12),
    ("xoxp-", 12),
    ("xapp-", 12),
    ("ghp_", 16),
    ("gho_", 16),
    ("github_pat_", 20),
    ("AIza", 24),
    ("AKIA", 16),
    ("eyJ", 40),
];

const BLOT: &str = "[redacted]";

fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '/' | '=')
}

/// Replaces what looks like a credential: known token shapes, `Bearer …`, and the password in a URL.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let found = if starts_word(text, at) { token(rest).or_else(|| bearer(rest)) } else { None };
        if let Some((skip, len)) = found.or_else(|| url_password(rest)) {
            out.push_str(&text[copied..at + skip]);
            out.push_str(BLOT);
            at += skip + len;
            copied = at;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// What the first thing in a text begins with that looks like a vendor's key. Narrower than what is blotted out: a text
/// with one is stopped on its way out, so that nothing else may look like it.
pub fn credential_shape(text: &str) -> Option<&'static str> {
    PREFIXES.iter().find_map(|(prefix, _)| {
        let mut starts = text.match_indices(prefix).filter(|(at, _)| starts_word(text, *at));
        starts.any(|(at, _)| is_key(&text[at..], prefix)).then_some(*prefix)
    })
}

fn is_key(rest: &str, prefix: &str) -> bool {
    let Some((_, len)) = token(rest) else { return false };
    // Any JSON in base64 begins so; a signed token has three parts.
    prefix != "eyJ" || rest[..len].split('.').filter(|part| part.len() >= 8).count() == 3
}

fn starts_word(text: &str, at: usize) -> bool {
    !text[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
}

/// Each finder answers (bytes to keep, bytes to blot) when a credential begins here.
fn token(rest: &str) -> Option<(usize, usize)> {
    let len = rest.find(|c| !is_token_char(c)).unwrap_or(rest.len());
    PREFIXES.iter().any(|(prefix, min)| rest.starts_with(prefix) && len >= *min).then_some((0, len))
}

fn bearer(rest: &str) -> Option<(usize, usize)> {
    let word = rest.get(..7)?;
    if !word.eq_ignore_ascii_case("bearer ") {
        return None;
    }
    let value = &rest[7..];
    let len = value.find(|c| !is_token_char(c)).unwrap_or(value.len());
    (len >= 8).then_some((7, len))
}

fn url_password(rest: &str) -> Option<(usize, usize)> {
    let authority = rest.strip_prefix("://")?;
    let authority =
        &authority[..authority.find(['/', '?', '#', ' ', '\n', '"', '\'']).unwrap_or(authority.len())];
    let (user_info, _) = authority.rsplit_once('@')?;
    let (user, password) = user_info.split_once(':')?;
    // The word itself stands in our own examples of such an address.
    (!password.is_empty() && password != "password").then_some((3 + user.len() + 1, password.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn credentials_are_blotted_out_and_the_rest_stays() {
        for (text, expected) in [
            ("key sk-abcdefghijklmnop1234 failed", "key [redacted] failed"),
            ("Authorization: Bearer abcdefgh1234", "Authorization: Bearer [redacted]"),
            ("postgres://app:hunter2@db/x", "postgres://app:[redacted]@db/x"),
            ("postgres://app:p@ss@db/x", "postgres://app:[redacted]@db/x"),
            ("token=ghp_0123456789abcdef01", "token=[redacted]"),
            ("risk-averse task-list", "risk-averse task-list"),
            ("http://localhost:18789/x", "http://localhost:18789/x"),
            ("你好 sk-short", "你好 sk-short"),
        ] {
            assert_eq!(redact(text), expected);
        }
    }

    proptest! {
        #[test]
        fn any_text_passes_without_a_panic(text in any::<String>()) {
            let _ = redact(&text);
        }

        #[test]
        fn a_key_never_survives(before in "[ -~]{0,20}[ ,:=\"]", key in "sk-[a-zA-Z0-9]{20,40}", after in "[ ,\"].{0,20}") {
            let text = [before, key.clone(), after].concat();
            prop_assert!(!redact(&text).contains(&key));
        }
    }
}
