//! Keys `tools.custom`: tools that are a command or a request.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidegate_secrets::Secret;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomTool {
    /// For the model: what it does and when to use it.
    #[schemars(length(min = 1))]
    pub description: String,
    /// A JSON Schema of its arguments, of type `object`; no arguments when absent.
    #[serde(default)]
    pub schema: Map<String, Value>,
    /// The command, a word each; `{{name}}` stands for an argument. No shell reads it.
    #[serde(default)]
    pub command: Vec<String>,
    /// The request, in place of a command.
    #[serde(default)]
    pub http: Option<CustomHttp>,
    /// Whether the command reads all arguments as JSON from its input.
    #[serde(default)]
    pub stdin_json: bool,
    /// Whether the command writes one JSON value.
    #[serde(default)]
    pub json_output: bool,
    /// What it can do at worst. When absent, `network` for a request that only looks (`GET`, `HEAD`), else `execute`.
    #[serde(default)]
    pub risk: Option<ToolRisk>,
    /// Whether running it twice is the same as running it once.
    #[serde(default)]
    pub idempotent: bool,
    /// Seconds a call may take; `tools.timeoutSeconds` when absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<u32>,
    /// Variables that the command gets.
    #[serde(default)]
    pub env: BTreeMap<String, Secret>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomHttp {
    /// The method.
    #[serde(default = "get")]
    #[schemars(length(min = 1))]
    pub method: String,
    /// The address; `{{name}}` stands for an argument.
    #[schemars(length(min = 1))]
    pub url: String,
    /// Headers.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// The body: an object is sent as JSON, a text as it is; `{{name}}` in a text stands for an argument.
    #[serde(default)]
    pub body: Option<CustomBody>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CustomBody {
    Text(String),
    Json(Map<String, Value>),
}

fn get() -> String {
    "GET".to_owned()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolRisk {
    /// Looks at what the agent may see anyway.
    Read,
    /// Changes files of the workspace.
    Write,
    /// Fetches from the network.
    Network,
    /// Starts programs, or changes things elsewhere.
    Execute,
}
