//! Tests of what an approval is bound to: everything that could be different is in it, and nothing flows together.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tidegate_protocol::{Risk, ToolCall, ToolSource};

use super::{Preparation, Prepared, Requester, Subject, SubjectKind, canonical};
use crate::exec::Plan;
use crate::tools::tests::{plan, plan_with, requester};

struct Parts {
    call: ToolCall,
    requester: Requester,
    preparation: Preparation,
}

fn preparing(
    subjects: Vec<Subject>,
    plan: Option<Plan>,
    preview: Option<String>,
    conditions: Vec<(String, String)>,
) -> Preparation {
    let mut preparation = Preparation { subjects, plan, ..Preparation::default() };
    preparation.preview = preview;
    preparation.conditions = conditions;
    preparation
}

fn parts() -> Parts {
    Parts {
        call: ToolCall {
            id: "1".to_owned(),
            name: "exec".to_owned(),
            args: json!({ "a": 1, "b": ["x", null] }),
            source: ToolSource::Model,
        },
        requester: requester(),
        preparation: preparing(
            vec![Subject::new(SubjectKind::Path, "a"), Subject::new(SubjectKind::Host, "b")],
            Some(plan(&[&["git", "status"], &["ls"]])),
            Some("+ x".to_owned()),
            vec![("before".to_owned(), "1".to_owned()), ("after".to_owned(), "2".to_owned())],
        ),
    }
}

fn prepared(parts: Parts) -> Prepared {
    Prepared::new(parts.call, parts.requester, Risk::Execute, true, parts.preparation)
}

fn with(change: impl FnOnce(&mut Parts)) -> Prepared {
    let mut parts = parts();
    change(&mut parts);
    prepared(parts)
}

#[test]
fn a_prepared_call_tells_what_it_was_made_of() {
    let Parts { call, requester, preparation } = parts();
    let prepared = Prepared::new(call.clone(), requester.clone(), Risk::Write, true, preparation.clone());
    assert_eq!(prepared.call(), &call);
    assert_eq!((prepared.tool(), prepared.args()), ("exec", &call.args));
    assert_eq!(prepared.requester(), &requester);
    assert_eq!((prepared.risk(), prepared.is_idempotent()), (Risk::Write, true));
    assert_eq!(prepared.subjects(), preparation.subjects);
    assert_eq!(prepared.plan(), preparation.plan.as_ref());
    assert_eq!(prepared.preview(), Some("+ x"));
    assert_eq!(prepared.conditions(), preparation.conditions);
    let plain = Prepared::new(call, requester, Risk::Read, false, Preparation::default());
    assert_eq!((plain.is_idempotent(), plain.preview()), (false, None));
}

#[test]
fn a_call_is_as_dangerous_as_its_preparation_says_whatever_the_tool_is() {
    for risk in [Risk::Read, Risk::Execute] {
        let Parts { call, requester, preparation } = parts();
        let preparation = Preparation { risk: Some(risk), ..preparation };
        assert_eq!(Prepared::new(call, requester, Risk::Write, true, preparation).risk(), risk);
    }
}

#[test]
fn asked_again_it_is_the_same_call() {
    let again = with(|parts| {
        parts.call.id = "2".to_owned();
        parts.call.args = json!({ "b": ["x", null], "a": 1 });
    });
    assert_eq!(again.digest(), prepared(parts()).digest());
}

#[test]
fn a_stored_yes_outlives_an_update() {
    // Approvals keep their digests: what is written into one changes only together with the number in its domain.
    let Parts { call, requester, .. } = parts();
    let plain = Prepared::new(call, requester, Risk::Read, false, Preparation::default());
    assert_eq!(plain.digest().as_str(), "f2676c2970f28b15ad4af2e6ec3a1e58c9f38affc6d64e884afb4e42baf9dd50");
    assert_eq!(
        prepared(parts()).digest().as_str(),
        "20f2bf423b5d8b3c1b21b36fdf7e8e52caed4cb9bc4ee5ccc3957ad38c65c26b"
    );
    let script =
        with(|parts| parts.preparation.plan = Some(plan_with(&[&["sh", "-c", "a"]], true, Some("a"))));
    assert_eq!(script.digest().as_str(), "bbe769f02351d8af621dbfe4035542ef703670f487b2896eef6cdb2e2030e533");
}

