//! The smallest tools: the time, an echo, and where we are.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_policy::{Permitted, Preparation};
use tidegate_runtime::{Clock as _, SystemClock, iso_timestamp};

use crate::place::Place;
use crate::spec::ToolSpec;
use crate::tool::{Output, Tool, ToolFailure, Work};

pub fn basic_tools() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Now(ToolSpec {
            // Asked again it answers something else, and that is what it is for.
            idempotent: true,
            ..ToolSpec::of::<Nothing>("time.now", "The current time.")
        })),
        Arc::new(Echo(ToolSpec {
            steady: true,
            ..ToolSpec::of::<EchoArgs>("tools.echo", "Answers with the message it was given.")
        })),
        Arc::new(WorkingFolder(ToolSpec {
            steady: true,
            ..ToolSpec::of::<Nothing>("shell.pwd", "The folder in which tools work.")
        })),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

struct Now(ToolSpec);

#[async_trait]
impl Tool for Now {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn prepare(&self, _args: &Value, _place: &Place) -> Result<Preparation, ToolFailure> {
        Ok(Preparation::default())
    }

    async fn run(&self, _permitted: &Permitted, _work: &Work<'_>) -> Result<Output, ToolFailure> {
        let timestamp = SystemClock.now_ms();
        let iso = iso_timestamp(timestamp);
        let data = json!({ "timestamp": timestamp, "iso": iso });
        Ok(Output::text(format!("timestamp={timestamp}, iso={iso}")).with_data(data))
    }
}

#[derive(Deserialize, JsonSchema)]
struct EchoArgs {
    /// What to answer.
    message: String,
}

struct Echo(ToolSpec);

#[async_trait]
impl Tool for Echo {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn prepare(&self, _args: &Value, _place: &Place) -> Result<Preparation, ToolFailure> {
        Ok(Preparation::default())
    }

    async fn run(&self, permitted: &Permitted, _work: &Work<'_>) -> Result<Output, ToolFailure> {
        let EchoArgs { message } = arguments(permitted)?;
        Ok(Output::text(message.clone()).with_data(json!({ "message": message })))
    }
}

struct WorkingFolder(ToolSpec);

#[async_trait]
impl Tool for WorkingFolder {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn prepare(&self, _args: &Value, _place: &Place) -> Result<Preparation, ToolFailure> {
        Ok(Preparation::default())
    }

    async fn run(&self, _permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        let cwd = work.place.root.to_string_lossy().into_owned();
        Ok(Output::text(cwd.clone()).with_data(json!({ "cwd": cwd })))
    }
}

/// The arguments of a permitted call as its tool's own type. They fitted the schema.
fn arguments<A: serde::de::DeserializeOwned>(permitted: &Permitted) -> Result<A, ToolFailure> {
    A::deserialize(permitted.prepared().args()).map_err(|error| ToolFailure::arguments(error.to_string()))
}
