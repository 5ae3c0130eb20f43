//! Google's Gemini: `streamGenerateContent`, answered as server-sent events.

mod decode;
mod request;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::Value;
use tidegate_net::{Headers, Method};

use super::{Access, Decoder, Prepared, Target, Wire};
use crate::catalogue::ModelInfo;
use crate::classify::classify;
use crate::failure::{Failure, FailureKind};
use crate::frames::Framing;
use crate::request::Request;

/// A longer delay than this is a mistake in units.
const LONGEST_DELAY: Duration = Duration::from_hours(24);

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

    fn refused(&self, status: u16, body: &str, _now_ms: i64) -> Failure {
        Failure { retry_after: retry_delay(body), ..classify(Some(status), body) }
    }
}

/// How long to wait: this vendor says so in the body, as `{"retryDelay": "34.07s"}` among the details of an error.
fn retry_delay(body: &str) -> Option<Duration> {
    let body: Value = serde_json::from_str(body).ok()?;
    // An error of a stream comes inside a list.
    let error = body.get(0).unwrap_or(&body).get("error")?;
    let text =
        error.get("details")?.as_array()?.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().filter(|delay| *delay <= LONGEST_DELAY)
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
