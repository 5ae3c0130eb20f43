//! What a supervisor is told about holding the programs of a plan.

use serde::{Deserialize, Serialize};
use tidegate_policy::Limits;

#[cfg(target_os = "linux")]
use crate::seccomp::Filter;
use crate::vessel::Vessel;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) enum Hold {
    /// By nothing.
    #[default]
    Nothing,
    /// By something that is not below their supervisor, or below it as one process: a container, a machine.
    Elsewhere(Box<Elsewhere>),
    /// In namespaces, which bubblewrap makes. A second supervisor runs inside and starts them.
    #[cfg(target_os = "linux")]
    Namespaces(Box<Namespaces>),
    /// Each program restricts itself for good before it begins.
    #[cfg(target_os = "linux")]
    Landlock(Box<Landlock>),
    /// This is the second supervisor.
    #[cfg(target_os = "linux")]
    Inside(Box<Inside>),
}

/// What the programs started here only lead to.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Elsewhere {
    pub(crate) vessel: Option<Vessel>,
    /// The file in which a machine says how its program ended.
    pub(crate) answer: Option<String>,
    /// Bytes that may be written to disks. The rest is limited there.
    pub(crate) disk: u64,
}

impl Hold {
    pub(crate) fn vessel(&self) -> Option<&Vessel> {
        match self {
            Self::Elsewhere(hold) => hold.vessel.as_ref(),
            _ => None,
        }
    }

    pub(crate) fn into_vessel(self) -> Option<Vessel> {
        match self {
            Self::Elsewhere(hold) => hold.vessel,
            _ => None,
        }
    }
}

/// Programs in namespaces of their own.
#[cfg(target_os = "linux")]
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Namespaces {
    /// Where bubblewrap is.
    pub(crate) program: String,
    /// What it is told, the second supervisor at the end.
    pub(crate) args: Vec<String>,
    pub(crate) inside: Inside,
    pub(crate) limits: Limits,
}

/// What the second supervisor makes sure of before anything starts.
#[cfg(target_os = "linux")]
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Inside {
    /// The folder that the programs work in.
    pub(crate) folder: String,
    /// Which folder that has to be, as device and inode: the first supervisor went there without following a link.
    pub(crate) identity: Option<(u64, u64)>,
    pub(crate) filter: Filter,
    pub(crate) limits: Limits,
    /// The way out to the proxy, if there is one.
    pub(crate) bridge: Option<Bridge>,
}

/// A port of the loopback inside that leads to a socket of the gateway.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bridge {
    pub(crate) port: u16,
    pub(crate) socket: String,
}

/// Programs on the machine itself, with rules for what they may touch.
#[cfg(target_os = "linux")]
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Landlock {
    /// To look at and to start.
    pub(crate) readable: Vec<String>,
    /// To do anything with.
    pub(crate) writable: Vec<String>,
    /// To read and write, and nothing else.
    pub(crate) devices: Vec<String>,
    pub(crate) filter: Filter,
    pub(crate) limits: Limits,
}
