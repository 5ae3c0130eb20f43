//! Starts plans in profile `local`, by either way.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use tidegate_policy::exec::Plan;
use tidegate_policy::{Confinement, Network, PermittedPlan, RunError, Runner, Running, Sink, Start};

use super::bubblewrap::{self, Room};
use super::place::PlaceFolders;
use super::proxy::{self, PORT, Proxy};
use super::{Local, landlock};
use crate::hold::{Bridge, Hold, Inside, Namespaces};
use crate::order::Order;
use crate::running::HostRun;
use crate::seccomp::Filter;

/// What holds the programs.
#[derive(Debug, Clone)]
pub(super) enum Way {
    Bubblewrap(PathBuf),
    Landlock,
}

pub(super) struct LocalRunner {
    local: Arc<Local>,
    confinement: Confinement,
    way: Way,
}

impl LocalRunner {
    pub(super) fn new(local: &Arc<Local>, confinement: Confinement, way: Way) -> Self {
        Self { local: Arc::clone(local), confinement, way }
    }

    pub(super) async fn start_plan(
        &self,
        plan: &Plan,
        start: Start,
        sink: Arc<dyn Sink>,
    ) -> Result<HostRun, RunError> {
        let proxy = self.proxy()?;
        let (local, confinement, way) = (Arc::clone(&self.local), self.confinement.clone(), self.way.clone());
        let socket = proxy.as_ref().map(|proxy| proxy.socket.clone());
        // It looks at folders, which may lie on a disk that does not answer.
        let prepare = move || prepare(&local, &confinement, &way, socket.as_deref());
        let prepared = tidegate_runtime::spawn_blocking("prepare sandbox", prepare).join().await;
        let prepared = prepared.map_err(|error| RunError::Supervisor(error.to_string()))??;
        let mut order = Order::new(plan, start.pty.is_some(), prepared.hold);
        set(plan, &mut order, "HOME", &prepared.home);
        set(plan, &mut order, "TMPDIR", &prepared.tmp);
        if proxy.is_some() {
            for name in proxy::VARIABLES {
                set(plan, &mut order, name, &format!("http://127.0.0.1:{PORT}"));
            }
            for name in ["NO_PROXY", "no_proxy"] {
                set(plan, &mut order, name, "localhost,127.0.0.1,::1");
            }
        }
        self.local.host.start_order(order, proxy.map(|proxy| proxy.running), start, sink).await
    }

    /// Starts the proxy that leads to the hosts that may be reached, for this plan alone.
    fn proxy(&self) -> Result<Option<Proxy>, RunError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Network::Allowlist(hosts) = &self.confinement.network else { return Ok(None) };
        let unavailable = |why: String| RunError::Unavailable { profile: "local", why };
        let Some(starter) = &self.local.proxies else {
            return Err(unavailable("nothing here leads to the hosts of allowHosts".to_owned()));
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = self.local.places.join(format!("{:x}-{number:x}", std::process::id()));
        let listen = || -> io::Result<Proxy> {
            std::fs::create_dir_all(&self.local.places)?;
            Ok(Proxy { running: starter.start(&socket, hosts)?, socket: socket.clone() })
        };
        listen().map(Some).map_err(|error| unavailable(format!("the proxy for allowHosts: {error}")))
    }
}

/// What the call itself set stays; the rest of the environment is about a machine that is not there.
fn set(plan: &Plan, order: &mut Order, name: &str, value: &str) {
    if !plan.added_env().contains_key(name) {
        order.env.insert(name.to_owned(), value.to_owned());
    }
}

struct Prepared {
    hold: Hold,
    home: String,
    tmp: String,
}

fn prepare(
    local: &Local,
    confinement: &Confinement,
    way: &Way,
    proxy: Option<&Path>,
) -> Result<Prepared, RunError> {
    let folders = PlaceFolders::make(&local.places, &confinement.place)?;
    match way {
        Way::Landlock => {
            let hold = Hold::Landlock(Box::new(landlock::rules(confinement, &folders)?));
            Ok(Prepared { hold, home: text(&folders.home)?, tmp: text(&folders.tmp)? })
        }
        Way::Bubblewrap(program) => {
            let supervisor = local.host.supervisor();
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
                bridge: proxy.map(|_| Bridge { port: PORT, socket: bubblewrap::PROXY.to_owned() }),
            };
            let hold = Namespaces {
                program: text(program)?,
                args: room.arguments()?,
                inside,
                limits: confinement.limits,
            };
            let hold = Hold::Namespaces(Box::new(hold));
            Ok(Prepared { hold, home: bubblewrap::HOME.to_owned(), tmp: "/tmp".to_owned() })
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

#[async_trait]
impl Runner for LocalRunner {
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
