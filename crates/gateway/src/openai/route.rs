//! Which agent, which model and which conversation a request means. Pure.

use axum::http::HeaderMap;
use sha2::{Digest as _, Sha256};

const BRAND: &str = "tidegate";
/// Under which names programs know a gateway of this kind.
const BRANDS: [&str; 4] = [BRAND, "openclaw", "moltbot", "clawdbot"];

/// A header under each of the names programs know us by; our own first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Branded([&'static str; 4]);

impl Branded {
    pub(super) const AGENT_ID: Self =
        Self(["x-tidegate-agent-id", "x-openclaw-agent-id", "x-moltbot-agent-id", "x-clawdbot-agent-id"]);
    pub(super) const AGENT: Self =
        Self(["x-tidegate-agent", "x-openclaw-agent", "x-moltbot-agent", "x-clawdbot-agent"]);
    pub(super) const SESSION_KEY: Self = Self([
        "x-tidegate-session-key",
        "x-openclaw-session-key",
        "x-moltbot-session-key",
        "x-clawdbot-session-key",
    ]);
    pub(crate) const TOKEN: Self =
        Self(["x-tidegate-token", "x-openclaw-token", "x-moltbot-token", "x-clawdbot-token"]);

    pub(crate) fn of(self, headers: &HeaderMap) -> Option<&str> {
        self.0.into_iter().find_map(|name| header(headers, name))
    }
}

/// One of the two ways to ask, each with conversations of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surface {
    Completions,
    Responses,
}

impl Surface {
    /// How the names of its conversations begin that serve one request.
    fn one_off(self) -> &'static str {
        match self {
            Self::Completions => "openai:",
            Self::Responses => "openresponses:",
        }
    }

    fn of_user(self) -> &'static str {
        match self {
            Self::Completions => "openai-user:",
            Self::Responses => "openresponses-user:",
        }
    }
}

/// Whether a conversation of this name was begun for one request only.
pub(super) fn is_one_off(name: &str) -> bool {
    [Surface::Completions, Surface::Responses].iter().any(|surface| name.starts_with(surface.one_off()))
}

/// The name of an agent as a model.
pub(super) fn model_of(agent: &str) -> String {
    format!("{BRAND}:{agent}")
}

/// The agent a request names; `None` means the default one.
pub(super) fn agent<'a>(headers: &'a HeaderMap, model: Option<&'a str>) -> Option<&'a str> {
    let named = Branded::AGENT_ID.of(headers).or_else(|| Branded::AGENT.of(headers));
    named.or_else(|| agent_in(model?.trim()))
}

/// The agent in the name of a model: `tidegate:<agent>`, `openclaw/<agent>`, `agent:<agent>`.
pub(super) fn agent_in(model: &str) -> Option<&str> {
    let after_brand = BRANDS.iter().find_map(|brand| {
        let rest = model.strip_prefix(brand)?;
        rest.strip_prefix(':').or(rest.strip_prefix('/'))
    });
    after_brand.or(model.strip_prefix("agent:")).filter(|agent| !agent.is_empty())
}

/// The vendor's model a request names, as `provider/model`. A bare name is what programs send that know no other one:
/// the agent's own model answers.
pub(super) fn vendors_model(model: Option<&str>) -> Option<&str> {
    let model = model?.trim();
    let is_ours = BRANDS.iter().any(|brand| {
        model.strip_prefix(brand).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
    });
    (!is_ours && !model.starts_with("agent:") && model.contains('/')).then_some(model)
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
pub(super) fn conversation(
    surface: Surface,
    headers: &HeaderMap,
    user: Option<&str>,
    fresh: &str,
) -> Conversation {
    if let Some(named) = Branded::SESSION_KEY.of(headers) {
        return Conversation { name: named.to_owned(), one_off: false };
    }
    if let Some(user) = user.map(str::trim).filter(|user| !user.is_empty()) {
        let name = format!("{}{}", surface.of_user(), user.to_lowercase());
        return Conversation { name, one_off: false };
    }
    let name = match idempotency(headers) {
        Some(key) => {
            let digest = Sha256::digest(key.as_bytes());
            digest[..16].iter().fold(surface.one_off().to_owned(), |name, byte| format!("{name}{byte:02x}"))
        }
        None => format!("{}{fresh}", surface.one_off()),
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
            (&[], Some("openclaw:ops"), Some("ops")),
            (&[], Some("tidegate/ops"), Some("ops")),
            (&[], Some("agent:work"), Some("work")),
            (&[], Some("tidegate"), None),
            (&[], Some("tidegate:"), None),
            (&[], Some("gpt-4o"), None),
            (&[("x-tidegate-agent", "b2")], Some("agent:work"), Some("b2")),
            (&[("x-openclaw-agent", "b2")], None, Some("b2")),
            (&[("x-tidegate-agent", "b2"), ("x-tidegate-agent-id", "b1")], None, Some("b1")),
        ] {
            assert_eq!(agent(&headers(pairs), model), expected, "{pairs:?} {model:?}");
        }
    }

    #[test]
    fn a_slash_names_a_vendors_model_unless_the_brand_stands_before_it() {
        for (model, expected) in [
            (Some("openai/gpt-5"), Some("openai/gpt-5")),
            (Some("openrouter/a/b"), Some("openrouter/a/b")),
            (Some("tidegate/ops"), None),
            (Some("openclaw:a/b"), None),
            (Some("agent:a/b"), None),
            (Some("gpt-5"), None),
            (None, None),
        ] {
            assert_eq!(vendors_model(model), expected, "{model:?}");
        }
    }

    #[test]
    fn a_header_the_user_or_nothing_names_the_conversation() {
        let of = |pairs: &[(&'static str, &str)], user| {
            conversation(Surface::Completions, &headers(pairs), user, "f1")
        };
        let is = |name: &str, one_off| Conversation { name: name.to_owned(), one_off };
        assert_eq!(of(&[], Some("U 1")), is("openai-user:u 1", false));
        assert_eq!(of(&[], Some(" ")), is("openai:f1", true));
        assert_eq!(of(&[], None), is("openai:f1", true));
        assert_eq!(of(&[("x-tidegate-session-key", "work")], Some("u")), is("work", false));
        let keyed = of(&[("idempotency-key", "k")], None);
        assert_eq!(keyed, of(&[("idempotency-key", "k")], None));
        assert!(keyed.one_off && keyed != of(&[("idempotency-key", "l")], None) && keyed.name != "openai:f1");
        assert!(is_one_off(&keyed.name) && is_one_off("openresponses:x") && !is_one_off("openai-user:u"));
    }
}
