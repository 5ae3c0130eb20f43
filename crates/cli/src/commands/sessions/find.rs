//! Which conversation a person means.

use std::collections::HashSet;
use std::sync::Arc;

use tidegate_config::Loaded;
use tidegate_engine::{Home, Settings, SettingsError};
use tidegate_protocol::{AgentId, ErrorCode, Scope, SessionId, SessionKey};
use tidegate_storage::{SessionFilter, SessionRow, Store};

use super::{label_of, not_found};
use crate::app::App;
use crate::arguments::Parsed;
use crate::failure::{Failure, With as _};
use crate::store::open_existing;
use crate::texts;

/// Conversations looked through for a name.
const MOST: u32 = 10_000;

/// Whose conversations are meant.
#[derive(Debug, Clone)]
pub(in crate::commands) struct Whose {
    pub(in crate::commands) scope: Scope,
    /// Somebody named the agent: no other one's conversation is meant.
    only: bool,
}

impl Whose {
    /// The agent that the words name, or the usual one. One that is configured no longer is known by what it left.
    pub(in crate::commands) async fn of(
        settings: &Settings,
        store: Option<&Arc<dyn Store>>,
        parsed: &Parsed,
    ) -> Result<Self, Failure> {
        let Some(name) = parsed.value("agent") else {
            return Ok(Self { scope: settings.scope(None)?, only: false });
        };
        let configured = settings.scope(Some(name));
        let (Err(_), Some(store)) = (&configured, store) else {
            return Ok(Self { scope: configured?, only: true });
        };
        let scope = settings.reading_scope(Some(name))?;
        let left = agents_of(store, &scope).await?;
        if left.contains(&scope.agent) {
            return Ok(Self { scope, only: true });
        }
        let mut known: Vec<String> = settings.agents().into_iter().map(str::to_owned).collect();
        for agent in left.into_iter().map(|agent| agent.to_string()) {
            if !known.contains(&agent) {
                known.push(agent);
            }
        }
        Err(SettingsError::NoSuchAgent { name: name.to_owned(), known: known.join(", ") }.into())
    }

    /// The agent, where somebody named one.
    pub(in crate::commands) fn agent(&self) -> Option<AgentId> {
        self.only.then(|| self.scope.agent.clone())
    }

    fn has(&self, key: &SessionKey) -> bool {
        key.scope.tenant == self.scope.tenant && (!self.only || key.scope.agent == self.scope.agent)
    }

    /// What is said where nothing was found.
    fn nothing(&self, app: &App, wanted: &str) -> Failure {
        if !self.only {
            return not_found(app, wanted);
        }
        let agent = &self.scope.agent;
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("agent", agent), ("name", &wanted), ("program", &app.program)];
        Failure::new(ErrorCode::NotFound, texts::sessions::NOT_OF_AGENT.with(&values))
    }
}

/// The agents that have conversations.
async fn agents_of(store: &Arc<dyn Store>, scope: &Scope) -> Result<Vec<AgentId>, Failure> {
    let all = SessionFilter { agent: None, all: true, limit: MOST };
    let mut agents: Vec<AgentId> =
        store.sessions(&scope.tenant, all).await?.into_iter().map(|row| row.key.scope.agent).collect();
    agents.sort();
    agents.dedup();
    Ok(agents)
}

/// Finds a conversation by what `sessions list` shows: its name, its id or alias, or its full key. One that was begun
/// anew and has no message yet is its last log.
pub(in crate::commands) async fn find_of(
    app: &App,
    store: &Arc<dyn Store>,
    whose: &Whose,
    wanted: &str,
) -> Result<SessionRow, Failure> {
    let keys = meant(&whose.scope, wanted);
    for key in keys.iter().filter(|key| whose.has(key)) {
        if let Some(row) = store.session(key).await? {
            return Ok(row);
        }
    }
    if let Some(row) = store.session_by_name(&whose.scope.tenant, wanted).await?
        && whose.has(&row.key)
    {
        return Ok(row);
    }
    // A conversation of a channel goes by the name that the list shows; the last used log comes first.
    let all = SessionFilter { agent: whose.agent(), all: true, limit: MOST };
    let logs = store.sessions(&whose.scope.tenant, all).await?;
    let is_shown =
        |row: &SessionRow| label_of(&row.key) == wanted || (whose.only && row.key.label() == wanted);
    let by_key = keys.iter().find_map(|key| logs.iter().find(|row| row.key == *key));
    let found = by_key.or_else(|| logs.iter().find(|row| is_shown(row)));
    found.cloned().ok_or_else(|| whose.nothing(app, wanted))
}

/// The keys that a text may mean, the likeliest first.
fn meant(scope: &Scope, wanted: &str) -> Vec<SessionKey> {
    if let Ok(full) = wanted.parse::<SessionKey>() {
        return vec![full];
    }
    let named = SessionKey::named(scope.clone(), wanted);
    // `helper/work` is how the list shows the session `work` of another agent.
    let of_agent = wanted.split_once('/').and_then(|(agent, name)| {
        let scope = Scope { agent: agent.parse().ok()?, ..scope.clone() };
        Some(SessionKey::named(scope, name))
    });
    std::iter::once(named).chain(of_agent).collect()
}

/// The conversation that the first argument names, and the store that has it.
pub(super) async fn named_in(
    app: &App,
    home: &Home,
    loaded: &Loaded,
    parsed: &Parsed,
) -> Result<(Arc<dyn Store>, SessionRow), Failure> {
    let store = open_existing(home, &loaded.config).await?;
    let whose = Whose::of(&Settings::new(loaded), store.as_ref(), parsed).await?;
    let wanted = &parsed.arguments[0];
    let store = store.ok_or_else(|| whose.nothing(app, wanted))?;
    let row = find_of(app, &store, &whose, wanted).await?;
    Ok((store, row))
}

/// All logs of a conversation, the last used first.
pub(super) async fn logs_of(store: &Arc<dyn Store>, key: &SessionKey) -> Result<Vec<SessionRow>, Failure> {
    let all = SessionFilter { agent: Some(key.scope.agent.clone()), all: true, limit: MOST };
    let mut logs = store.sessions(&key.scope.tenant, all).await?;
    logs.retain(|log| log.key == *key);
    Ok(logs)
}

/// Whether a log goes by this id.
pub(super) fn is_called(log: &SessionRow, wanted: &str) -> bool {
    log.alias.as_deref() == Some(wanted) || log.id.to_string() == wanted
}

/// The last line of a log, and the log that holds it. Two logs with the same tip have the same lines.
pub(super) fn tip(log: &SessionRow) -> (SessionId, i64) {
    match log.parent {
        Some((parent, seq)) if seq == log.head_seq => (parent, seq),
        _ => (log.id, log.head_seq),
    }
}

/// Without the logs that are copies of others and were never written to, except for the current one.
pub(super) fn without_copies(mut logs: Vec<SessionRow>) -> Vec<SessionRow> {
    let is_kept = |log: &SessionRow| log.current || tip(log).0 == log.id;
    let mut tips: HashSet<_> = logs.iter().filter(|log| is_kept(log)).map(tip).collect();
    logs.retain(|log| is_kept(log) || tips.insert(tip(log)));
    logs
}
