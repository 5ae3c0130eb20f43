//! Argument rules: when they are about a call, when not, and which are refused.

use serde_json::{Value, json};
use tidegate_protocol::Risk;

use super::{
    decide, gist, global, list, open_exec, pipeline, plan, plan_called_as, plan_with, policy, prepared,
    running, touching, with,
};
use crate::call::{Preparation, Prepared, Subject, SubjectKind};
use crate::tools::{
    Conditions, Example, Pipeline, Profile, Rule, RuleMode, RuleProblem, StageKind, ToolPolicy, Verdict,
};

/// A rule that asks for every call of a tool.
pub(super) fn rule(name: &str, tool: &str) -> Rule {
    Rule {
        name: name.to_owned(),
        tool: tool.to_owned(),
        when: Conditions::default(),
        unless: None,
        mode: RuleMode::ApprovalRequired,
        reason: String::new(),
        examples: crate::tools::Examples::default(),
    }
}

/// As it would be configured.
fn read(rule: &Value) -> Rule {
    serde_json::from_value(rule.clone()).unwrap()
}

fn ruled(rule: &Value) -> ToolPolicy {
    let mut stage = global();
    stage.rules = vec![read(rule)];
    ToolPolicy { exec: open_exec(), high_risk: Verdict::Allow, ..with(Profile::Full, stage) }
}

fn problem(rule: &Value) -> RuleProblem {
    Pipeline::new(&ruled(rule)).unwrap_err()
}

fn deny(when: &Value, unless: &Value) -> Value {
    let mut rule = json!({ "name": "r", "tool": "*", "when": when, "mode": "deny" });
    if !unless.is_null() {
        rule["unless"] = unless.clone();
    }
    rule
}

fn calling(subjects: &[(SubjectKind, &str)], args: Value) -> Prepared {
    let subjects = subjects.iter().map(|(kind, value)| Subject::new(*kind, *value)).collect();
    prepared("http.request", Risk::Read, args, Preparation { subjects, ..Preparation::default() })
}

#[test]
fn a_rule_names_itself_and_gives_its_reason() {
    let mut policy = ruled(&json!({
        "name": "no-secrets", "tool": "group:fs", "when": { "path": ["**/.env*"] },
        "mode": "deny", "reason": "secrets stay where they are",
    }));
    let decision = decide(&policy, &touching("read", Risk::Read, &["a/.env.local"]));
    assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Global, "tools.rules[no-secrets]"));
    assert_eq!(decision.reason, "secrets stay where they are");
    assert_eq!(decision.trail[1].rule, "tools.rules[no-secrets]");
    assert_eq!(decide(&policy, &touching("read", Risk::Read, &["a/env"])).verdict, Verdict::Allow);
    assert_eq!(decide(&policy, &touching("image", Risk::Read, &[".env"])).verdict, Verdict::Allow);
    policy.stages[0].rules[0].reason.clear();
    let decision = decide(&policy, &touching("read", Risk::Read, &[".env"]));
    assert_eq!(decision.reason, "tools.rules[no-secrets] is about it");
}

#[test]
fn a_rule_never_loosens_what_its_stage_says() {
    let mut policy = ruled(&json!({ "name": "r", "tool": "read", "mode": "approval-required" }));
    let read = touching("read", Risk::Read, &["a"]);
    assert_eq!(gist(&decide(&policy, &read)), (Verdict::Ask, StageKind::Global, "tools.rules[r]"));
    policy.stages[0].deny = list(&["read"]);
    assert_eq!(gist(&decide(&policy, &read)), (Verdict::Deny, StageKind::Global, "tools.deny[0]"));
    let mut policy = ruled(&json!({ "name": "r", "tool": "read", "mode": "approval-required" }));
    policy.stages[0].modes = [("read".to_owned(), Verdict::Ask)].into();
    assert_eq!(decide(&policy, &read).rule, "tools.modes.read", "the first of equals");
}

#[test]
fn the_strictest_of_several_rules_counts() {
    let mut stage = global();
    let denies = Rule { mode: RuleMode::Deny, ..rule("denies", "read") };
    stage.rules = vec![rule("asks", "read"), denies, rule("asks-too", "*")];
    let decision = decide(&with(Profile::Full, stage), &touching("read", Risk::Read, &["a"]));
    assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Global, "tools.rules[denies]"));
}

