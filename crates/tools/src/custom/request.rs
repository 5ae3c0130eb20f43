//! A configured HTTP call as a tool.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tidegate_net::{Address, Client, Headers, Method, Origin};
use tidegate_policy::{Permitted, Preparation, Subject, SubjectKind};

use super::http::{HttpCall, HttpTemplate};
use super::{CustomError, CustomSpec, HttpSpec};
use crate::place::Place;
use crate::spec::ToolSpec;
use crate::tool::{Output, Tool, ToolFailure, Work};
use crate::web::{HttpRequest, failed, request, unleaked};

/// Of an answer's body.
const MOST_BYTES: usize = 200_000;

/// A tool that makes a configured HTTP call.
pub(super) struct CustomRequest {
    spec: ToolSpec,
    template: HttpTemplate,
    timeout: Duration,
    client: Client,
}

impl CustomRequest {
    pub(super) fn new(spec: &CustomSpec, http: &HttpSpec, client: Client) -> Result<Self, CustomError> {
        // The exchange has its own time.
        let tool_spec = ToolSpec { timeout: None, ..spec.tool_spec()? };
        let template = HttpTemplate::read(http, &tool_spec.input_schema)?;
        Ok(Self { spec: tool_spec, template, timeout: spec.timeout, client })
    }

    fn filled(&self, args: &Value) -> Result<HttpCall, ToolFailure> {
        self.template.fill(args).map_err(|error| ToolFailure::arguments(error.to_string()))
    }
}

#[async_trait]
impl Tool for CustomRequest {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, args: &Value, place: &Place) -> Result<Preparation, ToolFailure> {
        // The operator's own key belongs to the call; what arguments bring along does not.
        unleaked(place, args).await?;
        let call = self.filled(args)?;
        let address = Address::read(&call.url).map_err(|error| ToolFailure::arguments(error.to_string()))?;
        // The operator wrote the host, but perhaps not for this agent.
        place.egress.hosts.judge(address.host()).map_err(|refusal| failed(&refusal.into()))?;
        let method = call.method.as_str();
        Ok(Preparation {
            subjects: vec![
                Subject::new(SubjectKind::Host, address.host()),
                Subject::new(SubjectKind::Url, address.as_str()),
                Subject::new(SubjectKind::Method, method),
            ],
            preview: Some(preview(&call)),
            ..Preparation::default()
        })
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        let call = self.filled(permitted.prepared().args())?;
        let outgoing = HttpRequest {
            // The operator wrote the host; no argument has a part in it.
            origin: Origin::Configured,
            method: call.method,
            url: call.url,
            headers: call.headers,
            body: call.body.unwrap_or_default().into_bytes(),
            timeout: self.timeout,
            max_bytes: MOST_BYTES,
        };
        tokio::select! {
            answer = request(&self.client, outgoing) => answer,
            () = work.cancel.cancelled() => Err(ToolFailure::execution("it was stopped")),
        }
    }
}

/// The call as it will go out. Values of headers are the operator's and may be keys: only their names are shown, and what
/// arguments put into them is among the arguments.
fn preview(call: &HttpCall) -> String {
    let mut text = format!("{} {}\n", Method::as_str(call.method), call.url);
    for (name, _) in Headers::iter(&call.headers) {
        text.push_str(name);
        text.push_str(": (not shown)\n");
    }
    if let Some(body) = &call.body {
        text.push('\n');
        text.push_str(body);
    }
    text
}
