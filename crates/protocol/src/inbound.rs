//! What crosses the edge: a message that came in, and a message that goes out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::name::{ChannelName, TenantId, WorkspaceId};

/// A message as a network or entry delivered it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Inbound {
    pub tenant_id: TenantId,
    pub workspace_id: WorkspaceId,
    pub channel: ChannelName,
    /// Which of our accounts on that network received it.
    pub account_id: String,
    pub peer: Peer,
    /// Who wrote it, where the peer is a group or a channel; without it nobody there can be told from another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    pub message: InboundMessage,
    /// Milliseconds since the epoch, by the network's clock.
    #[ts(type = "number")]
    pub timestamp: i64,
}

/// Who wrote it, or where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    pub kind: PeerKind,
    pub id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub enum PeerKind {
    Dm,
    Group,
    Channel,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct InboundMessage {
    /// The network's own id; the same id twice is the same message.
    pub id: String,
    pub text: String,
    #[serde(default)]
    pub attachments: Vec<Attachment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    pub name: String,
    pub mime_type: String,
    /// Where the bytes are, as the connector or the object store names it.
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(type = "number | null")]
    pub size: Option<u64>,
}

/// A message on its way out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Outbound {
    pub channel: ChannelName,
    pub account_id: String,
    pub target: OutboundTarget,
    pub response: OutboundResponse,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct OutboundTarget {
    pub peer_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct OutboundResponse {
    pub text: String,
    #[serde(default)]
    pub attachments: Vec<Attachment>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn inbound_and_outbound_have_the_fields_of_the_contract() {
        let inbound = json!({
            "tenantId": "local", "workspaceId": "default", "channel": "slack", "accountId": "T1",
            "peer": {"kind": "dm", "id": "U1"}, "threadId": "17.5",
            "message": {"id": "m1", "text": "hi", "attachments": []},
            "timestamp": 5
        });
        let parsed: Inbound = serde_json::from_value(inbound.clone()).unwrap();
        assert_eq!(serde_json::to_value(parsed).unwrap(), inbound);
        let outbound = json!({
            "channel": "slack", "accountId": "T1", "target": {"peerId": "U1"},
            "response": {"text": "hi", "attachments": []}
        });
        let parsed: Outbound = serde_json::from_value(outbound.clone()).unwrap();
        assert_eq!(serde_json::to_value(parsed).unwrap(), outbound);
    }
}
