//! Tools that come and go while the program runs, such as those of MCP servers.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::tool::Tool;

/// Whoever has such tools. Nothing of it is started before somebody asks.
#[async_trait]
pub trait ToolProvider: Send + Sync {
    /// Those there are now. Whoever works with them keeps to what it was given: a run sees the same tools to its end.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;

    /// Why a tool of that name is not there, if it is one of these and it is known why.
    fn missing(&self, _name: &str) -> Option<String> {
        None
    }

    /// How it stands with those who have them, for people.
    fn standings(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Those who have them together with what they say about their tools, for a process that only looks.
    fn listings(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Begins to have them, in the background.
    fn begin(&self);

    /// Begins, and waits for those that are on their way for the first time. One that failed is not waited for.
    async fn settled(&self);

    /// Ends everything it started.
    async fn close(&self);
}
