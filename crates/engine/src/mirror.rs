//! Transcript files: the log, written out for people and tools. Derived, so never read back for their content.
//!
//! The database notes how far a file goes (entry and length). Whatever lies beyond that in the file was written by a
//! process that died before the note, and is written again. A file that is missing, shorter than noted or not ours
//! is set aside and made anew.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_runtime::fault;
use tidegate_storage::{MirrorPosition, MirrorTask};
use tokio::sync::{MutexGuard, Notify};

use crate::error::EngineError;
use crate::start::{Core, Engine, Notice};
use crate::transcript;

/// Entries read at once.
const PAGE: u32 = 500;
/// Logs looked up at once.
const BACKLOG: u32 = 100;
/// Files up to this size are read through before a line is added; of larger ones only both ends are looked at.
const READ_THROUGH: u64 = 1 << 20;

/// Who writes the files, and for whom.
#[derive(Default)]
pub(crate) struct Mirroring {
    /// Told that a log grew.
    grown: Notify,
    /// Counts those who asked for the files to be brought up to date.
    asked: AtomicU64,
    /// Held by the one who writes: how many of them have been served.
    served: tokio::sync::Mutex<u64>,
}

impl Mirroring {
    pub(crate) fn notify(&self) {
        self.grown.notify_one();
    }

    /// Nothing is written while this is held.
    pub(crate) async fn pause(&self) -> MutexGuard<'_, u64> {
        self.served.lock().await
    }

    pub(crate) async fn notified(&self) {
        self.grown.notified().await;
    }
}

impl Engine {
    /// Returns once every log that exists now is in its file. A file that cannot be written is a [`Notice`].
    pub async fn flush_transcripts(&self) -> Result<(), EngineError> {
        self.core.flush_transcripts().await
    }
}

impl Core {
    /// One pass serves everybody who asked before it began.
    pub(crate) async fn flush_transcripts(&self) -> Result<(), EngineError> {
        let ticket = self.mirroring.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut served = self.mirroring.served.lock().await;
        if *served >= ticket {
            return Ok(());
        }
        let serves = self.mirroring.asked.load(Ordering::SeqCst);
        catch_up(self).await?;
        *served = serves;
        Ok(())
    }
}

/// Brings every transcript file up to its log.
async fn catch_up(core: &Core) -> Result<(), EngineError> {
    loop {
        let tasks = core.store.mirror_backlog(&core.tenant, BACKLOG).await?;
        let done = tasks.len() < BACKLOG as usize;
        // Side by side, so that their notes share a commit.
        let written = futures_util::future::join_all(tasks.iter().map(|task| mirror(core, task))).await;
        let mut lags = false;
        for outcome in written {
            // The log is the truth: a file that cannot be written stops nobody's answer.
            match outcome {
                Err(EngineError::HomeUnusable { path, cause }) => {
                    core.notice(Notice::TranscriptLags { file: path, cause: cause.to_string() });
                    lags = true;
                }
                other => other?,
            }
        }
        if done || lags {
            return Ok(());
        }
    }
}

