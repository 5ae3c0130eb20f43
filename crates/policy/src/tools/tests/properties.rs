//! What holds for every pipeline: it only ever gets stricter, and the order of equals does not matter.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_protocol::Risk;

use super::{allowlist_exec, open_exec, pipeline, plan, prepared, saved_command, saved_paths};
use crate::approval::AllowRule;
use crate::call::{Preparation, Prepared, Subject, SubjectKind};
use crate::exec::{Ask, ExecPolicy, Security};
use crate::tools::{
    AlsoAllow, BUILT_IN, Base, Circumstances, Conditions, Decision, Examples, Pipeline, Profile, Rule,
    RuleMode, Stage, StageKind, ToolPolicy, Trust, Verdict,
};

const PATTERNS: [&str; 14] = [
    "*",
    "exec",
    "bash",
    "read",
    "write",
    "apply_patch",
    "group:fs",
    "group:runtime",
    "group:web",
    "group:plugins",
    "group:tidegate",
    "web_*",
    "deploy",
    "nothing",
];
const KINDS: [StageKind; 6] = [
    StageKind::Provider,
    StageKind::Global,
    StageKind::Agent,
    StageKind::Group,
    StageKind::Sandbox,
    StageKind::Subagent,
];

fn pattern() -> impl Strategy<Value = String> {
    select(&PATTERNS[..]).prop_map(str::to_owned)
}

fn verdict() -> impl Strategy<Value = Verdict> {
    select(&[Verdict::Allow, Verdict::Ask, Verdict::Deny][..])
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let paths = vec(select(&["a.md", "docs/**", "*"][..]).prop_map(str::to_owned), 0..2);
    let commands = vec(select(&["git", "ls"][..]).prop_map(|word| vec![word.to_owned()]), 0..2);
    (paths, commands).prop_map(|(path, command)| Conditions { path, command, ..Conditions::default() })
}

fn rule() -> impl Strategy<Value = Rule> {
    let unless =
        option::of(conditions()).prop_map(|unless| unless.filter(|unless| *unless != Conditions::default()));
    let mode = select(&[RuleMode::Deny, RuleMode::ApprovalRequired][..]);
    (pattern(), conditions(), unless, mode).prop_map(|(tool, when, unless, mode)| Rule {
        name: "r".to_owned(),
        tool,
        when,
        unless,
        mode,
        reason: String::new(),
        examples: Examples::default(),
    })
}

fn stage() -> impl Strategy<Value = Stage> {
    let modes =
        vec((pattern(), verdict()), 0..2).prop_map(|modes| modes.into_iter().collect::<BTreeMap<_, _>>());
    let profile = option::weighted(0.2, select(&Profile::ALL[..]));
    let allow = option::weighted(0.4, vec(pattern(), 0..4));
    let parts = (select(&KINDS[..]), profile, allow, vec(pattern(), 0..2), modes, vec(rule(), 0..2));
    parts.prop_map(|(kind, profile, allow, deny, modes, rules)| Stage {
        kind,
        source: "s".to_owned(),
        profile,
        allow,
        deny,
        modes,
        mode: None,
        rules,
    })
}

fn exec() -> impl Strategy<Value = ExecPolicy> {
    let always = ExecPolicy { ask: Ask::Always, ..allowlist_exec() };
    let denied = ExecPolicy { security: Security::Deny, ..allowlist_exec() };
    select(vec![open_exec(), allowlist_exec(), ExecPolicy::default(), always, denied])
}

fn policy() -> impl Strategy<Value = ToolPolicy> {
    let also = vec(pattern(), 0..2);
    (select(&Profile::ALL[..]), also, vec(stage(), 0..3), exec(), verdict()).prop_map(
        |(profile, tools, stages, exec, high_risk)| ToolPolicy {
            base: Base {
                profile,
                source: "tools.profile".to_owned(),
                also_allow: vec![AlsoAllow { source: "tools.alsoAllow".to_owned(), tools }],
            },
            stages,
            exec,
            high_risk,
            plugins: vec!["deploy".to_owned()],
        },
    )
}

fn call() -> impl Strategy<Value = Prepared> {
    let tool =
        select(&["read", "write", "apply_patch", "exec", "web_fetch", "deploy", "Bash", "unknown"][..]);
    let risk = select(&[Risk::Read, Risk::Write, Risk::Network, Risk::Execute][..]);
    let paths = vec(select(&["a.md", "docs/b.md", "c"][..]), 0..3);
    let command = option::of(select(vec![&["git", "status"][..], &["ls"], &["rm", "-rf", "/"]]));
    (tool, risk, paths, command).prop_map(|(tool, risk, paths, command)| {
        let subjects = paths.into_iter().map(|path| Subject::new(SubjectKind::Path, path)).collect();
        let plan = command.map(|argv| plan(&[argv]));
        let preparation = Preparation { subjects, plan, ..Preparation::default() };
        prepared(tool, risk, serde_json::json!({}), preparation)
    })
}

fn trust() -> impl Strategy<Value = Trust> {
    select(&[Trust::Normal, Trust::Sensitive][..])
}

fn saved_rules() -> Vec<AllowRule> {
    vec![
        saved_command(1, "/usr/bin/git", &["status"]),
        saved_command(2, "/usr/bin/rm", &["-rf", "/"]),
        saved_paths(3, "write", &["a.md"]),
        saved_paths(4, "read", &["a.md"]),
        saved_paths(5, "deploy", &["a.md"]),
    ]
}

