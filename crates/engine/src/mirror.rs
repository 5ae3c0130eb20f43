//! Transcript files: the log, written out for people and tools. Derived, so never read back for their content.
//!
//! The database notes how far a file goes (entry and length). Whatever lies beyond that in the file was written by a
//! process that died before the note, and is written again. A file that is missing, shorter than noted or not ours
//! is set aside and made anew.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tidegate_protocol::TenantId;
use tidegate_runtime::fault;
use tidegate_storage::{MirrorPosition, MirrorTask};

use crate::error::EngineError;
use crate::start::Engine;
use crate::transcript;

/// Entries read at once.
const PAGE: u32 = 500;
/// Logs looked up at once.
const BACKLOG: u32 = 100;

/// Brings every transcript file up to its log.
pub(crate) async fn catch_up(engine: &Engine, tenant: &TenantId) -> Result<(), EngineError> {
    loop {
        let tasks = engine.store.mirror_backlog(tenant, BACKLOG).await?;
        let done = tasks.len() < BACKLOG as usize;
        for task in tasks {
            mirror(engine, tenant, &task).await?;
        }
        if done {
            return Ok(());
        }
    }
}

async fn mirror(engine: &Engine, tenant: &TenantId, task: &MirrorTask) -> Result<(), EngineError> {
    let home = engine.lock.home();
    let folder = home.transcripts(&task.agent);
    home.make(&folder)?;
    let name = task.alias.clone().unwrap_or_else(|| task.session.to_string());
    let cwd = home.workspace(&task.agent).display().to_string();
    let header = transcript::header(&name, task.created_at, &cwd);
    let path = folder.join(format!("{name}.jsonl"));
    let unusable = |cause| home.unusable(cause);

    let pending = render(engine, tenant, task, task.position.seq).await?;
    let from = match inspect(&path, &header, task.position.bytes, &pending.text).map_err(unusable)? {
        Found::Ours => task.position.bytes,
        Found::Absent => 0,
        Found::Damaged => {
            let kept = set_aside(&path, engine.clock.now_ms()).map_err(unusable)?;
            tracing::warn!(file = %path.display(), kept = %kept.display(), "a damaged transcript was set aside and made anew");
            0
        }
    };
    let (text, last_seq) = if from == 0 {
        let whole = render(engine, tenant, task, 0).await?;
        (header + &whole.text, whole.last_seq)
    } else {
        (pending.text, pending.last_seq)
    };
    fault::pause("engine.mirror.before_write").await;
    let bytes = write_from(&path, from, &text).map_err(unusable)?;
    fault::pause("engine.mirror.written").await;
    let position = MirrorPosition { seq: last_seq, bytes };
    engine.store.note_mirrored(tenant, task.session, position).await?;
    Ok(())
}

struct Rendered {
    text: String,
    last_seq: i64,
}

async fn render(
    engine: &Engine,
    tenant: &TenantId,
    task: &MirrorTask,
    after: i64,
) -> Result<Rendered, EngineError> {
    let mut rendered = Rendered { text: String::new(), last_seq: after };
    loop {
        let page = engine.store.entries(tenant, task.session, rendered.last_seq, PAGE).await?;
        for entry in &page {
            rendered.text.push_str(&transcript::line(entry));
            rendered.last_seq = entry.seq;
        }
        if page.len() < PAGE as usize {
            return Ok(rendered);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Ours,
    Absent,
    Damaged,
}

/// Whether the file is what was noted, with at most an unnoted beginning of what comes next behind it.
fn inspect(path: &Path, header: &str, noted: i64, pending: &str) -> io::Result<Found> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Absent),
        Err(error) => return Err(error),
    };
    let noted = u64::try_from(noted).unwrap_or(0);
    let length = file.metadata()?.len();
    if length < noted {
        return Ok(Found::Damaged);
    }
    let mut head = vec![0; header.len().min(usize::try_from(length).unwrap_or(usize::MAX))];
    file.read_exact(&mut head)?;
    // Nothing noted yet: the first process may have died inside the header.
    if !header.as_bytes().starts_with(&head) || (noted > 0 && head.len() < header.len()) {
        return Ok(Found::Damaged);
    }
    if noted > 0 {
        let mut end = [0];
        file.seek(SeekFrom::Start(noted - 1))?;
        file.read_exact(&mut end)?;
        if end != *b"\n" {
            return Ok(Found::Damaged);
        }
    }
    let expected_from = if noted > 0 { noted } else { (head.len() as u64).min(length) };
    file.seek(SeekFrom::Start(expected_from))?;
    let mut beyond = Vec::new();
    file.take(pending.len() as u64 + 1).read_to_end(&mut beyond)?;
    Ok(if pending.as_bytes().starts_with(&beyond) { Found::Ours } else { Found::Damaged })
}

/// Moves a file out of the way without losing it.
fn set_aside(path: &Path, now: i64) -> io::Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".damaged-{now}"));
    let kept = PathBuf::from(name);
    fs::rename(path, &kept)?;
    Ok(kept)
}

/// Cuts the file at `from` and writes `text` there; answers the new length.
fn write_from(path: &Path, from: i64, text: &str) -> io::Result<i64> {
    let from = u64::try_from(from).unwrap_or(0);
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.set_len(from)?;
    file.seek(SeekFrom::Start(from))?;
    let (first, second) = text.as_bytes().split_at(text.len() / 2);
    file.write_all(first)?;
    fault::point("engine.mirror.half_written");
    file.write_all(second)?;
    Ok(i64::try_from(from + text.len() as u64).unwrap_or(i64::MAX))
}
