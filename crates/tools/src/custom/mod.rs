//! Tools from the configuration: a command or an HTTP call with a schema.

mod command;
mod http;
mod request;
mod template;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate_net::Client;
use tidegate_protocol::Risk;

pub use command::{CommandOutput, CommandSpec};
pub use http::{HttpSpec, HttpSpecError};
pub use template::TemplateError;

use command::CustomCommand;
use request::CustomRequest;

use crate::exec::Processes;
use crate::spec::ToolSpec;
use crate::tool::Tool;

/// What the configuration says about a tool, whatever it does.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomSpec {
    pub name: String,
    pub description: String,
    /// A JSON Schema of type `object`. A property with `allowDash: true` may have values that begin with `-`.
    pub input_schema: Value,
    pub risk: Risk,
    pub idempotent: bool,
    pub timeout: Duration,
    pub kind: CustomKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum CustomKind {
    Command(CommandSpec),
    Http(HttpSpec),
}

/// Why a configured tool cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CustomError {
    #[error("the schema is not one of type `object`")]
    Schema,
    #[error("the command is empty")]
    NoProgram,
    #[error("the program has to be a bare name or an absolute path, without arguments in it")]
    Program,
    #[error(
        "word {word}: an argument would become part of a script; pass it as a word of its own or on the input"
    )]
    Script { word: usize },
    #[error("environment: {0:?} is no name of a variable")]
    Variable(String),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Http(#[from] HttpSpecError),
}

/// The tool that a configuration describes.
pub fn custom_tool(
    spec: &CustomSpec,
    processes: &Arc<Processes>,
    client: &Client,
) -> Result<Arc<dyn Tool>, CustomError> {
    Ok(match &spec.kind {
        CustomKind::Command(command) => Arc::new(CustomCommand::new(spec, command, processes.clone())?),
        CustomKind::Http(http) => Arc::new(CustomRequest::new(spec, http, client.clone())?),
    })
}

impl CustomSpec {
    /// As the registry knows it. The schema takes no argument it does not name.
    fn tool_spec(&self) -> Result<ToolSpec, CustomError> {
        let mut input_schema = self.input_schema.clone();
        let object = input_schema.as_object_mut().ok_or(CustomError::Schema)?;
        if object.get("type").is_none_or(|kind| kind != "object") {
            return Err(CustomError::Schema);
        }
        object.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
        object.entry("additionalProperties").or_insert(Value::Bool(false));
        if !object["properties"].is_object() {
            return Err(CustomError::Schema);
        }
        Ok(ToolSpec {
            name: self.name.clone(),
            aliases: Vec::new(),
            description: self.description.clone(),
            input_schema,
            risk: self.risk,
            idempotent: self.idempotent,
            steady: false,
            timeout: Some(self.timeout),
        })
    }
}
