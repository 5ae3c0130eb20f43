//! The conformance vectors about tool policy.

use serde_json::Value;
use tidegate_protocol::Risk;

use super::{call, decide, global, with};
use crate::tools::{Profile, Sender, Verdict, by_sender};

const VECTORS: &str = include_str!("../../../../testkit/fixtures/vectors/tool_policy.json");

fn cases(group: &str) -> Vec<Value> {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    vectors[group].as_array().unwrap().clone()
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array().map(|values| values.iter().map(|value| value.as_str().unwrap().to_owned()).collect())
}

#[test]
fn policies_allow_what_the_vectors_say() {
    let cases = cases("policy");
    assert_eq!(cases.len(), 5);
    for case in cases {
        let mut stage = global();
        stage.allow = texts(&case["policy"]["allow"]);
        stage.deny = texts(&case["policy"]["deny"]).unwrap_or_default();
        // A tool that only reads, so that nothing but the names decides.
        let tool = call(case["tool"].as_str().unwrap(), Risk::Read);
        let allowed = decide(&with(Profile::Full, stage), &tool).verdict == Verdict::Allow;
        assert_eq!(allowed, case["allowed"].as_bool().unwrap(), "{case}");
    }
}

#[test]
fn senders_get_the_entry_the_vectors_say() {
    let cases = cases("tools_by_sender");
    assert_eq!(cases.len(), 7);
    for case in cases {
        let input = &case["in"];
        let table: Vec<(String, Value)> = input["toolsBySender"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let sender = Sender {
            id: input["senderId"].as_str(),
            username: input["senderUsername"].as_str(),
            name: input["senderName"].as_str(),
        };
        assert_eq!(by_sender(&table, sender).unwrap_or(&Value::Null), &case["out"], "{case}");
    }
}
