//! Opening: options, the pool, and how each connection is set up before its first verb.

use std::fmt;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection};
use tidegate_storage::{Result, SCHEMA, SchemaFit, StoreError, judge};
use tokio::time::timeout;

use crate::error::{TxResult, store_error};
use crate::{migrate, role};

/// How long a connection, or a free place in the pool, may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The schema that brought the outbox.
pub(crate) const DELIVERY: u32 = 2;
/// The schema that brought cursors and seals.
pub(crate) const ENGINE: u32 = 3;
/// The schema that brought model calls, budgets and standings.
pub(crate) const MONEY: u32 = 4;
/// The schema that brought approvals and saved rules.
pub(crate) const APPROVALS: u32 = 5;
/// The schema that brought forks, settings and runs that start runs.
pub(crate) const AGENT: u32 = 6;

/// How a process opens the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Migrates, then reads and writes.
    ReadWrite,
    /// Never writes, never migrates.
    ReadOnly,
}

#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user@host:port/database`. The user must be allowed to become `tidegate_app`; the migrator sees to it.
    pub url: String,
    /// Who migrates and owns the tables, where that is somebody else than the user of `url`.
    pub migrate_url: Option<String>,
    /// The schema that holds the tables; made if it does not exist.
    pub schema: String,
    pub max_connections: u32,
    pub mode: Mode,
}

/// The URLs may hold passwords.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("max_connections", &self.max_connections)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// The store. Clones share the pool.
#[derive(Clone)]
pub struct PostgresStore {
    pool: PgPool,
    shared: Arc<Shared>,
}

struct Shared {
    mode: Mode,
    /// Where the tables are.
    schema: String,
    /// The schema number found at opening. A reader may meet an older one.
    version: u32,
    /// `host:port`, for messages.
    address: String,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("address", &self.shared.address)
            .field("schema", &self.shared.schema)
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens, and in read-write mode creates and migrates, the schema. Refuses a role that row-level security would
    /// not bind.
    pub async fn open(options: PostgresOptions) -> Result<Self> {
        let target = Target::of(&options.url, &options.schema)?;
        if options.mode == Mode::ReadWrite {
            migrate::migrate(&options, SCHEMA).await?;
        }
        let mut first = target.connect().await?;
        let version =
            check(&mut first, &target, options.mode).await.map_err(|error| error.into_store(&target.address));
        // A failed goodbye changes nothing about what was found.
        let _ = first.close().await;
        let version = version?;
        let setup = session_setup(&options.schema, options.mode);
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections.max(1))
            .acquire_timeout(CONNECT_WITHIN)
            .after_connect(move |connection, _| {
                let setup = setup.clone();
                Box::pin(set_up(connection, setup))
            })
            .connect_lazy_with(target.options);
        let shared = Shared { mode: options.mode, schema: options.schema, version, address: target.address };
        Ok(Self { pool, shared: Arc::new(shared) })
    }

    /// Migrates up to the schema numbered `number` and no further: how a test makes the data of an earlier release.
    pub async fn migrate_to(options: &PostgresOptions, number: u32) -> Result<()> {
        migrate::migrate(options, number).await
    }

    /// Waits for the verbs under way and closes every connection.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    pub(crate) fn mode(&self) -> Mode {
        self.shared.mode
    }

    pub(crate) fn schema(&self) -> &str {
        &self.shared.schema
    }

    pub(crate) fn version(&self) -> u32 {
        self.shared.version
    }

    pub(crate) fn address(&self) -> &str {
        &self.shared.address
    }
}

/// A server to connect to and a schema in it.
pub(crate) struct Target {
    pub(crate) options: PgConnectOptions,
    pub(crate) schema: String,
    pub(crate) address: String,
}

impl Target {
    pub(crate) fn of(url: &str, schema: &str) -> Result<Self> {
        check_schema_name(schema)?;
        // The driver's own message may quote the URL.
        let options = PgConnectOptions::from_str(url).map_err(|_| {
            StoreError::Internal(
                "storage.postgres.url (or migrateUrl) is not an address: write postgres://user:password@host:5432/database"
                    .to_owned(),
            )
        })?;
        let named = options.get_application_name().is_some();
        let options = if named { options } else { options.application_name("tidegate") };
        let address = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        Ok(Self { options, schema: schema.to_owned(), address })
    }

