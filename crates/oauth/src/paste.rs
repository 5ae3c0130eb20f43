//! What a person may paste: the bare code, `code#state`, the query of the address, or the whole address.

use tidegate_secrets::Secret;

use crate::ask::harmless;
use crate::{LoginError, form};

/// What an answer to this login has to bring along.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// Ties the answer to the question.
    pub state: &'a str,
    /// Who was asked: an answer that names somebody else is refused (RFC 9207).
    pub issuer: Option<&'a str>,
    /// The one who was asked always names itself.
    pub names_issuer: bool,
}

impl<'a> Expected<'a> {
    /// Of a server that does not say who it is.
    pub fn state(state: &'a str) -> Self {
        Self { state, issuer: None, names_issuer: false }
    }
}

/// The code in it. A state that is there has to be the one of this login.
pub(crate) fn code_in(text: &str, expected: Expected<'_>) -> Result<Secret, LoginError> {
    let text = text.trim();
    if let Some((_, query)) = text.split_once('?') {
        return code_of_query(query, expected, State::WhenPresent);
    }
    if text.split('&').any(|pair| pair.starts_with("code=") || pair.starts_with("error=")) {
        return code_of_query(text, expected, State::WhenPresent);
    }
    let (code, given) = text.split_once('#').map_or((text, None), |(code, given)| (code, Some(given)));
    if given.is_some_and(|given| given != expected.state) {
        return Err(LoginError::WrongState);
    }
    // An address without a query, or a sentence, is no code.
    if code.is_empty() || code.contains("://") || code.contains(char::is_whitespace) {
        return Err(LoginError::NoCode);
    }
    Ok(Secret::new(code))
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The browser brings it along, so without it the request is somebody else's.
    Required,
    WhenPresent,
}

pub(crate) fn code_of_query(query: &str, expected: Expected<'_>, need: State) -> Result<Secret, LoginError> {
    let query = query.split('#').next().unwrap_or_default();
    match form::value(query, "state") {
        Some(given) if given != expected.state => return Err(LoginError::WrongState),
        None if need == State::Required => return Err(LoginError::WrongState),
        _ => {}
    }
    match (form::value(query, "iss"), expected.issuer) {
        (Some(given), Some(issuer)) if given != issuer => return Err(LoginError::WrongIssuer),
        (None, Some(_)) if expected.names_issuer => return Err(LoginError::WrongIssuer),
        _ => {}
    }
    if let Some(error) = form::value(query, "error") {
        let declined = error == "access_denied";
        let refused = || LoginError::Refused { status: 0, reason: harmless(&error) };
        return Err(if declined { LoginError::Denied } else { refused() });
    }
    match form::value(query, "code") {
        Some(code) if !code.is_empty() => Ok(Secret::new(code)),
        _ => Err(LoginError::NoCode),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_of_a_code_is_understood() {
        for text in [
            "c0de",
            "  c0de\n",
            "c0de#st",
            "code=c0de&state=st",
            "?code=c0de&state=st",
            "state=st&code=c0de",
            "code=c0de",
            "http://localhost:1455/auth/callback?code=c0de&scope=openid+x&state=st",
            "https://example.org/x?state=st&code=c0de#fragment",
        ] {
            assert_eq!(
                code_in(text, Expected::state("st")).map(|code| code.expose().to_owned()).as_deref(),
                Ok("c0de"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_state_of_another_login_is_refused() {
        for text in ["c0de#xx", "code=c0de&state=xx", "http://localhost/cb?code=c0de&state=xx", "c0de#"] {
            assert_eq!(code_in(text, Expected::state("st")), Err(LoginError::WrongState), "{text}");
        }
        assert_eq!(
            code_of_query("code=c0de", Expected::state("st"), State::Required),
            Err(LoginError::WrongState)
        );
    }

    #[test]
    fn a_refusal_and_nothing_are_told_apart() {
        assert_eq!(
            code_in("http://localhost/cb?error=access_denied&state=st", Expected::state("st")),
            Err(LoginError::Denied)
        );
        let refused = LoginError::Refused { status: 0, reason: "invalid_scope".to_owned() };
        assert_eq!(code_in("error=invalid_scope&state=st", Expected::state("st")), Err(refused));
        for text in ["", "  ", "http://localhost/cb", "two words", "code=&state=st", "http://localhost/?x=1"]
        {
            assert_eq!(code_in(text, Expected::state("st")), Err(LoginError::NoCode), "{text}");
        }
    }

    #[test]
    fn an_answer_of_another_server_is_refused() {
        let asked = |names_issuer| Expected { state: "st", issuer: Some("https://as"), names_issuer };
        let read = |query: &str, names| code_of_query(query, asked(names), State::Required).map(drop);
        assert_eq!(read("code=c&state=st&iss=https%3A%2F%2Fas", true), Ok(()));
        assert_eq!(read("code=c&state=st&iss=https%3A%2F%2Fevil", false), Err(LoginError::WrongIssuer));
        assert_eq!(read("code=c&state=st", false), Ok(()));
        assert_eq!(read("code=c&state=st", true), Err(LoginError::WrongIssuer));
    }

    proptest! {
        #[test]
        fn any_text_passes_without_a_panic(text in any::<String>()) {
            let _ = code_in(&text, Expected::state("st"));
        }

        #[test]
        fn an_escaped_code_comes_back_whole(code in "[!-~]{1,30}") {
            let url = format!("http://localhost/cb?{}", form::encode(&[("code", &code), ("state", "st")]));
            prop_assert_eq!(code_in(&url, Expected::state("st")), Ok(Secret::new(code)));
        }
    }
}
