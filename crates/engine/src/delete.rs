//! Removing a conversation for good: rows first, then the files made from them.

use std::fs;
use std::path::Path;

use tidegate_policy::Principal;
use tidegate_protocol::SessionKey;

use crate::error::EngineError;
use crate::start::Engine;

impl Engine {
    /// Removes a session with all its logs, runs and transcript files, copies set aside among them. Answers the names
    /// of the logs. Refused while a run has not ended.
    pub async fn delete_session(
        &self,
        principal: &Principal,
        key: &SessionKey,
    ) -> Result<Vec<String>, EngineError> {
        // A transcript that is being written must not come back after it was removed.
        let _quiet = self.core.mirroring.pause().await;
        let names = self.core.store.delete_session(principal, key, self.core.clock.now_ms()).await?;
        self.core.unsealed.notify_one();
        let home = self.home();
        let folder = home.transcripts(&key.scope.agent);
        remove_files(&folder, &names).map_err(|cause| home.unusable(cause))?;
        Ok(names)
    }
}

fn remove_files(folder: &Path, names: &[String]) -> std::io::Result<()> {
    let Ok(files) = fs::read_dir(folder) else { return Ok(()) };
    for file in files {
        let file = file?;
        let file_name = file.file_name();
        let Some((name, rest)) = file_name.to_str().and_then(|name| name.split_once(".jsonl")) else {
            continue;
        };
        let ours = rest.is_empty() || rest.starts_with(".damaged-");
        if ours && names.iter().any(|removed| removed == name) {
            fs::remove_file(file.path())?;
        }
    }
    Ok(())
}