    pub(crate) async fn connect(&self) -> Result<PgConnection> {
        match timeout(CONNECT_WITHIN, self.options.connect()).await {
            Ok(connected) => connected.map_err(|error| store_error(&error, &self.address)),
            Err(_) => Err(StoreError::Unavailable(format!(
                "{}: no answer within {} seconds",
                self.address,
                CONNECT_WITHIN.as_secs()
            ))),
        }
    }
}

/// The name is part of statements that take no parameters, so it is kept to what needs no quoting rules.
fn check_schema_name(name: &str) -> Result<()> {
    let first_ok = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let rest_ok = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if first_ok && rest_ok && name.len() <= 63 && !name.starts_with("pg_") {
        return Ok(());
    }
    Err(StoreError::Internal(format!(
        "{name:?} cannot be a Postgres schema name: use 1 to 63 of a-z, 0-9 and '_', not starting with a digit or pg_"
    )))
}

/// Whether this release may use what is there, under a role that row-level security binds.
async fn check(connection: &mut PgConnection, target: &Target, mode: Mode) -> TxResult<u32> {
    if !migrate::has_meta(connection, &target.schema).await? {
        return Err(StoreError::Empty.into());
    }
    let user = target.options.get_username();
    set_up(connection, session_setup(&target.schema, mode))
        .await
        .map_err(|error| role::explain(error, user))?;
    let stored = migrate::stored_version(connection, &target.schema).await?;
    match judge(stored, SCHEMA) {
        SchemaFit::Empty => return Err(StoreError::Empty.into()),
        SchemaFit::TooNew => return Err(StoreError::newer(stored, |version| version.min_reader).into()),
        _ => {}
    }
    role::check(connection, &target.schema).await?;
    Ok(stored.map_or(0, |version| version.schema))
}

/// What every connection does before its first verb. `pg_temp` comes last, so that a temporary table can never stand
/// in for one of ours; a server that commits without waiting for its disk does so for others, not for us.
fn session_setup(schema: &str, mode: Mode) -> String {
    let read_only = if mode == Mode::ReadOnly { "on" } else { "off" };
    format!(
        "SET ROLE tidegate_app;
         SET search_path TO \"{schema}\", pg_temp;
         SET statement_timeout TO '10s';
         SET lock_timeout TO '10s';
         SET idle_in_transaction_session_timeout TO '60s';
         SET default_transaction_isolation TO 'read committed';
         SET default_transaction_read_only TO {read_only};
         SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
}

async fn set_up(connection: &mut PgConnection, setup: String) -> std::result::Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(setup)).execute(connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_name_that_needs_quoting_is_refused() {
        let long = "a".repeat(64);
        for bad in ["", "1a", "a-b", "a\"b", "A", "pg_x", "a b", "ä", long.as_str()] {
            assert!(check_schema_name(bad).is_err(), "{bad:?}");
        }
        for good in ["tidegate", "_t1", "a"] {
            assert!(check_schema_name(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn options_and_addresses_never_show_the_password() {
        let options = PostgresOptions {
            url: "postgres://u:hunter2@db.example:6000/x".to_owned(),
            migrate_url: Some("postgres://o:hunter3@db.example/x".to_owned()),
            schema: "tidegate".to_owned(),
            max_connections: 4,
            mode: Mode::ReadWrite,
        };
        assert!(!format!("{options:?}").contains("hunter"));
        assert_eq!(Target::of(&options.url, "tidegate").unwrap().address, "db.example:6000");
    }

    #[test]
    fn an_address_that_does_not_parse_is_not_quoted() {
        for bad in
            ["postgres://u:hunter2@db:notaport/x", "hunter2", "postgres://u:hunter2@/x?sslmode=hunter2"]
        {
            let Err(error) = Target::of(bad, "tidegate") else { panic!("{bad} was taken") };
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
