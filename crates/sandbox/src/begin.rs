//! The beginning of a held run, the same for every way of holding: the way out is opened, the environment is made fit
//! for the place, and what the way says a supervisor has to do is done.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_policy::exec::Plan;
use tidegate_policy::{Confinement, RunError, Sink, Start};

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
            for name in NO_PROXY_VARIABLES {
                set(name, "localhost,127.0.0.1,::1");
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
    let proxy = way.site().open_way_out(way.confinement())?;
    let socket = proxy.as_ref().map(|proxy| proxy.socket.clone());
    let Prepared { mut order, keeps } = way.prepare(Beginning { plan, start, proxy: socket }).await?;
    order.watch = sink.wants_refusals();
    let keeps = Box::new((keeps, proxy.map(|proxy| proxy.running)));
    way.site().host.start_order(order, Some(keeps), start, sink).await
}
