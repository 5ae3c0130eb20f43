//! The recorded cases of the gateway whose users come to us. Where ours differs on purpose, the reason stands here.

use serde_json::{Value, json};
use tidegate_policy::exec::judge;
use tidegate_policy::tools::Verdict;

use super::scene::{command, plan, policy, rules};

const VECTORS: &str = include_str!("../../../../testkit/fixtures/vectors/exec.json");

/// Command, our answer, reason.
const DIFFERENT_ON_PURPOSE: [(&str, &str, &str); 3] = [
    (
        r#"echo "$(id)""#,
        r#"{"analysisOk": false, "ok": false, "argv": []}"#,
        "double quotes do not stop a substitution: it would run any command behind an allowed word",
    ),
    (
        "FOO=1 git x",
        r#"{"analysisOk": false, "ok": false, "argv": []}"#,
        "a variable before a command is not the name of a program",
    ),
    (
        "git log | jq .",
        r#"{"analysisOk": true, "ok": true, "argv": [["git", "log"], ["jq", "."]]}"#,
        "the dot is jq's program and not a file, so the filter is a safe one",
    ),
];

#[test]
fn recorded_commands_are_answered_as_recorded_or_differ_on_purpose() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let cases = vectors["exec"].as_array().unwrap();
    let mut seen = 0;
    for case in cases {
        let script = case["c"].as_str().unwrap();
        let mut expected = case.clone();
        expected.as_object_mut().unwrap().remove("c");
        if let Some((_, ours, _)) = DIFFERENT_ON_PURPOSE.iter().find(|(command, _, _)| *command == script) {
            seen += 1;
            let ours = serde_json::from_str(ours).unwrap();
            assert_ne!(expected, ours, "{script} no longer differs");
            expected = ours;
        }
        assert_eq!(answer(script), expected, "{script}");
    }
    assert_eq!(seen, DIFFERENT_ON_PURPOSE.len());
}

/// With full paths of git and echo on the list and the usual filters. Their list names programs and not arguments, so
/// ours gets every argument list of theirs.
fn answer(script: &str) -> Value {
    let git = [&["status"][..], &["a"], &["b"], &["log"], &["a && b"]];
    let mut commands: Vec<_> = git.iter().map(|args| command("/usr/bin/git", args, false)).collect();
    commands.push(command("/usr/bin/echo", &[], true));
    let plan = plan(script);
    let judged = judge(&plan, &policy(), &rules(commands));
    let argv: Vec<_> = plan.launches().map(|launch| launch.argv.clone()).collect();
    let is_understood = plan.opaque().is_none();
    json!({
        "analysisOk": is_understood,
        "ok": judged.verdict == Verdict::Allow,
        "argv": if is_understood { argv } else { Vec::new() },
    })
}
