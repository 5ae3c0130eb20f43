//! The second supervisor, inside the namespaces: what it makes sure of before anything starts.
//!
//! It is the first process in there. So programs can neither kill nor stop it, and when it ends everything does.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::restriction::{OwnLimits, Restriction};
use super::{BRIDGE, folder, launch};
use crate::hold::{Bridge, Inside};
use crate::order::Failure;

/// Supervisors and the bridge, which are no programs of the plan.
const OURS: u64 = 8;

/// Gives up what programs are not to have. From here on everything that is started is held.
pub(super) fn settle(inside: &Inside, watch: bool) -> Result<(), Failure> {
    let found = folder::identity(&inside.folder);
    let found =
        found.map_err(|error| Failure::Folder { path: inside.folder.clone(), cause: error.to_string() })?;
    if inside.identity != Some(found) {
        let cause = "it is not the folder it was a moment ago".to_owned();
        return Err(Failure::Folder { path: inside.folder.clone(), cause });
    }
    let give_up = || {
        if let Some(bridge) = &inside.bridge {
            build(bridge)?;
        }
        let processes = u64::from(inside.limits.processes) + OURS;
        OwnLimits::of(inside.limits, Some(processes)).apply()?;
        // Who looks at programs does what they may not; then each of them gives it up by itself.
        if watch { Ok(()) } else { inside.filter.program().apply().map(drop) }
    };
    give_up().map_err(|error: io::Error| Failure::Supervisor(format!("inside the sandbox: {error}")))
}

/// Starts the bridge to the proxy. It listens when this returns.
fn build(bridge: &Bridge) -> io::Result<()> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", bridge.port))?;
    let mut command = Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1)).arg(BRIDGE).arg(&bridge.socket).env_clear();
    command.stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(Stdio::null());
    launch::settle_before(&mut command, None, &Arc::new(Restriction::default()));
    command.spawn().map(drop)
}
