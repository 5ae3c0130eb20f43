//! Google's Gemini: `streamGenerateContent`, answered as server-sent events.

mod decode;
mod request;
#[cfg(test)]
mod tests;

use tidegate_net::{Headers, Method};

use super::{Access, Decoder, Prepared, Target, Wire};
use crate::catalogue::ModelInfo;
use crate::failure::{Failure, FailureKind};
use crate::frames::Framing;
use crate::request::Request;

pub(crate) struct GoogleGenerativeAi;

impl Wire for GoogleGenerativeAi {
    fn prepare(&self, request: &Request, target: &Target<'_>) -> Result<Prepared, Failure> {
        let Target { model, access, .. } = target;
        let body = serde_json::to_vec(&request::body(request, model));
        let body = body.map_err(|error| Failure::new(FailureKind::Format, error.to_string()))?;
        let mut headers = Headers::default();
        headers.set("content-type", "application/json");
        authorize(&mut headers, access);
        for (name, value) in &model.headers {
            headers.set_secret(name, value);
        }
        let url = format!("{}:streamGenerateContent?alt=sse", address(&model.base_url, &model.id));
        Ok(Prepared { method: Method::Post, url, headers, body })
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self, _model: &ModelInfo, request: &Request) -> Box<dyn Decoder> {
        Box::new(decode::Decode::new(request))
    }
}

/// A key goes into a header, never into the address: addresses are written down in many places.
pub(crate) fn authorize(headers: &mut Headers, access: &Access) {
    match access {
        Access::Key(key) => headers.set_secret("x-goog-api-key", key),
        Access::Login { .. } | Access::Open | Access::Aws { .. } => {
            if let Some(bearer) = access.bearer() {
                headers.set_secret("authorization", &bearer);
            }
        }
    }
}

/// Where a model is; an id with a folder, as `tunedModels/mine`, is there already.
pub(crate) fn address(base_url: &str, id: &str) -> String {
    if id.contains('/') { format!("{base_url}/{id}") } else { format!("{base_url}/models/{id}") }
}
