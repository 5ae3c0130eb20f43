//! How far the transcript files follow the log. The files are derived; the log is the truth.

use async_trait::async_trait;
use tidegate_protocol::{AgentId, SessionId, TenantId};

use crate::error::Result;

#[async_trait]
pub trait Mirror: Send + Sync {
    /// Logs whose transcript file lags behind, at most `limit`.
    async fn mirror_backlog(&self, tenant: &TenantId, limit: u32) -> Result<Vec<MirrorTask>>;

    /// Notes how far the file of a log goes.
    async fn note_mirrored(
        &self,
        tenant: &TenantId,
        session: SessionId,
        position: MirrorPosition,
    ) -> Result<()>;
}

/// A log whose file needs lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorTask {
    pub session: SessionId,
    pub alias: Option<String>,
    pub agent: AgentId,
    pub created_at: i64,
    /// The log it was forked from, and the last line they share. Its file begins after that line.
    pub parent: Option<(SessionId, i64)>,
    pub position: MirrorPosition,
}

/// The last entry in the file and the file's length with it. What lies beyond in the file was never noted and is
/// written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MirrorPosition {
    pub seq: i64,
    pub bytes: i64,
    /// Over those bytes, so that a file spoilt inside is noticed.
    pub checksum: i64,
}
