//! The file tools as they are called: prepared, then run on what was prepared.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate_policy::Preparation;
use tidegate_protocol::Block;
use tokio_util::sync::CancellationToken;

use super::{FileWork, Held, Stop, parse};
use crate::root::Root;
use crate::tool::{Output, ToolFailure};

mod changing;
mod looking;
mod paths;
mod properties;
mod races;
mod reading;
mod remembering;

/// What lies outside and must never be seen in an answer.
pub(super) const CANARY: &str = "the canary sings outside";

/// A folder to work in, with something outside that nobody may reach.
pub(super) struct Scene {
    base: tempfile::TempDir,
    forbidden: Vec<PathBuf>,
}

impl Scene {
    pub(super) fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let scene = Self { base, forbidden: Vec::new() };
        std::fs::create_dir(scene.path()).unwrap();
        std::fs::create_dir(scene.outside("")).unwrap();
        std::fs::write(scene.outside("secret.txt"), CANARY).unwrap();
        scene
    }

    pub(super) fn forbid(mut self, folder: PathBuf) -> Self {
        self.forbidden.push(folder);
        self
    }

    /// The root's path.
    pub(super) fn path(&self) -> PathBuf {
        self.base.path().join("root")
    }

    pub(super) fn outside(&self, name: &str) -> PathBuf {
        self.base.path().join("outside").join(name)
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(super) fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(super) fn link(&self, name: &str, to: impl AsRef<Path>) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, path).unwrap();
    }

    pub(super) fn content(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.at(name)).unwrap()).unwrap()
    }

    pub(super) fn root(&self) -> Root {
        Root::open(&self.path(), &self.forbidden).unwrap()
    }

    pub(super) fn prepare<W: FileWork>(&self, args: &Value) -> Result<Preparation, ToolFailure> {
        W::prepare(&parse::<W::Args>(args)?, &self.root())
    }

    /// Runs what was prepared, like the executor after the gate let it through.
    pub(super) fn run<W: FileWork>(
        &self,
        args: &Value,
        prepared: &Preparation,
    ) -> Result<Output, ToolFailure> {
        let held = Held::new(&prepared.subjects, &prepared.conditions);
        W::run(&parse::<W::Args>(args)?, &self.root(), &held, &going())
    }

    pub(super) fn call<W: FileWork>(&self, args: &Value) -> Result<Output, ToolFailure> {
        let prepared = self.prepare::<W>(args)?;
        self.run::<W>(args, &prepared)
    }

    /// The text of the answer, or the words of the refusal.
    pub(super) fn said<W: FileWork>(&self, args: &Value) -> String {
        self.call::<W>(args).map_or_else(|failure| failure.message, |output| text(&output))
    }

    /// Nothing outside was touched, and nothing was left behind.
    pub(super) fn is_intact(&self) {
        let names: Vec<_> =
            std::fs::read_dir(self.outside("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["secret.txt"]);
        assert_eq!(std::fs::read_to_string(self.outside("secret.txt")).unwrap(), CANARY);
    }
}

pub(super) fn going() -> Stop {
    Stop(CancellationToken::new())
}

pub(super) fn text(output: &Output) -> String {
    let texts = output.content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
