//! Homes with channels, and what every home must be like when the dust has settled.

use std::collections::BTreeMap;

use serde_json::Value;

use super::files::Account;
use crate::home::{Backend, Home};
use crate::log::Log;

/// A home whose accounts `default` and `second` are read often. Nothing when its database is not there.
pub(crate) fn with_channels(backend: Backend) -> Option<Home> {
    with_config(backend, "gateway: { drainSeconds: 20 }")
}

/// The same with more keys. Conversations last, also where a test runs at four o'clock.
pub(crate) fn with_config(backend: Backend, more: &str) -> Option<Home> {
    let home = Home::on(backend)?;
    // What Postgres needs is in the file already; its last brace is opened again.
    let held = if home.is_sqlite() { "{}".to_owned() } else { home.read_config() };
    let held = held.trim().strip_suffix('}').expect("the file is an object");
    let comma = if home.is_sqlite() { "" } else { "," };
    home.write_config(&format!(
        "{held}{comma} channels: {{ local: {{ enabled: true, pollMs: 20, accounts: {{ default: {{}}, second: {{}} }} }} }}, session: {{ reset: {{ mode: 'off' }} }}, {more} }}\n"
    ));
    Some(home)
}

pub(crate) fn account(home: &Home, name: &str) -> Account {
    Account::of(home.root(), name)
}

/// The rows of the outbox that are in one of these states.
pub(crate) fn outbox(home: &Home, states: &str) -> Vec<Value> {
    let mut list = home.call(&["outbox", "list", "--json", "--limit", "10000", "--state", states]).json();
    serde_json::from_value(list["outbox"].take()).expect("a list")
}

/// What holds in every home nobody works in: runs have ended, the record is whole, logs and transcripts agree, the
/// database is sound, and nothing waits or is in doubt. Answers the conversations by their names.
pub(crate) fn settled(home: &Home) -> BTreeMap<String, Log> {
    let open: Vec<_> = home.runs().into_iter().filter(|run| run["finishedAt"].is_null()).collect();
    assert!(open.is_empty(), "runs without an end: {open:?}");
    let verdict = home.call(&["audit", "verify", "--json"]).json();
    assert_eq!((&verdict["whole"], &verdict["unsealed"]), (&true.into(), &0.into()), "{verdict}");
    let logs = home.sessions().into_iter().map(|session| {
        let text = |key: &str| session[key].as_str().expect("a session has it").to_owned();
        let (name, id) = (text("sessionKey"), text("sessionId"));
        // A request of the OpenAI dialect brings its own history: its conversation is kept for a while, without a file.
        let log = if name.starts_with("openai:") { Log::without_transcript } else { Log::of };
        (name, log(home, &id))
    });
    let logs = logs.collect();
    assert_eq!(outbox(home, "pending,sending,unknown"), Vec::<Value>::new());
    sound(home);
    logs
}

/// SQLite's own opinion of the file.
pub(crate) fn sound(home: &Home) {
    if home.is_sqlite() {
        let connection = rusqlite::Connection::open(home.database()).expect("the database opens");
        let verdict: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it can be checked");
        assert_eq!(verdict, "ok");
    }
}
