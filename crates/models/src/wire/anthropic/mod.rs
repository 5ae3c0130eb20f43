//! Anthropic's Messages, as Anthropic and those who copy it speak it.

mod decode;
mod request;
#[cfg(test)]
mod request_tests;
#[cfg(test)]
mod stream_tests;

use tidegate_net::{Headers, Method};

use super::claude::Generation;
use super::{Access, Decoder, Names, Prepared, Target, Wire};
use crate::catalogue::ModelInfo;
use crate::failure::Failure;
use crate::frames::Framing;
use crate::request::Request;

pub(crate) struct AnthropicMessages;

impl Wire for AnthropicMessages {
    fn prepare(&self, request: &Request, target: &Target<'_>) -> Result<Prepared, Failure> {
        let model = target.model;
        let generation = Generation::of(&model.id);
        let body = request::body(request, model, generation);
        Ok(Prepared {
            method: Method::Post,
            url: format!("{}/v1/messages", model.base_url),
            headers: headers(target, generation),
            body: body.to_string().into_bytes(),
        })
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self, _model: &ModelInfo, request: &Request) -> Box<dyn Decoder> {
        Box::new(decode::Messages::new(Names::new(&request.tools)))
    }
}

fn headers(target: &Target<'_>, generation: Generation) -> Headers {
    let mut headers = Headers::default();
    headers.set("content-type", "application/json");
    headers.set("accept", "text/event-stream");
    headers.set("anthropic-version", "2023-06-01");
    // Without it the arguments of a call arrive in one piece, after a silence that looks like a dead connection.
    let mut betas = vec!["fine-grained-tool-streaming-2025-05-14"];
    if !generation.thinks_adaptively() {
        betas.push("interleaved-thinking-2025-05-14");
    }
    match target.access {
        Access::Login { .. } => {
            betas.push("oauth-2025-04-20");
            if let Some(bearer) = target.access.bearer() {
                headers.set_secret("authorization", &bearer);
            }
        }
        Access::Key(key) => headers.set_secret("x-api-key", key),
        Access::Open | Access::Aws { .. } => {}
    }
    headers.set("anthropic-beta", betas.join(","));
    for (name, value) in &target.model.headers {
        headers.set_secret(name, value);
    }
    headers
}
