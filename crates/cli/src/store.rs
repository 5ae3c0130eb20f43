//! Opening the store that the configuration names.

use std::sync::Arc;

use tidegate_config::schema::{Backend, Config};
use tidegate_engine::Home;
use tidegate_storage::{Store, StoreError};
use tidegate_storage_postgres::{PostgresOptions, PostgresStore};
use tidegate_storage_sqlite::{SqliteOptions, SqliteStore};

use crate::failure::Failure;

/// What a command does with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Write,
    Read,
}

/// For a command that goes when it is done.
pub(crate) async fn open(home: &Home, config: &Config, access: Access) -> Result<Arc<dyn Store>, Failure> {
    open_for(home, config, access, false).await
}

/// For a process that stays.
pub(crate) async fn open_to_stay(
    home: &Home,
    config: &Config,
    access: Access,
) -> Result<Arc<dyn Store>, Failure> {
    open_for(home, config, access, true).await
}

async fn open_for(
    home: &Home,
    config: &Config,
    access: Access,
    stays: bool,
) -> Result<Arc<dyn Store>, Failure> {
    match config.storage.backend {
        Backend::Sqlite => {
            let mode = match access {
                Access::Write => tidegate_storage_sqlite::Mode::ReadWrite,
                Access::Read => tidegate_storage_sqlite::Mode::ReadOnly,
            };
            let options = SqliteOptions { warm_wal: stays, ..SqliteOptions::new(home.database(), mode) };
            Ok(Arc::new(SqliteStore::open(&options)?))
        }
        Backend::Postgres => {
            let postgres = &config.storage.postgres;
            let url = postgres.url.as_ref().map(|url| url.expose().to_owned());
            let options = PostgresOptions {
                url: url
                    .ok_or_else(|| StoreError::Unavailable("storage.postgres.url is not set".to_owned()))?,
                migrate_url: postgres.migrate_url.as_ref().map(|url| url.expose().to_owned()),
                schema: postgres.schema.clone(),
                max_connections: postgres.max_connections,
                mode: match access {
                    Access::Write => tidegate_storage_postgres::Mode::ReadWrite,
                    Access::Read => tidegate_storage_postgres::Mode::ReadOnly,
                },
            };
            Ok(Arc::new(PostgresStore::open(options).await?))
        }
    }
}

/// Opens for reading; `None` when nothing was ever written.
pub(crate) async fn open_existing(home: &Home, config: &Config) -> Result<Option<Arc<dyn Store>>, Failure> {
    match open(home, config, Access::Read).await {
        Ok(store) => Ok(Some(store)),
        Err(failure) if failure.is_empty_store() => Ok(None),
        Err(failure) => Err(failure),
    }
}
