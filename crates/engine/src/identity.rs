//! The instance's id: one a home, kept beside its lock.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use tidegate_protocol::InstanceId;
use tidegate_runtime::{Clock, new_id};

use crate::error::EngineError;
use crate::home::HomeLock;

/// Reads the id, or makes one. An unreadable id is replaced: what the old one held is free after its time to live.
pub(crate) fn instance_id(lock: &HomeLock, clock: &dyn Clock) -> Result<InstanceId, EngineError> {
    let home = lock.home();
    let path = home.service().join("instance");
    match fs::read_to_string(&path) {
        Ok(text) => {
            if let Ok(id) = text.trim().parse() {
                return Ok(id);
            }
            tracing::warn!(path = %path.display(), "the instance id is unreadable; a new one is made");
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(home.unusable(error)),
    }
    let id: InstanceId = new_id(clock)?;
    let partial = path.with_extension("partial");
    let write = || -> io::Result<()> {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        writeln!(file, "{id}")?;
        file.sync_all()?;
        fs::rename(&partial, &path)
    };
    write().map_err(|error| home.unusable(error))?;
    Ok(id)
}