#[test]
fn conditions_look_at_what_a_call_touches_and_says() {
    use SubjectKind::{Host, Method, Path, Url};
    let host = &[(Host, "api.example.org"), (Method, "POST"), (Url, "https://api.example.org/v1/a")][..];
    for (when, subjects, args, applies) in [
        (json!({}), &[][..], json!({}), true),
        (json!({ "host": ["*.Example.org"] }), host, json!({}), true),
        (json!({ "host": ["example.org"] }), host, json!({}), false),
        (json!({ "method": ["post", "PUT"] }), host, json!({}), true),
        (json!({ "method": ["GET"] }), host, json!({}), false),
        (json!({ "url": ["https://*/v1/*"] }), host, json!({}), true),
        (json!({ "url": ["HTTPS://*/v1/*"] }), host, json!({}), false),
        // All kinds must hold.
        (json!({ "host": ["*.example.org"], "method": ["GET"] }), host, json!({}), false),
        (json!({ "host": ["*.example.org"], "method": ["POST"] }), host, json!({}), true),
        // The kind counts, not the text alone.
        (json!({ "path": ["api.example.org"] }), host, json!({}), false),
        // One of the things touched is enough.
        (json!({ "path": ["b"] }), &[(Path, "a"), (Path, "b")], json!({}), true),
        (json!({ "args": { "to": ["ann", "b*"] } }), &[], json!({ "to": "bob" }), true),
        (json!({ "args": { "to": ["ann", "b*"] } }), &[], json!({ "to": "carl" }), false),
        (json!({ "args": { "to": ["ann"] } }), &[], json!({ "to": ["carl", "ann"] }), true),
        (json!({ "args": { "to": ["ann"] } }), &[], json!({}), false),
        (json!({ "args": { "n": [1, true] } }), &[], json!({ "n": 1 }), true),
        (json!({ "args": { "n": [1, true] } }), &[], json!({ "n": "1" }), false),
        (json!({ "args": { "a": [1], "b": [2] } }), &[], json!({ "a": 1, "b": 3 }), false),
        (json!({ "command": [["git"]] }), &[], json!({}), false),
    ] {
        let decision = decide(&ruled(&deny(&when, &Value::Null)), &calling(subjects, args.clone()));
        let expected = if applies { Verdict::Deny } else { Verdict::Allow };
        assert_eq!(decision.verdict, expected, "{when} on {subjects:?} {args}");
    }
}

#[test]
fn an_exception_holds_only_for_everything_a_call_touches() {
    use SubjectKind::{Host, Path};
    for (unless, subjects, args, excepted) in [
        (json!({ "path": ["docs/**"] }), &[(Path, "docs/a.md")][..], json!({}), true),
        (json!({ "path": ["docs/**"] }), &[(Path, "docs/a.md"), (Path, "src/b.rs")], json!({}), false),
        (json!({ "path": ["docs/**", "src/**"] }), &[(Path, "docs/a"), (Path, "src/b")], json!({}), true),
        (json!({ "path": ["docs/**"] }), &[(Path, "docs/a"), (Host, "example.org")], json!({}), true),
        (json!({ "path": ["docs/**"] }), &[], json!({}), false),
        (json!({ "path": ["docs/**"], "host": ["a"] }), &[(Path, "docs/a")], json!({}), false),
        (json!({ "args": { "to": ["ann"] } }), &[], json!({ "to": "ann" }), true),
        (json!({ "args": { "to": ["ann", "bob"] } }), &[], json!({ "to": ["ann", "bob"] }), true),
        (json!({ "args": { "to": ["ann"] } }), &[], json!({ "to": ["ann", "carl"] }), false),
        (json!({ "args": { "to": ["ann"] } }), &[], json!({ "to": [] }), false),
        (json!({ "args": { "to": ["ann"] } }), &[], json!({}), false),
        (json!({ "path": ["docs/**"], "args": { "to": ["x"] } }), &[(Path, "docs/a")], json!({}), false),
        (json!({ "path": ["a"], "args": { "to": ["x"] } }), &[(Path, "b")], json!({ "to": "x" }), false),
        (json!({ "command": [["git"]] }), &[], json!({}), false),
    ] {
        let decision = decide(&ruled(&deny(&json!({}), &unless)), &calling(subjects, args.clone()));
        assert_eq!(decision.verdict == Verdict::Allow, excepted, "{unless} on {subjects:?} {args}");
    }
}

