//! Running a plan in a container of its own.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tidegate_policy::exec::Plan;
use tidegate_policy::{Confinement, PermittedPlan, RunError, Runner, Running, Sink, Start};

use super::cli::Cli;
use super::command::{HOME, Labels, Making, Own};
use super::probe::Facts;
use super::unavailable;
use crate::hold::{Elsewhere, Hold};
use crate::order::Order;
use crate::process::ourselves;
use crate::running::HostRun;
use crate::script::{Script, script};

/// How much of a place's name its containers have.
const SHOWN: usize = 24;

/// An engine that holds programs in one way.
pub(super) struct Held {
    pub(super) cli: Cli,
    pub(super) facts: Arc<Facts>,
    pub(super) image: String,
    pub(super) user: Option<String>,
    pub(super) home: String,
    pub(super) own: Own,
    pub(super) confinement: Confinement,
}

impl Held {
    /// Everything but the proof that it is permitted.
    pub(crate) async fn start_plan(
        &self,
        plan: &Plan,
        start: Start,
        sink: Arc<dyn Sink>,
    ) -> Result<HostRun, RunError> {
        let mut env = plan.env().clone();
        for (name, value) in [("HOME", HOME), ("TMPDIR", "/tmp")] {
            // What the call itself set stays; the rest of the environment is about this machine.
            if !plan.added_env().contains_key(name) {
                env.insert(name.to_owned(), value.to_owned());
            }
        }
        let script = script(plan, &env, self.facts.init, start.pty.is_some())
            .map_err(|bad| RunError::Start { path: self.image.clone(), cause: bad.to_string() })?;
        let order = self.order(script, start).map_err(unavailable)?;
        self.cli.host.start_order(order, None, start, sink).await
    }

    /// A container that runs this and nothing else.
    pub(super) fn order(&self, script: Script, start: Start) -> Result<Order, String> {
        let folder = &self.confinement.folder;
        let owner = fs::metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        self.prepare().map_err(|error| format!("{}: {error}", self.own.home.display()))?;
        let user = self.user.clone().unwrap_or_else(|| format!("{}:{}", owner.uid(), owner.gid()));
        let labels = Labels {
            name: name(&self.confinement.place),
            place: self.confinement.place.clone(),
            home: self.home.clone(),
        };
        let making = Making {
            facts: &self.facts,
            image: &self.image,
            user: &user,
            labels: &labels,
            confinement: &self.confinement,
            own: &self.own,
            terminal: start.pty.is_some(),
            input: start.input,
        };
        let mut words = making.words(script.values.keys());
        words.extend(["-c".to_owned(), script.text]);
        let mut order = self.cli.order(words, script.values, start.pty.is_some())?;
        order.hold = Hold::Elsewhere(Box::new(Elsewhere {
            vessel: Some(self.cli.vessel(&labels.name)?),
            answer: None,
            disk: self.confinement.limits.disk,
        }));
        Ok(order)
    }

    /// Whoever programs run as may write to the folders of their place; nobody else comes that far.
    fn prepare(&self) -> io::Result<()> {
        for folder in [&self.own.tmp, &self.own.home] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            let made = fs::symlink_metadata(folder)?;
            if !made.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            if made.mode() & 0o7777 != 0o1777 {
                fs::set_permissions(folder, fs::Permissions::from_mode(0o1777))?;
            }
        }
        Ok(())
    }
}

/// A name that no other container has or had: this process, and how many it has made.
fn name(place: &str) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let shown: String = place.chars().take(SHOWN).collect();
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    format!("tidegate-{shown}-{}-{number}", ourselves())
}

#[async_trait]
impl Runner for Held {
    fn confines(&self) -> bool {
        true
    }

    async fn start(
        &self,
        plan: PermittedPlan<'_>,
        start: Start,
        sink: Arc<dyn Sink>,
    ) -> Result<Box<dyn Running>, RunError> {
        Ok(Box::new(self.start_plan(plan.plan(), start, sink).await?))
    }
}
