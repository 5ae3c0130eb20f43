//! Throw-away stores: SQLite in a temporary folder, Postgres in a schema of a random name that is dropped afterwards.

use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use tempfile::TempDir;
use tidegate_protocol::TenantId;
use tidegate_storage::{Result, Store};
use tidegate_storage_postgres::{PostgresOptions, PostgresStore};
use tidegate_storage_sqlite::{SqliteOptions, SqliteStore};
use tokio::sync::Mutex;

use crate::skip::skip_loudly;
use crate::snapshot::{self, Snapshot, Tables};

/// The environment variable with the address of a server on which tests may make schemas and roles.
pub const POSTGRES: &str = "TIDEGATE_TEST_POSTGRES";

/// Enough for one caller; a test of races asks for more.
pub const CONNECTIONS: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Sqlite,
    Postgres,
}

/// Where a store is, in a form that another process can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    Sqlite { path: PathBuf },
    Postgres { url: String, schema: String },
}

/// An open store. Closing waits for what it took.
#[derive(Clone)]
pub enum OpenStore {
    Sqlite(SqliteStore),
    Postgres(Arc<PostgresStore>),
}

impl Location {
    /// Opens and migrates the store. Only Postgres has connections; each costs a process on the server.
    pub async fn open(&self, connections: u32) -> Result<OpenStore> {
        match self {
            Self::Sqlite { path } => open_sqlite(path, tidegate_storage_sqlite::Mode::ReadWrite),
            Self::Postgres { url, schema } => {
                let mode = tidegate_storage_postgres::Mode::ReadWrite;
                open_postgres(url, schema, connections, mode).await
            }
        }
    }

    /// Opens the store for reading; never migrates it.
    pub async fn open_for_reading(&self) -> Result<OpenStore> {
        match self {
            Self::Sqlite { path } => open_sqlite(path, tidegate_storage_sqlite::Mode::ReadOnly),
            Self::Postgres { url, schema } => {
                let mode = tidegate_storage_postgres::Mode::ReadOnly;
                open_postgres(url, schema, CONNECTIONS, mode).await
            }
        }
    }

    /// The arguments that make `tidegate-testkit` open the same store.
    pub fn args(&self) -> [String; 2] {
        match self {
            Self::Sqlite { path } => ["sqlite".to_owned(), path.display().to_string()],
            Self::Postgres { url, schema } => ["postgres".to_owned(), format!("{schema}={url}")],
        }
    }

    /// Reads what [`args`](Self::args) wrote.
    pub fn from_args(backend: &str, place: &str) -> Option<Self> {
        match backend {
            "sqlite" => Some(Self::Sqlite { path: place.into() }),
            "postgres" => {
                let (schema, url) = place.split_once('=')?;
                Some(Self::Postgres { url: url.to_owned(), schema: schema.to_owned() })
            }
            _ => None,
        }
    }
}

fn open_sqlite(path: &Path, mode: tidegate_storage_sqlite::Mode) -> Result<OpenStore> {
    Ok(OpenStore::Sqlite(SqliteStore::open(&SqliteOptions::new(path, mode))?))
}

async fn open_postgres(
    url: &str,
    schema: &str,
    max_connections: u32,
    mode: tidegate_storage_postgres::Mode,
) -> Result<OpenStore> {
    let (url, schema) = (url.to_owned(), schema.to_owned());
    let options = PostgresOptions { url, migrate_url: None, schema, max_connections, mode };
    Ok(OpenStore::Postgres(Arc::new(PostgresStore::open(options).await?)))
}

impl OpenStore {
    pub async fn close(self) {
        match self {
            // The last handle waits for the writer.
            Self::Sqlite(store) => drop(store),
            Self::Postgres(store) => store.close().await,
        }
    }
}

impl Deref for OpenStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Sqlite(store) => store,
            Self::Postgres(store) => store.as_ref(),
        }
    }
}

/// A store of one test. It can be closed, opened again and looked into past its verbs.
pub struct ScratchStore {
    location: Location,
    open: Option<OpenStore>,
    /// How many the backend may hold.
    connections: u32,
    /// The test's own connection past the backend, kept because each one is a process on the server.
    own: Mutex<Option<PgConnection>>,
    /// Holds the folder until the test is over.
    _home: Option<TempDir>,
}

impl Deref for ScratchStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        self.open.as_deref().expect("the test opened its store")
    }
}

impl fmt::Debug for ScratchStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScratchStore").field("location", &self.location).finish_non_exhaustive()
    }
}