#[test]
fn a_folder_counts_with_everything_that_may_be_in_it() {
    use SubjectKind::{Path, Tree};
    for (when, subject, applies) in [
        (json!({ "path": ["src/secret/**"] }), (Tree, "src"), true),
        (json!({ "path": ["**/.env"] }), (Tree, "."), true),
        (json!({ "path": ["src/secret/**"] }), (Tree, "docs"), false),
        (json!({ "path": ["src/secret/**"] }), (Path, "src"), false),
        // It is no host, whatever it is called.
        (json!({ "host": ["src"] }), (Tree, "src"), false),
    ] {
        let decision = decide(&ruled(&deny(&when, &Value::Null)), &calling(&[subject], json!({})));
        assert_eq!(decision.verdict == Verdict::Deny, applies, "{when} on {subject:?}");
    }
}

#[test]
fn an_exception_for_a_folder_holds_only_if_it_is_for_everything_in_it() {
    use SubjectKind::{Path, Tree};
    for (unless, subject, excepted) in [
        ("docs/**", (Tree, "docs"), true),
        ("docs/**", (Tree, "docs/a"), true),
        ("docs/**", (Tree, "."), false),
        ("docs", (Tree, "docs"), false),
        (".", (Tree, "."), false),
        ("docs/*", (Tree, "docs/a"), false),
        ("docs", (Path, "docs"), true),
        ("docs/*", (Path, "docs/a"), true),
    ] {
        let policy = ruled(&deny(&json!({}), &json!({ "path": [unless] })));
        let decision = decide(&policy, &calling(&[subject], json!({})));
        assert_eq!(decision.verdict == Verdict::Allow, excepted, "{unless} on {subject:?}");
    }
}

#[test]
fn a_command_is_known_by_its_first_words() {
    let policy = ruled(&deny(&json!({ "command": [["git", "push"], ["/usr/bin/make"]] }), &Value::Null));
    for (commands, applies) in [
        (&[&["git", "push"][..]][..], true),
        (&[&["git", "push", "--force"]], true),
        (&[&["git", "status"]], false),
        (&[&["git"]], false),
        (&[&["gitk", "push"]], false),
        (&[&["ls"], &["git", "push"]], true),
        (&[&["/opt/git", "push"]], true),
        (&[&["/usr/bin/make"]], true),
        (&[&["/opt/make"]], false),
        (&[&["make", "all"]], true),
    ] {
        let decision = decide(&policy, &running("exec", plan(commands)));
        assert_eq!(decision.verdict == Verdict::Deny, applies, "{commands:?}");
    }
}

/// A program that is not what it was called as.
fn called_as(name: &str, path: &str) -> Prepared {
    running("exec", plan_called_as(name, &[path, "push"]))
}

#[test]
fn neither_the_name_nor_the_file_alone_hides_a_program() {
    let policy = ruled(&deny(&json!({ "command": [["git", "push"]] }), &Value::Null));
    assert_eq!(decide(&policy, &called_as("harmless", "/usr/bin/git")).verdict, Verdict::Deny);
    assert_eq!(decide(&policy, &called_as("git", "/usr/bin/multi")).verdict, Verdict::Deny);
    assert_eq!(decide(&policy, &called_as("./git", "/usr/bin/multi")).verdict, Verdict::Deny);
    let by_path = ruled(&deny(&json!({ "command": [["/usr/bin/git", "push"]] }), &Value::Null));
    assert_eq!(decide(&by_path, &called_as("harmless", "/usr/bin/git")).verdict, Verdict::Deny);
    let other = ruled(&deny(&json!({ "command": [["git", "pull"]] }), &Value::Null));
    assert_eq!(decide(&other, &called_as("harmless", "/usr/bin/git")).verdict, Verdict::Allow);
}

