//! Who may call what: every row of the table, for everybody, over the wire.

use serde_json::{Value, json};
use tidegate_gateway::{Dialect, METHODS};
use tidegate_runtime::Clock as _;

use super::client::{Client, Device, Read, entered, program};
use super::foal::foal;
use crate::house::House;

/// What each method of the dialect `openclaw` wants, written down apart from the table. A new row is put here by whoever
/// has thought about who may call it.
const WANTS: &[(&str, &[&str])] = &[
    (
        "operator.read",
        &[
            "agent.identity.get",
            "agents.list",
            "board.get",
            "channels.status",
            "chat.history",
            "chat.metadata",
            "chat.startup",
            "commands.list",
            "controlUi.sessionPullRequests.subscribe",
            "cron.list",
            "cron.status",
            "events.resume",
            "health",
            "last-heartbeat",
            "logs.tail",
            "mentions.list",
            "models.authStatus",
            "models.list",
            "node.describe",
            "node.list",
            "plugins.controlUi.list",
            "plugins.list",
            "progressCard.get",
            "projects.list",
            "question.list",
            "session.discussion.info",
            "session.members.listEvidence",
            "sessions.branches.list",
            "sessions.catalog.list",
            "sessions.companion.state",
            "sessions.describe",
            "sessions.github.options",
            "sessions.groups.defaults",
            "sessions.groups.list",
            "sessions.list",
            "sessions.messages.subscribe",
            "sessions.messages.unsubscribe",
            "sessions.observer.visibility",
            "sessions.preview",
            "sessions.resolve",
            "sessions.subscribe",
            "sessions.unsubscribe",
            "sessions.viewers.set",
            "skills.status",
            "status",
            "system-presence",
            "system.info",
            "talk.catalog",
            "taskSuggestions.list",
            "tasks.list",
            "tools.effective",
            "update.status",
            "usage.cost",
            "usage.status",
            "users.prefs.get",
            "voicewake.get",
        ],
    ),
    (
        "operator.write",
        &["agent", "agent.wait", "chat.abort", "chat.send", "node.invoke", "send", "talk.mode", "wake"],
    ),
    (
        "operator.approvals",
        &[
            "exec.approval.get",
            "exec.approval.list",
            "exec.approval.request",
            "exec.approval.resolve",
            "openclaw.approval.list",
            "plugin.approval.list",
        ],
    ),
    (
        "operator.pairing",
        &[
            "device.pair.approve",
            "device.pair.list",
            "device.pair.reject",
            "device.token.revoke",
            "device.token.rotate",
            "node.pair.approve",
            "node.pair.list",
            "node.pair.reject",
            "node.rename",
        ],
    ),
    (
        "operator.admin",
        &[
            "chat.inject",
            "config.apply",
            "config.get",
            "config.patch",
            "config.schema",
            "config.set",
            "cron.add",
            "cron.remove",
            "cron.update",
            "sessions.compact",
            "sessions.delete",
            "sessions.patch",
            "sessions.reset",
            "system-event",
        ],
    ),
    ("node", &["node.event", "node.invoke.result", "skills.bins"]),
];

/// The methods of the dialect `openfoal`: whoever has said who they are owns the home.
const OWNERS: &[&str] = &[
    "agent.abort",
    "agent.run",
    "approval.queue",
    "approval.resolve",
    "audit.query",
    "budget.get",
    "budget.update",
    "metrics.summary",
    "policy.get",
    "policy.update",
    "runtime.setMode",
    "sessions.create",
    "sessions.get",
    "sessions.history",
    "sessions.list",
];

/// The scopes of everybody who calls; a node has none.
const CALLERS: &[(&str, &[&str])] = &[
    ("viewer", &["operator.read"]),
    ("operator", &["operator.write"]),
    ("approver", &["operator.approvals"]),
    ("pairer", &["operator.pairing"]),
    ("admin", &["operator.admin"]),
    ("node", &[]),
];

/// The refusal that is due, if one is.
fn refusal(caller: &str, wants: &str) -> Option<String> {
    let allowed = match (caller, wants) {
        ("node", "node") => true,
        ("node", _) => return Some("unauthorized role: node".to_owned()),
        (_, "node") => return Some("unauthorized role: operator".to_owned()),
        ("admin", _) | ("operator", "operator.read" | "operator.write") => true,
        ("viewer", wants) => wants == "operator.read",
        ("approver", wants) => wants == "operator.approvals",
        ("pairer", wants) => wants == "operator.pairing",
        _ => false,
    };
    (!allowed).then(|| format!("missing scope: {wants}"))
}

fn wants(method: &str) -> &'static str {
    let mut found = WANTS.iter().filter(|(_, methods)| methods.contains(&method));
    let (Some((wants, _)), None) = (found.next(), found.next()) else {
        panic!("{method} must stand in WANTS once: who may call it?")
    };
    wants
}

async fn node(house: &House) -> Client {
    let mut params = program(house, &[]);
    params["role"] = json!("node");
    params["client"] = json!({ "id": "node-host", "version": "1", "platform": "linux", "mode": "node" });
    entered(house, Device::new(9).sign(params, 1, "", house.clock.now_ms())).await.0
}

#[tokio::test]
async fn every_method_is_open_to_exactly_those_who_may_call_it() {
    let house = House::open().await;
    let rows: Vec<&str> =
        METHODS.iter().filter(|row| row.dialect == Dialect::Openclaw).map(|row| row.name).collect();
    let listed: usize = WANTS.iter().map(|(_, methods)| methods.len()).sum();
    assert_eq!(listed, rows.len(), "WANTS has a method that is no row");
    for (name, scopes) in CALLERS {
        let mut caller = match *name {
            "node" => node(&house).await,
            _ => entered(&house, program(&house, scopes)).await.0,
        };
        for method in &rows {
            let expected = refusal(name, wants(method));
            // What is asked is wrong for nearly all of them: who may ask is decided first, and nothing is done.
            let answer = caller.call(method, json!({ "": 0 })).await;
            let told = answer["error"]["message"].as_str().unwrap_or_default();
            match expected {
                Some(expected) => assert_eq!(told, expected, "{name} {method}"),
                None => assert!(
                    !told.starts_with("missing scope") && !told.starts_with("unauthorized role"),
                    "{name} {method}: {told}"
                ),
            }
        }
    }
}

#[tokio::test]
async fn nobody_calls_anything_before_they_say_who_they_are() {
    let house = House::open().await;
    for row in METHODS.iter().filter(|row| row.dialect == Dialect::Openclaw) {
        let mut client = Client::open(&house, "/", &[]).await.unwrap();
        client.frame().await;
        let refused = client.refusal(row.name, json!({})).await.1;
        assert_eq!(refused, "invalid handshake: first request must be connect", "{}", row.name);
        assert!(matches!(client.read().await, Read::Closed(1008, _)), "{}", row.name);
    }
}

#[tokio::test]
async fn the_other_dialect_serves_owners_and_nobody_else() {
    let house = House::open().await;
    let mut rows: Vec<&str> =
        METHODS.iter().filter(|row| row.dialect == Dialect::Openfoal).map(|row| row.name).collect();
    rows.sort_unstable();
    assert_eq!(rows, OWNERS, "who may call a new method?");
    let mut owner = foal(&house).await;
    for method in OWNERS {
        let mut stranger = Client::open(&house, "/ws", &[]).await.unwrap();
        assert_eq!(stranger.refusal(method, json!({})).await.0, "AUTH_REQUIRED", "{method}");
        let answer: Value = owner.call(method, json!({})).await;
        assert_ne!(answer["error"]["code"], "FORBIDDEN", "{method}: {answer}");
    }
}
