//! Running a plan in a container of its own.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tidegate_policy::{Confinement, RunError, Start};

use super::cli::Cli;
use super::command::{HOME, Labels, Making, Own};
use super::probe::Facts;
use super::unavailable;
use super::way_out::WayOut;
use crate::begin::{Beginning, Prepared, Way};
use crate::hold::{Elsewhere, Hold};
use crate::order::Order;
use crate::process::ourselves;
use crate::script::{Script, script};
use crate::site::Site;

/// How much of a place's name its containers have.
const SHOWN: usize = 24;

/// An engine that holds programs in one way.
pub(super) struct Held {
    pub(super) cli: Cli,
    pub(super) site: Arc<Site>,
    pub(super) facts: Arc<Facts>,
    pub(super) image: String,
    pub(super) user: Option<String>,
    pub(super) home: String,
    pub(super) own: Own,
    pub(super) confinement: Confinement,
}

#[async_trait]
impl Way for Held {
    fn site(&self) -> &Site {
        &self.site
    }

    fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    async fn prepare(&self, beginning: Beginning<'_>) -> Result<Prepared, RunError> {
        let env = beginning.env(&[("HOME", HOME), ("TMPDIR", "/tmp")]);
        let script = script(beginning.plan, &env, self.facts.init, beginning.start.pty.is_some())
            .map_err(|bad| RunError::Start { path: self.image.clone(), cause: bad.to_string() })?;
        let out = beginning.proxy.as_deref().map(|proxy| WayOut::new(self.site.host.supervisor(), proxy));
        let out = out.transpose().map_err(unavailable)?;
        let order = self.order(script, beginning.start, out.as_ref()).map_err(unavailable)?;
        Ok(Prepared { order, keeps: None })
    }
}

impl Held {
    /// A container that runs this and nothing else.
    pub(super) fn order(&self, script: Script, start: Start, out: Option<&WayOut>) -> Result<Order, String> {
        let folder = &self.confinement.folder;
        let owner = fs::metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        self.prepare().map_err(|error| format!("{}: {error}", self.own.home.display()))?;
        let user = self.user.clone().unwrap_or_else(|| format!("{}:{}", owner.uid(), owner.gid()));
        if let Some(out) = out {
            out.open_to(&user).map_err(|error| format!("the proxy for allowHosts: {error}"))?;
        }
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
            out,
            terminal: start.pty.is_some(),
            input: start.input,
        };
        let mut words = making.words(script.values.keys());
        let first = out.map(WayOut::command).unwrap_or_default();
        words.extend(["-c".to_owned(), first + &script.text]);
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
