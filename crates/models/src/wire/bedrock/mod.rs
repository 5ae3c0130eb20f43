//! Amazon Bedrock's Converse: one form of request for the models of several makers, answered as binary events.
//!
//! With a key the call has a bearer token; with Amazon's keys it is signed.

mod decode;
mod request;
#[cfg(test)]
mod tests;

use tidegate_net::{Headers, Method};

use super::sigv4::{Signer, escape};
use super::{Access, Decoder, Prepared, Target, Wire};
use crate::catalogue::ModelInfo;
use crate::failure::{Failure, FailureKind};
use crate::frames::Framing;
use crate::request::Request;

/// Where nobody says a region.
const REGION: &str = "us-east-1";

pub(crate) struct BedrockConverse;

impl Wire for BedrockConverse {
    fn prepare(&self, request: &Request, target: &Target<'_>) -> Result<Prepared, Failure> {
        let Target { model, access, now_ms } = target;
        let body = serde_json::to_vec(&request::body(request, model));
        let body = body.map_err(|error| Failure::new(FailureKind::Format, error.to_string()))?;
        let (base, region) = place(&model.base_url, access);
        let path = format!("/model/{}/converse-stream", escape(&model.id));
        let mut headers = Headers::default();
        headers.set("content-type", "application/json");
        headers.set("accept", "application/vnd.amazon.eventstream");
        for (name, value) in &model.headers {
            headers.set_secret(name, value);
        }
        if let Some(bearer) = access.bearer() {
            headers.set_secret("authorization", &bearer);
        }
        if let Access::Aws { access_key, secret_key, session_token, .. } = access {
            let (session_token, region) = (session_token.as_ref(), region.as_str());
            let signer =
                Signer { access_key, secret_key, session_token, region, service: "bedrock", now_ms: *now_ms };
            let (host, before) = split(&base);
            signer.sign("POST", host, &format!("{before}{path}"), &mut headers, &body);
        }
        Ok(Prepared { method: Method::Post, url: format!("{base}{path}"), headers, body })
    }

    fn framing(&self) -> Framing {
        Framing::AwsEvents
    }

    fn decoder(&self, _model: &ModelInfo, request: &Request) -> Box<dyn Decoder> {
        Box::new(decode::Decode::new(request))
    }
}

/// The address and the region to sign for. An address that is configured wins, and names the region if it is Amazon's.
fn place(base_url: &str, access: &Access) -> (String, String) {
    let wanted = match access {
        Access::Aws { region, .. } => region.as_deref().filter(|region| !region.is_empty()),
        _ => None,
    };
    if base_url.is_empty() {
        let region = wanted.unwrap_or(REGION);
        return (address(region), region.to_owned());
    }
    let named =
        split(base_url).0.strip_prefix("bedrock-runtime.").and_then(|rest| rest.split_once(".amazonaws.com"));
    let region = named.map(|(region, _)| region).or(wanted).unwrap_or(REGION);
    (base_url.to_owned(), region.to_owned())
}

/// Where a region's models are.
pub(crate) fn address(region: &str) -> String {
    format!("https://bedrock-runtime.{region}.amazonaws.com")
}

/// The host and the path of an address.
fn split(url: &str) -> (&str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash))
}
