//! The words of Tidegate: ids, keys, messages, errors, events and the ports of the edge.
//!
//! Everything here is plain data that crosses a wire or a crate edge. This crate does no I/O, reads no clock
//! and makes no id out of nothing: the caller passes time and randomness in.

pub mod api;
mod brought;
mod delivery;
mod entry;
mod error;
mod event;
mod id;
mod inbound;
mod key;
mod lane;
mod message;
mod name;
mod port;
mod run;
pub mod schema;
mod tool;

pub use brought::{Brought, BroughtChoice, BroughtTool};
pub use delivery::{Doubt, Found, Part, Quote, Reply, SendOutcome, lane};
pub use entry::{Compaction, Entry, EntryBody, EntryKind, FileTrail};
pub use error::{ErrorBody, ErrorCode};
pub use event::{RunEvent, RunEventBody};
pub use id::{
    AllowRuleId, ApprovalId, AuditId, CallId, EntryId, Id, InboxId, InstanceId, OutboxId, RunId, SessionId,
    ToolRunId,
};
pub use inbound::{
    Attachment, Inbound, InboundMessage, Outbound, OutboundResponse, OutboundTarget, Peer, PeerKind,
};
pub use key::{KeyError, Place, SessionKey};
pub use lane::{Lane, NoLane};
pub use message::{Block, Cost, Message, Origin, Role, StopReason, Usage};
pub use name::{AgentId, ChannelName, NameError, Scope, TenantId, WorkspaceId};
pub use port::{Connector, ConnectorError, InboundSink, Ingress, IngressAnswer, IngressRequest, SinkError};
pub use run::{
    JoinMode, Limits, Logged, ModelRef, ReplyTarget, RunCommand, RunSpec, RunState, SessionSettings,
    ThinkingLevel, ToolRunState, ToolUse, Verbose,
};
pub use tool::{Risk, ToolCall, ToolError, ToolErrorCode, ToolMeta, ToolResult, ToolSource};
