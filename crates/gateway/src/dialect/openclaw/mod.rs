//! The dialect that OpenClaw's own clients speak: its command line, its terminal, its page and its nodes.

pub(crate) mod agent;
pub(crate) mod agents;
pub(crate) mod answers;
pub(crate) mod approvals;
pub(crate) mod attachments;
pub(crate) mod chat;
pub(crate) mod config;
pub(crate) mod devices;
pub(crate) mod history;
pub(crate) mod keys;
pub(crate) mod lines;
pub(crate) mod logs;
pub(crate) mod nodes;
pub(crate) mod questions;
pub(crate) mod quiet;
pub(crate) mod session_row;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod story;
pub(crate) mod system;
pub(crate) mod talk;
pub(crate) mod usage;

/// The events that clients may hear.
pub(crate) const EVENTS: &[&str] = &[
    "connect.challenge",
    "agent",
    "chat",
    "session.message",
    "sessions.changed",
    "presence",
    "tick",
    "talk.mode",
    "shutdown",
    "health",
    "node.pair.requested",
    "node.pair.resolved",
    "node.invoke.request",
    "device.pair.requested",
    "device.pair.resolved",
    "exec.approval.requested",
    "exec.approval.resolved",
];
