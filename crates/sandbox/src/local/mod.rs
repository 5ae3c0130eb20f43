//! Profile `local`: programs held by this machine's own kernel.
//!
//! With bubblewrap they live in namespaces of their own; without it Landlock and seccomp hold them on the machine
//! itself, which covers less: see `docs/sandbox.md`. Either way the supervisor stays outside and keeps its promises.

mod bubblewrap;
mod landlock;
mod place;
mod probe;
mod proxy;
mod runner;
mod system;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::host::Host;
use crate::proxy::ProxyStarter;

pub(crate) use bubblewrap::Bubblewrap;
pub(crate) use landlock::Landlock;

/// What both ways need.
pub(crate) struct Local {
    pub(crate) host: Arc<Host>,
    /// A folder for each place.
    pub(crate) places: PathBuf,
    pub(crate) proxies: Option<Arc<dyn ProxyStarter>>,
}

/// Whether programs in profile `local` see a file of the machine, their own folder aside.
pub(crate) fn shows(path: &Path) -> bool {
    system::is_shown(path)
}
