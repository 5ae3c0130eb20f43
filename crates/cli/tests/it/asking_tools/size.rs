//! What a short question costs, as a vendor receives it: a model reads all of it each time.

use serde_json::{Value, json};

use super::Desk;

/// The names of the tools in a request, and its bytes.
fn hi(profile: &str, model: &str) -> (Vec<String>, usize) {
    let desk = Desk::with(&json!({ "profile": profile }));
    desk.home.call(&["ask", "--model", model, "hi"]).inside(&desk.root).ok();
    assert_eq!(desk.vendor.requests().len(), 1, "one call of the model for a plain turn");
    let body = desk.vendor.last_request().body;
    let name =
        |tool: &Value| tool["name"].as_str().or_else(|| tool["function"]["name"].as_str()).map(str::to_owned);
    let mut tools: Vec<String> = body["tools"].as_array().unwrap().iter().filter_map(name).collect();
    tools.sort();
    (tools, body.to_string().len())
}

#[test]
fn hi_costs_less_than_eight_kilobytes_with_the_safe_tools() {
    for model in ["anthropic/first", "groq/second"] {
        let (tools, bytes) = hi("safe", model);
        assert_eq!(tools.len(), 10, "{tools:?}");
        assert!(bytes < 8 * 1024, "{model}: {bytes}");
    }
}

#[test]
fn hi_costs_less_than_sixteen_kilobytes_with_everything_that_is_built_in() {
    for model in ["anthropic/first", "groq/second"] {
        let (tools, bytes) = hi("full", model);
        for tool in
            ["apply_patch", "exec", "process", "image", "web_fetch", "sessions_spawn", "sessions_send"]
        {
            assert!(tools.iter().any(|name| name == tool), "{tool} is missing: {tools:?}");
        }
        assert!(bytes < 16 * 1024, "{model}: {bytes}");
    }
}
