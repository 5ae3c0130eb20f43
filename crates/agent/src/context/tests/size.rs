//! How much a short question costs. A model reads all of it each time.

use std::sync::Arc;

use tidegate_models::{Api, Request, ToolSpec};
use tidegate_policy::tools::Profile;
use tidegate_protocol::Message;
use tidegate_runtime::SystemClock;
use tidegate_tools::{
    ExecSettings, ExecTool, ProcessLimits, ProcessTool, Processes, Tool, WebSettings, basic_tools,
    file_tools, web_tools,
};

use crate::context::{Scene, system};

/// What is built in below the engine.
fn built_in() -> Vec<ToolSpec> {
    let processes = Processes::new(ProcessLimits::default(), Arc::new(SystemClock));
    let mut tools = basic_tools();
    tools.extend(file_tools());
    tools.push(Arc::new(ExecTool::new(ExecSettings::default(), Arc::clone(&processes))));
    tools.push(Arc::new(ProcessTool::new(processes)));
    tools.extend(web_tools(WebSettings::default()));
    let spec = |tool: &Arc<dyn Tool>| {
        let spec = tool.spec();
        let (name, description) = (spec.name.clone(), spec.description.clone());
        ToolSpec { name, description, parameters: spec.input_schema.clone() }
    };
    tools.iter().map(spec).collect()
}

/// Bytes of the request for `hi`, in the format that takes most.
fn bytes(tools: Vec<ToolSpec>) -> usize {
    let scene = Scene {
        agent: "main".into(),
        workspace: Some("/home/somebody/.tidegate/agents/main/workspace".into()),
        zone: "America/Argentina/Buenos_Aires".into(),
        channel: Some("telegram".into()),
        ..Scene::default()
    };
    let request = Request {
        system: system(&scene, &tools),
        messages: vec![Message::user("hi", 0)],
        tools,
        ..Request::default()
    };
    let formats =
        [Api::AnthropicMessages, Api::OpenaiCompletions, Api::OpenaiResponses, Api::GoogleGenerativeAi];
    formats.into_iter().map(|api| tidegate_models::testing::body(api, &request).len()).max().unwrap()
}

#[test]
fn hi_costs_less_than_eight_kilobytes_with_the_safe_tools() {
    let mut tools = built_in();
    tools.retain(|tool| Profile::Safe.tools().contains(&tool.name.as_str()));
    assert_eq!(tools.len(), 9);
    let bytes = bytes(tools);
    assert!(bytes < 8 * 1024, "{bytes}");
}

/// The tools of the engine come on top: they have what is left of sixteen.
#[test]
fn hi_costs_less_than_twelve_kilobytes_with_every_tool_below_the_engine() {
    let bytes = bytes(built_in());
    assert!(bytes < 12 * 1024, "{bytes}");
}