async fn mirror(core: &Core, task: &MirrorTask) -> Result<(), EngineError> {
    let home = core.lock.home();
    let folder = home.transcripts(&task.agent);
    home.make(&folder)?;
    let name = task.alias.clone().unwrap_or_else(|| task.session.to_string());
    let cwd = home.workspace(&task.agent).display().to_string();
    let header = transcript::header(&name, task.created_at, &cwd);
    let path = folder.join(format!("{name}.jsonl"));
    let pending = render(core, task, task.position.seq).await?;
    let unusable = |cause| name_file(home.unusable(cause), &path);
    let found = {
        let (path, header, noted, next) = (path.clone(), header.clone(), task.position, pending.text.clone());
        off_thread(move || inspect(&path, &header, noted, &next)).await.map_err(unusable)?
    };
    let from = match found {
        Found::Ours => task.position.bytes,
        Found::Absent => 0,
        Found::Damaged => {
            let kept = set_aside(&path, core.clock.now_ms()).map_err(unusable)?;
            core.notice(Notice::TranscriptRebuilt { file: path.clone(), kept });
            0
        }
    };
    let (text, last_seq, before) = if from == 0 {
        let whole = render(core, task, 0).await?;
        (header + &whole.text, whole.last_seq, Checksum::default())
    } else {
        (pending.text, pending.last_seq, Checksum::resume(task.position.checksum))
    };
    fault::pause("engine.mirror.before_write").await;
    let written = {
        let path = path.clone();
        off_thread(move || Ok((write_from(&path, from, &text)?, before.with(text.as_bytes()).value()))).await
    };
    let (bytes, checksum) = written.map_err(unusable)?;
    fault::pause("engine.mirror.written").await;
    let position = MirrorPosition { seq: last_seq, bytes, checksum };
    core.store.note_mirrored(&core.tenant, task.session, position).await?;
    Ok(())
}

/// Files are read and written where nobody else waits for the thread.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tidegate_runtime::spawn_blocking("transcript", work).join().await;
    done.unwrap_or_else(|end| Err(io::Error::other(end.to_string())))
}

struct Rendered {
    text: String,
    last_seq: i64,
}

async fn render(core: &Core, task: &MirrorTask, after: i64) -> Result<Rendered, EngineError> {
    let mut rendered = Rendered { text: String::new(), last_seq: after };
    loop {
        let page = core.store.entries(&core.tenant, task.session, rendered.last_seq, PAGE).await?;
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
fn inspect(path: &Path, header: &str, noted: MirrorPosition, pending: &str) -> io::Result<Found> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Absent),
        Err(error) => return Err(error),
        // A folder or a link is nobody's transcript.
        Ok(found) if !found.is_file() => return Ok(Found::Damaged),
        Ok(_) => {}
    }
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let bytes = u64::try_from(noted.bytes).unwrap_or(0);
    if length < bytes {
        return Ok(Found::Damaged);
    }
    // Nothing noted yet: the first process may have died anywhere, also inside the header.
    let expected = if bytes == 0 { [header, pending].concat() } else { pending.to_owned() };
    if bytes > 0 && !is_as_noted(&mut file, header, noted, bytes)? {
        return Ok(Found::Damaged);
    }
    file.seek(SeekFrom::Start(bytes))?;
    let mut beyond = Vec::new();
    file.take(expected.len() as u64 + 1).read_to_end(&mut beyond)?;
    Ok(if expected.as_bytes().starts_with(&beyond) { Found::Ours } else { Found::Damaged })
}

/// Whether the noted part is as it was written.
fn is_as_noted(file: &mut File, header: &str, noted: MirrorPosition, bytes: u64) -> io::Result<bool> {
    if bytes <= READ_THROUGH {
        let mut whole = Vec::new();
        (&*file).take(bytes).read_to_end(&mut whole)?;
        return Ok(Checksum::default().with(&whole).value() == noted.checksum);
    }
    let mut head = vec![0; header.len()];
    file.read_exact(&mut head)?;
    let mut end = [0];
    file.seek(SeekFrom::Start(bytes - 1))?;
    file.read_exact(&mut end)?;
    Ok(head == header.as_bytes() && end == *b"\n")
}

/// FNV-1a: grows with the file, byte by byte, and needs nothing but its last value to go on.
#[derive(Clone, Copy)]
struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    fn resume(value: i64) -> Self {
        Self(value.cast_unsigned())
    }

    fn with(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    fn value(self) -> i64 {
        self.0.cast_signed()
    }
}

/// The home is usable and one file in it is not: say which.
fn name_file(error: EngineError, file: &Path) -> EngineError {
    match error {
        EngineError::HomeUnusable { cause, .. } => EngineError::HomeUnusable { path: file.to_owned(), cause },
        other => other,
    }
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
