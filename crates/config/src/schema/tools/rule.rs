//! Keys `tools.rules`: what becomes of calls that touch certain things.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolRule {
    /// What it is called where a decision names it.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The tools it is about: a name, glob or group.
    #[serde(default = "every_tool")]
    #[schemars(length(min = 1))]
    pub tool: String,
    /// What a call must touch for the rule to apply; every key that is set must match.
    #[serde(default)]
    pub when: RuleWhen,
    /// What a call must not touch; where this matches the rule does not apply.
    #[serde(default)]
    pub unless: Option<RuleWhen>,
    /// What becomes of the call.
    pub mode: RuleMode,
    /// Why, for people and the model.
    #[serde(default)]
    pub reason: Option<String>,
    /// Calls it must and must not apply to; checked whenever the file is read.
    #[serde(default)]
    pub examples: RuleExamples,
}

fn every_tool() -> String {
    "*".to_owned()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleMode {
    /// It is refused.
    Deny,
    /// A person has to approve it.
    ApprovalRequired,
}

/// A key that is not set says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RuleWhen {
    /// Files and folders relative to the workspace; `*` stays inside a folder, `**` does not.
    pub path: Vec<String>,
    /// Hosts, such as `*.example.org`.
    pub host: Vec<String>,
    /// Whole addresses, such as `https://example.org/admin/*`.
    pub url: Vec<String>,
    /// HTTP methods.
    pub method: Vec<String>,
    /// The first words of a command, such as `git push`.
    pub command: Vec<String>,
    /// Arguments by name, each with values of which one must match; `*` stands for any text.
    pub args: BTreeMap<String, Vec<ArgumentValue>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ArgumentValue {
    Text(String),
    Number(i64),
    Truth(bool),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RuleExamples {
    /// The rule applies to these.
    pub matches: Vec<RuleExample>,
    /// The rule does not apply to these.
    pub misses: Vec<RuleExample>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RuleExample {
    /// The tool that is called; one that the rule is about when absent.
    #[schemars(length(min = 1))]
    pub tool: Option<String>,
    /// A file or folder it touches.
    pub path: Option<String>,
    /// A host it reaches.
    pub host: Option<String>,
    /// The address it asks for.
    pub url: Option<String>,
    /// The HTTP method.
    pub method: Option<String>,
    /// The command it runs, its words separated by blanks.
    pub command: Option<String>,
    /// The arguments.
    pub args: Map<String, Value>,
}
