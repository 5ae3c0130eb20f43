//! `browser`: pages that are looked at and used, in a headless browser of the Chromium family.
//!
//! A browser is started at the first call that needs one, held by the sandbox like any program, and closed when nobody
//! used it for a while. It has no network of its own ([`egress`]) and no port ([`wire`]). What pages say comes back inside
//! a fence.

mod act;
mod args;
mod attend;
mod browsers;
mod capture;
mod egress;
mod keys;
mod launch;
mod look;
mod page;
mod snapshot;
mod tool;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_net::Client;
use tidegate_policy::{Requester, Runner};

use crate::place::Place;

pub use browsers::Browsers;
pub use tool::BrowserTool;

/// How browsers are started and used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserSettings {
    /// A path, or a name along the search path; the usual ones when absent.
    pub executable: Option<String>,
    pub headless: bool,
    /// The profile of calls that name none.
    pub profile: String,
    pub profiles: Vec<BrowserProfile>,
    /// A browser that nobody used for this long is closed.
    pub idle: Duration,
    pub max_tabs: usize,
    /// Whether scripts of the model may run in pages.
    pub evaluate: bool,
    /// How long a page may take to answer one question.
    pub patience: Duration,
}

/// Where a browser keeps what pages leave behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserProfile {
    pub name: String,
    /// Kept from one browser to the next; else gone with it.
    pub keep: bool,
}

impl Default for BrowserSettings {
    fn default() -> Self {
        Self {
            executable: None,
            headless: true,
            profile: "default".to_owned(),
            profiles: Vec::new(),
            idle: Duration::from_mins(10),
            max_tabs: 8,
            evaluate: false,
            patience: Duration::from_secs(15),
        }
    }
}

impl BrowserSettings {
    /// The profile of this name. `default` is there without being configured, and is not kept.
    fn profile(&self, name: Option<&str>) -> Option<BrowserProfile> {
        let name = name.unwrap_or(&self.profile);
        let configured = self.profiles.iter().find(|profile| profile.name == name).cloned();
        let default = || BrowserProfile { name: name.to_owned(), keep: false };
        configured.or_else(|| (name == "default").then(default))
    }
}

/// What browsers stand on; whoever holds the state and the sandboxes offers it.
pub trait BrowserGround: Send + Sync {
    /// The folder below which profiles lie.
    fn folder(&self) -> Option<PathBuf>;

    /// What starts a browser that works in this folder for whoever calls from this place.
    fn runner(&self, place: &Place, folder: &std::path::Path) -> Arc<dyn Runner>;

    /// What pages are fetched with on somebody's behalf.
    fn client(&self, requester: &Requester) -> Client;
}
