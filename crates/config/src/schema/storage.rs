//! Section `storage`: the database.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_secrets::Secret;

use crate::format::SQL_NAME;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Storage {
    /// Where data is kept.
    pub backend: Backend,
    /// The Postgres server; `url` is required when `backend` is `postgres`.
    pub postgres: Postgres,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// A file in the home folder.
    #[default]
    Sqlite,
    /// A Postgres server.
    Postgres,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Postgres {
    /// Where the server is, as `postgres://user:password@host/database`.
    pub url: Option<Secret>,
    /// The same for the role that owns the tables and changes them; `url` when not set.
    pub migrate_url: Option<Secret>,
    /// The schema the tables are in.
    #[schemars(regex(pattern = SQL_NAME.pattern))]
    pub schema: String,
    /// Connections at most.
    #[schemars(range(min = 1, max = 1000))]
    pub max_connections: u32,
}

impl Default for Postgres {
    fn default() -> Self {
        Self { url: None, migrate_url: None, schema: "tidegate".to_owned(), max_connections: 8 }
    }
}
