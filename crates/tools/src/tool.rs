//! The trait every tool has.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tidegate_policy::{Permitted, Preparation, Runner};
use tidegate_protocol::{Block, RunId, ToolErrorCode};
use tokio_util::sync::CancellationToken;

use crate::place::Place;
use crate::spec::ToolSpec;

#[async_trait]
pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;

    /// Says what the call would do. The arguments fit the schema. Looks, but changes nothing.
    async fn prepare(&self, args: &Value, place: &Place) -> Result<Preparation, ToolFailure>;

    /// Does it. Whoever calls this enforces the timeout and the size of the result.
    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure>;
}

/// What a tool works with while it runs.
pub struct Work<'a> {
    pub place: &'a Place,
    pub runner: &'a Arc<dyn Runner>,
    pub cancel: &'a CancellationToken,
    /// The run the call belongs to, if it belongs to one: what the call costs is on its account.
    pub run: Option<RunId>,
    /// Told what came so far, for people who watch.
    pub update: &'a (dyn Fn(&str) + Send + Sync),
}

/// What a tool answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    pub content: Vec<Block>,
    pub data: Option<Value>,
    /// Something was left out; the content says so.
    pub truncated: bool,
}

impl Output {
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], ..Self::default() }
    }

    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}

/// Why a tool has nothing to answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    pub code: ToolErrorCode,
    pub message: String,
    pub details: Option<Value>,
    /// What there is all the same, such as the output of a command that failed.
    pub output: Option<Box<Output>>,
}

impl ToolFailure {
    pub fn execution(message: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::ExecutionError, message)
    }

    pub fn arguments(message: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::InvalidArgs, message)
    }

    fn new(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, output: None }
    }
}
