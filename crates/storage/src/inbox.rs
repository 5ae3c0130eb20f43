//! What networks delivered: accepted together with how far the network was read.

use async_trait::async_trait;
use tidegate_protocol::{ChannelName, TenantId};

use crate::accept::{Accept, Accepted};
use crate::error::Result;
use crate::lease::Owner;

#[async_trait]
pub trait Inbox: Send + Sync {
    /// ACCEPT of everything that a network delivered at once, in order, with its cursor: all of it or nothing. The
    /// answers are in the order of the messages. The principals' rules are those of [`accept`](crate::Runs::accept).
    async fn ingest(&self, ingest: Ingest) -> Result<Vec<Accepted>>;

    /// How far an account's network was read.
    async fn cursor(
        &self,
        tenant: &TenantId,
        channel: &ChannelName,
        account_id: &str,
    ) -> Result<Option<String>>;
}

#[derive(Debug, Clone)]
pub struct Ingest {
    pub tenant: TenantId,
    /// `StaleFence`, and nothing is written, when it is void.
    pub owner: Owner,
    pub channel: ChannelName,
    pub account_id: String,
    pub messages: Vec<Accept>,
    /// Where to read on. `None` leaves it as it was.
    pub cursor: Option<String>,
    pub now: i64,
}
