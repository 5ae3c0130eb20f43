//! Where a call is made: its folder, its requester, and what it may never touch.

use std::path::PathBuf;

use tidegate_net::Egress;
use tidegate_policy::Requester;

/// Where a call is made.
#[derive(Debug, Clone)]
pub struct Place {
    pub requester: Requester,
    /// The folder that file tools are held to and that commands start in.
    pub root: PathBuf,
    /// Folders nobody may reach through a tool, also not from inside the root: our own state. The root itself may lie
    /// inside one of them.
    pub forbidden: Vec<PathBuf>,
    /// What commands get as their environment, before what a call adds.
    pub env: std::collections::BTreeMap<String, String>,
    /// Whether a command may run on when nobody waits for it: somebody must be able to look after it, with `process`.
    pub background: bool,
    /// Which hosts the call may reach, and what must not leave with it.
    pub egress: Egress,
}
