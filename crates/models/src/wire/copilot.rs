//! GitHub Copilot: other vendors' formats, with headers of its own around them. We say who we are and play no editor.

use std::sync::Arc;

use serde_json::Value;
use tidegate_protocol::{Block, Message, Role};
use tidegate_secrets::Secret;

use super::{Decoder, Prepared, Target, Wire};
use crate::catalogue::ModelInfo;
use crate::failure::{Failure, FailureKind};
use crate::frames::Framing;
use crate::request::Request;

/// The provider's name in the catalogue.
pub(super) const PROVIDER: &str = "github-copilot";

/// Where a token that names no server is used.
const BASE_URL: &str = "https://api.individual.githubcopilot.com";

/// How long before its end a token is no longer used.
const MARGIN_MS: i64 = 5 * 60 * 1000;

/// Adds Copilot's headers to whatever the format prepared. A header the model's entry sets stays as it is; that is also how
/// an operator gives the `Copilot-Integration-Id` GitHub issued to them.
pub(crate) struct Copilot(pub(crate) Arc<dyn Wire>);

impl Wire for Copilot {
    fn prepare(&self, request: &Request, target: &Target<'_>) -> Result<Prepared, Failure> {
        let mut prepared = self.0.prepare(request, target)?;
        let mut add = |name: &str, value: &str| {
            if prepared.headers.get(name).is_none() {
                prepared.headers.set(name, value);
            }
        };
        add("editor-version", concat!("tidegate/", env!("CARGO_PKG_VERSION")));
        add("openai-intent", "conversation-edits");
        add("x-initiator", initiator(&request.messages));
        if target.model.images && request.messages.iter().any(has_image) {
            add("copilot-vision-request", "true");
        }
        Ok(prepared)
    }

    fn framing(&self) -> Framing {
        self.0.framing()
    }

    fn decoder(&self, model: &ModelInfo, request: &Request) -> Box<dyn Decoder> {
        self.0.decoder(model, request)
    }

    fn refused(&self, status: u16, body: &str, now_ms: i64) -> Failure {
        self.0.refused(status, body, now_ms)
    }
}

/// A person's own questions are counted; what the agent asks while it works is not.
fn initiator(messages: &[Message]) -> &'static str {
    match messages.last().map(Message::role) {
        None | Some(Role::User) => "user",
        Some(Role::Assistant | Role::ToolResult) => "agent",
    }
}

fn has_image(message: &Message) -> bool {
    message.content().iter().any(|block| matches!(block, Block::Image { .. }))
}

/// What GitHub gives for a person's token: one for Copilot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exchanged {
    pub(crate) token: Secret,
    /// Without a slash at the end.
    pub(crate) base_url: String,
    pub(crate) expires_at_ms: i64,
}

impl Exchanged {
    /// Whether a call may still begin with it.
    pub(crate) fn is_fresh(&self, now_ms: i64) -> bool {
        now_ms < self.expires_at_ms.saturating_sub(MARGIN_MS)
    }
}

/// Reads GitHub's answer. What it says instead of a token is not repeated: it may hold half a secret.
pub(crate) fn parse_exchange(json: &str) -> Result<Exchanged, Failure> {
    let failed =
        |what: &str| Failure::new(FailureKind::Auth, format!("GitHub gave no Copilot token: {what}"));
    let answer: Value = serde_json::from_str(json).map_err(|_| failed("its answer is no JSON"))?;
    let token = answer.get("token").and_then(Value::as_str).filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| failed("is Copilot part of the account?"))?;
    let expires = answer.get("expires_at").and_then(Value::as_i64);
    let expires = expires.ok_or_else(|| failed("its answer does not say until when it is valid"))?;
    Ok(Exchanged {
        token: Secret::new(token),
        base_url: base_url(token),
        expires_at_ms: expires.saturating_mul(1000),
    })
}

