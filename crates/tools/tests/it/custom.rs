//! Tools from the configuration: commands and HTTP calls.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_net::{Client, LeakScan, Secret};
use tidegate_policy::{HostLevel, HostRules};
use tidegate_protocol::{Risk, ToolErrorCode};
use tidegate_testkit::web_server::{Page, WebServer};
use tidegate_tools::{
    CommandOutput, CommandSpec, CustomError, CustomKind, CustomSpec, HttpSpec, HttpSpecError, Output,
    ToolFailure, custom_tool,
};

use crate::stage::{Stage, is_gone};

fn command(argv: &[&str]) -> CommandSpec {
    CommandSpec {
        argv: argv.iter().map(ToString::to_string).collect(),
        stdin_json: false,
        env: BTreeMap::new(),
        output: CommandOutput::Text,
    }
}

fn spec(kind: CustomKind) -> CustomSpec {
    CustomSpec {
        name: "weather".into(),
        description: "Tells the weather.".into(),
        input_schema: json!({
            "type": "object",
            "properties": { "city": { "type": "string" }, "unit": { "type": "string" } },
            "required": ["city"]
        }),
        risk: Risk::Execute,
        idempotent: true,
        timeout: Duration::from_secs(1),
        kind,
    }
}

async fn call(stage: &Stage, command: CommandSpec, args: Value) -> Result<Output, ToolFailure> {
    let spec = spec(CustomKind::Command(command));
    let tool = custom_tool(&spec, &stage.processes, &Client::default()).unwrap();
    stage.call(&*tool, args).await
}

#[tokio::test]
async fn a_value_arrives_as_the_one_word_it_was() {
    let stage = Stage::new();
    let words = command(&["printf", "[%s]", "--unit={{unit}}", "{{city}}", "{{unit}}"]);
    for city in ["a b", "$(id)", "'; rm -rf ~ #", "* ? ~", "line\nline", "\"", ""] {
        let output = call(&stage, words.clone(), json!({ "city": city })).await.unwrap();
        assert_eq!(output.data.unwrap()["stdout"], format!("[{city}]"));
    }
    let output = call(&stage, words, json!({ "city": "x", "unit": "C" })).await.unwrap();
    assert_eq!(output.data.unwrap()["stdout"], "[--unit=C][x][C]");
}

#[tokio::test]
async fn a_value_that_looks_like_an_option_is_refused() {
    let stage = Stage::new();
    let failure = call(&stage, command(&["ls", "{{city}}"]), json!({ "city": "--help" })).await.unwrap_err();
    assert_eq!(failure.code, ToolErrorCode::InvalidArgs);
    assert!(failure.message.contains("city"), "{}", failure.message);
}

#[tokio::test]
async fn arguments_come_on_the_input_as_json() {
    let stage = Stage::new();
    let cat = CommandSpec { stdin_json: true, output: CommandOutput::Json, ..command(&["cat"]) };
    let args = json!({ "city": "Zürich", "unit": "C" });
    let output = call(&stage, cat, args.clone()).await.unwrap();
    assert_eq!(output.data, Some(args));
}

#[tokio::test]
async fn a_program_that_does_not_read_its_input_answers_all_the_same() {
    let stage = Stage::new();
    let echo = CommandSpec { stdin_json: true, ..command(&["echo", "fine"]) };
    let output = call(&stage, echo, json!({ "city": "x".repeat(50_000) })).await.unwrap();
    assert_eq!(output.data.unwrap()["stdout"], "fine\n");
}

#[tokio::test]
async fn output_that_should_be_json_and_is_not_is_a_failure() {
    let stage = Stage::new();
    let echo = CommandSpec { output: CommandOutput::Json, ..command(&["echo", "not json"]) };
    let failure = call(&stage, echo, json!({ "city": "x" })).await.unwrap_err();
    assert_eq!(failure.code, ToolErrorCode::ExecutionError);
    assert!(failure.message.contains("not JSON"), "{}", failure.message);
    assert_eq!(failure.output.unwrap().data.unwrap()["stdout"], "not json\n");
}

#[tokio::test]
async fn a_configured_variable_is_there_and_nothing_of_ours() {
    let stage = Stage::new();
    let env = [("UNIT".to_owned(), "K".to_owned())].into();
    let output =
        call(&stage, CommandSpec { env, ..command(&["env"]) }, json!({ "city": "x" })).await.unwrap();
    let stdout = output.data.unwrap()["stdout"].as_str().unwrap().to_owned();
    let mut lines: Vec<_> = stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["PATH=/usr/local/bin:/usr/bin:/bin", "UNIT=K"]);
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_killed() {
    let stage = Stage::new();
    let failure = call(&stage, command(&["sleep", "73.001"]), json!({ "city": "x" })).await.unwrap_err();
    assert!(failure.message.contains("its time was over"), "{}", failure.message);
    assert!(is_gone("73.001").await);
}

