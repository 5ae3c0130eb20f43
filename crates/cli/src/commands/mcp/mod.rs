//! `mcp`: servers whose tools agents can use, and our own for others.

mod add;
mod list;
mod login;
mod remove;
mod serve;
mod test;

use std::sync::Arc;
use std::time::Duration;

use tidegate_client::{Client, ClientError};
use tidegate_config::{KeyPath, Loaded};
use tidegate_engine::{Home, Settings};
use tidegate_mcp::{Listing, Means, ServerSpec, Servers, Standing, Status};
use tidegate_protocol::ErrorCode;
use tidegate_tools::{Tool, ToolProvider as _};

pub(super) use add::add;
pub(super) use list::list;
pub(super) use login::{login, logout};
pub(super) use remove::remove;
pub(super) use serve::serve;
pub(super) use test::test;

use crate::app::App;
use crate::arguments::closest;
use crate::failure::{Failure, Message, With as _};
use crate::output::printable;
use crate::sandboxes::sandboxes;
use crate::texts;
use crate::texts::mcp as words;
use crate::toolbox::mcp_means;

/// A server that failed is not tried again while a command looks at it.
const ONCE: Duration = Duration::from_hours(1);

/// How long a live gateway may take to tell.
const ANSWER: Duration = Duration::from_secs(5);

fn path(name: &str) -> Result<KeyPath, Failure> {
    format!("mcp.servers.{name}").parse().map_err(|error: tidegate_config::PathError| {
        Failure::new(ErrorCode::ConfigPath, Message::plain(error.to_string()))
    })
}

/// Reaches these servers once, and lets go of them.
async fn look(
    app: &App,
    home: &Home,
    settings: &Settings,
    specs: Vec<ServerSpec>,
) -> Result<Vec<Status>, Failure> {
    Ok(seen(specs, &means(app, home, settings)?).await.1)
}

/// The tools of these servers, to look at, and how it stands with each server. Whoever holds the home is asked for those
/// it knows; the others are reached once.
pub(super) async fn known(
    app: &App,
    home: &Home,
    settings: &Settings,
    mut specs: Vec<ServerSpec>,
) -> Result<(Vec<Arc<dyn Tool>>, Vec<Status>), Failure> {
    if specs.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let means = means(app, home, settings)?;
    let (mut tools, mut statuses) = (Vec::new(), Vec::new());
    // Each server is greeted twice at most.
    let patience = specs.iter().map(|spec| spec.startup).max().unwrap_or_default() * 2 + ANSWER;
    let client = Client::control(home.control_socket());
    let listings: Vec<Listing> = or_none(client.get("/api/v1/mcp/tools", patience).await)?;
    for listing in listings {
        if let Some(index) = specs.iter().position(|spec| spec.name == listing.status.name) {
            tools.extend(listing.tools(specs.remove(index), &means));
            statuses.push(listing.status);
        }
    }
    let (others, their_statuses) = seen(specs, &means).await;
    tools.extend(others);
    statuses.extend(their_statuses);
    Ok((tools, statuses))
}

fn means(app: &App, home: &Home, settings: &Settings) -> Result<Means, Failure> {
    let means = mcp_means(app, home, settings, Arc::new(sandboxes(app, home, settings)?))?;
    Ok(Means { pauses: (ONCE, ONCE), ..means })
}

async fn seen(specs: Vec<ServerSpec>, means: &Means) -> (Vec<Arc<dyn Tool>>, Vec<Status>) {
    let servers = Servers::new(specs, means);
    servers.settled().await;
    let found = (servers.tools(), servers.statuses());
    servers.close().await;
    found
}

/// How it stands with the servers that a running gateway uses; none where no gateway runs. What it has not wanted yet
/// says nothing.
async fn live(home: &Home) -> Result<Vec<Status>, Failure> {
    let client = Client::control(home.control_socket());
    let mut statuses: Vec<Status> = or_none(client.get("/api/v1/mcp/servers", ANSWER).await)?;
    statuses.retain(|status| !matches!(status.standing, Standing::Idle | Standing::Closed));
    Ok(statuses)
}

/// What whoever holds the home says; nothing where nobody does.
fn or_none<T>(told: Result<Vec<T>, ClientError>) -> Result<Vec<T>, Failure> {
    match told {
        Ok(told) => Ok(told),
        // An older gateway does not tell.
        Err(
            ClientError::Nobody { .. }
            | ClientError::Closing { .. }
            | ClientError::Server { status: 404, .. },
        ) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn unknown(app: &App, loaded: &Loaded, name: &str) -> Failure {
    let message = words::SERVER_NOT_THERE.with(&[("name", &printable(name))]);
    let failure = Failure::new(ErrorCode::NotFound, message);
    match closest(name, loaded.config.mcp.servers.keys().map(String::as_str)) {
        Some(meant) => failure.with_hint(texts::DID_YOU_MEAN.with(&[("word", &meant)])),
        None => failure.with_hint(words::SEE_SERVERS.with(&[("program", &app.program)])),
    }
}

fn status_json(status: &Status) -> serde_json::Value {
    let left_out: Vec<_> = status
        .left_out
        .iter()
        .map(|left| serde_json::json!({ "tool": left.tool, "why": left.why }))
        .collect();
    let mut value = serde_json::json!({ "name": status.name, "tools": status.tools, "leftOut": left_out, "restarts": status.restarts });
    match &status.standing {
        Standing::Ready { version, software } => {
            value["state"] = "ready".into();
            value["protocol"] = version.as_str().into();
            value["software"] = serde_json::json!(software);
        }
        Standing::Failed { why, stderr, login, again_seconds } => {
            value["state"] = "failed".into();
            value["againInSeconds"] = (*again_seconds).into();
            value["error"] = why.as_str().into();
            value["code"] = ErrorCode::Unavailable.as_str().into();
            value["stderr"] = stderr.as_str().into();
            value["wantsLogin"] = login.is_some().into();
        }
        Standing::Starting => value["state"] = "starting".into(),
        Standing::Idle | Standing::Closed => value["state"] = "idle".into(),
    }
    value
}
