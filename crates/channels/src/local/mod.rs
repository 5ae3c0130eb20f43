//! The network of files: messages are lines that somebody appends to an inbox, replies are lines in an outbox.
//!
//! An inbox line is plain text, or an object `{input | text, sessionKey?, requestId?, accountId?}`. `sessionKey` says
//! who writes (`main` when absent) and so which conversation it is; `requestId` is the message's id, and the same id
//! twice is the same message. An outbox line is `{channel, recordedAt, requestId, requestSource, sessionKey, input,
//! output{text} | error, key}`.
//!
//! Good for scripts, and for testing the whole gateway without a network. Writers append whole lines with their line
//! end in one write; a line without its end waits. An inbox that is replaced, cut or rewritten is read again from the
//! start, all of it as new messages, and so it is when an editor saves it by replacing the file. A line above
//! [`MAX_LINE`] is left out with a warning. The outbox is only ever appended to, by one account; who moves it away
//! while a send is in doubt makes that reply come again.
//!
//! One [`Local`] is one account. It owns its two files and keeps no state between two starts.

mod cursor;
mod line;
mod outbox;
mod receive;
mod row;
mod settings;
mod tail;

use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_protocol::{
    ChannelName, Connector, ConnectorError, Doubt, Found, InboundSink, Part, Reply, SendOutcome, TenantId,
    WorkspaceId,
};
use tidegate_runtime::{Clock, fault, spawn_blocking};

use outbox::Outbox;

pub use settings::{LocalSettings, from_config};
pub use tail::MAX_LINE;

/// One account of the network of files.
pub struct Local {
    channel: ChannelName,
    settings: LocalSettings,
    clock: Arc<dyn Clock>,
    tenant: TenantId,
    workspace: WorkspaceId,
    /// Shared with the threads that write: a send that nobody waits for any more still ends before the next begins.
    outbox: Arc<Outbox>,
}

impl Local {
    pub fn new(
        settings: LocalSettings,
        clock: Arc<dyn Clock>,
        tenant: TenantId,
        workspace: WorkspaceId,
    ) -> Self {
        let outbox = Arc::new(Outbox::new(settings.outbox.clone()));
        Self { channel: ChannelName::local(), settings, clock, tenant, workspace, outbox }
    }
}

#[async_trait]
impl Connector for Local {
    fn channel(&self) -> &ChannelName {
        &self.channel
    }

    fn account(&self) -> &str {
        &self.settings.account
    }

    async fn receive(&self, sink: Arc<dyn InboundSink>) -> Result<(), ConnectorError> {
        receive::receive(self, sink.as_ref()).await
    }

    fn render(&self, reply: &Reply) -> Vec<Part> {
        vec![row::render(reply)]
    }

    async fn send(&self, part: &Part, key: &str) -> SendOutcome {
        fault::pause("channels.local.before_send").await;
        let now = self.clock.now_ms();
        let row = match row::finish(&part.body, key, now) {
            Ok(row) => row,
            Err(error) => {
                return SendOutcome::Rejected {
                    reason: format!("the stored part is no outbox row: {error}"),
                };
            }
        };
        let (outbox, id) = (Arc::clone(&self.outbox), key.to_owned());
        let appended = spawn_blocking("local outbox", move || outbox.append(&row, id, now)).join().await;
        let outcome = appended.unwrap_or_else(|end| SendOutcome::Unknown { reason: end.to_string() });
        fault::pause("channels.local.sent").await;
        outcome
    }

    fn doubt(&self) -> Doubt {
        Doubt::ReadBack
    }

    async fn find(&self, _part: &Part, key: &str) -> Found {
        let (outbox, key) = (Arc::clone(&self.outbox), key.to_owned());
        let found = spawn_blocking("local outbox", move || outbox.find(&key)).join().await;
        found.unwrap_or_else(|end| Found::Unknown { reason: end.to_string() })
    }
}

/// Makes the folder of a file, for its owner only.
fn make_folder(file: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let Some(folder) = file.parent() else { return Ok(()) };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Whether a person must change something before a file can be used.
fn needs_a_person(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, IsADirectory, NotADirectory, PermissionDenied, ReadOnlyFilesystem};
    matches!(
        error.kind(),
        PermissionDenied | ReadOnlyFilesystem | IsADirectory | NotADirectory | InvalidInput
    )
}

/// Pipes and devices cannot be read again from a place.
fn require_plain_file(metadata: &std::fs::Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file"))
}
