//! All configured servers together.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_tools::{Tool, ToolProvider};

use super::connect::{LoginWanted, Means};
use super::names::{LeftOut, Shown};
use super::server::{Server, State};
use super::spec::ServerSpec;
use super::tool::McpTool;

/// The servers of this installation. Nothing is started before somebody wants a tool of one.
pub struct Servers(Vec<Arc<Server>>);

/// How it stands with one, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub name: String,
    pub standing: Standing,
    /// How often it was reached anew since it was first wanted.
    pub restarts: u32,
    /// Names of its tools here.
    pub tools: Vec<String>,
    pub left_out: Vec<LeftOut>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Standing {
    Idle,
    Starting,
    Ready {
        /// Of the protocol.
        version: String,
        /// Its name and version.
        software: Option<String>,
    },
    Failed {
        why: String,
        /// The end of its error output.
        stderr: String,
        /// Somebody has to sign in.
        login: Option<LoginWanted>,
        again_seconds: u64,
    },
    Closed,
}

/// One server and its tools, as a process that has it tells another that only looks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    pub status: Status,
    shown: Vec<Shown>,
}

impl Listing {
    /// The tools that were listed, as they are configured here. Nothing is started.
    pub fn tools(&self, spec: ServerSpec, means: &Means) -> Vec<Arc<dyn Tool>> {
        let server = Server::new(spec, means.clone());
        self.shown.iter().map(|shown| McpTool::of(&server, shown) as Arc<dyn Tool>).collect()
    }
}

impl Servers {
    pub fn new(specs: Vec<ServerSpec>, means: &Means) -> Arc<Self> {
        Arc::new(Self(specs.into_iter().map(|spec| Server::new(spec, means.clone())).collect()))
    }

    pub fn statuses(&self) -> Vec<Status> {
        self.0.iter().map(|server| status(server)).collect()
    }
}

fn listing(server: &Server) -> Listing {
    let shown = server.tools().iter().map(|tool| tool.shown().clone()).collect();
    Listing { status: status(server), shown }
}

fn status(server: &Server) -> Status {
    let about = server.about().unwrap_or_default();
    let standing = match server.state() {
        State::Idle => Standing::Idle,
        State::Starting => Standing::Starting,
        State::Ready(_) => Standing::Ready { version: about.version, software: about.software },
        State::Failed { trouble, again } => Standing::Failed {
            why: trouble.why,
            stderr: trouble.stderr,
            login: trouble.login,
            again_seconds: again.saturating_duration_since(Instant::now()).as_secs(),
        },
        State::Closed => Standing::Closed,
    };
    let tools = server.tools().iter().map(|tool| tool.spec().name.clone()).collect();
    let (name, restarts) = (server.spec.name.clone(), server.restarts());
    Status { name, standing, restarts, tools, left_out: about.left_out }
}

#[async_trait]
impl ToolProvider for Servers {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.0.iter().flat_map(|server| server.tools()).map(|tool| tool as Arc<dyn Tool>).collect()
    }

    fn missing(&self, name: &str) -> Option<String> {
        let (server, _) = name.trim().strip_prefix("mcp.")?.split_once('.')?;
        self.0.iter().find(|known| known.spec.name == server)?.missing()
    }

    fn standings(&self) -> Vec<Value> {
        self.statuses().into_iter().filter_map(|status| serde_json::to_value(status).ok()).collect()
    }

    fn listings(&self) -> Vec<Value> {
        self.0.iter().filter_map(|server| serde_json::to_value(listing(server)).ok()).collect()
    }

    fn begin(&self) {
        self.0.iter().for_each(Server::begin);
    }

    async fn settled(&self) {
        join_all(self.0.iter().map(Server::settled)).await;
    }

    async fn close(&self) {
        join_all(self.0.iter().map(|server| server.close())).await;
    }
}
