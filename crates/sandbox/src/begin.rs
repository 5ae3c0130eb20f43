//! The beginning of a held run, the same for every way of holding: the way out is opened, the environment is made fit
//! for the place, and what the way says a supervisor has to do is done.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_policy::exec::Plan;
use tidegate_policy::{Confinement, Network, RunError, Sink, Start};

use crate::order::Order;
use crate::running::HostRun;
use crate::site::Site;

/// Where the bridge to the proxy listens inside. The loopback there is the sandbox's own, so that nothing else can be
/// there.
pub(crate) const PROXY_PORT: u16 = 3128;

/// What programs read to find a proxy.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
const NO_PROXY_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Names of the sandbox's own loopback, where programs talk to each other.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// One way of holding programs, for one confinement.
#[async_trait]
pub(crate) trait Way: Send + Sync {
    fn site(&self) -> &Site;

    fn confinement(&self) -> &Confinement;

    /// What a supervisor has to do so that a plan runs held.
    async fn prepare(&self, beginning: Beginning<'_>) -> Result<Prepared, RunError>;
}

/// A plan that is about to run.
#[derive(Clone)]
pub(crate) struct Beginning<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) start: Start,
    /// The socket that leads to the proxy, if hosts may be reached.
    pub(crate) proxy: Option<PathBuf>,
    /// Those hosts.
    pub(crate) hosts: &'a [String],
}

impl Beginning<'_> {
    /// The environment of the programs. What the call itself set stays; the rest is about a machine that is not there.
    pub(crate) fn env(&self, inside: &[(&str, &str)]) -> BTreeMap<String, String> {
        let mut env = self.plan.env().clone();
        let mut set = |name: &str, value: &str| {
            if !self.plan.added_env().contains_key(name) {
                env.insert(name.to_owned(), value.to_owned());
            }
        };
        for (name, value) in inside {
            set(name, value);
        }
        if self.proxy.is_some() {
            let address = format!("http://127.0.0.1:{PROXY_PORT}");
            for name in PROXY_VARIABLES {
                set(name, &address);
            }
            // One that is on the list means the machine's, which only the proxy reaches.
            let is_listed = |name: &&str| self.hosts.iter().any(|host| host == name);
            let own: Vec<_> = LOOPBACK.into_iter().filter(|name| !is_listed(name)).collect();
            for name in NO_PROXY_VARIABLES {
                set(name, &own.join(","));
            }
        }
        env
    }
}

/// What a way made of a plan.
pub(crate) struct Prepared {
    pub(crate) order: Order,
    /// What the programs need as long as they run.
    pub(crate) keeps: Option<Box<dyn Any + Send + Sync>>,
}

/// Everything but the proof that it is permitted.
pub(crate) async fn begin(
    way: &dyn Way,
    plan: &Plan,
    start: Start,
    sink: Arc<dyn Sink>,
) -> Result<HostRun, RunError> {
    let confinement = way.confinement();
    let proxy = way.site().open_way_out(confinement, &sink)?;
    let socket = proxy.as_ref().map(|proxy| proxy.socket.clone());
    let hosts: &[String] = match &confinement.network {
        Network::Allowlist(hosts) => hosts,
        Network::None | Network::Full => &[],
    };
    let Prepared { mut order, keeps } = way.prepare(Beginning { plan, start, proxy: socket, hosts }).await?;
    order.watch = sink.wants_refusals();
    let keeps = Box::new((keeps, proxy.map(|proxy| proxy.running)));
    way.site().host.start_order(order, Some(keeps), start, sink).await
}
