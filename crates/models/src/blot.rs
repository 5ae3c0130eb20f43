//! A provider's words without our secrets. Vendors quote the key that they refuse, and a proxy shows the headers it got;
//! whatever we sent is blotted out before the words are shown, kept or logged.

use tidegate_secrets::{REDACTED, Secret};

use crate::failure::Failure;
use crate::wire::Access;

/// Anything shorter is no secret, and would blot out ordinary words.
const SHORTEST: usize = 8;
/// The beginning of a secret that counts as one, where a text was cut short.
const SHORTEST_PART: usize = 4;

/// What must not be shown, the longest first: one may be a part of another.
pub(crate) struct Blot<'a>(Vec<&'a str>);

impl<'a> Blot<'a> {
    pub(crate) fn of(access: &'a Access, headers: &'a [(String, Secret)]) -> Self {
        let mut secrets: Vec<&str> = access.secrets().map(Secret::expose).collect();
        for (_, value) in headers {
            secrets.push(value.expose());
            // `Bearer <token>`: the token may come back without its word.
            secrets.extend(value.expose().split_whitespace());
        }
        secrets.retain(|secret| secret.len() >= SHORTEST);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    pub(crate) fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, REDACTED))
    }

    /// The same failure; a secret at the end of words that were cut short goes too.
    pub(crate) fn failure(&self, mut failure: Failure) -> Failure {
        let mut message = self.text(&failure.message);
        if let Some(cut) = message.strip_suffix('…') {
            let part = self.0.iter().filter_map(|secret| part_at_end(cut, secret)).min();
            if let Some(at) = part {
                message = format!("{}{REDACTED}…", &cut[..at]);
            }
        }
        failure.message = message;
        failure
    }
}

/// Where a beginning of the secret stands at the end of a text.
fn part_at_end(text: &str, secret: &str) -> Option<usize> {
    let lengths = (SHORTEST_PART..secret.len()).rev().filter(|length| secret.is_char_boundary(*length));
    lengths.map(|length| &secret[..length]).find_map(|part| Some(text.strip_suffix(part)?.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::failure::FailureKind;

    const KEY: &str = "Zq7-first-swordfish";

    fn shown(access: &Access, headers: &[(String, Secret)], words: &str) -> String {
        Blot::of(access, headers).failure(Failure::new(FailureKind::Auth, words)).message
    }

    #[test]
    fn what_was_sent_does_not_come_back_in_a_message() {
        let key = Access::Key(Secret::new(KEY));
        assert_eq!(shown(&key, &[], &format!("bad key {KEY}, {KEY}!")), "bad key [redacted], [redacted]!");
        let login = Access::Login { token: Secret::new(KEY), account_id: None };
        assert_eq!(shown(&login, &[], &format!("Bearer {KEY}")), "Bearer [redacted]");
        let headers = [("x-proxy".to_owned(), Secret::new(format!("Bearer {KEY}")))];
        assert_eq!(shown(&Access::Open, &headers, &format!("token={KEY}")), "token=[redacted]");
        let aws = Access::Aws {
            access_key: "name".to_owned(),
            secret_key: Secret::new(KEY),
            session_token: Some(Secret::new(format!("{KEY}-session"))),
            region: None,
        };
        assert_eq!(shown(&aws, &[], &format!("{KEY}-session {KEY}")), "[redacted] [redacted]");
    }

    #[test]
    fn words_that_were_cut_inside_a_secret_lose_the_rest_of_it() {
        let key = Access::Key(Secret::new(KEY));
        assert_eq!(shown(&key, &[], "you sent Zq7-first-sw…"), "you sent [redacted]…");
        assert_eq!(shown(&key, &[], "you sent Zq7-first-sw"), "you sent Zq7-first-sw");
        assert_eq!(shown(&key, &[], "an ordinary end…"), "an ordinary end…");
    }

    #[test]
    fn a_short_key_does_not_blot_out_words() {
        assert_eq!(shown(&Access::Key(Secret::new("ollama")), &[], "ollama is busy"), "ollama is busy");
    }

    proptest! {
        #[test]
        fn no_message_holds_the_key(before in ".{0,40}", after in ".{0,40}", key in "[!-~]{8,40}") {
            prop_assume!(!REDACTED.contains(&key));
            let access = Access::Key(Secret::new(key.clone()));
            let message = shown(&access, &[], &format!("{before}{key}{after}"));
            prop_assert!(message.contains(REDACTED) && !message.contains(&key), "{}", message);
        }
    }
}
