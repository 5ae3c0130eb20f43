//! The logs of a conversation: naming one, forking it at any line, and going back to an earlier one.

use tidegate_policy::Principal;
use tidegate_protocol::api::{ForkSession, Forked};
use tidegate_protocol::{Id as _, SessionId, SessionKey};
use tidegate_runtime::new_id;
use tidegate_storage::{Fork, NewSession, SessionFilter, SessionRow, StoreError};

use super::names::{answering_session_key, session_name};
use crate::error::EngineError;
use crate::start::Engine;

/// Logs looked at for those of one conversation.
const MOST: u32 = 10_000;

/// Where a fork begins, and whose log it becomes.
#[derive(Debug, Clone)]
pub struct NewBranch {
    pub source: SessionId,
    /// The last line that is shared; all when absent.
    pub after_seq: Option<i64>,
    /// The conversation it becomes the log of.
    pub key: SessionKey,
}

/// A log of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    pub id: SessionId,
    /// Its name where a person sees it.
    pub name: String,
    pub key: SessionKey,
    /// The log it replaced.
    pub before: Option<SessionId>,
}

impl Engine {
    /// Makes a log that shares its beginning with another, and makes it the current one of a conversation. Nothing is
    /// copied and nothing is lost: the log it replaces stays. Refused while a run there has not ended.
    pub async fn fork(&self, principal: &Principal, wanted: NewBranch) -> Result<Branch, EngineError> {
        let core = &self.core;
        let missing = || StoreError::NotFound(format!("session {}", wanted.source));
        let source = core.store.session_by_name(&core.tenant, &wanted.source.to_string()).await?;
        let source = source.ok_or_else(missing)?;
        let id: SessionId = new_id(core.clock.as_ref())?;
        let fork = Fork {
            source: source.id,
            after_seq: wanted.after_seq.unwrap_or(source.head_seq),
            key: wanted.key.clone(),
            new_session: NewSession { id, alias: Some(id.alias()) },
            now: core.clock.now_ms(),
        };
        let forked = core.store.fork(principal, fork).await?;
        core.unsealed.notify_one();
        core.mirroring.notify();
        let name = core.session_name(forked.session).await?;
        Ok(Branch { id: forked.session, name, key: wanted.key, before: forked.before })
    }

    /// The same in the words of whoever asks: the conversation's current log or one of its others, and a name for what
    /// it becomes. A short name is one among those of the same agent.
    pub async fn fork_as_asked(
        &self,
        principal: &Principal,
        key: &SessionKey,
        asked: &ForkSession,
    ) -> Result<Forked, EngineError> {
        let (library, tenant, settings) = (self.library(), self.tenant(), self.settings());
        let target = match &asked.to {
            Some(to) => answering_session_key(settings, tenant, || Ok(key.scope.clone()), to)?,
            None => key.clone(),
        };
        let source = match &asked.source {
            Some(named) => library.session_by_name(tenant, named).await?.filter(|row| row.key == *key),
            None => library.session(key).await?,
        };
        let missing = || {
            let log = asked.source.as_ref().map(|named| format!(" {named}")).unwrap_or_default();
            StoreError::NotFound(format!("a log{log} of the conversation {}", key.label()))
        };
        let source = source.ok_or_else(missing)?.id;
        let wanted = NewBranch { source, after_seq: asked.after_seq, key: target };
        let Branch { id, name, key, before } = self.fork(principal, wanted).await?;
        Ok(Forked { session: session_name(&settings.scope(None)?, &key), id, name, before })
    }

    /// All logs of a conversation, the last used first.
    pub async fn branches(&self, key: &SessionKey) -> Result<Vec<SessionRow>, EngineError> {
        let filter = SessionFilter { agent: Some(key.scope.agent.clone()), all: true, limit: MOST };
        let mut rows = self.library().sessions(self.tenant(), filter).await?;
        rows.retain(|row| row.key == *key);
        Ok(rows)
    }

    /// Gives a conversation's current log a title, or takes it away. `false` when it has no log.
    pub async fn set_title(
        &self,
        principal: &Principal,
        key: &SessionKey,
        title: Option<&str>,
    ) -> Result<bool, EngineError> {
        Ok(self.core.name_log(principal, key, title).await?)
    }
}

impl crate::start::Core {
    pub(super) async fn name_log(
        &self,
        principal: &Principal,
        key: &SessionKey,
        title: Option<&str>,
    ) -> Result<bool, StoreError> {
        let Some(row) = self.store.session(key).await? else { return Ok(false) };
        let named = self.store.set_title(principal, row.id, title, self.clock.now_ms()).await?;
        self.unsealed.notify_one();
        Ok(named)
    }
}
