//! Saved rules, the environment, and the words of a verdict.

use tidegate_policy::approval::AllowMatch;
use tidegate_policy::exec::{
    Ask, ExecPolicy, ExecVerdict, Plan, PlanError, PlanPlace, Security, covers, judge, suggestion,
};
use tidegate_policy::tools::Verdict;
use tidegate_policy::{Preparation, Prepared, Requester};
use tidegate_protocol::{AllowRuleId, Id as _, Risk, Scope, ToolCall, ToolSource};

use super::scene::{CWD, Machine, command, outline, place, place_with, plan, policy, rule, rules, try_plan};

fn saved(script: &str, prefix: Option<u32>) -> Option<AllowMatch> {
    suggestion(&plan(script), prefix)
}

#[test]
fn allow_always_saves_exactly_these_programs_with_exactly_these_arguments() {
    let expected =
        vec![command("/usr/bin/git", &["add", "a b"], false), command("/usr/bin/mytool", &[], false)];
    assert_eq!(saved("git add 'a b' && mytool | mytool", None), Some(AllowMatch::Commands(expected)));
}

#[test]
fn a_prefix_keeps_so_many_arguments_and_leaves_the_rest_open() {
    let expected = AllowMatch::Commands(vec![command("/usr/bin/mytool", &["run", "fast"], true)]);
    assert_eq!(saved("mytool run fast a", Some(2)), Some(expected.clone()));
    assert!(covers(&expected, &plan("mytool run fast")));
    assert!(covers(&expected, &plan("mytool run fast x y; mytool run fast")));
    assert!(!covers(&expected, &plan("mytool run slow")));
    assert!(!covers(&expected, &plan("mytool run")));
    assert!(!covers(&expected, &plan("mytool run 'fast x'")));
}

#[test]
fn a_prefix_longer_than_the_command_saves_nothing() {
    assert_eq!(saved("mytool run", Some(2)), None);
}

#[test]
fn a_prefix_is_refused_where_other_arguments_could_write_or_start_programs() {
    for script in
        ["tar -tf a", "sort -r", "find . -type f", "curl x", "git push", "git -C x log", "git log --output=x"]
    {
        assert_eq!(saved(script, Some(0)), None, "{script}");
        assert_eq!(saved(script, Some(1)), None, "{script}");
    }
    assert_eq!(saved("git", Some(0)), None);
    assert!(saved("tar -tf a", None).is_some());
}

#[test]
fn git_may_be_left_open_only_where_it_looks() {
    let log = saved("git log -1", Some(1)).unwrap();
    assert_eq!(log, AllowMatch::Commands(vec![command("/usr/bin/git", &["log"], true)]));
    assert!(covers(&log, &plan("git log --stat")));
    for script in
        ["git log --output=x", "git log --out=x", "git log --ext-diff", "git push", "git -c a=b log"]
    {
        assert!(!covers(&log, &plan(script)), "{script}");
    }
}

#[test]
fn wrappers_and_interpreters_are_saved_in_no_way() {
    for script in
        ["env git status", "python3 x.py", "sh -c id", "timeout 5 ls", "make", "tool x", "multi ls", "./ls"]
    {
        assert_eq!(saved(script, None), None, "{script}");
        assert_eq!(saved(script, Some(0)), None, "{script}");
    }
}

#[test]
fn a_rule_about_a_path_is_about_that_path_only() {
    let rule = AllowMatch::Commands(vec![command("/usr/bin/mytool", &[], false)]);
    assert!(covers(&rule, &plan("mytool")));
    assert!(covers(&rule, &plan("/usr/bin/mytool")));
    assert!(!covers(&rule, &plan("/opt/mytool")));
    assert!(!covers(&rule, &plan("./mytool")));
    assert!(!covers(&rule, &plan("mytool; other")));
    assert!(!covers(&rule, &plan("other | mytool")));
    assert!(!covers(&AllowMatch::Subjects(Vec::new()), &plan("mytool")));
    assert!(!covers(&AllowMatch::Commands(Vec::new()), &plan("mytool")));
}

