//! The gateway's log: lines on standard error and in `logs/gateway.log` of the home, secrets blotted out.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidegate_config::schema::LogLevel;
use tidegate_runtime::{iso_timestamp, redact};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Registry, reload};

use crate::app::now_ms;

/// A file of this size makes room for the next; one earlier file is kept.
const LARGEST: u64 = 10 << 20;

/// Starts the log of a process that stays. A file that cannot be written is no reason not to run.
pub(crate) fn start(level: LogLevel, folder: &Path) {
    let file = Arc::new(Mutex::new(LogFile::open(folder).ok()));
    let sink = Sink { file };
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(false)
        .with_timer(Time)
        .with_writer(sink);
    let (level, handle) = reload::Layer::new(filter(level));
    // Only the first one counts; a process has one.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(level).with(lines));
    let _ = LEVEL.set(handle);
}

/// How the level of the log that was started can be changed.
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Writes more or less from now on.
pub(crate) fn set_level(level: LogLevel) {
    if let Some(handle) = LEVEL.get() {
        let _ = handle.reload(filter(level));
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// The file, and how large it is.
struct LogFile {
    folder: PathBuf,
    file: File,
    bytes: u64,
}

impl LogFile {
    fn open(folder: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let path = folder.join("gateway.log");
        if std::fs::metadata(&path).is_ok_and(|file| file.len() >= LARGEST) {
            std::fs::rename(&path, folder.join("gateway.log.1"))?;
        }
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { folder: folder.to_owned(), file, bytes })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.bytes >= LARGEST {
            *self = Self::open(&self.folder)?;
        }
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

struct Time;

impl FormatTime for Time {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        writer.write_str(&iso_timestamp(now_ms()))
    }
}

#[derive(Clone)]
struct Sink {
    file: Arc<Mutex<Option<LogFile>>>,
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Sink {
    /// The subscriber writes a whole line at once.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let line = redact(&text);
        let _ = io::stderr().lock().write_all(line.as_bytes());
        if let Some(file) = self.file.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            let _ = file.write(line.as_bytes());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_for_its_owner_and_makes_room_when_it_is_large() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("logs");
        let mut log = LogFile::open(&logs).unwrap();
        log.write(b"one\n").unwrap();
        let mode = std::fs::metadata(logs.join("gateway.log")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        File::options().write(true).open(logs.join("gateway.log")).unwrap().set_len(LARGEST + 1).unwrap();
        log.bytes = LARGEST + 1;
        log.write(b"two\n").unwrap();
        assert_eq!(std::fs::read(logs.join("gateway.log")).unwrap(), b"two\n");
        assert_eq!(std::fs::metadata(logs.join("gateway.log.1")).unwrap().len(), LARGEST + 1);
    }
}
