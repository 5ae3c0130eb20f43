//! Groups about what programs send over HTTP: questions in OpenAI's form, and webhooks.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_config::schema::Hooks;
use tidegate_config::{ConfigFile, Env};
use tidegate_gateway::testing;

use super::{Answer, Compared, compared, in_and_out, read};

pub(super) fn answer_of(group: &str) -> Option<Answer> {
    Some(match group {
        "openai_prompt" => chat_prompt,
        "openresponses_prompt" => response_prompt,
        "openai_routing" => routing,
        "hook_template" => template,
        "hook_mapping" => mapping,
        "hook_agent_payload" => agent_payload,
        "hook_wake_payload" => wake_payload,
        "hook_config" => config,
        "hook_token" => token,
        _ => return None,
    })
}

/// The channels that were registered when the cases were recorded.
const CHANNELS: [&str; 7] = ["telegram", "whatsapp", "discord", "googlechat", "slack", "signal", "imessage"];

fn chat_prompt(case: &Value) -> Result<Compared, String> {
    let (messages, out): (Vec<Value>, Value) = in_and_out(case)?;
    compared(out, testing::chat_prompt(&messages))
}

fn response_prompt(case: &Value) -> Result<Compared, String> {
    let (input, out): (Value, Value) = in_and_out(case)?;
    compared(out, testing::response_prompt(&input))
}

fn routing(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Input {
        headers: BTreeMap<String, String>,
        model: Option<String>,
        user: Option<String>,
    }
    let (Input { headers, model, user }, out) = in_and_out(case)?;
    compared(out, testing::openai_routing(&headers, model.as_deref(), user.as_deref()))
}

#[derive(Deserialize)]
struct Context {
    payload: Value,
    headers: BTreeMap<String, String>,
    path: String,
    query: BTreeMap<String, String>,
}

fn template(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Input {
        template: String,
        ctx: Context,
    }
    let (Input { template, ctx }, out) = in_and_out(case)?;
    let Context { payload, headers, path, query } = ctx;
    compared(out, testing::hook_template(&template, payload, headers, path, query))
}

fn mapping(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Input {
        hooks: Hooks,
        ctx: Context,
    }
    let (Input { hooks, ctx }, out) = in_and_out(case)?;
    let Context { payload, headers, path, query } = ctx;
    compared(out, testing::hook_mapping(&hooks, payload, headers, path, query))
}

fn agent_payload(case: &Value) -> Result<Compared, String> {
    let (body, out): (Value, Value) = in_and_out(case)?;
    let channels = CHANNELS.map(str::to_owned);
    compared(out, testing::hook_agent(&body, "ID", &channels))
}

fn wake_payload(case: &Value) -> Result<Compared, String> {
    let (body, out): (Value, Value) = in_and_out(case)?;
    compared(out, testing::hook_wake(&body))
}

/// Through the file, as every configuration comes: what is wrong with it is told by its message.
fn config(case: &Value) -> Result<Compared, String> {
    let (document, out): (Value, Value) = in_and_out(case)?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("config.json5");
    std::fs::write(&path, document.to_string()).map_err(|error| error.to_string())?;
    let file = ConfigFile::new(path, folder.path().join("revisions"));
    let ours = match file.load(&Env::from_iter::<[(&str, &str); 0]>([])) {
        Ok(loaded) => testing::hook_config(&loaded.config.hooks),
        Err(error) => error.problems().first().map(|problem| problem.message.clone()).into(),
    };
    compared(out, ours)
}

fn token(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Input {
        headers: BTreeMap<String, String>,
        url: String,
    }
    let input: Value = case.get("in").cloned().ok_or("missing field `in`")?;
    let Input { headers, url } = read(&input)?;
    let out = case.get("out").cloned().unwrap_or_else(|| json!({}));
    compared(out, testing::hook_token(&headers, &url))
}