impl ScratchStore {
    /// A place for a store, not opened yet. Nothing when the backend needs a server and none was named.
    pub fn place(backend: Backend) -> Option<Self> {
        match backend {
            Backend::Sqlite => {
                let home = tempfile::tempdir().expect("a temporary folder can be made");
                let path = home.path().join("tidegate.db");
                Some(Self {
                    location: Location::Sqlite { path },
                    open: None,
                    connections: CONNECTIONS,
                    own: Mutex::default(),
                    _home: Some(home),
                })
            }
            Backend::Postgres => {
                let Ok(url) = std::env::var(POSTGRES) else {
                    skip_loudly(&format!("set {POSTGRES} to the address of a throw-away server to run it"));
                    return None;
                };
                let schema = format!("test_{:016x}", u64::from_be_bytes(random()));
                Some(Self {
                    location: Location::Postgres { url, schema },
                    open: None,
                    connections: CONNECTIONS,
                    own: Mutex::default(),
                    _home: None,
                })
            }
        }
    }

    /// A place that the test made and takes away itself.
    pub fn at(location: Location) -> Self {
        Self { location, open: None, connections: CONNECTIONS, own: Mutex::default(), _home: None }
    }

    pub fn location(&self) -> &Location {
        &self.location
    }

    pub fn backend(&self) -> Backend {
        match self.location {
            Location::Sqlite { .. } => Backend::Sqlite,
            Location::Postgres { .. } => Backend::Postgres,
        }
    }

    pub async fn open(&mut self) {
        self.open = Some(self.location.open(self.connections).await.expect("the store opens"));
    }

    /// Makes the tables of an earlier release and opens nothing.
    pub async fn migrate_to(&self, schema: u32) {
        const MIGRATES: &str = "an earlier schema can be made";
        match &self.location {
            Location::Sqlite { path } => {
                let options = SqliteOptions::new(path, tidegate_storage_sqlite::Mode::ReadWrite);
                drop(SqliteStore::open(&SqliteOptions { schema, ..options }).expect(MIGRATES));
            }
            Location::Postgres { url, schema: name } => {
                let options = PostgresOptions {
                    url: url.clone(),
                    migrate_url: None,
                    schema: name.clone(),
                    max_connections: 1,
                    mode: tidegate_storage_postgres::Mode::ReadWrite,
                };
                PostgresStore::migrate_to(&options, schema).await.expect(MIGRATES);
            }
        }
    }

    pub async fn close(&mut self) {
        if let Some(open) = self.open.take() {
            open.close().await;
        }
    }

    /// Takes the store away, with everything in it.
    pub async fn remove(mut self) {
        self.close().await;
        if let Location::Postgres { schema, .. } = &self.location {
            self.execute(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE")).await;
        }
    }

    pub async fn snapshot(&self, tenant: &TenantId) -> Snapshot {
        Snapshot { library: snapshot::library(&**self, tenant).await, tables: self.tables(tenant).await }
    }

    /// Every row of the tenant, read past the backend.
    pub async fn tables(&self, tenant: &TenantId) -> Tables {
        let mut tables = Tables::new();
        for name in self.tenant_tables().await {
            let rows = self.rows(&name, &format!("tenant_id = '{tenant}'")).await;
            tables.insert(name.clone(), snapshot::canonical(&name, rows));
        }
        tables
    }

    /// Rows of one table, read past the backend.
    pub async fn rows(&self, table: &str, condition: &str) -> Vec<Map<String, Value>> {
        match &self.location {
            Location::Sqlite { path } => {
                let connection = rusqlite::Connection::open(path).expect(READS);
                let sql = format!("SELECT * FROM {table} WHERE {condition}");
                sqlite_rows(&connection, &sql, sqlite_object)
            }
            Location::Postgres { schema, .. } => {
                let sql = format!("SELECT to_jsonb(t)::text FROM {schema}.{table} t WHERE {condition}");
                let texts = self.texts(sql).await;
                texts.iter().map(|text| serde_json::from_str(text).expect(READS)).collect()
            }
        }
    }

    async fn tenant_tables(&self) -> Vec<String> {
        match &self.location {
            Location::Sqlite { path } => {
                let connection = rusqlite::Connection::open(path).expect(READS);
                let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%tenant_id%'";
                sqlite_rows(&connection, sql, |row| row.get(0))
            }
            Location::Postgres { schema, .. } => {
                let sql = format!(
                    "SELECT table_name::text FROM information_schema.columns
                     WHERE table_schema = '{schema}' AND column_name = 'tenant_id'"
                );
                self.texts(sql).await
            }
        }
    }

    /// The first column of a query on Postgres.
    async fn texts(&self, sql: String) -> Vec<String> {
        let mut own = self.own.lock().await;
        let rows =
            sqlx::query(AssertSqlSafe(sql)).fetch_all(self.connected(&mut own).await).await.expect(READS);
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Changes rows past the backend, as a newer release might have left them. Table names need no schema.
    pub async fn execute(&self, sql: &str) {
        const CHANGES: &str = "a test's own SQL is valid";
        match &self.location {
            Location::Sqlite { path } => {
                let connection = rusqlite::Connection::open(path).expect(CHANGES);
                connection.busy_timeout(std::time::Duration::from_secs(5)).expect(CHANGES);
                connection.execute_batch(sql).expect(CHANGES);
            }
            Location::Postgres { schema, .. } => {
                let mut own = self.own.lock().await;
                let sql = format!("SET search_path TO {schema}; {sql}");
                sqlx::raw_sql(AssertSqlSafe(sql))
                    .execute(self.connected(&mut own).await)
                    .await
                    .expect(CHANGES);
            }
        }
    }

    async fn connected<'a>(&self, own: &'a mut Option<PgConnection>) -> &'a mut PgConnection {
        let Location::Postgres { url, .. } = &self.location else {
            unreachable!("only Postgres is connected to")
        };
        if own.is_none() {
            *own = Some(PgConnection::connect(url).await.expect("the test server answers"));
        }
        own.as_mut().expect("connected above")
    }
}

