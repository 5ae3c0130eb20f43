//! The one way to a statement: a transaction that says which tenant it works for before anything else.
//!
//! Owns the deadlines, the repetition after a collision and the fault points around COMMIT. No other module begins a
//! transaction on the pool.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Connection as _, PgConnection, Postgres};
use tidegate_protocol::{InstanceId, TenantId};
use tidegate_runtime::fault;
use tidegate_storage::{Owner, Result, StoreError};
use tokio::time::timeout;

use crate::error::{TxError, TxResult};
use crate::open::{Mode, PostgresStore};

/// How often a transaction that collided with another one is tried.
pub(crate) const TRIES: u32 = 6;
/// Above the server's own statement timeout: only a silent network gets here.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A verb's fault points.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verb {
    /// Whether its commit may give this process something to hold.
    pub(crate) claims: bool,
    pub(crate) before_commit: fault::Name,
    pub(crate) after_commit: fault::Name,
}

macro_rules! verb {
    ($name:literal) => {
        $crate::transaction::verb!($name, claims: false)
    };
    ($name:literal, claims: $claims:literal) => {
        $crate::transaction::Verb {
            claims: $claims,
            before_commit: ::tidegate_runtime::fault::Name::new(concat!("storage.", $name, ".before_commit")),
            after_commit: ::tidegate_runtime::fault::Name::new(concat!("storage.", $name, ".after_commit")),
        }
    };
}
pub(crate) use verb;

/// A transaction, lent to a verb's statements. `'v` is what those statements may borrow from the verb's caller.
pub(crate) struct Open<'c, 'v: 'c> {
    pub(crate) transaction: &'c mut PgConnection,
    borrows: PhantomData<&'v ()>,
}

/// A verb's statements under way.
pub(crate) type Steps<'c, T> = Pin<Box<dyn Future<Output = TxResult<T>> + Send + 'c>>;

/// Whose rows a transaction may touch.
#[derive(Debug, Clone, Copy)]
enum Reach<'a> {
    Tenant(&'a TenantId),
    /// A tenant's, while no newer incarnation of the owner begins.
    Owned(&'a TenantId, &'a Owner),
    /// Tables without tenants (`instances`) and the definer functions that answer ids; a tenant table is an error here.
    Instances,
}

impl PostgresStore {
    /// Writes for one tenant. `body` may run more than once; it must do nothing but statements.
    pub(crate) async fn write<'v, T: Send>(
        &self,
        tenant: &TenantId,
        verb: Verb,
        body: impl for<'c> Fn(Open<'c, 'v>) -> Steps<'c, T> + Sync,
    ) -> Result<T> {
        self.may_write()?;
        self.transact(Reach::Tenant(tenant), Some(verb), body).await
    }

    /// Writes for one tenant in an owner's name. The owner's next incarnation waits for this transaction: what a killed
    /// process committed is there before its successor looks, or never.
    pub(crate) async fn write_as<'v, T: Send>(
        &self,
        tenant: &TenantId,
        owner: &Owner,
        verb: Verb,
        body: impl for<'c> Fn(Open<'c, 'v>) -> Steps<'c, T> + Sync,
    ) -> Result<T> {
        self.may_write()?;
        self.transact(Reach::Owned(tenant, owner), Some(verb), body).await
    }

    /// Reads for one tenant.
    pub(crate) async fn read<'v, T: Send>(
        &self,
        tenant: &TenantId,
        body: impl for<'c> Fn(Open<'c, 'v>) -> Steps<'c, T> + Sync,
    ) -> Result<T> {
        self.transact(Reach::Tenant(tenant), None, body).await
    }

    /// Reads the rows of one query for one tenant.
    pub(crate) async fn rows<'q>(
        &self,
        tenant: &TenantId,
        query: impl Fn() -> Query<'q, Postgres, PgArguments> + Sync,
    ) -> Result<Vec<PgRow>> {
        let query = &query;
        self.read(tenant, |Open { transaction, .. }| {
            let query = query();
            Box::pin(async move { Ok(query.fetch_all(transaction).await?) })
        })
        .await
    }

    /// Writes what belongs to no tenant.
    pub(crate) async fn write_instances<'v, T: Send>(
        &self,
        verb: Verb,
        body: impl for<'c> Fn(Open<'c, 'v>) -> Steps<'c, T> + Sync,
    ) -> Result<T> {
        self.may_write()?;
        self.transact(Reach::Instances, Some(verb), body).await
    }

    /// Asks the definer functions.
    pub(crate) async fn read_across<'v, T: Send>(
        &self,
        body: impl for<'c> Fn(Open<'c, 'v>) -> Steps<'c, T> + Sync,
    ) -> Result<T> {
        self.transact(Reach::Instances, None, body).await
    }

    pub(crate) fn may_write(&self) -> Result<()> {
        match self.mode() {
            Mode::ReadWrite => Ok(()),
            Mode::ReadOnly => Err(StoreError::ReadOnly("the store was opened for reading".to_owned())),
        }
    }

    async fn transact<'v, T: Send>(
        &self,
        reach: Reach<'_>,
        verb: Option<Verb>,
        body: impl for<'c> Fn(Open<'c, 'v>) -> Steps<'c, T> + Sync,
    ) -> Result<T> {
        let mut tried = 0;
        loop {
            tried += 1;
            match self.try_once(reach, verb, &body).await {
                Ok(value) => return Ok(value),
                Err(error) if tried < TRIES && error.is_collision() => {
                    tracing::debug!(tried, ?error, "transaction collided with another one; trying again");
                    tokio::time::sleep(pause_before(tried + 1)).await;
                }
                Err(error) => return Err(error.into_store(self.address())),
            }
        }
    }

    async fn try_once<'v, T: Send>(
        &self,
        reach: Reach<'_>,
        verb: Option<Verb>,
        body: &(impl for<'c> Fn(Open<'c, 'v>) -> Steps<'c, T> + Sync),
    ) -> TxResult<T> {
        let mut connection = self.pool().acquire().await?;
        let statements = async {
            let mut transaction = connection.begin().await?;
            match reach {
                Reach::Tenant(tenant) => work_for(&mut transaction, tenant).await?,
                Reach::Owned(tenant, owner) => work_as(&mut transaction, tenant, owner).await?,
                Reach::Instances => {}
            }
            let value = body(Open { transaction: &mut transaction, borrows: PhantomData }).await?;
            Ok::<_, TxError>((transaction, value))
        };
        let Ok(done) = timeout(ANSWER_WITHIN, statements).await else {
            // Whatever it still answers belongs to a transaction that nobody follows any more.
            connection.close_on_drop();
            return Err(TxError::NoAnswer);
        };
        let (transaction, value) = done?;
        if let Some(verb) = verb {
            fault::pause(verb.before_commit).await;
        }
        let Ok(committed) = timeout(ANSWER_WITHIN, transaction.commit()).await else {
            connection.close_on_drop();
            return Err(if verb.is_some_and(|verb| verb.claims) {
                TxError::Undecided
            } else {
                TxError::NoAnswer
            });
        };
        match committed {
            // The server may have written it, and its answer got lost.
            Err(error) if verb.is_some_and(|verb| verb.claims) && error.as_database_error().is_none() => {
                return Err(TxError::Undecided);
            }
            other => other?,
        }
        if let Some(verb) = verb {
            fault::pause(verb.after_commit).await;
        }
        Ok(value)
    }
}

