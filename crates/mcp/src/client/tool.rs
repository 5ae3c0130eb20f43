//! A tool of a server, as every other tool is one.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tidegate_net::Address;
use tidegate_policy::{Permitted, Preparation, Subject, SubjectKind};
use tidegate_protocol::Risk;
use tidegate_tools::{Output, Place, Tool, ToolFailure, ToolSpec, Work};

use super::names::Shown;
use super::result::output;
use super::server::Server;
use super::spec::Reach;

pub(crate) struct McpTool {
    spec: ToolSpec,
    shown: Shown,
    server: Arc<Server>,
}

impl McpTool {
    pub(crate) fn of(server: &Arc<Server>, shown: &Shown) -> Arc<Self> {
        let risk = if shown.read_only { Risk::Read } else { Risk::Execute };
        let spec = ToolSpec {
            name: shown.name.clone(),
            aliases: Vec::new(),
            description: shown.description.clone(),
            input_schema: shown.schema.clone(),
            risk: server.spec.risk.unwrap_or(risk),
            idempotent: shown.idempotent,
            steady: false,
            timeout: Some(server.spec.timeout),
        };
        Arc::new(Self { spec, shown: shown.clone(), server: Arc::clone(server) })
    }

    /// What the server says about it.
    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// A server elsewhere is reached over the network, whatever its tools do.
    async fn prepare(&self, _args: &Value, _place: &Place) -> Result<Preparation, ToolFailure> {
        let Reach::Http(address) = &self.server.spec.reach else { return Ok(Preparation::default()) };
        let host = Address::read_configured(&address.url).map(|address| address.host().to_owned());
        let host = host.map_err(|error| ToolFailure::execution(error.to_string()))?;
        Ok(Preparation { subjects: vec![Subject::new(SubjectKind::Host, host)], ..Preparation::default() })
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        let args = permitted.prepared().args().as_object().cloned().unwrap_or_default();
        let result = self.server.call(&self.shown.remote, args, work.update).await?;
        output(&self.server.spec.name, result)
    }
}
