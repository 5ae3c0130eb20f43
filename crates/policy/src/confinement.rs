//! How programs are held: what they see, what they reach, what they may use up. Data only; crate `sandbox` makes it true.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::gate::PermittedPlan;
use crate::runner::{RunError, Runner, Running, Sink, Start};

/// What holds a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Nothing: the bare machine, with the rights of the gateway.
    None,
    /// The kernel of this machine: namespaces, or Landlock and seccomp.
    Local,
    /// A container of docker or podman.
    Container,
    /// A machine of its own.
    Microvm,
}

impl Profile {
    pub const ALL: [Self; 4] = [Self::None, Self::Local, Self::Container, Self::Microvm];

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Local => "local",
            Self::Container => "container",
            Self::Microvm => "microvm",
        }
    }
}

/// What programs may do with the folder they work in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// What programs reach over the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    None,
    /// These hosts, through the gateway's own proxy: `example.com`, or `*.example.com` for what is below it.
    Allowlist(Vec<String>),
    /// Everything the machine reaches.
    Full,
}

/// What all programs of a plan may use up together. A plan that uses more is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes.
    pub memory: u64,
    pub processes: u32,
    /// Bytes that may be written to disks.
    pub disk: u64,
}

/// How the programs of one place are held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    pub profile: Profile,
    /// Which programs share a place: the same name, the same `/tmp`, the same container. Fit for a file's name.
    pub place: String,
    /// The folder they work in, without links.
    pub folder: PathBuf,
    pub access: Access,
    /// Folders that they never see, wherever they lie: our own state. The folder they work in may lie in one of them.
    pub hidden: Vec<PathBuf>,
    /// Places of the machine that they see besides their folder and the system's programs.
    #[serde(default)]
    pub besides: Besides,
    pub network: Network,
    pub limits: Limits,
}

/// Places of the machine that somebody shows to programs, without links.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Besides {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
}

impl Besides {
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.read.iter().chain(&self.write)
    }
}

/// Finds what can hold programs so.
pub trait Confiner: Send + Sync {
    /// What starts programs held like this, or why nothing can. It never answers with anything weaker.
    fn runner(&self, confinement: &Confinement) -> Result<Arc<dyn Runner>, RunError>;

    /// Whether programs held like this find a file of the machine at its own path. What they do not find they cannot
    /// start either.
    fn shows(&self, _confinement: &Confinement, _path: &Path) -> bool {
        true
    }
}

impl dyn Confiner {
    /// The same for those who may never start anything: the reason shows when something is started.
    pub fn runner_or_refusal(&self, confinement: &Confinement) -> Arc<dyn Runner> {
        self.runner(confinement)
            .unwrap_or_else(|why| Arc::new(Refusing { why, confinement: confinement.clone() }))
    }
}

/// Starts nothing, and says why.
struct Refusing {
    why: RunError,
    confinement: Confinement,
}

#[async_trait]
impl Runner for Refusing {
    fn confines(&self) -> bool {
        self.confinement.profile != Profile::None
    }

    async fn start(
        &self,
        _plan: PermittedPlan<'_>,
        _start: Start,
        _sink: Arc<dyn Sink>,
    ) -> Result<Box<dyn Running>, RunError> {
        Err(self.why.clone())
    }
}

/// The same runner however programs are to be held.
pub struct Only(pub Arc<dyn Runner>);

impl Confiner for Only {
    fn runner(&self, _confinement: &Confinement) -> Result<Arc<dyn Runner>, RunError> {
        Ok(Arc::clone(&self.0))
    }
}