/// Everything that follows in this transaction sees and writes this tenant's rows only.
async fn work_for(transaction: &mut PgConnection, tenant: &TenantId) -> TxResult<()> {
    sqlx::query("SELECT set_config('tidegate.tenant', $1, true)")
        .bind(tenant.as_str())
        .execute(transaction)
        .await?;
    Ok(())
}

/// The same, beside everybody else who works in the owner's name. A statement of its own: whatever follows sees what
/// was committed before the lock was given.
async fn work_as(transaction: &mut PgConnection, tenant: &TenantId, owner: &Owner) -> TxResult<()> {
    sqlx::query(
        "SELECT set_config('tidegate.tenant', $1, true),
           pg_advisory_xact_lock_shared(hashtextextended(format('%s instance %s', current_schema(), $2), 0))",
    )
    .bind(tenant.as_str())
    .bind(owner.instance.to_string())
    .execute(transaction)
    .await?;
    Ok(())
}

/// Waits for everybody who works in the instance's name, and keeps them out.
pub(crate) async fn lock_instance(transaction: &mut PgConnection, instance: InstanceId) -> TxResult<()> {
    sqlx::query(
        "SELECT pg_advisory_xact_lock(hashtextextended(format('%s instance %s', current_schema(), $1), 0))",
    )
    .bind(instance.to_string())
    .execute(transaction)
    .await?;
    Ok(())
}

/// Whoever works on several sessions holds one while it waits for the next. Two of them would wait for each other, so
/// they agree on one order first; whoever works on a single session is not held up.
pub(crate) async fn take_turns(transaction: &mut PgConnection, keys: BTreeSet<String>) -> TxResult<()> {
    if keys.len() < 2 {
        return Ok(());
    }
    sqlx::query(
        "SELECT pg_advisory_xact_lock(turn.number) FROM (
           SELECT DISTINCT hashtextextended(format('%s ingest %s', current_schema(), key), 0) AS number
           FROM unnest($1::text[]) AS key ORDER BY 1) AS turn",
    )
    .bind(keys.into_iter().collect::<Vec<_>>())
    .execute(transaction)
    .await?;
    Ok(())
}

/// Longer with every try, and different for everybody who collided.
pub(crate) fn pause_before(tried: u32) -> Duration {
    let mut random = [0; 1];
    // Without randomness the pause is merely even.
    let _ = getrandom::fill(&mut random);
    Duration::from_millis(u64::from(tried) * (2 + u64::from(random[0]) / 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collision_is_tried_again_soon_and_later_each_time() {
        for tried in 2..=TRIES {
            let pause = pause_before(tried);
            assert!(pause >= Duration::from_millis(u64::from(tried) * 2));
            assert!(pause <= Duration::from_millis(u64::from(tried) * 17));
        }
    }
}
