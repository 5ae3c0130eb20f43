//! Profile `local`: programs held by this machine's own kernel.
//!
//! With bubblewrap they live in namespaces of their own; without it Landlock and seccomp hold them on the machine
//! itself, which covers less: see `docs/sandbox.md`. Either way the supervisor stays outside and keeps its promises.

mod bubblewrap;
mod landlock;
mod place;
mod probe;
mod runner;
mod system;

use std::path::Path;

pub(crate) use bubblewrap::Bubblewrap;
pub(crate) use landlock::Landlock;

/// Whether programs in profile `local` see a file of the machine, their own folder aside.
pub(crate) fn shows(path: &Path) -> bool {
    system::is_shown(path)
}