#[test]
fn a_variable_that_can_change_what_runs_makes_every_rule_silent() {
    let rule = rule(1, AllowMatch::Commands(vec![command("/usr/bin/mytool", &[], false)]));
    let names = "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES BASH_ENV ENV PATH IFS PYTHONPATH \
        PYTHONSTARTUP PERL5LIB PERL5OPT RUBYOPT RUBYLIB NODE_OPTIONS NODE_PATH GIT_SSH_COMMAND GIT_PAGER \
        GIT_EXTERNAL_DIFF EDITOR VISUAL PAGER LESSOPEN PROMPT_COMMAND SHELLOPTS BASHOPTS PS4 HOME XDG_CONFIG_HOME \
        LOCPATH GCONV_PATH TERMINFO JAVA_TOOL_OPTIONS GREP_OPTIONS HTTPS_PROXY SOMETHING_NEW";
    for name in names.split_whitespace() {
        let plan = Plan::of_script("mytool", place_with(name, "x"), &Machine).unwrap();
        let judged = judge(&plan, &policy(), std::slice::from_ref(&rule));
        assert_eq!((judged.verdict, judged.can_be_saved), (Verdict::Ask, false), "{name}");
        assert!(judged.reason.contains(name), "{}", judged.reason);
        assert_eq!(suggestion(&plan, None), None);
        assert!(!covers(&rule.matches, &plan));
    }
}

#[test]
fn a_variable_that_changes_looks_only_is_let_through_with_a_plain_value() {
    let rule = rule(1, AllowMatch::Commands(vec![command("/usr/bin/mytool", &[], false)]));
    let verdict = |name, value| {
        let plan = Plan::of_script("mytool", place_with(name, value), &Machine).unwrap();
        judge(&plan, &policy(), std::slice::from_ref(&rule)).verdict
    };
    assert_eq!(verdict("NO_COLOR", "1"), Verdict::Allow);
    assert_eq!(verdict("LANG", "de_DE.UTF-8"), Verdict::Allow);
    assert_eq!(verdict("TZ", "Europe/Berlin"), Verdict::Allow);
    assert_eq!(verdict("LANG", "../../tmp/x"), Verdict::Ask);
    assert_eq!(verdict("TZ", ":/tmp/x"), Verdict::Ask);
    assert_eq!(verdict("TZ", "a/../../x"), Verdict::Ask);
}

#[test]
fn a_filter_with_any_variable_is_no_filter() {
    let plan = Plan::of_script("jq .", place_with("LANG", "C"), &Machine).unwrap();
    assert_eq!(judge(&plan, &policy(), &[]).verdict, Verdict::Ask);
}

#[test]
fn a_filter_counts_only_when_it_is_listed_and_its_arguments_are_short() {
    let none = ExecPolicy { safe_bins: Vec::new(), ..policy() };
    assert_eq!(judge(&plan("wc -l"), &none, &[]).verdict, Verdict::Ask);
    let other = ExecPolicy { safe_bins: vec!["ls".to_owned(), "cat".to_owned()], ..policy() };
    assert_eq!(judge(&plan("cat x"), &other, &[]).verdict, Verdict::Ask);
    let of_length = |length| judge(&plan(&format!("grep {}", "a".repeat(length))), &policy(), &[]).verdict;
    assert_eq!((of_length(1024), of_length(1025)), (Verdict::Allow, Verdict::Ask));
}

#[test]
fn a_verdict_names_its_rule_and_what_covered_each_program() {
    let saved =
        rules(vec![command("/usr/bin/mytool", &[], false), command("/usr/bin/git", &["status"], false)]);
    let judged = judge(&plan("git status | wc -l && mytool"), &policy(), &saved);
    let id = |number| Some(AllowRuleId::from_parts(1, [number; 10]));
    let expected = ExecVerdict {
        verdict: Verdict::Allow,
        rule: "allowlist".to_owned(),
        reason: "every program is on the allowlist".to_owned(),
        can_be_saved: false,
        covered: vec![id(2), None, id(1)],
    };
    assert_eq!(judged, expected);
}

