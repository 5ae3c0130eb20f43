//! The first run: a home with a configuration file that explains itself.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

use tidegate_engine::{EngineError, Home};

use crate::failure::Failure;

const CONFIG: &str = r"// Tidegate's configuration. JSON5: comments and trailing commas are welcome.
// Every key: docs/reference/config.md. Check it with `tidegate config validate`.
{
  gateway: {
    // The page, the API and the control plane share this port, on this machine only.
    port: 18789,
  },

  // The built-in offline model answers until you choose a real one:
  //   tidegate auth login anthropic                      stores a key, sealed; openai, google and others alike
  //   tidegate models test anthropic                     makes one tiny call
  //   tidegate models set anthropic/claude-sonnet-4-5    writes the choice into this file
  // A server of your own, fallbacks, rules and budgets: docs/models.md.

  // A channel made of files: append a line to channels/local/default/inbox.jsonl
  // in this folder and read the answer in outbox.jsonl beside it.
  channels: {
    local: { enabled: false },
  },
}
";

/// Makes the home and its configuration if there is none. Answers whether it did.
pub(super) fn prepare(home: &Home) -> Result<bool, Failure> {
    let unusable = |cause| EngineError::HomeUnusable { path: home.root().to_owned(), cause };
    DirBuilder::new().recursive(true).mode(0o700).create(home.root()).map_err(unusable)?;
    if home.config_file().exists() {
        return Ok(false);
    }
    // Whole or not at all: an empty file would be a broken configuration.
    let partial = home.root().join(format!(".config.json5.{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        file.write_all(CONFIG.as_bytes())?;
        file.sync_all()?;
        std::fs::hard_link(&partial, home.config_file())
    };
    let written = write();
    let _ = std::fs::remove_file(&partial);
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(unusable(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_configuration_is_valid_and_never_replaces_another() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().join("home"));
        assert!(prepare(&home).unwrap());
        let loaded = crate::app::config_file(&home).load(&tidegate_config::Env::of_this_process()).unwrap();
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        std::fs::write(home.config_file(), "{}").unwrap();
        assert!(!prepare(&home).unwrap());
        assert_eq!(std::fs::read_to_string(home.config_file()).unwrap(), "{}");
    }
}
