//! The home folder: where everything of one installation lives, and the lock that makes one writer.
//!
//! The lock is the operating system's: it goes with the process that holds it, however that process ends. The file
//! it is taken on also says who holds it, for the message to those who wait.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use tidegate_protocol::AgentId;

use crate::error::EngineError;

/// Names of places in the home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn config_file(&self) -> PathBuf {
        self.root.join("config.json5")
    }

    pub fn revisions(&self) -> PathBuf {
        self.root.join("revisions")
    }

    pub fn database(&self) -> PathBuf {
        self.root.join("tidegate.db")
    }

    /// Transcript files of an agent.
    pub fn transcripts(&self, agent: &AgentId) -> PathBuf {
        self.root.join("agents").join(agent.as_str()).join("sessions")
    }

    pub fn workspace(&self, agent: &AgentId) -> PathBuf {
        self.root.join("agents").join(agent.as_str()).join("workspace")
    }

    /// What the sandboxes keep: a folder for each place.
    pub fn sandboxes(&self) -> PathBuf {
        self.root.join("sandboxes")
    }

    pub(crate) fn service(&self) -> PathBuf {
        self.root.join("service")
    }

    /// Where the process that holds the home listens for the other commands.
    pub fn control_socket(&self) -> PathBuf {
        self.service().join("control.sock")
    }

    /// Where credentials of providers rest.
    pub fn credentials(&self) -> PathBuf {
        self.root.join("credentials")
    }

    /// What programs on this machine show to the gateway.
    pub fn local_token(&self) -> PathBuf {
        self.credentials().join("local-token")
    }

    /// Files of connectors that work on files.
    pub fn channels(&self) -> PathBuf {
        self.root.join("channels")
    }

    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    pub(crate) fn ballast(&self) -> PathBuf {
        self.service().join("ballast")
    }

    fn lock_file(&self) -> PathBuf {
        self.service().join("home.lock")
    }

    /// Makes a folder of the home, for its owner only.
    pub(crate) fn make(&self, folder: &Path) -> Result<(), EngineError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|cause| self.unusable(cause))
    }

    pub(crate) fn unusable(&self, cause: io::Error) -> EngineError {
        EngineError::HomeUnusable { path: self.root.clone(), cause }
    }

    /// Takes the lock, waiting until `wait` is over. `purpose` is shown to those who wait behind us.
    pub async fn lock(&self, wait: Duration, purpose: &str) -> Result<HomeLock, EngineError> {
        self.make(&self.service())?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.lock_file())
            .map_err(|cause| self.unusable(cause))?;
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if start.elapsed() < wait => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(EngineError::HomeBusy { path: self.root.clone(), holder: holder(&mut file) });
                }
                Err(errno) => return Err(self.unusable(errno.into())),
            }
        }
        // Only for people to read; a failure to write it changes nothing.
        let _ = file.set_len(0);
        let _ = write!(file, "{} {purpose}", std::process::id());
        Ok(HomeLock { home: self.clone(), file })
    }

    /// Who holds the lock now, if anybody does.
    pub fn holder(&self) -> Option<String> {
        let mut file = OpenOptions::new().read(true).open(self.lock_file()).ok()?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => Some(holder(&mut file)),
            _ => None,
        }
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| (&*file).take(200).read_to_string(&mut text));
    match (read, text.split_once(' ')) {
        (Ok(_), Some((pid, purpose))) => format!("process {pid} ({purpose})"),
        _ => "another process".to_owned(),
    }
}

/// Proof that this process is the home's writer. Dropping it lets the next one in.
#[derive(Debug)]
pub struct HomeLock {
    home: Home,
    /// The open file holds the lock.
    file: File,
}

impl HomeLock {
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The same lock once more: the home is free when both are dropped. So an engine can follow another one without
    /// letting anybody in between.
    pub fn share(&self) -> Result<Self, EngineError> {
        let file = self.file.try_clone().map_err(|cause| self.home.unusable(cause))?;
        Ok(Self { home: self.home.clone(), file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_second_process_is_told_who_holds_the_home() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().join("home"));
        let lock = home.lock(Duration::ZERO, "ask").await.unwrap();
        let error = home.lock(Duration::from_millis(5), "ask").await.unwrap_err();
        let expected = format!("held by process {} (ask)", std::process::id());
        assert!(error.to_string().ends_with(&expected), "{error}");
        assert_eq!(home.holder(), Some(format!("process {} (ask)", std::process::id())));
        let shared = lock.share().unwrap();
        drop(lock);
        assert!(home.lock(Duration::ZERO, "ask").await.is_err(), "a share holds it as well");
        drop(shared);
        assert_eq!(home.holder(), None);
        home.lock(Duration::ZERO, "ask").await.unwrap();
    }
}