#[test]
fn a_script_that_was_not_understood_may_be_what_a_rule_denies_and_asks() {
    let script = plan_with(&[&["sh", "-c", "echo $(git push)"]], true, Some("echo $(git push)"));
    let run = running("exec", script);
    let decision = decide(&ruled(&deny(&json!({ "command": [["git", "push"]] }), &Value::Null)), &run);
    assert_eq!(gist(&decision), (Verdict::Ask, StageKind::Global, "tools.rules[r]"));
    assert!(decision.reason.contains("not understood"));
    assert!(!decision.can_be_saved);
    // What surely does not hold leaves no doubt.
    let elsewhere = json!({ "command": [["git", "push"]], "host": ["example.org"] });
    assert_eq!(decide(&ruled(&deny(&elsewhere, &Value::Null)), &run).verdict, Verdict::Allow);
    // What surely holds does not either.
    let shell = json!({ "command": [["sh"]] });
    assert_eq!(decide(&ruled(&deny(&shell, &Value::Null)), &run).verdict, Verdict::Deny);
    // An exception for commands never covers it.
    let only_sh = deny(&json!({}), &json!({ "command": [["sh"]] }));
    assert_eq!(decide(&ruled(&only_sh), &run).verdict, Verdict::Deny);
}

#[test]
fn a_program_that_starts_what_its_arguments_say_may_be_what_a_rule_denies_and_asks() {
    let policy = ruled(&deny(&json!({ "command": [["git", "push"]] }), &Value::Null));
    for (commands, verdict) in [
        (&[&["env", "git", "push"][..]][..], Verdict::Ask),
        (&[&["ls"], &["/usr/bin/sudo", "git", "push"]], Verdict::Ask),
        (&[&["sh", "-c", "git push"], &["git", "push"]], Verdict::Deny),
        (&[&["ls", "git", "push"]], Verdict::Allow),
    ] {
        assert_eq!(decide(&policy, &running("exec", plan(commands))).verdict, verdict, "{commands:?}");
    }
    // Also by another name.
    assert_eq!(decide(&policy, &called_as("harmless", "/usr/bin/env")).verdict, Verdict::Ask);
    assert_eq!(decide(&policy, &called_as("env", "/usr/bin/coreutils")).verdict, Verdict::Ask);
    // The name is not one of the arguments.
    assert_eq!(decide(&policy, &called_as("-exec", "/usr/bin/find")).verdict, Verdict::Allow);
    // Rules about other things have no doubts.
    let paths = ruled(&deny(&json!({ "path": ["a"] }), &Value::Null));
    assert_eq!(decide(&paths, &running("exec", plan(&[&["env", "ls"]]))).verdict, Verdict::Allow);
}

#[test]
fn an_exception_for_a_command_holds_only_for_that_very_program() {
    let unless = json!({ "command": [["git", "status"], ["/opt/tool"]] });
    let policy = ruled(&deny(&json!({}), &unless));
    for (commands, trusted, excepted) in [
        (&[&["git", "status"][..]][..], true, true),
        (&[&["git", "status", "-s"]], true, true),
        (&[&["git", "status"], &["git", "push"]], true, false),
        (&[&["git", "push"]], true, false),
        (&[&["git", "status"]], false, false),
        (&[&["/opt/tool"]], false, true),
        (&[&["/tmp/tool"]], true, false),
        (&[], true, false),
    ] {
        let decision = decide(&policy, &running("exec", plan_with(commands, trusted, None)));
        assert_eq!(decision.verdict == Verdict::Allow, excepted, "{commands:?} {trusted}");
    }
    // Being called so is not enough.
    assert_eq!(decide(&policy, &called_as("git", "/usr/bin/multi")).verdict, Verdict::Deny);
}

fn with_examples(examples: &Value) -> Value {
    json!({
        "name": "no-push", "tool": "exec", "when": { "command": [["git", "push"]] },
        "unless": { "args": { "dry": [true] } }, "mode": "deny", "examples": examples,
    })
}

