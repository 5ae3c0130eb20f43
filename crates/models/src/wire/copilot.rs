//! GitHub Copilot: other vendors' formats, with headers of its own around them. We say who we are and play no editor.

use std::sync::Arc;

use tidegate_protocol::{Block, Message, Role};

use super::{Decoder, Prepared, Target, Wire};
use crate::catalogue::ModelInfo;
use crate::failure::Failure;
use crate::frames::Framing;
use crate::request::Request;

/// The provider's name in the catalogue.
pub(super) const PROVIDER: &str = "github-copilot";

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

#[cfg(test)]
mod tests {
    use tidegate_net::Headers;
    use tidegate_secrets::Secret;

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
}
