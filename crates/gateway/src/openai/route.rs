//! Which agent and which conversation a request means. Pure.

use axum::http::HeaderMap;
use sha2::{Digest as _, Sha256};

const BRAND: &str = "tidegate";
const AGENT_HEADERS: [&str; 2] = ["x-tidegate-agent-id", "x-tidegate-agent"];
const SESSION_HEADER: &str = "x-tidegate-session-key";
/// How the names of conversations begin that serve one request.
pub(super) const ONE_OFF: &str = "openai:";

/// The name of an agent as a model.
pub(super) fn model_of(agent: &str) -> String {
    format!("{BRAND}:{agent}")
}

/// The agent a request names; `None` means the default one.
pub(super) fn agent<'a>(headers: &'a HeaderMap, model: Option<&'a str>) -> Option<&'a str> {
    let mut named = AGENT_HEADERS.iter().filter_map(|name| header(headers, name));
    named.next().or_else(|| {
        let model = model?.trim();
        let branded =
            model.strip_prefix(BRAND).and_then(|rest| rest.strip_prefix(':').or(rest.strip_prefix('/')));
        branded.or(model.strip_prefix("agent:")).filter(|agent| !agent.is_empty())
    })
}

/// A conversation by its name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conversation {
    pub(super) name: String,
    /// It serves one request and may go afterwards.
    pub(super) one_off: bool,
}

/// The conversation a request belongs to: the one named, the user's own, or one for this request. `fresh` is a name
/// nobody has; with an idempotency key the same request finds the same conversation instead.
pub(super) fn conversation(headers: &HeaderMap, user: Option<&str>, fresh: &str) -> Conversation {
    if let Some(named) = header(headers, SESSION_HEADER) {
        return Conversation { name: named.to_owned(), one_off: false };
    }
    if let Some(user) = user.map(str::trim).filter(|user| !user.is_empty()) {
        return Conversation { name: format!("openai-user:{}", user.to_lowercase()), one_off: false };
    }
    let name = match idempotency(headers) {
        Some(key) => {
            let digest = Sha256::digest(key.as_bytes());
            digest[..16].iter().fold(ONE_OFF.to_owned(), |name, byte| format!("{name}{byte:02x}"))
        }
        None => format!("{ONE_OFF}{fresh}"),
    };
    Conversation { name, one_off: true }
}

pub(super) fn idempotency(headers: &HeaderMap) -> Option<&str> {
    header(headers, "idempotency-key")
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_header_or_the_model_names_the_agent() {
        for (pairs, model, expected) in [
            (&[][..], None, None),
            (&[], Some("tidegate:ops"), Some("ops")),
            (&[], Some("tidegate/ops"), Some("ops")),
            (&[], Some("agent:work"), Some("work")),
            (&[], Some("tidegate"), None),
            (&[], Some("tidegate:"), None),
            (&[], Some("gpt-4o"), None),
            (&[("x-tidegate-agent", "b2")], Some("agent:work"), Some("b2")),
            (&[("x-tidegate-agent", "b2"), ("x-tidegate-agent-id", "b1")], None, Some("b1")),
        ] {
            assert_eq!(agent(&headers(pairs), model), expected, "{pairs:?} {model:?}");
        }
    }

    #[test]
    fn a_header_the_user_or_nothing_names_the_conversation() {
        let of = |pairs: &[(&'static str, &str)], user| conversation(&headers(pairs), user, "f1");
        let is = |name: &str, one_off| Conversation { name: name.to_owned(), one_off };
        assert_eq!(of(&[], Some("U 1")), is("openai-user:u 1", false));
        assert_eq!(of(&[], Some(" ")), is("openai:f1", true));
        assert_eq!(of(&[], None), is("openai:f1", true));
        assert_eq!(of(&[("x-tidegate-session-key", "work")], Some("u")), is("work", false));
        let keyed = of(&[("idempotency-key", "k")], None);
        assert_eq!(keyed, of(&[("idempotency-key", "k")], None));
        assert!(keyed.one_off && keyed != of(&[("idempotency-key", "l")], None) && keyed.name != "openai:f1");
    }
}