/// Changes one thing of a plan, as its stored form has it.
fn replan(parts: &mut Parts, change: impl FnOnce(&mut Value)) {
    let mut plan = serde_json::to_value(parts.preparation.plan.take().unwrap()).unwrap();
    change(&mut plan);
    parts.preparation.plan = Some(serde_json::from_value::<Plan>(plan).unwrap());
}

#[test]
fn every_single_field_is_bound() {
    type Change = Box<dyn FnOnce(&mut Parts)>;
    fn text(pick: fn(&mut Parts) -> &mut String) -> Change {
        Box::new(move |parts| pick(parts).push('x'))
    }
    fn in_plan(pointer: &'static str, value: Value) -> Change {
        Box::new(move |parts| replan(parts, |plan| *plan.pointer_mut(pointer).unwrap() = value))
    }
    // It is read, and never written.
    fn environment(env: Value) -> Change {
        Box::new(move |parts| replan(parts, |plan| plan["env"] = env))
    }
    let changes: Vec<(&str, Change)> = vec![
        ("tenant", Box::new(|parts| parts.requester.scope.tenant = "other".parse().unwrap())),
        ("workspace", Box::new(|parts| parts.requester.scope.workspace = "other".parse().unwrap())),
        ("agent", Box::new(|parts| parts.requester.scope.agent = "other".parse().unwrap())),
        ("session", text(|parts| &mut parts.requester.session)),
        ("actor", text(|parts| &mut parts.requester.actor)),
        ("root", text(|parts| &mut parts.requester.root)),
        ("source cli", Box::new(|parts| parts.call.source = ToolSource::Cli)),
        ("source user", Box::new(|parts| parts.call.source = ToolSource::User)),
        ("source api", Box::new(|parts| parts.call.source = ToolSource::Api)),
        ("tool", text(|parts| &mut parts.call.name)),
        ("an argument", Box::new(|parts| parts.call.args["a"] = json!("1"))),
        ("an argument more", Box::new(|parts| parts.call.args["c"] = json!(1))),
        ("an inner argument", Box::new(|parts| parts.call.args["b"] = json!([null, "x"]))),
        ("a subject's kind", Box::new(|parts| parts.preparation.subjects[0].kind = SubjectKind::Url)),
        (
            "a subject's kind, method",
            Box::new(|parts| parts.preparation.subjects[0].kind = SubjectKind::Method),
        ),
        ("a subject's kind, host", Box::new(|parts| parts.preparation.subjects[0].kind = SubjectKind::Host)),
        ("a subject's kind, tree", Box::new(|parts| parts.preparation.subjects[0].kind = SubjectKind::Tree)),
        ("a subject", text(|parts| &mut parts.preparation.subjects[1].value)),
        ("a subject less", Box::new(|parts| drop(parts.preparation.subjects.pop()))),
        ("the order of subjects", Box::new(|parts| parts.preparation.subjects.reverse())),
        ("no plan", Box::new(|parts| parts.preparation.plan = None)),
        ("the folder", in_plan("/cwd", json!("/"))),
        ("the environment", environment(json!({ "A": "1" }))),
        ("a variable's name", environment(json!({ "B": "1" }))),
        ("a variable's value", environment(json!({ "A": "2" }))),
        ("what was added to the environment", in_plan("/addedEnv", json!({ "A": "1" }))),
        ("an added variable's name", in_plan("/addedEnv", json!({ "B": "1" }))),
        ("an added variable", in_plan("/addedEnv", json!({ "A": "2" }))),
        ("a script for a shell", in_plan("/opaque", json!({ "reason": "", "script": "git status" }))),
        ("another script", in_plan("/opaque", json!({ "reason": "", "script": "git push" }))),
        ("how a step follows", in_plan("/steps/1/join", json!("and"))),
        ("how a step follows, or", in_plan("/steps/1/join", json!("or"))),
        ("a program", in_plan("/steps/0/pipeline/0/program/path", json!("/bin/git"))),
        ("a program's device", in_plan("/steps/0/pipeline/0/program/identity/device", json!(9))),
        ("a program's inode", in_plan("/steps/0/pipeline/0/program/identity/inode", json!(9))),
        ("a program's size", in_plan("/steps/0/pipeline/0/program/identity/size", json!(9))),
        ("a program's time", in_plan("/steps/0/pipeline/0/program/identity/modified", json!(9))),
        ("a program's trust", in_plan("/steps/0/pipeline/0/program/trusted", json!(false))),
        ("a word", in_plan("/steps/0/pipeline/0/argv/1", json!("push"))),
        ("a word split", in_plan("/steps/0/pipeline/0/argv", json!(["git", "sta", "tus"]))),
        ("no preview", Box::new(|parts| parts.preparation.preview = None)),
        ("an empty preview", Box::new(|parts| parts.preparation.preview = Some(String::new()))),
        ("the preview", Box::new(|parts| parts.preparation.preview = Some("+ y".to_owned()))),
        ("a condition's name", text(|parts| &mut parts.preparation.conditions[0].0)),
        ("a condition", text(|parts| &mut parts.preparation.conditions[1].1)),
        ("a condition less", Box::new(|parts| drop(parts.preparation.conditions.pop()))),
        ("the order of conditions", Box::new(|parts| parts.preparation.conditions.reverse())),
    ];
    let mut seen = vec![("nothing", prepared(parts()).digest().clone())];
    for (what, change) in changes {
        let digest = with(change).digest().clone();
        if let Some((other, _)) = seen.iter().find(|(_, other)| *other == digest) {
            panic!("{what} and {other} give the same digest");
        }
        seen.push((what, digest));
    }
}

