//! The tools of this module over real sockets. The servers are on the loopback; a guard that allows exactly their
//! addresses takes them for public ones.

mod egress;
mod fetching;
mod requesting;
mod searching;

use serde_json::Value;
use tidegate_net::{Client, Guard};
use tidegate_policy::Preparation;
use tidegate_protocol::Scope;
use tidegate_testkit::requests::parse;
use tidegate_testkit::web_server::WebServer;

use crate::place::Place;
use crate::tool::{Output, Tool, ToolFailure};

fn guard(servers: &[&WebServer]) -> Guard {
    Guard::allowing(servers.iter().map(|server| server.address().to_string())).unwrap()
}

fn client(servers: &[&WebServer]) -> Client {
    Client::default().guarded_by(guard(servers))
}

fn place() -> Place {
    let scope = Scope { tenant: parse("local"), workspace: parse("default"), agent: parse("main") };
    Place {
        requester: tidegate_policy::Requester {
            scope,
            session: "cli".to_owned(),
            actor: "owner".to_owned(),
            root: "/srv/agent".to_owned(),
        },
        root: "/srv/agent".into(),
        forbidden: Vec::new(),
        env: std::collections::BTreeMap::new(),
        background: true,
        egress: tidegate_net::Egress::default(),
    }
}

async fn prepared(tool: &dyn Tool, args: Value) -> Result<Preparation, ToolFailure> {
    tool.prepare(&args, &place()).await
}

fn shown(output: &Output) -> String {
    let text = |block: &tidegate_protocol::Block| match block {
        tidegate_protocol::Block::Text { text, .. } => text.clone(),
        other => panic!("{other:?}"),
    };
    output.content.iter().map(text).collect()
}

/// What stands inside the fence of a result.
fn fenced(output: &Output) -> String {
    let shown = shown(output);
    let (_, rest) = shown.split_once("\n[outside ").expect("a fence begins");
    let (mark, rest) = rest.split_once("]\n").unwrap();
    rest.split_once(&format!("\n[end of outside {mark}]")).expect("a fence ends").0.to_owned()
}
