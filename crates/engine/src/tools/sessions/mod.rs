//! The tools for conversations: start one for a piece of work, write to another one, look at them.
//!
//! They are here and not among the other tools because they need the engine. What they start is accepted as every other
//! request is, under a key made from the call: a call that is repeated after a crash never starts a second one.

mod agents;
mod caller;
mod history;
mod list;
mod send;
mod spawn;
mod status;

use std::sync::{Arc, Weak};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_tools::{Output, Tool, ToolFailure};

use crate::start::Core;

pub(crate) use spawn::cleans_up;

/// All of them.
pub(crate) fn session_tools(core: &Weak<Core>) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(agents::AgentsList::new(Weak::clone(core))),
        Arc::new(status::SessionStatus::new(Weak::clone(core))),
        Arc::new(history::SessionsHistory::new(Weak::clone(core))),
        Arc::new(list::SessionsList::new(Weak::clone(core))),
        Arc::new(send::SessionsSend::new(Weak::clone(core))),
        Arc::new(spawn::SessionsSpawn::new(Weak::clone(core))),
    ]
}

fn read<A: DeserializeOwned>(args: &Value) -> Result<A, ToolFailure> {
    A::deserialize(args).map_err(|error| ToolFailure::arguments(error.to_string()))
}

/// The same for the model and for programs.
fn told(value: Value) -> Output {
    Output::text(value.to_string()).with_data(value)
}

/// The beginning of a text, and whether that is all of it.
fn beginning(text: &str, most: usize) -> (String, bool) {
    match text.char_indices().nth(most) {
        None => (text.to_owned(), true),
        Some((at, _)) => (format!("{}…", text.get(..at).unwrap_or_default()), false),
    }
}
