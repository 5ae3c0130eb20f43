//! The ports of the edge: what a connector is, and what the engine offers it.
//!
//! A connector maps a network's protocol and delivers reliably. It never calls a model and keeps no business state.

use std::sync::Arc;

use async_trait::async_trait;

use crate::delivery::{Doubt, Found, Part, Reply, SendOutcome};
use crate::inbound::Inbound;
use crate::name::ChannelName;

/// One account on a network.
#[async_trait]
pub trait Connector: Send + Sync {
    fn channel(&self) -> &ChannelName;

    /// Which of our accounts on that network this is.
    fn account(&self) -> &str;

    /// Receives until the network or the supervisor ends it. A message is acknowledged to the network only after
    /// `sink.accept` returned. Dropping the future ends it.
    async fn receive(&self, sink: Arc<dyn InboundSink>) -> Result<(), ConnectorError>;

    /// Turns a reply into the parts this network takes. Pure: the engine calls it before it commits.
    fn render(&self, reply: &Reply) -> Vec<Part>;

    /// Sends one part. `key` is the same for every try of the same part.
    async fn send(&self, part: &Part, key: &str) -> SendOutcome;

    /// What to do about a send whose end is unknown.
    fn doubt(&self) -> Doubt {
        Doubt::Blind
    }

    /// Looks for a part on the network. Asked only of connectors whose doubt is [`Doubt::ReadBack`].
    async fn find(&self, _part: &Part, _key: &str) -> Found {
        Found::Unknown { reason: "this network cannot be read".to_owned() }
    }
}

/// Why a connector stopped receiving.
#[derive(Debug, thiserror::Error)]
pub enum ConnectorError {
    /// Worth another try after a pause.
    #[error("connection lost: {0}")]
    Lost(String),
    /// A person must change something first.
    #[error("refused by the network: {0}")]
    Refused(String),
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// Where a connector puts what it received, and finds how far it got.
#[async_trait]
pub trait InboundSink: Send + Sync {
    /// The cursor that was accepted last for this account.
    async fn cursor(&self) -> Result<Option<String>, SinkError>;

    /// Returns once the messages and the network's cursor are durable, together.
    async fn accept(&self, messages: Vec<Inbound>, cursor: Option<String>) -> Result<(), SinkError>;
}

#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Nothing was kept; the connector must not acknowledge and may offer it again.
    #[error("not accepted now: {0}")]
    Retry(String),
    #[error("shutting down")]
    Closed,
}

/// A plain request in and a plain answer out: how a webhook reaches its connector without a web framework.
#[async_trait]
pub trait Ingress: Send + Sync {
    async fn handle(&self, request: IngressRequest) -> IngressAnswer;
}

#[derive(Debug, Clone)]
pub struct IngressRequest {
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone)]
pub struct IngressAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}
