//! Who calls, and which conversations that one may see.

use std::sync::{Arc, Weak};

use tidegate_policy::tools::Trust;
use tidegate_policy::{Permitted, Prepared, Principal};
use tidegate_protocol::{AgentId, ReplyTarget, RunId, Scope, SessionKey};
use tidegate_storage::{RunFilter, RunRow, SessionFilter};
use tidegate_tools::{ToolFailure, Work};

use crate::error::EngineError;
use crate::start::Core;

/// Runs of a conversation that are looked through for those they started.
const RUNS: u32 = 50;
/// Conversations of a tree that are looked at.
const TREE: usize = 200;
/// Conversations that are looked through for a name.
const NAMED: u32 = 500;

pub(super) struct Caller {
    pub(super) core: Arc<Core>,
    pub(super) scope: Scope,
    /// Absent for a person who calls the tool directly.
    pub(super) key: Option<SessionKey>,
    run: Option<RunId>,
    session: String,
    actor: String,
}

impl Caller {
    pub(super) fn of(core: &Weak<Core>, permitted: &Permitted, work: &Work<'_>) -> Result<Self, ToolFailure> {
        let Some(core) = core.upgrade() else {
            return Err(ToolFailure::execution("no engine is here that has sessions"));
        };
        let prepared = permitted.prepared();
        let requester = prepared.requester().clone();
        Ok(Self {
            core,
            scope: requester.scope,
            key: requester.session.parse().ok(),
            run: work.run,
            session: requester.session,
            actor: requester.actor,
        })
    }

    /// The same for a call that was begun before, and is only looked for.
    pub(super) fn again(core: &Arc<Core>, run: RunId, prepared: &Prepared) -> Self {
        let requester = prepared.requester().clone();
        Self {
            core: Arc::clone(core),
            scope: requester.scope,
            key: requester.session.parse().ok(),
            run: Some(run),
            session: requester.session,
            actor: requester.actor,
        }
    }

    pub(super) fn principal(&self) -> Principal {
        Principal::of_run(self.core.tenant.clone(), self.actor.clone())
    }

    /// The run that makes the call.
    pub(super) async fn run(&self) -> Result<RunRow, ToolFailure> {
        let Some(run) = self.run else {
            return Err(ToolFailure::execution("only a run of an agent can do this, not a direct call"));
        };
        self.core.row(run).await.map_err(failure)
    }

    /// The conversation that is meant: by its whole key, or by its name inside the caller's agent.
    pub(super) async fn resolve(&self, text: &str) -> Result<SessionKey, ToolFailure> {
        let text = text.trim();
        if let Ok(key) = text.parse::<SessionKey>() {
            self.check_visible(&key).await?;
            return Ok(key);
        }
        let rows = self.rows(Some(&self.scope.agent), NAMED).await?;
        let meant = rows.into_iter().find(|row| row.key.scope == self.scope && row.key.label() == text);
        let key = meant.map(|row| row.key).ok_or_else(|| unknown(text))?;
        self.check_visible(&key).await?;
        Ok(key)
    }

    /// Whether the caller may look into a conversation: one of its own agent, or of an agent that it may reach. Some only
    /// see themselves and what they started.
    pub(super) async fn check_visible(&self, key: &SessionKey) -> Result<(), ToolFailure> {
        if self.key.as_ref() == Some(key) {
            return Ok(());
        }
        if key.scope.tenant != self.scope.tenant || key.scope.workspace != self.scope.workspace {
            return Err(unknown(&key.to_string()));
        }
        if let Some(tree) = self.tree().await?
            && !tree.contains(key)
        {
            return Err(ToolFailure::execution(
                "from here only this session and those it started are in sight; see tools.sessions.visibility",
            ));
        }
        if !self.core.settings.may_reach(&self.scope.agent, &key.scope.agent) {
            return Err(ToolFailure::execution(format!(
                "the sessions of agent {} are out of reach; see tools.agentToAgent",
                key.scope.agent
            )));
        }
        if self.is_sensitive(key) && !self.is_sensitive_itself() {
            return Err(ToolFailure::execution("what is said in that session must not leave it"));
        }
        Ok(())
    }

    /// What is said in this conversation must not leave it.
    pub(super) fn is_sensitive_itself(&self) -> bool {
        self.core.settings.trust(&self.scope, &self.session) == Trust::Sensitive
    }

    pub(super) fn is_sensitive(&self, key: &SessionKey) -> bool {
        self.core.settings.trust(&key.scope, &key.to_string()) == Trust::Sensitive
    }

    /// What a conversation may see that sees only its own: itself, and what it and those started. Nothing for others.
    pub(super) async fn tree(&self) -> Result<Option<Vec<SessionKey>>, ToolFailure> {
        let Some(own) = self.key.as_ref().filter(|key| self.core.settings.sees_only_its_own(&key.place))
        else {
            return Ok(None);
        };
        let mut tree = vec![own.clone()];
        let mut at = 0;
        while let Some(key) = tree.get(at).cloned() {
            at += 1;
            for child in self.children(&key).await? {
                if tree.len() < TREE && !tree.contains(&child.key) {
                    tree.push(child.key);
                }
            }
        }
        Ok(Some(tree))
    }

    /// The runs that the newest runs of a conversation started, the newest first.
    pub(super) async fn children(&self, key: &SessionKey) -> Result<Vec<RunRow>, ToolFailure> {
        let of_key = RunFilter { session: Some(key.clone()), limit: RUNS, ..RunFilter::default() };
        let mut children = Vec::new();
        for run in self.runs(of_key).await? {
            let of_run = RunFilter { parent: Some(run.id), limit: RUNS, ..RunFilter::default() };
            children.extend(self.runs(of_run).await?);
        }
        children.sort_by_key(|child| std::cmp::Reverse(child.id));
        Ok(children)
    }

    /// The newest conversation that the caller started under this label.
    pub(super) async fn labelled(&self, label: &str) -> Result<Option<SessionKey>, ToolFailure> {
        let Some(own) = &self.key else { return Ok(None) };
        let children = self.children(own).await?;
        let meant = children.into_iter().find(|child| label_of(child) == Some(label));
        Ok(meant.map(|child| child.key))
    }

    pub(super) async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, ToolFailure> {
        self.core.store.runs(&self.core.tenant, filter).await.map_err(failure)
    }

    pub(super) async fn rows(
        &self,
        agent: Option<&AgentId>,
        limit: u32,
    ) -> Result<Vec<tidegate_storage::SessionRow>, ToolFailure> {
        let filter = SessionFilter { agent: agent.cloned(), all: false, limit };
        self.core.store.sessions(&self.core.tenant, filter).await.map_err(failure)
    }
}

/// What the work of a run was called.
pub(super) fn label_of(row: &RunRow) -> Option<&str> {
    match &row.reply {
        ReplyTarget::Announce { label, .. } => Some(label),
        _ => None,
    }
}

pub(super) fn unknown(text: &str) -> ToolFailure {
    ToolFailure::execution(format!("there is no session {text:?}; sessions_list shows those there are"))
}

pub(super) fn failure(error: impl Into<EngineError>) -> ToolFailure {
    let error: EngineError = error.into();
    ToolFailure::execution(error.body().message)
}