/// Runs a test on a store of its own, which is taken away afterwards, also when the test fails.
pub async fn with_store<F>(backend: Backend, connections: u32, test: F)
where
    F: AsyncFnOnce(&mut ScratchStore),
{
    with_place(backend, async |store| {
        store.connections = connections;
        store.open().await;
        test(store).await;
    })
    .await;
}

/// The same with a store that was never opened: nothing is there yet.
pub async fn with_place<F>(backend: Backend, test: F)
where
    F: AsyncFnOnce(&mut ScratchStore),
{
    let Some(mut store) = ScratchStore::place(backend) else { return };
    let outcome = AssertUnwindSafe(test(&mut store)).catch_unwind().await;
    store.remove().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut random = [0; N];
    getrandom::fill(&mut random).expect("the operating system gives random numbers");
    random
}

/// Why a test's own queries cannot fail.
const READS: &str = "the tables can be read";

fn sqlite_rows<T>(
    connection: &rusqlite::Connection,
    sql: &str,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    let mut statement = connection.prepare(sql).expect(READS);
    statement.query_map([], read).expect(READS).map(|row| row.expect(READS)).collect()
}

fn sqlite_object(row: &rusqlite::Row<'_>) -> rusqlite::Result<Map<String, Value>> {
    use rusqlite::types::ValueRef;
    let columns = row.as_ref().column_names();
    columns
        .into_iter()
        .enumerate()
        .map(|(index, column)| {
            let value = match row.get_ref(index)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => number.into(),
                ValueRef::Real(number) => number.into(),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into(),
            };
            Ok((column.to_owned(), value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_comes_back_from_its_arguments() {
        for location in [
            Location::Sqlite { path: "/home/a=b/tidegate.db".into() },
            Location::Postgres {
                url: "postgres://u@h/d?options=-c%20a=b".to_owned(),
                schema: "test_1".to_owned(),
            },
        ] {
            let [backend, place] = location.args();
            assert_eq!(Location::from_args(&backend, &place), Some(location));
        }
        assert_eq!(Location::from_args("oracle", "x"), None);
        assert_eq!(Location::from_args("postgres", "no-schema"), None);
    }

    #[tokio::test]
    async fn a_store_is_taken_away_when_its_test_fails() {
        let folder = Arc::new(std::sync::Mutex::new(None));
        let seen = Arc::clone(&folder);
        let test = with_store(Backend::Sqlite, CONNECTIONS, async move |store| {
            if let Location::Sqlite { path } = store.location() {
                *seen.lock().unwrap() = path.parent().map(Path::to_owned);
            }
            panic!("the test fails");
        });
        assert!(AssertUnwindSafe(test).catch_unwind().await.is_err());
        let folder = folder.lock().unwrap().take().unwrap();
        assert!(!folder.exists());
    }
}
