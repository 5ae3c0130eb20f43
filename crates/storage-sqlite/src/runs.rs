//! The engine's verbs, each one write.

use async_trait::async_trait;
use tidegate_protocol::{RunId, RunState, SessionKey, TenantId};
use tidegate_storage::{
    AbortOutcome, Accept, Accepted, BudgetRefusal, Claim, Finish, Finished, Lease, Owner, Principal,
    Reservation, Result, Runs, StoreError, Waiting,
};

use crate::budget::hold_instead;
use crate::open::SqliteStore;
use crate::writer::verb;
use crate::{abort, accept, claim, finish, settle};

#[async_trait]
impl Runs for SqliteStore {
    async fn accept(&self, accept: Accept) -> Result<Accepted> {
        StoreError::unless_own(&accept.principal, &accept.key)?;
        self.write(verb!("accept"), move |connection| accept::accept(connection, &accept)).await
    }

    async fn claim(&self, key: &SessionKey, owner: &Owner, ttl_ms: i64, now: i64) -> Result<Claim> {
        let (key, owner) = (key.clone(), *owner);
        self.write(verb!("claim"), move |connection| claim::claim(connection, &key, &owner, ttl_ms, now))
            .await
    }

    async fn finish(&self, lease: &Lease, finish: Finish) -> Result<Finished> {
        let lease = lease.clone();
        self.write(verb!("finish"), move |connection| finish::finish(connection, &lease, &finish)).await
    }

    async fn reserve(
        &self,
        lease: &Lease,
        wanted: Vec<Reservation>,
        now: i64,
    ) -> Result<std::result::Result<usize, BudgetRefusal>> {
        let lease = lease.clone();
        self.write(verb!("reserve"), move |connection| hold_instead(connection, &lease, &wanted, now)).await
    }

    async fn release(&self, lease: &Lease, now: i64) -> Result<RunState> {
        let lease = lease.clone();
        self.write(verb!("release"), move |connection| settle::release(connection, &lease, now)).await
    }

    async fn waiting(
        &self,
        tenant: &TenantId,
        owner: &Owner,
        ttl_ms: i64,
        now: i64,
        limit: u32,
    ) -> Result<Vec<Waiting>> {
        let (tenant, owner) = (tenant.clone(), *owner);
        self.read(move |connection| claim::waiting(connection, &tenant, &owner, now - ttl_ms, limit)).await
    }

    async fn next(&self, key: &SessionKey) -> Result<Option<Waiting>> {
        let key = key.clone();
        self.read(move |connection| claim::next(connection, &key)).await
    }

    async fn abort(&self, principal: &Principal, run: RunId, now: i64) -> Result<AbortOutcome> {
        let principal = principal.clone();
        self.write(verb!("abort"), move |connection| {
            abort::abort(connection, &principal, run, abort::Only::Any, now)
        })
        .await
    }

    async fn abort_queued(&self, principal: &Principal, run: RunId, now: i64) -> Result<AbortOutcome> {
        let principal = principal.clone();
        self.write(verb!("abort_queued"), move |connection| {
            abort::abort(connection, &principal, run, abort::Only::Queued, now)
        })
        .await
    }

    async fn delete_session(&self, principal: &Principal, key: &SessionKey, now: i64) -> Result<Vec<String>> {
        StoreError::unless_own(principal, key)?;
        let (principal, key) = (principal.clone(), key.clone());
        self.write(verb!("delete_session"), move |connection| {
            abort::delete(connection, &principal, &key, now)
        })
        .await
    }
}
