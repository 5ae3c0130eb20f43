//! The web tools as everybody else sees them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_policy::{Requester, SubjectKind};
use tidegate_protocol::{Risk, Scope};
use tidegate_testkit::requests::parse;
use tidegate_tools::{Place, WebSettings, web_tools};

fn place() -> Place {
    let scope = Scope { tenant: parse("local"), workspace: parse("default"), agent: parse("main") };
    let (session, actor, root) = ("cli".to_owned(), "owner".to_owned(), "/srv/agent".to_owned());
    Place {
        requester: Requester { scope, session, actor, root },
        root: "/srv/agent".into(),
        forbidden: Vec::new(),
        env: BTreeMap::new(),
        background: true,
        egress: tidegate_net::Egress::default(),
    }
}

#[test]
fn the_three_tools_say_what_they_take() {
    let tools = web_tools(WebSettings::default());
    let seen: Vec<_> = tools.iter().map(|tool| (tool.spec().name.as_str(), tool.spec().risk)).collect();
    let expected =
        [("web_fetch", Risk::Network), ("web_search", Risk::Network), ("http.request", Risk::Execute)];
    assert_eq!(seen, expected);
    let fields = |at: usize| -> Vec<String> {
        tools[at].spec().input_schema["properties"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(fields(0), ["url", "extractMode", "maxChars"]);
    assert_eq!(fields(1), ["query", "count", "country", "search_lang", "ui_lang", "freshness"]);
    assert_eq!(fields(2), ["method", "url", "headers", "body", "timeoutMs", "maxBytes"]);
    let required = |at: usize| tools[at].spec().input_schema["required"].clone();
    assert_eq!([required(0), required(1), required(2)], [json!(["url"]), json!(["query"]), json!(["url"])]);
}

#[tokio::test]
async fn no_tool_is_prepared_for_a_private_address() {
    let tools = web_tools(WebSettings::default());
    for (at, args) in [
        (0, json!({ "url": "http://169.254.169.254/latest/meta-data/" })),
        (2, json!({ "url": "http://[::ffff:127.0.0.1]:5432/", "method": "POST" })),
    ] {
        let failure = tools[at].prepare(&args, &place()).await.unwrap_err();
        assert_eq!(failure.details.unwrap()["policy"]["stage"], "egress");
    }
}

#[tokio::test]
async fn what_a_rule_sees_is_the_plain_address_not_what_was_written() {
    let tools = web_tools(WebSettings::default());
    let args: Value = json!({ "url": "hTTp://134744072:80/../a b" });
    let preparation = tools[0].prepare(&args, &place()).await.unwrap();
    let value = |kind| &preparation.subjects.iter().find(|subject| subject.kind == kind).unwrap().value;
    assert_eq!(value(SubjectKind::Host), "8.8.8.8");
    assert_eq!(value(SubjectKind::Url), "http://8.8.8.8/a%20b");
}