#[test]
fn a_pipe_is_not_a_sequence() {
    let pipe = with(|parts| {
        replan(parts, |plan| {
            let second = plan["steps"][1]["pipeline"][0].take();
            plan["steps"][0]["pipeline"].as_array_mut().unwrap().push(second);
            plan["steps"].as_array_mut().unwrap().pop();
        });
    });
    assert_ne!(pipe.digest(), prepared(parts()).digest());
}

#[test]
fn json_is_the_same_whatever_the_order_of_its_keys() {
    let value = json!({ "b": { "d": [1, "x", { "z": null, "y": true }], "c": 1.5 }, "a\"": "b\n" });
    assert_eq!(canonical(&value), r#"{"a\"":"b\n","b":{"c":1.5,"d":[1,"x",{"y":true,"z":null}]}}"#);
    assert_eq!(canonical(&json!({})), "{}");
    assert_eq!(canonical(&json!([])), "[]");
}

fn small() -> impl Strategy<Value = String> {
    "[ab\"\\\\:,0-9]{0,3}"
}

fn preparation() -> impl Strategy<Value = Preparation> {
    use SubjectKind::{Host, Method, Path, Tree, Url};
    let kind = select(&[Path, Tree, Host, Url, Method][..]);
    let subjects = vec((kind, small()).prop_map(|(kind, value)| Subject { kind, value }), 0..3);
    let words = vec(vec(small(), 0..3), 0..3);
    let plan = option::of(words.prop_map(|commands| {
        let commands: Vec<Vec<&str>> = commands
            .iter()
            .map(|words| std::iter::once("git").chain(words.iter().map(String::as_str)).collect())
            .collect();
        let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
        plan_with(&commands, true, None)
    }));
    let conditions = vec((small(), small()), 0..3);
    (subjects, plan, option::of(small()), conditions)
        .prop_map(|(subjects, plan, preview, conditions)| preparing(subjects, plan, preview, conditions))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), small().prop_map(Value::from)];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let map = vec((small(), inner.clone()), 0..3);
        prop_oneof![
            vec(inner, 0..3).prop_map(Value::from),
            map.prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn anything() -> impl Strategy<Value = Prepared> {
    (small(), small(), small(), small(), value(), preparation()).prop_map(
        |(session, actor, root, name, args, preparation)| {
            let call = ToolCall { id: String::new(), name, args, source: ToolSource::Model };
            let requester = Requester { session, actor, root, ..requester() };
            Prepared::new(call, requester, Risk::Read, true, preparation)
        },
    )
}

proptest! {
    #[test]
    fn two_calls_share_a_digest_only_if_they_are_the_same(left in anything(), right in anything()) {
        prop_assert_eq!(left.digest() == right.digest(), left == right);
    }

    #[test]
    fn no_text_flows_from_one_field_into_the_next(text in "[ab]{1,6}", left in 0_usize..7, right in 0_usize..7) {
        let split = |at: usize| {
            let at = at.min(text.len());
            with(|parts| {
                parts.requester.session = text[..at].to_owned();
                parts.requester.actor = text[at..].to_owned();
                parts.preparation.conditions = vec![(text[..at].to_owned(), text[at..].to_owned())];
            })
        };
        let same = left.min(text.len()) == right.min(text.len());
        prop_assert_eq!(split(left).digest() == split(right).digest(), same);
    }

    #[test]
    fn different_json_is_written_differently(left in value(), right in value()) {
        prop_assert_eq!(canonical(&left) == canonical(&right), left == right);
    }
}
