//! The file tools as the registry gets them: what they say about themselves and about a call.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_policy::{Preparation, Requester, Subject, SubjectKind};
use tidegate_protocol::{Risk, Scope, ToolErrorCode};
use tidegate_tools::{Place, Tool, ToolFailure, file_tools};

fn tool(name: &str) -> Arc<dyn Tool> {
    file_tools().into_iter().find(|tool| tool.spec().name == name).unwrap()
}

fn place(root: &Path) -> Place {
    let requester = Requester {
        scope: Scope::personal("main".parse().unwrap()),
        session: "cli".to_owned(),
        actor: "local".to_owned(),
        root: root.display().to_string(),
    };
    Place {
        requester,
        root: root.to_owned(),
        forbidden: Vec::new(),
        env: BTreeMap::default(),
        background: true,
        egress: tidegate_net::Egress::default(),
    }
}

async fn prepare(name: &str, args: Value, root: &Path) -> Result<Preparation, ToolFailure> {
    tool(name).prepare(&args, &place(root)).await
}

#[test]
fn each_tool_says_what_it_can_do_at_worst() {
    let said: Vec<_> = file_tools()
        .iter()
        .map(|tool| (tool.spec().name.clone(), tool.spec().risk, tool.spec().idempotent))
        .collect();
    let expected = [
        ("read", Risk::Read, true),
        ("write", Risk::Write, true),
        ("edit", Risk::Write, false),
        ("apply_patch", Risk::Write, false),
        ("ls", Risk::Read, true),
        ("find", Risk::Read, true),
        ("grep", Risk::Read, true),
        ("fs.list_dir", Risk::Read, true),
        ("fs.read_file", Risk::Read, true),
        ("memory_append", Risk::Write, false),
    ];
    assert_eq!(said, expected.map(|(name, risk, idempotent)| (name.to_owned(), risk, idempotent)));
}

#[test]
fn the_arguments_models_were_trained_on_are_in_the_schema() {
    for (name, properties, required) in [
        ("read", json!(["path", "file_path", "offset", "limit"]), Value::Null),
        ("write", json!(["path", "file_path", "content"]), json!(["content"])),
        ("edit", json!(["path", "file_path", "oldText", "old_string", "newText", "new_string"]), Value::Null),
        ("apply_patch", json!(["input"]), json!(["input"])),
        ("ls", json!(["path", "limit"]), Value::Null),
        ("find", json!(["pattern", "path", "limit"]), json!(["pattern"])),
        (
            "grep",
            json!(["pattern", "path", "glob", "ignoreCase", "literal", "context", "limit"]),
            json!(["pattern"]),
        ),
        ("fs.list_dir", json!(["path", "recursive", "maxDepth"]), json!(["path"])),
        ("fs.read_file", json!(["path", "maxBytes"]), json!(["path"])),
        ("memory_append", json!(["text", "file"]), json!(["text"])),
    ] {
        let schema = tool(name).spec().input_schema.clone();
        let names: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(json!(names), properties, "{name}");
        assert_eq!(schema["required"], required, "{name}");
        assert!(!schema.to_string().contains("$ref"), "{name}");
    }
    assert_eq!(tool("fs.read_file").spec().input_schema["properties"]["maxBytes"]["default"], 204_800);
}

#[tokio::test]
async fn a_call_says_which_file_it_means_and_what_it_would_do_to_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "one\n").unwrap();
    std::os::unix::fs::symlink("a.txt", folder.path().join("link")).unwrap();
    let args = json!({ "path": "link", "oldText": "one", "newText": "two" });
    let prepared = prepare("edit", args, folder.path()).await.unwrap();
    let sha256 = "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806";
    assert_eq!(
        prepared,
        Preparation {
            subjects: vec![Subject::new(SubjectKind::Path, "a.txt")],
            preview: Some("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n".to_owned()),
            conditions: vec![("sha256 a.txt".to_owned(), sha256.to_owned())],
            ..Preparation::default()
        }
    );
    assert_eq!(std::fs::read_to_string(folder.path().join("a.txt")).unwrap(), "one\n");
}

#[tokio::test]
async fn a_call_that_leads_out_is_not_even_prepared() {
    let folder = tempfile::tempdir().unwrap();
    let failure = prepare("read", json!({ "path": "../x" }), folder.path()).await.unwrap_err();
    assert_eq!(failure, ToolFailure::execution("../x is outside the working folder"));
    let failure = prepare("read", json!({}), folder.path()).await.unwrap_err();
    assert_eq!(failure.code, ToolErrorCode::InvalidArgs);
    let failure = prepare("ls", json!({}), &folder.path().join("none")).await.unwrap_err();
    assert!(failure.message.ends_with("does not exist"), "{}", failure.message);
}
