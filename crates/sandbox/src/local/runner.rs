//! How a plan is held in profile `local`, by either way.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_policy::{Confinement, RunError};

use super::bubblewrap::{self, Room};
use super::landlock;
use super::place::PlaceFolders;
use crate::begin::{Beginning, PROXY_PORT, Prepared, Way};
use crate::hold::{Bridge, Hold, Inside, Namespaces};
use crate::order::Order;
use crate::seccomp::Filter;
use crate::site::Site;

/// What holds the programs.
#[derive(Debug, Clone)]
pub(super) enum By {
    Bubblewrap(PathBuf),
    Landlock,
}

pub(super) struct Local {
    pub(super) site: Arc<Site>,
    pub(super) confinement: Confinement,
    pub(super) by: By,
}

#[async_trait]
impl Way for Local {
    fn site(&self) -> &Site {
        &self.site
    }

    fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    async fn prepare(&self, beginning: Beginning<'_>) -> Result<Prepared, RunError> {
        let (site, confinement, by) = (Arc::clone(&self.site), self.confinement.clone(), self.by.clone());
        let proxy = beginning.proxy.clone();
        // It looks at folders, which may lie on a disk that does not answer.
        let place = move || place(&site, &confinement, &by, proxy.as_deref());
        let placed = tidegate_runtime::spawn_blocking("prepare sandbox", place).join().await;
        let placed = placed.map_err(|error| RunError::Supervisor(error.to_string()))??;
        let order = Order {
            env: beginning.env(&[("HOME", &placed.home), ("TMPDIR", &placed.tmp)]),
            ..Order::new(beginning.plan, beginning.start.pty.is_some(), placed.hold)
        };
        Ok(Prepared { order, keeps: None })
    }
}

struct Placed {
    hold: Hold,
    home: String,
    tmp: String,
}

fn place(site: &Site, confinement: &Confinement, by: &By, proxy: Option<&Path>) -> Result<Placed, RunError> {
    let folders = PlaceFolders::make(&site.places, &confinement.place)?;
    match by {
        By::Landlock => {
            let hold = Hold::Landlock(Box::new(landlock::rules(confinement, &folders)?));
            Ok(Placed { hold, home: text(&folders.home)?, tmp: text(&folders.tmp)? })
        }
        By::Bubblewrap(program) => {
            let supervisor = site.host.supervisor();
            let supervisor_args: Result<Vec<_>, _> =
                supervisor.args.iter().map(|argument| text(Path::new(argument))).collect();
            let room = Room {
                confinement,
                folders: &folders,
                supervisor: &supervisor.program,
                supervisor_args: &supervisor_args?,
                proxy,
            };
            let inside = Inside {
                folder: text(&confinement.folder)?,
                identity: None,
                filter: Filter::Namespaces,
                limits: confinement.limits,
                bridge: proxy.map(|_| Bridge { port: PROXY_PORT, socket: bubblewrap::PROXY.to_owned() }),
            };
            let hold = Namespaces {
                program: text(program)?,
                args: room.arguments()?,
                inside,
                limits: confinement.limits,
            };
            let hold = Hold::Namespaces(Box::new(hold));
            Ok(Placed { hold, home: bubblewrap::HOME.to_owned(), tmp: "/tmp".to_owned() })
        }
    }
}

/// A path as it goes over the wire to a supervisor.
pub(super) fn text(path: &Path) -> Result<String, RunError> {
    path.to_str().map(str::to_owned).ok_or_else(|| RunError::Folder {
        path: path.display().to_string(),
        cause: "its name is not valid UTF-8".to_owned(),
    })
}
