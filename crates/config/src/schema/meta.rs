//! Section `meta`: notes of the program that wrote the file. Imported files carry them; nothing reads them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Meta {
    /// Version of the program that last wrote the file.
    pub last_touched_version: Option<String>,
    /// When that was.
    pub last_touched_at: Option<String>,
}