fn decide(policy: &ToolPolicy, call: &Prepared, trust: Trust) -> Decision {
    decide_by(&pipeline(policy), call, trust)
}

fn decide_by(pipeline: &Pipeline, call: &Prepared, trust: Trust) -> Decision {
    pipeline.decide(call, &Circumstances { trust, allowed: &saved_rules() })
}

/// Whether one policy is at least as strict as another, about a call and in what it shows.
fn narrows(
    wide: &ToolPolicy,
    narrow: &ToolPolicy,
    call: &Prepared,
    trust: Trust,
) -> Result<(), TestCaseError> {
    let (wide, narrow) = (pipeline(wide), pipeline(narrow));
    prop_assert!(decide_by(&narrow, call, trust).verdict >= decide_by(&wide, call, trust).verdict);
    let names = BUILT_IN.into_iter().chain(["deploy", "unknown"]);
    let before = wide.tools(names.clone(), trust);
    prop_assert!(narrow.tools(names, trust).iter().all(|name| before.contains(name)));
    Ok(())
}

fn changed(policy: &ToolPolicy, at: usize, change: impl FnOnce(&mut Stage)) -> ToolPolicy {
    let mut policy = policy.clone();
    if policy.stages.is_empty() {
        policy.stages.push(Stage::new(StageKind::Global, "tools"));
    }
    let at = at % policy.stages.len();
    change(&mut policy.stages[at]);
    policy
}

proptest! {
    #[test]
    fn no_added_stage_ever_widens(policy in policy(), stage in stage(), call in call(), trust in trust()) {
        let mut narrow = policy.clone();
        narrow.stages.push(stage);
        narrows(&policy, &narrow, &call, trust)?;
    }

    #[test]
    fn no_added_rule_ever_widens(policy in policy(), at: usize, rule in rule(), call in call(), trust in trust()) {
        narrows(&policy, &changed(&policy, at, |stage| stage.rules.push(rule)), &call, trust)?;
    }

    #[test]
    fn no_added_deny_ever_widens(policy in policy(), at: usize, tool in pattern(), call in call(), trust in trust()) {
        narrows(&policy, &changed(&policy, at, |stage| stage.deny.push(tool)), &call, trust)?;
    }

    #[test]
    fn no_added_mode_ever_widens(
        policy in policy(), at: usize, tool in pattern(), mode in verdict(), call in call(), trust in trust(),
    ) {
        let add = |stage: &mut Stage| { stage.modes.entry(tool).or_insert(mode); };
        narrows(&policy, &changed(&policy, at, add), &call, trust)?;
    }

    #[test]
    fn no_list_that_is_added_or_shortened_ever_widens(
        policy in policy(), at: usize, tools in vec(pattern(), 0..4), call in call(), trust in trust(),
    ) {
        let narrow = changed(&policy, at, |stage| match &mut stage.allow {
            Some(list) => { list.pop(); }
            none => *none = Some(tools),
        });
        narrows(&policy, &narrow, &call, trust)?;
    }

    #[test]
    fn less_trust_never_widens(policy in policy(), call in call()) {
        let (normal, sensitive) = (decide(&policy, &call, Trust::Normal), decide(&policy, &call, Trust::Sensitive));
        prop_assert!(sensitive.verdict >= normal.verdict);
    }

    #[test]
    fn the_order_in_which_stages_come_does_not_matter(
        (policy, mixed) in policy().prop_flat_map(|policy| {
            let stages = Just(policy.stages.clone()).prop_shuffle();
            (Just(policy), stages)
        }),
        call in call(), trust in trust(),
    ) {
        let mixed = ToolPolicy { stages: mixed, ..policy.clone() };
        let (left, right) = (decide(&policy, &call, trust), decide(&mixed, &call, trust));
        prop_assert_eq!(left.verdict, right.verdict);
        prop_assert_eq!(left.can_be_saved, right.can_be_saved);
        prop_assert_eq!(left.allowed_by, right.allowed_by);
    }

    #[test]
    fn deny_wins(policy in policy(), at: usize, call in call(), trust in trust()) {
        let tool = call.tool().to_owned();
        let denied = changed(&policy, at, |stage| stage.deny.push(tool));
        prop_assert_eq!(decide(&denied, &call, trust).verdict, Verdict::Deny);
    }

    #[test]
    fn what_destroys_is_denied_whatever_the_policy(policy in policy(), trust in trust()) {
        let call = super::running("exec", plan(&[&["rm", "-rf", "/"]]));
        let decision = decide(&policy, &call, trust);
        prop_assert_eq!((decision.verdict, decision.stage), (Verdict::Deny, StageKind::Shipped));
    }

    #[test]
    fn a_decision_is_the_strictest_thing_that_was_said_unless_a_saved_yes_answered_it(
        policy in policy(), call in call(), trust in trust(),
    ) {
        let decision = decide(&policy, &call, trust);
        let strictest = decision.trail.iter().map(|said| said.verdict).max();
        if decision.stage == StageKind::Saved {
            prop_assert_eq!(strictest, Some(Verdict::Ask));
            prop_assert!(decision.allowed_by.is_some());
        } else {
            prop_assert_eq!(strictest, Some(decision.verdict));
        }
        let deciding = |said: &crate::tools::StageSaid| {
            said.stage == decision.stage && said.rule == decision.rule && said.verdict == decision.verdict
        };
        prop_assert!(decision.trail.iter().any(deciding));
        prop_assert!(!decision.can_be_saved || decision.verdict == Verdict::Ask);
    }
}