#[test]
fn each_setting_is_named_when_it_decides() {
    let saved = rules(vec![command("/usr/bin/mytool", &[], false)]);
    let decide = |script: &str, policy: ExecPolicy| {
        let judged = judge(&plan(script), &policy, &saved);
        (judged.verdict, judged.rule, judged.can_be_saved)
    };
    let named = |verdict, rule: &str| (verdict, rule.to_owned(), false);
    let deny = ExecPolicy { security: Security::Deny, ..policy() };
    assert_eq!(decide("mytool", deny), named(Verdict::Deny, "tools.exec.security"));
    let always = ExecPolicy { ask: Ask::Always, ..policy() };
    assert_eq!(decide("mytool", always.clone()), named(Verdict::Ask, "tools.exec.ask"));
    assert_eq!(decide("other", always), named(Verdict::Ask, "tools.exec.ask"));
    let bare = ExecPolicy { confined: false, ..policy() };
    assert_eq!(decide("mytool", bare.clone()), named(Verdict::Ask, "tools.exec.host"));
    let by_name = ExecPolicy { unconfined_by_name: true, ..bare };
    assert_eq!(decide("mytool", by_name), named(Verdict::Allow, "allowlist"));
    let off = ExecPolicy { ask: Ask::Off, ..policy() };
    assert_eq!(decide("other", off.clone()), named(Verdict::Deny, "allowlist"));
    assert_eq!(decide("echo $x", off.clone()), named(Verdict::Deny, "allowlist"));
    let full = ExecPolicy { security: Security::Full, ..off };
    assert_eq!(decide("other", full.clone()), named(Verdict::Allow, "tools.exec.security"));
    assert_eq!(decide("echo $x", full.clone()), named(Verdict::Allow, "tools.exec.security"));
    let full_and_bare = ExecPolicy { confined: false, ..full.clone() };
    assert_eq!(decide("echo $x", full_and_bare), named(Verdict::Ask, "tools.exec.host"));
    assert_eq!(decide("cat /home/ada/.tidegate/x", full), named(Verdict::Deny, "state"));
}

#[test]
fn our_state_is_known_by_its_bare_name_beside_it() {
    let rule_in = |cwd: &str, script: &str| {
        let place = PlanPlace { cwd: cwd.to_owned(), ..place() };
        judge(&Plan::of_script(script, place, &Machine).unwrap(), &policy(), &[]).rule
    };
    assert_eq!(rule_in("/home/ada", "cat .tidegate"), "state");
    assert_eq!(rule_in("/home/ada", "cat .tidegate2"), "allowlist");
    assert_eq!(rule_in(CWD, "cat .tidegate"), "allowlist");
    assert_eq!(rule_in("/home/ada/.tidegate", "ls"), "state");
    assert_eq!(rule_in("/home/ada/.tidegate/workspace", "cat secrets"), "allowlist");
}

#[test]
fn the_home_of_somebody_else_is_not_ours() {
    let forbidden = vec!["/home/ada/x".to_owned(), "/home/adabob/x".to_owned()];
    let policy = ExecPolicy { forbidden, ..policy() };
    // The `&` makes it a script.
    let rule = |script: &str| judge(&plan(script), &policy, &[]).rule;
    assert_eq!(rule("cat ~bob/x &"), "allowlist");
    assert_eq!(rule("cat ~/x &"), "state");
    assert_eq!(rule("cat $HOME/x &"), "state");
    assert_eq!(rule("cat ${HOME}/x &"), "state");
}

#[test]
fn a_folder_that_commands_may_name_opens_no_other() {
    let rule = |script: &str, roots: &[&str]| {
        let roots = roots.iter().map(|root| (*root).to_owned()).collect();
        judge(&plan(script), &ExecPolicy { roots, ..policy() }, &[]).rule
    };
    let both = ["/home/ada/.tidegate/a", "/home/ada/.tidegate/b"];
    for (script, roots, expected) in [
        ("cat /home/ada/.tidegate/a/x", &[][..], "state"),
        ("cat /home/ada/.tidegate/a/x", &both[..1], "allowlist"),
        ("cat /home/ada/.tidegate/a/x", &both, "allowlist"),
        ("cat /home/ada/.tidegate/b/x", &both, "allowlist"),
        ("cat /home/ada/.tidegate/b/x", &both[..1], "state"),
        ("cat /home/ada/.tidegate/c/x", &both, "state"),
    ] {
        assert_eq!(rule(script, roots), expected, "{script} {roots:?}");
    }
}