#[tokio::test]
async fn an_abort_kills_it() {
    let stage = Stage::new();
    let abort = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        stage.cancel.cancel();
    };
    let sleep = call(&stage, command(&["sleep", "73.002"]), json!({ "city": "x" }));
    let (result, ()) = tokio::join!(sleep, abort);
    assert_eq!(result.unwrap_err().message, "it was stopped");
    assert!(is_gone("73.002").await);
}

#[tokio::test]
async fn a_configuration_that_makes_no_tool_is_told_why() {
    let stage = Stage::new();
    let http = CustomKind::Http(HttpSpec {
        method: "GET".into(),
        url: "https://{{city}}.example/".into(),
        headers: BTreeMap::new(),
        body: None,
    });
    let new = |spec: CustomSpec| custom_tool(&spec, &stage.processes, &Client::default()).err();
    assert_eq!(new(spec(http)), Some(CustomError::Http(HttpSpecError::Origin)));
    let plain = spec(CustomKind::Command(command(&["true"])));
    assert_eq!(
        new(CustomSpec { input_schema: json!({ "type": "array" }), ..plain.clone() }),
        Some(CustomError::Schema)
    );
    let env = [("A B".to_owned(), String::new())].into();
    let odd = spec(CustomKind::Command(CommandSpec { env, ..command(&["true"]) }));
    assert_eq!(new(odd), Some(CustomError::Variable("A B".into())));
    assert_eq!(new(plain), None);
}

#[tokio::test]
async fn a_configured_http_call_goes_where_the_operator_said() {
    let stage = Stage::new();
    let server = WebServer::answering(|_| Page::new(200, "application/json", "{\"sky\":\"clear\"}")).await;
    let key = format!("key-{}", 4711);
    let http = HttpSpec {
        method: "POST".into(),
        url: server.url("/v1/{{city}}?unit={{unit}}&lang=en"),
        headers: [("X-Api-Key".to_owned(), Secret::new(key.clone()))].into(),
        body: Some(json!({ "where": "{{city}}", "unit": "{{unit}}" })),
    };
    let spec = spec(CustomKind::Http(http));
    let tool = custom_tool(&spec, &stage.processes, &Client::default()).unwrap();
    let args = json!({ "city": "../a b", "unit": null });

    let prepared = stage.prepare(&*tool, &args).await.unwrap();
    let preview = prepared.preview().unwrap();
    assert!(preview.contains("x-api-key") && !preview.contains(&key), "{preview}");
    assert!(preview.contains("{\"where\":\"../a b\"}"), "{preview}");
    let subjects: Vec<_> = prepared.subjects().iter().map(|subject| subject.value.clone()).collect();
    assert_eq!(subjects, ["127.0.0.1".to_owned(), server.url("/v1/..%2Fa%20b?lang=en"), "POST".to_owned()]);
    assert!(!format!("{spec:?}").contains(&key));

    let output = stage.call(&*tool, args).await.unwrap();
    assert_eq!(output.data.unwrap()["status"], 200);
    let asked = &server.asked()[0];
    assert_eq!((asked.method.as_str(), asked.headers["x-api-key"].as_str()), ("POST", key.as_str()));
    assert_eq!(asked.headers["content-type"], "application/json");
    assert_eq!(asked.body, b"{\"where\":\"../a b\"}");
}

#[tokio::test]
async fn a_configured_call_has_its_own_key_and_takes_no_other_secret_along() {
    let server = WebServer::of_pages([("/v1", Page::html("sunny"))]).await;
    let key = "key-of-the-weather-1";
    let http = HttpSpec {
        method: "GET".into(),
        url: server.url("/v1?q={{city}}"),
        headers: [("authorization".to_owned(), Secret::new(key))].into(),
        body: None,
    };
    let mut stage = Stage::new();
    stage.place.egress.leaks = LeakScan::of(vec![("tools.custom.weather".to_owned(), Secret::new(key))]);
    let tool = custom_tool(&spec(CustomKind::Http(http)), &stage.processes, &Client::default()).unwrap();
    stage.call(&*tool, json!({ "city": "Kiel" })).await.unwrap();
    assert_eq!(server.asked()[0].headers["authorization"], key);
    let failure = stage.call(&*tool, json!({ "city": key })).await.unwrap_err();
    assert!(failure.message.starts_with("EGRESS_LEAK"), "{}", failure.message);
    let level = HostLevel::of_list("agents.list[main].egress", ["example.com"]).unwrap();
    stage.place.egress.hosts = HostRules::default().and(level);
    let failure = stage.call(&*tool, json!({ "city": "Kiel" })).await.unwrap_err();
    assert!(failure.message.contains("agents.list[main].egress.allowHosts"), "{}", failure.message);
    assert_eq!(server.asked().len(), 1);
}
