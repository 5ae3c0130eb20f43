//! The engine's verbs, each one write.

use async_trait::async_trait;
use tidegate_protocol::{RunId, RunState, SessionKey, TenantId};
use tidegate_storage::{
    AbortOutcome, Accept, Accepted, BudgetRefusal, Claim, Finish, Finished, Lease, Owner, Principal,
    Reservation, Result, Runs, StoreError, Waiting,
};

use crate::budget::hold_instead;
use crate::open::PostgresStore;
use crate::transaction::{Open, verb};
use crate::{abort, accept, claim, finish, settle};

#[async_trait]
impl Runs for PostgresStore {
    async fn accept(&self, accept: Accept) -> Result<Accepted> {
        StoreError::unless_own(&accept.principal, &accept.key)?;
        self.write_as(
            &accept.key.scope.tenant,
            &accept.owner,
            verb!("accept", claims: true),
            |Open { transaction, .. }| Box::pin(accept::accept(transaction, &accept)),
        )
        .await
    }

    async fn claim(&self, key: &SessionKey, owner: &Owner, ttl_ms: i64, now: i64) -> Result<Claim> {
        self.write_as(
            &key.scope.tenant,
            owner,
            verb!("claim", claims: true),
            |Open { transaction, .. }| Box::pin(claim::claim(transaction, key, owner, ttl_ms, now)),
        )
        .await
    }

    async fn finish(&self, lease: &Lease, finish: Finish) -> Result<Finished> {
        self.write_as(lease.tenant(), &lease.owner, verb!("finish"), |Open { transaction, .. }| {
            Box::pin(finish::finish(transaction, lease, &finish))
        })
        .await
    }

    async fn reserve(
        &self,
        lease: &Lease,
        wanted: Vec<Reservation>,
        now: i64,
    ) -> Result<std::result::Result<usize, BudgetRefusal>> {
        let wanted = &wanted;
        self.write_as(lease.tenant(), &lease.owner, verb!("reserve"), |Open { transaction, .. }| {
            Box::pin(hold_instead(transaction, lease, wanted, now))
        })
        .await
    }

    async fn release(&self, lease: &Lease, now: i64) -> Result<RunState> {
        self.write_as(lease.tenant(), &lease.owner, verb!("release"), |Open { transaction, .. }| {
            Box::pin(settle::release(transaction, lease, now))
        })
        .await
    }

    async fn waiting(
        &self,
        tenant: &TenantId,
        owner: &Owner,
        ttl_ms: i64,
        _now: i64,
        limit: u32,
    ) -> Result<Vec<Waiting>> {
        claim::waiting(self, tenant, owner, ttl_ms, limit).await
    }

    async fn next(&self, key: &SessionKey) -> Result<Option<Waiting>> {
        claim::next(self, key).await
    }

    async fn abort(&self, principal: &Principal, run: RunId, now: i64) -> Result<AbortOutcome> {
        self.write(principal.tenant(), verb!("abort"), |Open { transaction, .. }| {
            Box::pin(abort::abort(transaction, principal, run, abort::Only::Any, now))
        })
        .await
    }

    async fn abort_queued(&self, principal: &Principal, run: RunId, now: i64) -> Result<AbortOutcome> {
        self.write(principal.tenant(), verb!("abort_queued"), |Open { transaction, .. }| {
            Box::pin(abort::abort(transaction, principal, run, abort::Only::Queued, now))
        })
        .await
    }

    async fn delete_session(&self, principal: &Principal, key: &SessionKey, now: i64) -> Result<Vec<String>> {
        StoreError::unless_own(principal, key)?;
        self.write(&key.scope.tenant, verb!("delete_session"), |Open { transaction, .. }| {
            Box::pin(abort::delete(transaction, principal, key, now))
        })
        .await
    }
}