#[test]
fn a_tilde_alone_is_the_home_too() {
    let policy = ExecPolicy { forbidden: vec!["/home/ada".to_owned()], ..policy() };
    let place = PlanPlace { cwd: "/srv".to_owned(), ..place() };
    let rule = |script| judge(&Plan::of_script(script, place.clone(), &Machine).unwrap(), &policy, &[]).rule;
    assert_eq!(rule("ls ~ &"), "state");
    assert_eq!(rule("ls . &"), "allowlist");
}

#[test]
fn a_question_names_the_first_program_that_is_not_covered() {
    let saved = rules(vec![command("/usr/bin/mytool", &[], false)]);
    let judged = judge(&plan("mytool; one x; two y"), &policy(), &saved);
    assert_eq!(judged.reason, "/usr/bin/one is not on the allowlist with these arguments");
}

#[test]
fn a_command_that_cannot_be_a_plan_says_why() {
    assert_eq!(try_plan(" \n"), Err(PlanError::Empty));
    assert_eq!(try_plan("echo a\0b"), Err(PlanError::Nul));
    assert_eq!(try_plan("ls | missing-tool x"), Err(PlanError::NotFound { word: "missing-tool".to_owned() }));
    assert_eq!(try_plan("'' x"), Err(PlanError::NotFound { word: String::new() }));
    assert!(try_plan(&format!("echo {}", "a".repeat(64 * 1024 - 5))).is_ok());
    let long = format!("echo {}", "a".repeat(64 * 1024 - 4));
    assert_eq!(try_plan(&long), Err(PlanError::TooLong { limit: 64 * 1024 }));
}

#[test]
fn an_argument_list_is_taken_as_it_is() {
    let argv = ["mytool", "$(id)", "a; b", "*"].map(str::to_owned).to_vec();
    let plan = Plan::of_argv(argv.clone(), place(), &Machine).unwrap();
    assert_eq!(outline(&plan), serde_json::json!([argv]));
    assert_eq!(plan.opaque(), None);
    let refused = |argv: &[&str]| {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        Plan::of_argv(argv, place(), &Machine).unwrap_err()
    };
    assert_eq!(refused(&[]), PlanError::Empty);
    assert_eq!(refused(&[""]), PlanError::Empty);
    assert_eq!(refused(&["", "mytool"]), PlanError::Empty);
    assert!(Plan::of_argv(vec!["mytool".to_owned(), String::new()], place(), &Machine).is_ok());
    assert_eq!(refused(&["a", "b\0"]), PlanError::Nul);
    assert_eq!(refused(&["missing"]), PlanError::NotFound { word: "missing".to_owned() });
}

#[test]
fn a_script_that_begins_like_an_option_is_still_a_script() {
    for script in ["-i $x", "+x `id`"] {
        assert_eq!(outline(&plan(script)), serde_json::json!([["/usr/bin/bash", "-c", "--", script]]));
    }
}

#[test]
fn what_a_call_added_to_the_environment_is_part_of_what_is_approved() {
    let digest = |added: &[&str]| {
        let mut place = place_with("LANG", "C");
        place.added_env.retain(|name, _| added.contains(&name.as_str()));
        let plan = Some(Plan::of_script("mytool", place, &Machine).unwrap());
        let call = ToolCall {
            id: "1".to_owned(),
            name: "exec".to_owned(),
            args: serde_json::json!({}),
            source: ToolSource::Model,
        };
        let requester = Requester {
            scope: Scope::personal("main".parse().unwrap()),
            session: "s".to_owned(),
            actor: "ada".to_owned(),
            root: CWD.to_owned(),
        };
        let preparation = Preparation { plan, ..Preparation::default() };
        Prepared::new(call, requester, Risk::Execute, false, preparation).digest().clone()
    };
    assert_ne!(digest(&["LANG"]), digest(&[]));
    assert_eq!(digest(&["LANG"]), digest(&["LANG"]));
}
