//! Our own interface under `/api/v1`, for the page and the command line. Its types are `tidegate_protocol::api`.

pub(crate) mod approvals;
pub(crate) mod ask;
pub(crate) mod audit;
pub(crate) mod branches;
pub(crate) mod config;
pub(crate) mod feed;
pub(crate) mod follow;
pub(crate) mod health;
pub(crate) mod invoke;
pub(crate) mod login;
pub(crate) mod mcp;
pub(crate) mod messages;
pub(crate) mod models;
pub(crate) mod outbox;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod tools;
