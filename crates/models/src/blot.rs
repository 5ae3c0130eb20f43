//! Takes what a call was made with out of what a provider says about it: some quote the key they refuse, and not every
//! key looks like one.

use std::borrow::Cow;

use tidegate_secrets::Secret;

use crate::failure::Failure;
use crate::wire::Access;

/// A shorter secret would blot ordinary words; nobody gives one out.
const SHORTEST: usize = 8;
const BLOT: &str = "[redacted]";
/// How a text ends that was cut short.
const CUT: char = '…';

/// The failure without the credential and the headers the call was made with.
pub(crate) fn blotted(failure: Failure, access: &Access, headers: &[(String, Secret)]) -> Failure {
    let secrets = access.secrets().chain(headers.iter().map(|(_, value)| value));
    let message = secrets.fold(failure.message, |message, secret| match without(&message, secret) {
        Cow::Owned(message) => message,
        Cow::Borrowed(_) => message,
    });
    Failure { message, ..failure }
}

fn without<'a>(text: &'a str, secret: &Secret) -> Cow<'a, str> {
    let secret = secret.expose();
    if secret.len() < SHORTEST {
        return Cow::Borrowed(text);
    }
    let whole =
        if text.contains(secret) { Cow::Owned(text.replace(secret, BLOT)) } else { Cow::Borrowed(text) };
    match cut_at(&whole, secret) {
        Some(at) => Cow::Owned(format!("{}{BLOT}{CUT}", &whole[..at])),
        None => whole,
    }
}

/// Where a text that was cut short ends with the beginning of the secret.
fn cut_at(text: &str, secret: &str) -> Option<usize> {
    let kept = text.strip_suffix(CUT)?;
    let lengths = (SHORTEST..secret.len()).rev().filter(|length| secret.is_char_boundary(*length));
    lengths
        .map(|length| &secret[..length])
        .find(|begun| kept.ends_with(begun))
        .map(|begun| kept.len() - begun.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;

    #[test]
    fn whatever_the_call_was_made_with_is_not_repeated() {
        let secret = |text: &str| Secret::new(text);
        let access = Access::Aws {
            access_key: "public".into(),
            secret_key: secret("plain-words-1"),
            session_token: Some(secret("plain-words-2")),
            region: None,
        };
        let headers = [("x-own".to_owned(), secret("plain-words-3")), ("x-short".to_owned(), secret("no"))];
        let said = "no plain-words-1, plain-words-2/plain-words-3 of public";
        let failure = blotted(Failure::new(FailureKind::Auth, said), &access, &headers);
        assert_eq!(failure.message, "no [redacted], [redacted]/[redacted] of public");
        let login = Access::Login { token: secret("plain-words-4"), account_id: None };
        let failure = blotted(Failure::new(FailureKind::Auth, "bad: plain-words-4"), &login, &[]);
        assert_eq!(failure.message, "bad: [redacted]");
    }

    #[test]
    fn half_of_it_at_the_end_of_a_text_that_was_cut_is_not_repeated_either() {
        let login = Access::Login { token: Secret::new("plain-words-4"), account_id: None };
        let failure = blotted(Failure::new(FailureKind::Auth, "bad: plain-wor…"), &login, &[]);
        assert_eq!(failure.message, "bad: [redacted]…");
    }
}
