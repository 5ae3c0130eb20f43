//! One look at a service.

use std::sync::Arc;

use tidegate_net::{Call, Client, Headers, Method, Origin, Timeouts};
use tidegate_policy::exec::Plan;
use tidegate_policy::{Exit, PermittedPlan, Runner, Sink, Start, Stream};

use super::{Look, Watch};

/// Whether it does its work; if not, why.
pub(super) async fn look(watch: &Watch, runner: &Arc<dyn Runner>, plan: Option<&Plan>) -> Result<(), String> {
    let looked = tokio::time::timeout(watch.timeout, async {
        match &watch.look {
            Look::Http(url) => http(url, watch).await,
            Look::Tcp(place) => tcp(place).await,
            Look::Command(_) => command(runner, plan).await,
        }
    });
    looked.await.unwrap_or_else(|_| Err(format!("no answer within {} s", watch.timeout.as_secs())))
}

async fn http(url: &str, watch: &Watch) -> Result<(), String> {
    let call = Call {
        origin: Origin::Configured,
        method: Method::Get,
        url: url.to_owned(),
        headers: Headers::default(),
        body: Vec::new(),
        timeouts: Timeouts { idle: watch.timeout },
    };
    let reply = Client::default().call(call).await.map_err(|error| error.to_string())?;
    match reply.status() {
        200..=299 => Ok(()),
        status => Err(format!("it answers with status {status}")),
    }
}

#[expect(clippy::disallowed_types, reason = "only asks whether a port that the operator named is open")]
async fn tcp(place: &str) -> Result<(), String> {
    tokio::net::TcpStream::connect(place)
        .await
        .map(drop)
        .map_err(|error| format!("no connection to {place}: {error}"))
}

async fn command(runner: &Arc<dyn Runner>, plan: Option<&Plan>) -> Result<(), String> {
    let plan = plan.ok_or("the command of its health was not found")?;
    let started = runner.start(PermittedPlan::of_operator(plan), Start::default(), Arc::new(Nothing)).await;
    let running = started.map_err(|error| error.to_string())?;
    match running.wait().await {
        Exit::Code(0) => Ok(()),
        exit => Err(format!("its health command: {}", exit.told(super::LIMITS))),
    }
}

struct Nothing;

impl Sink for Nothing {
    fn write(&self, _stream: Stream, _bytes: &[u8]) {}
}
