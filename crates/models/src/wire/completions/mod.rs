//! OpenAI's chat completions, and the many servers that speak them with differences ([`crate::catalogue::Compat`]).

mod calls;
mod content;
mod decode;
mod messages;
mod request;
#[cfg(test)]
mod request_tests;
#[cfg(test)]
mod stream_tests;

use tidegate_net::{Headers, Method};

use super::{Decoder, Names, Prepared, Target, Wire};
use crate::catalogue::ModelInfo;
use crate::failure::Failure;
use crate::frames::Framing;
use crate::request::Request;

/// The fields in which servers send a model's thoughts, in the order they are looked for. The one that was found is the
/// thought's signature: the same model gets it back there.
const THOUGHT_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

pub(crate) struct OpenaiCompletions;

impl Wire for OpenaiCompletions {
    fn prepare(&self, request: &Request, target: &Target<'_>) -> Result<Prepared, Failure> {
        let model = target.model;
        let mut headers = Headers::default();
        headers.set("content-type", "application/json");
        headers.set("accept", "text/event-stream");
        if let Some(bearer) = target.access.bearer() {
            headers.set_secret("authorization", &bearer);
        }
        for (name, value) in &model.headers {
            headers.set_secret(name, value);
        }
        Ok(Prepared {
            method: Method::Post,
            url: format!("{}/chat/completions", model.base_url),
            headers,
            body: request::body(request, model).to_string().into_bytes(),
        })
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self, _model: &ModelInfo, request: &Request) -> Box<dyn Decoder> {
        Box::new(decode::Completions::new(Names::new(&request.tools)))
    }
}
