//! The corpus: tables of commands and what must become of them. Rows of the threat list are named in the files.

use tidegate_policy::approval::AllowRule;
use tidegate_policy::exec::{ExecPolicy, covers, destructive, judge, suggestion};
use tidegate_policy::tools::Verdict;

use super::scene::{command, outline, plan, policy, rules, table};

const UNDERSTOOD: &str = include_str!("corpus/understood.txt");
const OPAQUE: &str = include_str!("corpus/opaque.txt");
const VERDICTS: &str = include_str!("corpus/verdicts.txt");
const DESTRUCTIVE: &str = include_str!("corpus/destructive.txt");

/// Every script of every table.
pub(crate) fn scripts() -> Vec<String> {
    let tables = [UNDERSTOOD, OPAQUE, VERDICTS, DESTRUCTIVE];
    tables.into_iter().flat_map(table).map(|(script, _)| script).collect()
}

/// Those that may be handed to a real shell: should a reading be wrong, nothing is lost.
pub(crate) fn harmless_scripts() -> Vec<String> {
    [UNDERSTOOD, VERDICTS].into_iter().flat_map(table).map(|(script, _)| script).collect()
}

#[test]
fn a_plain_script_becomes_exactly_these_programs() {
    all(UNDERSTOOD, |script| {
        let plan = plan(script);
        match plan.opaque() {
            Some(opaque) => format!("opaque: {}", opaque.reason),
            None => outline(&plan).to_string(),
        }
    });
}

#[test]
fn a_script_with_anything_else_is_one_shell_that_always_asks() {
    let mut wrong = Vec::new();
    for (script, part) in table(OPAQUE) {
        let plan = plan(&script);
        let Some(opaque) = plan.opaque() else {
            wrong.push(format!("{script:?} was understood as {}", outline(&plan)));
            continue;
        };
        if !opaque.reason.contains(&part) {
            wrong.push(format!("{script:?}: {:?} does not say {part:?}", opaque.reason));
        }
        assert_eq!(outline(&plan), serde_json::json!([["/usr/bin/bash", "-c", script]]));
        assert_eq!(verdict(&script, &policy(), &saved()), "ask", "{script:?}");
        assert_eq!(suggestion(&plan, None), None);
        assert_eq!(suggestion(&plan, Some(0)), None);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_verdict_is_that_of_the_table() {
    all(VERDICTS, |script| verdict(script, &policy(), &saved()));
}

#[test]
fn what_may_be_saved_is_covered_once_it_is_saved() {
    for script in scripts() {
        let plan = plan(&script);
        let verdict = judge(&plan, &policy(), &[]);
        let rule = suggestion(&plan, None);
        assert!(!verdict.can_be_saved || rule.is_some(), "{script:?}");
        let Some(rule) = rule else { continue };
        assert!(covers(&rule, &plan), "{script:?}");
        let again = judge(&plan, &policy(), &[super::scene::rule(1, rule)]);
        assert!(verdict.verdict == Verdict::Deny || again.verdict == Verdict::Allow, "{script:?}");
    }
}

#[test]
fn what_is_never_done_is_found_and_what_looks_alike_is_not() {
    all(DESTRUCTIVE, |script| destructive(&plan(script)).map_or("-", |found| found.rule).to_owned());
}

#[test]
fn the_corpus_has_at_least_two_hundred_commands() {
    let mut scripts = scripts();
    scripts.sort();
    scripts.dedup();
    assert!(scripts.len() >= 200, "{}", scripts.len());
}

/// Compares a whole table and shows every row that differs.
fn all(text: &str, answer: impl Fn(&str) -> String) {
    let rows = table(text).into_iter();
    let wrong: Vec<_> = rows
        .map(|(script, expected)| (answer(&script), script, expected))
        .filter(|(answered, _, expected)| answered != expected)
        .map(|(answered, script, expected)| format!("{script:?} => {answered}, not {expected}"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn verdict(script: &str, policy: &ExecPolicy, saved: &[AllowRule]) -> String {
    let judged = judge(&plan(script), policy, saved);
    match (judged.verdict, judged.can_be_saved) {
        (Verdict::Allow, _) => "allow".to_owned(),
        (Verdict::Ask, true) => "ask, can be saved".to_owned(),
        (Verdict::Ask, false) => "ask".to_owned(),
        (Verdict::Deny, _) => "deny".to_owned(),
    }
}

/// Good rules, and rules that should never have been saved and must not count.
fn saved() -> Vec<AllowRule> {
    let mut commands = vec![
        command("/usr/bin/git", &["status"], false),
        command("/usr/bin/git", &["log"], true),
        command("/usr/bin/echo", &[], true),
        command("/usr/bin/mytool", &["run"], true),
        command("/usr/bin/tar", &["-tf", "a.tar"], false),
        command("/usr/bin/bash", &[], true),
        command("/bin/bash", &[], true),
    ];
    for program in ["python3", "env", "sort", "find", "sed", "timeout", "sudo", "xargs", "make"] {
        commands.push(command(&format!("/usr/bin/{program}"), &[], true));
    }
    commands.push(command("/home/ada/work/ls", &[], false));
    commands.push(command("/tmp/git", &["status"], false));
    rules(commands)
}
