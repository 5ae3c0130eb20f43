//! The migrator: numbered steps that only add, each in its own transaction with the note that it was done.
//!
//! Killed anywhere, the next start goes on where this one stopped. Any number of processes may start at once: a step
//! is taken under an advisory lock and looks again inside it. Copies of a server's data are its administrator's
//! business; nothing here removes or rewrites what is stored.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tidegate_runtime::fault;
use tidegate_storage::{
    MIN_READER, MIN_WRITER, Migration, Result, SchemaFit, StoreError, StoredVersion, judge,
};

use crate::error::{TxError, TxResult, message, sqlstate};
use crate::open::{PostgresOptions, Target};
use crate::role;
use crate::rows::unsigned;
use crate::transaction::{TRIES, pause_before};

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "core", sql: include_str!("../migrations/0001_core.sql") },
    Migration { number: 2, name: "delivery", sql: include_str!("../migrations/0002_delivery.sql") },
    Migration { number: 3, name: "engine", sql: include_str!("../migrations/0003_engine.sql") },
    Migration { number: 4, name: "money", sql: include_str!("../migrations/0004_money.sql") },
    Migration { number: 5, name: "approvals", sql: include_str!("../migrations/0005_approvals.sql") },
    Migration { number: 6, name: "agent", sql: include_str!("../migrations/0006_agent.sql") },
    Migration { number: 7, name: "worked", sql: include_str!("../migrations/0007_worked.sql") },
    Migration { number: 8, name: "answers", sql: include_str!("../migrations/0008_answers.sql") },
];

/// Brings the schema to `number`, and lets the user of the store's URL work with it.
pub(crate) async fn migrate(options: &PostgresOptions, number: u32) -> Result<()> {
    let app = Target::of(&options.url, &options.schema)?;
    let owner = Target::of(options.migrate_url.as_deref().unwrap_or(&options.url), &options.schema)?;
    let mut connection = owner.connect().await?;
    let done = steps(&mut connection, &owner.schema, app.options.get_username(), number).await;
    let _ = connection.close().await;
    done.map_err(|error| explain(error, owner.options.get_username()).into_store(&owner.address))
}

/// A user without the rights is told whose they are.
fn explain(error: TxError, user: &str) -> TxError {
    match error {
        TxError::Sql(error) if sqlstate(&error).as_deref() == Some("42501") => {
            TxError::Store(StoreError::Internal(format!(
                "the Postgres user {user} may not migrate the store ({}). Give the schema's owner in \
                 storage.postgres.migrateUrl, or grant {user} CREATE on the database",
                message(&error)
            )))
        }
        other => other,
    }
}

async fn steps(connection: &mut PgConnection, schema: &str, user: &str, number: u32) -> TxResult<()> {
    // Whoever waits for another process's migration waits for it as long as it may take.
    sqlx::raw_sql("SET lock_timeout TO '120s'; SET statement_timeout TO 0").execute(&mut *connection).await?;
    role::ensure(connection, user).await?;
    role::ensure_member(connection, user).await?;
    let stored = stored_version(connection, schema).await?;
    match judge(stored, number) {
        SchemaFit::Current | SchemaFit::NewerWritable => return Ok(()),
        SchemaFit::NewerReadable | SchemaFit::TooNew => {
            return Err(StoreError::newer(stored, |version| version.min_writer).into());
        }
        SchemaFit::Empty | SchemaFit::Older => {}
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.number <= number) {
        patiently(connection, schema, migration).await?;
    }
    Ok(())
}

/// A step locks tables one after the other, and so does whoever reads meanwhile: the server may have to end one of
/// them. The step is whole or not there at all, so it is tried again.
async fn patiently(connection: &mut PgConnection, schema: &str, migration: &Migration) -> TxResult<()> {
    let mut tried = 1;
    loop {
        match apply(connection, schema, migration).await {
            Err(error) if tried < TRIES && error.is_collision() => {
                tried += 1;
                tokio::time::sleep(pause_before(tried)).await;
            }
            other => return other,
        }
    }
}

