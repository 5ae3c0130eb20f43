//! `tools invoke`: run one tool by hand, under the same rules as an agent.

use std::hash::{BuildHasher as _, Hasher as _};
use std::io::IsTerminal as _;
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_engine::Settings;
use tidegate_protocol::api::{Asking, InvokeTool};
use tidegate_protocol::{Block, ToolResult, ToolSource};

use super::hint::hint;
use super::{KEYBOARD, arguments, root};
use crate::Outcome;
use crate::app::{App, home_of, now_ms};
use crate::arguments::{Command, Parsed};
use crate::commands::{auth, block_on};
use crate::output::{complain, print_json};
use crate::reach::reach;
use crate::toolbox::{mention_bare, tools_to_look_at};

/// Names of the tool that starts programs.
const STARTS_PROGRAMS: [&str; 3] = ["exec", "bash", "bash.exec"];

pub(in crate::commands) fn invoke(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let args = arguments(command, parsed)?.unwrap_or_else(|| json!({}));
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let asked = InvokeTool {
        call_id: call_id(),
        name: parsed.arguments[0].clone(),
        args,
        agent: parsed.value("agent").map(str::to_owned),
        root: Some(root(parsed)?.to_string_lossy().into_owned()),
        asking: if parsed.has("wait") {
            Asking::Others
        } else if auth::ask::is_there() {
            Asking::Caller
        } else {
            Asking::Nobody
        },
    };
    if STARTS_PROGRAMS.contains(&asked.name.to_lowercase().as_str()) {
        let settings = Settings::new(&loaded);
        mention_bare(app, &settings, &settings.scope(asked.agent.as_deref())?, KEYBOARD);
    }
    let result = block_on(async {
        reach(app, &home, &loaded, "tools", async |reach| reach.invoke(app, &asked).await).await
    })?;
    print_json(&json!({ "call": call_json(&asked), "result": result_json(&result) }))?;
    if let Some(error) = result.error.as_ref().filter(|_| std::io::stderr().is_terminal()) {
        let registry = tools_to_look_at(&Settings::new(&loaded))?;
        if let Some(hint) = hint(app, &asked, error, &loaded.config.tools, &registry) {
            complain(&format!("\n{hint}"));
        }
    }
    Ok(if result.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// In the form of the contract: `cli-<ms>-<hex4>`.
fn call_id() -> String {
    let random = std::hash::RandomState::new().build_hasher().finish();
    format!("cli-{}-{:04x}", now_ms(), random & 0xffff)
}

fn call_json(asked: &InvokeTool) -> Value {
    json!({ "id": asked.call_id, "name": asked.name, "args": asked.args, "source": ToolSource::Cli })
}

/// The contract's shape: the content is one text. What is no text comes beside it.
pub(in crate::commands) fn result_json(result: &ToolResult) -> Value {
    let mut value = json!({
        "ok": result.ok,
        "content": result.text(),
        "meta": result.meta,
        "usage": { "durationMs": result.meta.duration_ms },
    });
    if let Some(data) = &result.data {
        value["data"] = data.clone();
    }
    if let Some(error) = &result.error {
        value["error"] = json!(error);
    }
    let others: Vec<&Block> =
        result.content.iter().filter(|block| !matches!(block, Block::Text { .. })).collect();
    if !others.is_empty() {
        value["blocks"] = json!(others);
    }
    value
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{ToolError, ToolErrorCode, ToolMeta};

    use super::*;

    #[test]
    fn an_id_has_the_form_of_the_contract() {
        let id = call_id();
        let parts: Vec<&str> = id.split('-').collect();
        assert_eq!((parts.len(), parts[0], parts[2].len()), (3, "cli", 4), "{id}");
        assert!(parts[1].parse::<i64>().is_ok() && u16::from_str_radix(parts[2], 16).is_ok(), "{id}");
    }

    #[test]
    fn a_result_has_its_content_as_one_text() {
        let meta = ToolMeta { tool: "t".into(), duration_ms: 7, truncated: false };
        let content = vec![Block::text("a"), Block::text("b")];
        let fine =
            ToolResult { ok: true, content, data: Some(json!({"x": 1})), error: None, meta: meta.clone() };
        let expected = json!({"ok": true, "content": "a\nb", "data": {"x": 1}, "meta": {"tool": "t", "durationMs": 7},
            "usage": {"durationMs": 7}});
        assert_eq!(result_json(&fine), expected);
        let error = ToolError {
            code: ToolErrorCode::InvalidArgs,
            tool: "t".into(),
            message: "m".into(),
            details: None,
        };
        let failed = ToolResult { ok: false, content: Vec::new(), data: None, error: Some(error), meta };
        let value = result_json(&failed);
        assert_eq!(value["error"], json!({"code": "invalid_args", "tool": "t", "message": "m"}));
        assert_eq!((&value["data"], &value["content"]), (&Value::Null, &json!("")));
    }
}
