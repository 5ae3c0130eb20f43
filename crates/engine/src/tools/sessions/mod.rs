//! The tools for conversations: start one for a piece of work, write to another one, look at them.
//!
//! They are here and not among the other tools because they need the engine. What they start is accepted as every other
//! request is, under a key made from the call: a call that is repeated after a crash never starts a second one.

mod agents;
mod caller;
mod history;
mod list;
mod look;
mod recall;
mod send;
mod spawn;
mod status;

use std::sync::{Arc, Weak};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_protocol::{RunId, ToolCall};
use tidegate_tools::{Output, Tool, ToolFailure};

use crate::start::Core;
use look::Looking;

pub(crate) use recall::{can_recall, recall};
pub(crate) use spawn::cleans_up;

/// All of them.
pub(crate) fn session_tools(core: &Weak<Core>) -> Vec<Arc<dyn Tool>> {
    vec![
        Looking::<agents::AgentsList>::tool(core),
        Looking::<history::SessionsHistory>::tool(core),
        Looking::<list::SessionsList>::tool(core),
        Arc::new(status::SessionStatus::new(Weak::clone(core))),
        Arc::new(send::SessionsSend::new(Weak::clone(core))),
        Arc::new(spawn::SessionsSpawn::new(Weak::clone(core))),
    ]
}

/// What a call is remembered by with the run that it starts: the same call means the same run. Nothing is in it that may
/// be another one after a restart, such as the folder that the run works in.
fn call_key(run: RunId, call: &ToolCall) -> String {
    let mut args = call.args.clone();
    // The order in which a model wrote them means nothing.
    args.sort_all_objects();
    format!("tool:{run}:{}:{}:{args}", call.id, call.name)
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_protocol::{Id as _, ToolSource};

    use super::*;

    #[test]
    fn a_call_is_known_again_by_its_run_its_id_its_tool_and_what_it_asks_for() {
        let run = RunId::from_parts(1, [0; 10]);
        let key = |id: &str, name: &str, args: Value| {
            let call = ToolCall { id: id.into(), name: name.into(), args, source: ToolSource::Model };
            call_key(run, &call)
        };
        let usual = key("c1", "sessions_send", json!({"label": "b", "more": [{"x": 1, "y": 2}]}));
        assert_eq!(usual, key("c1", "sessions_send", json!({"more": [{"y": 2, "x": 1}], "label": "b"})));
        for other in [
            key("c2", "sessions_send", json!({"label": "b", "more": [{"x": 1, "y": 2}]})),
            key("c1", "sessions_spawn", json!({"label": "b", "more": [{"x": 1, "y": 2}]})),
            key("c1", "sessions_send", json!({"label": "c", "more": [{"x": 1, "y": 2}]})),
        ] {
            assert_ne!(usual, other);
        }
    }
}
