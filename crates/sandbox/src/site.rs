//! What every way of holding programs shares: who starts them, where places have their folders, and who leads to hosts.

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_policy::{Confinement, Network, RunError, Sink};

use crate::host::Host;
use crate::proxy::{ProxyStarter, TurnedAway};

pub(crate) struct Site {
    pub(crate) host: Arc<Host>,
    /// A folder for each place.
    pub(crate) places: PathBuf,
    /// Without it no program reaches the hosts of an allowlist.
    pub(crate) proxies: Option<Arc<dyn ProxyStarter>>,
}

/// A proxy under way, for one plan.
pub(crate) struct Proxy {
    pub(crate) socket: PathBuf,
    /// It ends when this is dropped.
    pub(crate) running: Box<dyn Any + Send + Sync>,
}

impl Site {
    /// Starts the proxy that leads to the hosts that a plan may reach, if it may reach any by a list.
    pub(crate) fn open_way_out(
        &self,
        confinement: &Confinement,
        sink: &Arc<dyn Sink>,
    ) -> Result<Option<Proxy>, RunError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Network::Allowlist(hosts) = &confinement.network else { return Ok(None) };
        let unavailable = |why: String| RunError::Unavailable { profile: confinement.profile.name(), why };
        let Some(starter) = &self.proxies else {
            return Err(unavailable("nothing here leads to the hosts of allowHosts".to_owned()));
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = self.places.join(format!("{:x}-{number:x}", std::process::id()));
        let sink = Arc::clone(sink);
        let turned_away: TurnedAway = Arc::new(move |host, why| sink.turned_away(host, why));
        let opened = listen(starter.as_ref(), &self.places, &socket, hosts, turned_away);
        opened.map(Some).map_err(|error| unavailable(format!("the proxy for allowHosts: {error}")))
    }
}

fn listen(
    starter: &dyn ProxyStarter,
    places: &Path,
    socket: &Path,
    hosts: &[String],
    turned_away: TurnedAway,
) -> io::Result<Proxy> {
    std::fs::create_dir_all(places)?;
    Ok(Proxy { running: starter.start(socket, hosts, turned_away)?, socket: socket.to_owned() })
}
