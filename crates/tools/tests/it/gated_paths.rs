//! Threat rows 20 and 21 as a property: whatever stands in whichever text of whichever tool, nothing outside the
//! agent's folder is read or changed.

use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::gated_scene::{PRIVATE, Scene, Web, samples};

/// Two names for one argument: with one the other must go.
const TWINS: [(&str, &str); 3] =
    [("path", "file_path"), ("oldText", "old_string"), ("newText", "new_string")];

/// A name that leads, or tries to lead, to what is not the agent's. `{base}` is the folder around it.
fn attack() -> impl Strategy<Value = String> {
    let target = prop_oneof![
        Just("other/private.txt"),
        Just("other/new.txt"),
        Just("other"),
        Just("main/.state/keys.txt"),
        Just("main/.state/new.txt"),
        Just("main/.state"),
    ];
    let way = prop_oneof![
        "(\\.\\./|\\./|sub/\\.\\./|\\.\\.//|sub/|door/){1,4}",
        Just("{base}/".to_owned()),
        Just("{base}/main/../".to_owned()),
        Just("/{base}/".to_owned()),
        Just("file://{base}/".to_owned()),
        Just("/proc/self/root{base}/".to_owned()),
        Just("/dev/fd/../../..{base}/".to_owned()),
        Just("..\\".to_owned()),
        Just("\\\\?\\{base}\\".to_owned()),
        Just("~/../..{base}/".to_owned()),
        Just("%2e%2e%2f".to_owned()),
        Just("..\u{ff0f}".to_owned()),
    ];
    let inside = prop_oneof![
        Just("door/private.txt"),
        Just("door/new.txt"),
        Just("door"),
        Just("letter.txt"),
        Just(".state/keys.txt"),
        Just(".state/new.txt"),
        Just("sub/../.state/keys.txt"),
    ];
    let around = prop_oneof![
        6 => Just(("", "")),
        1 => Just(("", "\0")),
        1 => Just(("", "\0.txt")),
        1 => Just(("\0", "")),
        1 => Just(("@", "")),
        1 => Just((" ", " ")),
        1 => Just(("", "/")),
        1 => Just(("", "/.")),
        1 => Just(("-", "")),
        1 => Just(("", "\n")),
    ];
    let path = prop_oneof![
        2 => (way, target).prop_map(|(way, target)| format!("{way}{target}")),
        1 => inside.prop_map(str::to_owned),
    ];
    (around, path).prop_map(|((before, after), path)| format!("{before}{path}{after}"))
}

/// The arguments of a call with the text in one place, for each place that takes a text.
fn placed(schema: &Value, args: &Value, text: &str) -> Vec<(String, Value)> {
    let mut calls = Vec::new();
    for (name, kind) in schema["properties"].as_object().unwrap() {
        let values = match kind["type"].as_str() {
            Some("string") if kind.get("enum").is_none() => vec![json!(text)],
            Some("array") => vec![json!([text])],
            Some("object") => vec![json!({ "A": text }), json!({ text: "a" })],
            _ => Vec::new(),
        };
        for value in values {
            let mut args = args.clone();
            for (one, other) in TWINS {
                let twin = if name == one { other } else { one };
                if name == one || name == other {
                    args.as_object_mut().unwrap().remove(twin);
                }
            }
            args[name] = value;
            calls.push((name.clone(), args));
        }
    }
    calls
}

/// Patches in which the text is a name.
fn patches(text: &str) -> Vec<Value> {
    let bodies = [
        format!("*** Add File: {text}\n+x"),
        format!("*** Delete File: {text}"),
        format!("*** Update File: {text}\n@@\n-alpha\n+x"),
        format!("*** Update File: notes.txt\n*** Move to: {text}\n@@\n-alpha\n+x"),
    ];
    bodies.iter().map(|body| json!({ "input": format!("*** Begin Patch\n{body}\n*** End Patch") })).collect()
}

#[test]
fn no_text_in_any_argument_of_any_tool_leads_out_of_the_folder() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let web = runtime.block_on(Web::start());
    let mut runner = TestRunner::new(ProptestConfig { cases: 40, ..ProptestConfig::default() });
    let property = |attack: String| {
        runtime.block_on(async {
            let scene = Scene::new(&web);
            let base = scene.root().parent().unwrap().display().to_string();
            let text = attack.replace("{base}", &base);
            let before = scene.outside();
            for (tool, args, ..) in samples(&web) {
                let schema = scene.registry.find(tool).unwrap().spec().input_schema.clone();
                let mut calls = placed(&schema, &args, &text);
                if tool == "apply_patch" {
                    calls.extend(patches(&text).into_iter().map(|args| ("a name in it".to_owned(), args)));
                }
                for (parameter, args) in calls {
                    std::fs::write(scene.root().join("notes.txt"), "alpha\nbeta\n").unwrap();
                    // A yes to a command is a yes to what it says: nothing holds commands on this machine yet.
                    let approves = (tool, parameter.as_str()) != ("exec", "command");
                    let told = scene.call(tool, args, approves).await.told();
                    prop_assert!(!told.contains(PRIVATE), "{tool} {parameter} {text:?} read: {told}");
                    let after = scene.outside();
                    prop_assert!(
                        after == before,
                        "{tool} {parameter} {text:?} changed: {}",
                        changes(&before, &after)
                    );
                }
            }
            Ok(())
        })
    };
    runner.run(&attack(), property).unwrap();
}

type Outside = std::collections::BTreeMap<std::path::PathBuf, Option<Vec<u8>>>;

fn changes(before: &Outside, after: &Outside) -> String {
    let mut changed = String::new();
    for path in before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)) {
        let _ = write!(changed, "{} ", path.display());
    }
    changed
}