async fn apply(connection: &mut PgConnection, schema: &str, migration: &Migration) -> TxResult<()> {
    let mut transaction = connection.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('tidegate migrates ' || $1, 0))")
        .bind(schema)
        .execute(&mut *transaction)
        .await?;
    let done = stored_version(&mut transaction, schema).await?.map_or(0, |version| version.schema);
    if done >= migration.number {
        return Ok(());
    }
    if done == 0 {
        begin_schema(&mut transaction, schema).await?;
    }
    sqlx::query("SELECT set_config('search_path', format('%I, pg_temp', $1), true)")
        .bind(schema)
        .execute(&mut *transaction)
        .await?;
    sqlx::raw_sql(migration.sql).execute(&mut *transaction).await?;
    sqlx::query("UPDATE meta SET schema = $1, min_reader = $2, min_writer = $3")
        .bind(i64::from(migration.number))
        .bind(i64::from(MIN_READER))
        .bind(i64::from(MIN_WRITER))
        .execute(&mut *transaction)
        .await?;
    fault::pause("storage.migrate.before_commit").await;
    transaction.commit().await?;
    fault::pause("storage.migrate.after_commit").await;
    tracing::info!(number = migration.number, name = migration.name, schema, "migrated");
    Ok(())
}

/// The schema, unless an administrator made it already, and the table that says how far it is.
async fn begin_schema(transaction: &mut PgConnection, schema: &str) -> TxResult<()> {
    let exists: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)")
        .bind(schema)
        .fetch_one(&mut *transaction)
        .await?;
    if !exists {
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE SCHEMA \"{schema}\"")))
            .execute(&mut *transaction)
            .await?;
    }
    sqlx::raw_sql(AssertSqlSafe(format!(
        "GRANT USAGE ON SCHEMA \"{schema}\" TO tidegate_app;
         CREATE TABLE \"{schema}\".meta (
           one BIGINT PRIMARY KEY CHECK (one = 1),
           schema BIGINT NOT NULL, min_reader BIGINT NOT NULL, min_writer BIGINT NOT NULL
         );
         INSERT INTO \"{schema}\".meta VALUES (1, 0, 0, 0);
         GRANT SELECT ON \"{schema}\".meta TO tidegate_app"
    )))
    .execute(transaction)
    .await?;
    Ok(())
}

/// Asks the catalogue, which everybody may read.
pub(crate) async fn has_meta(connection: &mut PgConnection, schema: &str) -> TxResult<bool> {
    let exists = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = $1 AND c.relname = 'meta')",
    )
    .bind(schema)
    .fetch_one(connection)
    .await?;
    Ok(exists)
}

/// What the schema says about itself.
pub(crate) async fn stored_version(
    connection: &mut PgConnection,
    schema: &str,
) -> TxResult<Option<StoredVersion>> {
    if !has_meta(connection, schema).await? {
        return Ok(None);
    }
    let sql = format!("SELECT schema, min_reader, min_writer FROM \"{schema}\".meta");
    let Some(row) = sqlx::query(AssertSqlSafe(sql)).fetch_optional(connection).await? else {
        return Ok(None);
    };
    Ok(Some(StoredVersion {
        schema: unsigned(&row, "schema")?,
        min_reader: unsigned(&row, "min_reader")?,
        min_writer: unsigned(&row, "min_writer")?,
    }))
}

#[cfg(test)]
mod tests {
    use tidegate_storage::SCHEMA;

    use super::*;

    #[test]
    fn the_steps_are_numbered_without_a_gap_and_end_at_this_release() {
        let numbers: Vec<u32> = MIGRATIONS.iter().map(|migration| migration.number).collect();
        assert_eq!(numbers, (1..=SCHEMA).collect::<Vec<_>>());
    }
}