/// The token is a list of fields, one of which names the server for this account.
fn base_url(token: &str) -> String {
    let proxy = token.split(';').find_map(|field| field.trim().strip_prefix("proxy-ep="));
    let is_host = |host: &&str| {
        host.contains('.') && host.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
    };
    proxy.filter(is_host).map_or_else(
        || BASE_URL.to_owned(),
        |proxy| match proxy.strip_prefix("proxy.") {
            Some(rest) => format!("https://api.{rest}"),
            None => format!("https://{proxy}"),
        },
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_net::Headers;

    use super::*;
    use crate::wire::Access;
    use crate::wire::responses::OpenaiResponses;
    use crate::wire::responses::fixtures;

    fn headers(model: &ModelInfo, messages: Vec<Message>) -> Headers {
        let request = Request { messages, ..Request::default() };
        let target = Target { model, access: &Access::Key(Secret::new("a key")), now_ms: 0 };
        Copilot(Arc::new(OpenaiResponses)).prepare(&request, &target).unwrap().headers
    }

    fn shown(headers: &Headers, name: &str) -> Option<String> {
        headers.get(name).map(|value| value.expose().to_owned())
    }

    #[test]
    fn copilot_is_told_who_we_are_and_who_asks() {
        let mut model = fixtures::model("github-copilot", "gpt-5.2");
        model.headers = vec![("Copilot-Integration-Id".into(), "ours".to_owned().into())];
        let asked = headers(&model, vec![Message::user("hi", 1)]);
        let all: Vec<_> =
            asked.iter().map(|(name, value)| (name.to_owned(), value.expose().to_owned())).collect();
        let expected = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream"),
            ("authorization", "Bearer a key"),
            ("copilot-integration-id", "ours"),
            ("editor-version", concat!("tidegate/", env!("CARGO_PKG_VERSION"))),
            ("openai-intent", "conversation-edits"),
            ("x-initiator", "user"),
        ];
        assert_eq!(all, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn work_after_a_tools_result_is_the_agents() {
        let model = fixtures::model("github-copilot", "gpt-5.2");
        let messages = vec![Message::user("hi", 1), fixtures::result("a", "done")];
        assert_eq!(shown(&headers(&model, messages), "x-initiator").as_deref(), Some("agent"));
    }

    #[test]
    fn images_are_announced_where_the_model_reads_them() {
        let mut model = fixtures::model("github-copilot", "gpt-5.2");
        let image = Block::Image { data: "AAAA".into(), mime_type: "image/png".into() };
        let messages = vec![Message::User { content: vec![image], timestamp: 1 }];
        let vision = "copilot-vision-request";
        assert_eq!(shown(&headers(&model, messages.clone()), vision).as_deref(), Some("true"));
        model.images = false;
        assert_eq!(shown(&headers(&model, messages), vision), None);
    }

    #[test]
    fn only_copilots_models_get_its_headers() {
        for (provider, expected) in [(PROVIDER, true), ("openai", false)] {
            let model = fixtures::model(provider, "gpt-5.2");
            let wire = crate::wire::for_model(&model).unwrap();
            let target = Target { model: &model, access: &Access::Open, now_ms: 0 };
            let prepared = wire.prepare(&Request::default(), &target).unwrap();
            assert_eq!(prepared.headers.get("x-initiator").is_some(), expected, "{provider}");
        }
    }

    #[test]
    fn the_tokens_own_server_is_used() {
        let servers = [
            (
                "tid=1;proxy-ep=proxy.business.githubcopilot.com;exp=2",
                "https://api.business.githubcopilot.com",
            ),
            ("tid=1; proxy-ep=copilot.acme.ghe.com", "https://copilot.acme.ghe.com"),
            ("tid=1;exp=2", BASE_URL),
            ("proxy-ep=evil.example/path?", BASE_URL),
            ("proxy-ep=user@evil.example", BASE_URL),
        ];
        for (token, base_url) in servers {
            let answer = json!({ "token": token, "expires_at": 2000, "refresh_in": 1500 }).to_string();
            let expected =
                Exchanged { token: Secret::new(token), base_url: base_url.into(), expires_at_ms: 2_000_000 };
            assert_eq!(parse_exchange(&answer), Ok(expected), "{token}");
        }
    }

    #[test]
    fn a_token_is_left_alone_five_minutes_before_its_end() {
        let answer = json!({ "token": "t", "expires_at": 1000 }).to_string();
        let exchanged = parse_exchange(&answer).unwrap();
        assert!(exchanged.is_fresh(699_999));
        assert!(!exchanged.is_fresh(700_000));
    }

    #[test]
    fn an_answer_without_a_token_is_a_login_that_does_not_work() {
        for answer in ["", "<html>", "{}", r#"{"token":"","expires_at":1}"#, r#"{"token":"half a secret"}"#] {
            let failure = parse_exchange(answer).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Auth, "{answer}");
            assert!(!failure.message.contains("half a secret"), "{}", failure.message);
        }
    }
}
