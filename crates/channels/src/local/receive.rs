//! Receiving: looks at the inbox again and again, and offers what is new to the sink.
//!
//! The place to read on is the sink's. It is asked for again after every refusal, because a refused offer may have
//! been kept after all.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use tidegate_protocol::{ConnectorError, Inbound, InboundMessage, InboundSink, Peer, PeerKind, SinkError};
use tidegate_runtime::{fault, spawn_blocking};

use super::cursor::Cursor;
use super::line::Line;
use super::tail::{self, Batch, Stamp};
use super::{Local, make_folder, needs_a_person};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Until the sink closes, or the file cannot be read.
pub(super) async fn receive(local: &Local, sink: &dyn InboundSink) -> Result<(), ConnectorError> {
    let mut pause = FIRST_PAUSE;
    loop {
        let Err(error) = follow(local, sink, &mut pause).await;
        match error {
            ConnectorError::Sink(SinkError::Closed) => return Ok(()),
            ConnectorError::Sink(SinkError::Retry(reason)) => {
                tracing::warn!(account = local.settings.account, reason, "inbox lines were not accepted");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            other => return Err(other),
        }
    }
}

/// Reads on from where the sink says, until something refuses.
async fn follow(
    local: &Local,
    sink: &dyn InboundSink,
    pause: &mut Duration,
) -> Result<std::convert::Infallible, ConnectorError> {
    let mut cursor = held_cursor(local, sink).await?;
    let mut seen = None;
    loop {
        match look(&local.settings.inbox, cursor.clone(), seen.clone()).await? {
            Look::Unchanged => {}
            Look::Read(stamp, batch) => {
                let more = batch.more;
                seen = (!more).then_some(stamp);
                cursor = Some(offer(local, sink, batch).await?);
                *pause = FIRST_PAUSE;
                if more {
                    continue;
                }
            }
        }
        tokio::time::sleep(local.settings.poll).await;
    }
}

async fn held_cursor(local: &Local, sink: &dyn InboundSink) -> Result<Option<Cursor>, ConnectorError> {
    let Some(text) = sink.cursor().await? else { return Ok(None) };
    let cursor = Cursor::parse(&text).map_err(|error| {
        ConnectorError::Refused(format!(
            "the stored position in the inbox of the local account {} cannot be understood ({error}); it was written \
             by a newer release: run that one",
            local.settings.account
        ))
    })?;
    Ok(Some(cursor))
}

/// Hands the lines over and returns the cursor behind them.
async fn offer(local: &Local, sink: &dyn InboundSink, batch: Batch) -> Result<Cursor, ConnectorError> {
    let Batch { lines, oversize, cursor, moved, .. } = batch;
    if !moved {
        return Ok(cursor);
    }
    let account = local.settings.account.as_str();
    for (offset, bytes) in oversize {
        tracing::warn!(account, offset, bytes, "inbox line left out: longer than {} bytes", tail::MAX_LINE);
    }
    let messages = lines.into_iter().map(|line| inbound(local, line)).collect();
    let text = serde_json::to_string(&cursor)
        .map_err(|error| ConnectorError::Lost(format!("the position cannot be written: {error}")))?;
    fault::pause("channels.local.read").await;
    sink.accept(messages, Some(text)).await?;
    fault::pause("channels.local.accepted").await;
    Ok(cursor)
}

fn inbound(local: &Local, line: Line) -> Inbound {
    let account = &local.settings.account;
    if let Some(named) = line.account.filter(|named| named != account) {
        tracing::warn!(account, named, "inbox line names another account; it belongs to the inbox it is in");
    }
    Inbound {
        tenant_id: local.tenant.clone(),
        workspace_id: local.workspace.clone(),
        channel: local.channel.clone(),
        account_id: account.clone(),
        peer: Peer { kind: PeerKind::Dm, id: line.peer },
        sender_id: None,
        thread_id: None,
        message: InboundMessage { id: line.id, text: line.text, attachments: Vec::new() },
        timestamp: local.clock.now_ms(),
    }
}

enum Look {
    Unchanged,
    Read(Stamp, Batch),
}

async fn look(inbox: &Path, cursor: Option<Cursor>, seen: Option<Stamp>) -> Result<Look, ConnectorError> {
    let path = inbox.to_owned();
    let looked = spawn_blocking("local inbox", move || look_now(&path, cursor.as_ref(), seen.as_ref()));
    let looked = looked.join().await.map_err(|end| ConnectorError::Lost(end.to_string()))?;
    looked.map_err(|error| unreadable(inbox, &error))
}

fn look_now(path: &Path, cursor: Option<&Cursor>, seen: Option<&Stamp>) -> io::Result<Look> {
    let stamp = match Stamp::of(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_inbox(path)?;
            Stamp::of(path)?
        }
        stamp => stamp?,
    };
    if seen == Some(&stamp) {
        return Ok(Look::Unchanged);
    }
    Ok(Look::Read(stamp, tail::read(path, cursor)?))
}

/// An empty inbox, so that a person can append at once. One that somebody else makes meanwhile is as good.
fn make_inbox(path: &Path) -> io::Result<()> {
    make_folder(path)?;
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(drop)
}

fn unreadable(inbox: &Path, error: &io::Error) -> ConnectorError {
    let inbox = inbox.display();
    if needs_a_person(error) {
        return ConnectorError::Refused(format!(
            "the inbox {inbox} cannot be read: {error}; let this user read it, or name another file in channels.local"
        ));
    }
    ConnectorError::Lost(format!("the inbox {inbox} cannot be read: {error}"))
}