#[test]
fn a_rule_whose_examples_hold_is_taken() {
    let examples = json!({
        "matches": [
            { "command": [["git", "push"]] },
            { "tool": "bash", "command": [["ls"], ["/usr/bin/git", "push", "-f"]] },
        ],
        "misses": [
            { "command": [["git", "status"]] },
            { "tool": "process", "command": [["git", "push"]] },
            { "command": [["git", "push"]], "args": { "dry": true } },
            { "command": [[]] },
            {},
        ],
    });
    pipeline(&ruled(&with_examples(&examples)));
}

#[test]
fn an_example_is_matched_by_any_of_several_commands() {
    let mut rule = deny(&json!({ "command": [["git", "push"], ["make"]] }), &Value::Null);
    rule["examples"] = json!({ "matches": [{ "command": [["make"]] }, { "command": [["git", "push"]] }] });
    pipeline(&ruled(&rule));
}

#[test]
fn a_rule_whose_examples_do_not_hold_is_refused_and_named() {
    let push = json!({ "command": [["git", "push"]] });
    let status = json!({ "command": [["git", "status"]] });
    let rule = "tools.rules[no-push]".to_owned();
    let misses = problem(&with_examples(&json!({ "matches": [push, status, status] })));
    assert_eq!(misses, RuleProblem::Misses { rule: rule.clone(), example: 1 });
    assert_eq!(
        misses.to_string(),
        "tools.rules[no-push]: it is not about examples.matches[1], which says that it is"
    );
    let matches = problem(&with_examples(&json!({ "misses": [status, status, push, push] })));
    assert_eq!(matches, RuleProblem::Matches { rule, example: 2 });
}

#[test]
fn an_example_can_have_everything_a_condition_looks_at() {
    let everything = json!({
        "path": ["a"], "host": ["h"], "url": ["u"], "method": ["GET"], "command": [["c"]],
    });
    for missing in ["path", "host", "url", "method", "command", ""] {
        let mut example = everything.clone();
        example.as_object_mut().unwrap().remove(missing);
        let group = if missing.is_empty() { "matches" } else { "misses" };
        let mut rule = deny(&everything, &Value::Null);
        rule["examples"] = json!({ group: [example] });
        pipeline(&ruled(&rule));
    }
    let tool = Example { tool: Some("deploy".to_owned()), ..Example::default() };
    let plugins = Rule {
        examples: crate::tools::Examples { matches: vec![tool], misses: Vec::new() },
        ..rule("r", "group:plugins")
    };
    let mut stage = global();
    stage.rules = vec![plugins];
    pipeline(&with(Profile::Full, stage));
}

#[test]
fn an_exception_for_words_needs_every_command_of_an_example() {
    let git = json!({ "command": [["git"]] });
    let mut rule = deny(&json!({}), &git);
    rule["examples"] = json!({
        "matches": [{ "command": [["git"], ["ls"]] }, {}],
        "misses": [{ "command": [["git", "status"]] }],
    });
    pipeline(&ruled(&rule));
}

#[test]
fn a_rule_that_cannot_be_meant_is_refused() {
    let rule = || "tools.rules[r]".to_owned();
    for (condition, conditions) in [
        ("path", json!({ "path": ["a", " "] })),
        ("host", json!({ "host": [""] })),
        ("url", json!({ "url": [""] })),
        ("method", json!({ "method": [""] })),
        ("command", json!({ "command": [[]] })),
        ("command", json!({ "command": [["git"], ["", "a"]] })),
        ("args", json!({ "args": { "a": [] } })),
    ] {
        let expected = RuleProblem::Empty { rule: rule(), condition };
        assert_eq!(problem(&deny(&conditions, &Value::Null)), expected);
        assert_eq!(problem(&deny(&json!({}), &conditions)), expected);
    }
    assert_eq!(problem(&deny(&json!({}), &json!({}))), RuleProblem::NeverApplies { rule: rule() });
}

#[test]
fn a_rule_cannot_allow() {
    let rule = json!({ "name": "r", "tool": "*", "mode": "allow" });
    assert!(serde_json::from_value::<Rule>(rule).is_err());
    let policy = policy(Profile::Safe);
    assert_eq!(decide(&policy, &touching("write", Risk::Write, &["a"])).verdict, Verdict::Deny);
}
