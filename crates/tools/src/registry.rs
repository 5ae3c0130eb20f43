//! The tools there are, by name, and the first step of a call.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_policy::Prepared;
use tidegate_protocol::{ToolCall, ToolErrorCode};

use crate::place::Place;
use crate::schema::check_arguments;
use crate::spec::ToolSpec;
use crate::tool::{Tool, ToolFailure};

/// Two tools cannot answer to one name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there are two tools called {0}")]
pub struct NameTaken(pub String);

/// Names are found whatever their case.
#[derive(Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    /// Every name and alias in lower case, to the name in `tools`.
    names: BTreeMap<String, String>,
    /// Those that came from a provider.
    provided: Vec<String>,
}

impl Registry {
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), NameTaken> {
        let spec = tool.spec();
        let name = spec.name.clone();
        let names: Vec<_> =
            std::iter::once(&spec.name).chain(&spec.aliases).map(|name| name.to_lowercase()).collect();
        if let Some(taken) = names.iter().find(|name| self.names.contains_key(*name)) {
            return Err(NameTaken(taken.clone()));
        }
        self.names.extend(names.into_iter().map(|known| (known, name.clone())));
        self.tools.insert(name, tool);
        Ok(())
    }

    /// The same with tools that somebody else provides. One whose name is taken is left out.
    #[must_use]
    pub fn with_provided(&self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut all = self.clone();
        for tool in tools {
            let name = tool.spec().name.clone();
            match all.add(tool) {
                Ok(()) => all.provided.push(name),
                Err(taken) => tracing::warn!(%taken, "a tool is left out"),
            }
        }
        all
    }

    /// The names of those that came from a provider.
    pub fn provided(&self) -> &[String] {
        &self.provided
    }

    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(self.names.get(&name.trim().to_lowercase())?)
    }

    /// By name.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.values().map(|tool| tool.spec())
    }

    /// Finds the tool, checks the arguments, and has the tool say what it would do. The prepared call carries the
    /// tool's own name and its arguments without those that are null: a model that writes `null` means "not given".
    pub async fn prepare(&self, call: ToolCall, place: &Place) -> Result<Prepared, ToolFailure> {
        let Some(tool) = self.find(&call.name) else { return Err(not_found(&call.name)) };
        let spec = tool.spec();
        let call = ToolCall { name: spec.name.clone(), args: without_nulls(call.args), ..call };
        let problems = check_arguments(&spec.input_schema, &call.args);
        if !problems.is_empty() {
            let messages: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
            let mut failure = ToolFailure::arguments(messages.join("; "));
            failure.details = Some(json!({ "problems": problems }));
            return Err(failure);
        }
        let preparation = tool.prepare(&call.args, place).await?;
        Ok(Prepared::new(call, place.requester.clone(), spec.risk, spec.idempotent, preparation))
    }
}

fn not_found(name: &str) -> ToolFailure {
    let mut failure = ToolFailure::execution(format!("tool not found: {name}"));
    failure.code = ToolErrorCode::ToolNotFound;
    failure
}

fn without_nulls(args: Value) -> Value {
    match args {
        Value::Object(object) => {
            Value::Object(object.into_iter().filter(|(_, value)| !value.is_null()).collect())
        }
        other => other,
    }
}
