//! A temporary home with a config file in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_config::{Change, ConfigFile, EditError, Edited, Env, LoadError, Loaded};

pub(crate) struct Home {
    folder: TempDir,
    pub(crate) file: ConfigFile,
    pub(crate) env: Env,
}

impl Home {
    pub(crate) fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = ConfigFile::new(folder.path().join("config.json5"), folder.path().join("revisions"));
        Self { folder, file, env: Env::default() }
    }

    pub(crate) fn with(text: &str) -> Self {
        let home = Self::empty();
        home.write("config.json5", text);
        home
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env = [(name, value)].into_iter().collect();
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.file.path()).unwrap()
    }

    pub(crate) fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).unwrap().permissions().mode() & 0o777
    }

    pub(crate) fn load(&self) -> Result<Loaded, LoadError> {
        self.file.load(&self.env)
    }

    pub(crate) fn set(&self, path: &str, value: impl Into<Value>) -> Result<Edited, EditError> {
        self.change(&Change::Set { path: path.parse().unwrap(), value: value.into() })
    }

    pub(crate) fn unset(&self, path: &str) -> Result<Edited, EditError> {
        self.change(&Change::Unset { path: path.parse().unwrap() })
    }

    pub(crate) fn change(&self, change: &Change) -> Result<Edited, EditError> {
        self.file.edit(change, None, &self.env, 1_000)
    }

    /// The lines of the error that loading gives, without the first, which is the file.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let error = self.load().unwrap_err().to_string();
        let (file, lines) = error.split_once('\n').unwrap();
        assert_eq!(file, format!("{}:", self.file.path().display()));
        lines.lines().map(str::to_owned).collect()
    }
}
