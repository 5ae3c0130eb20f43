//! `ask` with tools: what a model or a person calls, what policy says, and what a script reads of it.

mod codex;
mod contract;
mod dry_run;
mod notes;
mod policy;
mod shown;
mod size;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::home::{Backend, Home};
use crate::process::{Call, Done};
use crate::talking::Vendor;
use crate::tools::workspace;

/// A home whose model is played, and the folder of somebody who asks it.
pub(crate) struct Desk {
    pub(crate) vendor: Vendor,
    pub(crate) home: Home,
    pub(crate) root: PathBuf,
}

impl Desk {
    /// What the configuration says about tools; nothing for what holds without a word.
    pub(crate) fn with(tools: &Value) -> Self {
        Self::on(Backend::Sqlite, tools).expect("SQLite is always there")
    }

    /// The same on this database; nothing when it is not there.
    fn on(backend: Backend, tools: &Value) -> Option<Self> {
        let vendor = Vendor::open();
        let more: &[(&str, Value)] = if tools.is_null() { &[] } else { &[("tools", tools.clone())] };
        let home = vendor.home(backend, more)?;
        let root = workspace(&home);
        Some(Self { vendor, home, root })
    }

    /// Files may be changed and commands run without a question.
    pub(crate) fn trusting() -> Self {
        Self::trusting_on(Backend::Sqlite).expect("SQLite is always there")
    }

    pub(crate) fn trusting_on(backend: Backend) -> Option<Self> {
        let exec = json!({"host": "gateway", "security": "full", "ask": "off"});
        Self::on(backend, &json!({"profile": "coding", "exec": exec}))
    }

    /// `ask` with these words, in the folder.
    pub(crate) fn call(&self, words: &[&str]) -> Call {
        self.home.call(&[&["ask"], words].concat()).inside(&self.root)
    }

    pub(crate) fn ask(&self, words: &[&str]) -> Value {
        let done = self.call(words).ok();
        skeleton(&done)
    }
}

/// The object, which has every key of the contract.
pub(crate) fn skeleton(done: &Done) -> Value {
    let answer = done.json();
    assert_eq!(answer["success"], true, "{done:?}");
    for key in ["toolCalls", "toolResults"] {
        assert!(answer[key].is_array(), "{key}: {answer}");
    }
    assert!(answer["sessionContextUpdated"].is_boolean(), "{answer}");
    answer
}
