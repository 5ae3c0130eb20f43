//! Section `logging`: what is written to the log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Logging {
    /// The least important message that is written.
    pub level: LogLevel,
    /// Where secrets are masked in the log.
    pub redact_sensitive: Option<RedactSensitive>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What failed.
    Error,
    /// And what looks wrong.
    #[default]
    Warn,
    /// And what happened.
    Info,
    /// And why.
    Debug,
    /// And every step.
    Trace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RedactSensitive {
    /// Nowhere.
    Off,
    /// In what tools were given and what they answered.
    Tools,
}
