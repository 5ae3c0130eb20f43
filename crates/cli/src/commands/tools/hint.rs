//! What a person reads beside the answer of a call that failed: what to do next.
//!
//! The answer itself is JSON for programs and says what went wrong; this goes to a terminal only.

use std::fmt::Display;

use serde_json::Value;
use tidegate_config::schema::Tools;
use tidegate_policy::tools::normalise;
use tidegate_protocol::api::{Asking, InvokeTool};
use tidegate_protocol::{ToolError, ToolErrorCode};
use tidegate_tools::Registry;

use super::meant;
use super::remedy::Remedy;
use crate::app::App;
use crate::output::printable;
use crate::texts;
use crate::texts::tools as words;

pub(super) fn hint(
    app: &App,
    asked: &InvokeTool,
    error: &ToolError,
    tools: &Tools,
    registry: &Registry,
) -> Option<String> {
    let name = normalise(&asked.name);
    let values: [(&str, &dyn Display); 2] = [("tool", &printable(&name)), ("program", &app.program)];
    let policy = error.details.as_ref().map_or(&Value::Null, |details| &details["policy"]);
    match (policy["verdict"].as_str(), error.code) {
        (Some("deny"), _) => {
            let said = |key: &str| policy[key].as_str().unwrap_or_default();
            let (rule, reason) = (printable(said("rule")), printable(said("reason")));
            let change = Remedy::of(said("stage"), said("rule"), &name, tools).text(app);
            let [tool, program] = values;
            let values = [tool, program, ("rule", &rule), ("reason", &reason), ("change", &change)];
            Some(app.fill(words::HINT_DENIED, &values))
        }
        (Some(_), _) => (asked.asking == Asking::Nobody).then(|| app.fill(words::HINT_NOBODY, &values)),
        (None, ToolErrorCode::ToolNotFound) => Some(match meant(registry, &asked.name) {
            Some(meant) => app.fill(texts::DID_YOU_MEAN, &[("word", &meant)]),
            None => app.fill(words::SEE_TOOLS, &values),
        }),
        (None, ToolErrorCode::InvalidArgs) => Some(app.fill(words::HINT_ARGUMENTS, &values)),
        (None, ToolErrorCode::ExecutionError) => None,
    }
}
