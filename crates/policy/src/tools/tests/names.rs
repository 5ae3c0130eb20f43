//! What is decided by names alone: profiles, lists, modes, and what a model is shown.

use tidegate_protocol::Risk;

use super::{also, call, decide, gist, global, list, pipeline, policy, with};
use crate::tools::{BUILT_IN, Profile, Stage, StageKind, Trust, Verdict, Warning};

fn shown(policy: &crate::tools::ToolPolicy) -> Vec<&'static str> {
    pipeline(policy).tools(BUILT_IN, Trust::Normal)
}

#[test]
fn a_profile_has_these_tools() {
    assert_eq!(shown(&policy(Profile::Minimal)), ["session_status"]);
    let safe = [
        "find",
        "fs.list_dir",
        "fs.read_file",
        "grep",
        "ls",
        "memory_get",
        "memory_search",
        "read",
        "session_status",
        "shell.pwd",
        "time.now",
        "tools.echo",
    ];
    assert_eq!(shown(&policy(Profile::Safe)), safe);
    let coding = [
        "apply_patch",
        "edit",
        "exec",
        "find",
        "fs.list_dir",
        "fs.read_file",
        "grep",
        "image",
        "ls",
        "memory_append",
        "memory_get",
        "memory_search",
        "process",
        "read",
        "session_status",
        "sessions_history",
        "sessions_list",
        "sessions_send",
        "sessions_spawn",
        "shell.pwd",
        "time.now",
        "tools.echo",
        "write",
    ];
    assert_eq!(shown(&policy(Profile::Coding)), coding);
    assert!(safe.iter().all(|tool| coding.contains(tool)));
    let messaging = ["message", "session_status", "sessions_history", "sessions_list", "sessions_send"];
    assert_eq!(shown(&policy(Profile::Messaging)), messaging);
    assert_eq!(shown(&policy(Profile::Full)), BUILT_IN);
}

#[test]
fn a_profile_is_written_as_it_is_called() {
    for profile in Profile::ALL {
        assert_eq!(serde_json::to_value(profile).unwrap(), profile.as_str());
    }
    assert_eq!(Profile::default(), Profile::Safe);
}

#[test]
fn what_the_profile_does_not_have_is_denied() {
    let decision = decide(&policy(Profile::Safe), &call("write", Risk::Write));
    assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Profile, "tools.profile"));
    assert_eq!(decision.reason, "the profile `safe` does not have it");
    let decision = decide(&policy(Profile::Safe), &call("read", Risk::Read));
    assert_eq!(gist(&decision), (Verdict::Allow, StageKind::Profile, "tools.profile"));
}

#[test]
fn also_allow_joins_the_profile_and_gets_past_no_other_list() {
    let mut policy = policy(Profile::Safe);
    policy.base.also_allow = also(&["cron", "web_*"]);
    let decision = decide(&policy, &call("web_fetch", Risk::Network));
    assert_eq!(gist(&decision), (Verdict::Allow, StageKind::Profile, "tools.alsoAllow[1]"));

    let mut stage = global();
    stage.allow = Some(list(&["read"]));
    policy.stages.push(stage);
    let decision = decide(&policy, &call("web_fetch", Risk::Network));
    assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Global, "tools.allow"));
}

#[test]
fn a_tool_nobody_knows_is_denied_also_in_full() {
    let mut policy = policy(Profile::Full);
    let unknown = call("deploy", Risk::Read);
    assert_eq!(gist(&decide(&policy, &unknown)), (Verdict::Deny, StageKind::Shipped, "unknown tool"));
    policy.plugins = list(&["Deploy"]);
    assert_eq!(decide(&policy, &unknown).verdict, Verdict::Allow);
    assert_eq!(pipeline(&policy).tools(["deploy", "other"], Trust::Normal), ["deploy"]);
}

#[test]
fn a_plugin_does_not_become_a_built_in_tool_by_its_name() {
    let mut policy = policy(Profile::Full);
    policy.plugins = list(&["bash", "read"]);
    let mut stage = global();
    stage.deny = list(&["group:plugins"]);
    policy.stages.push(stage);
    assert_eq!(decide(&policy, &call("read", Risk::Read)).verdict, Verdict::Allow);
}

#[test]
fn an_alias_is_the_tool() {
    let mut stage = global();
    stage.deny = list(&["Bash.Exec"]);
    let decision = decide(&with(Profile::Full, stage), &call(" Bash ", Risk::Read));
    assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Global, "tools.deny[0]"));
}

#[test]
fn deny_wins_over_allow_and_names_its_entry() {
    let mut stage = global();
    stage.allow = Some(list(&["*"]));
    stage.deny = list(&["cron", "group:fs"]);
    let policy = with(Profile::Full, stage);
    let decision = decide(&policy, &call("read", Risk::Read));
    assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Global, "tools.deny[1]"));
    assert_eq!(decision.reason, "tools.deny[1] denies it (`group:fs`)");
    let decision = decide(&policy, &call("web_search", Risk::Network));
    assert_eq!(gist(&decision), (Verdict::Allow, StageKind::Profile, "tools.profile"));
}

#[test]
fn no_list_is_no_opinion_and_an_empty_list_is_nothing() {
    let mut stage = global();
    let read = call("read", Risk::Read);
    assert_eq!(decide(&with(Profile::Full, stage.clone()), &read).verdict, Verdict::Allow);
    stage.allow = Some(Vec::new());
    let decision = decide(&with(Profile::Full, stage), &read);
    assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Global, "tools.allow"));
    assert_eq!(decision.reason, "tools.allow does not have it");
}

#[test]
fn whoever_may_run_commands_may_patch_unless_that_is_denied() {
    let mut stage = global();
    stage.allow = Some(list(&["exec"]));
    let patch = call("apply_patch", Risk::Write);
    let allowed = decide(&with(Profile::Full, stage.clone()), &patch);
    assert_eq!(allowed.trail[1].rule, "tools.allow[0]");
    assert_eq!(allowed.verdict, Verdict::Allow);
    // It is about patching only.
    assert_eq!(
        decide(&with(Profile::Full, stage.clone()), &call("write", Risk::Write)).verdict,
        Verdict::Deny
    );
    stage.deny = list(&["apply_patch"]);
    assert_eq!(decide(&with(Profile::Full, stage), &patch).verdict, Verdict::Deny);
    let mut patch_only = global();
    patch_only.allow = Some(list(&["apply_patch"]));
    assert_eq!(decide(&with(Profile::Full, patch_only), &call("exec", Risk::Read)).verdict, Verdict::Deny);
}

#[test]
fn the_strictest_mode_that_fits_counts() {
    for (modes, verdict, rule) in [
        (&[("read", Verdict::Ask)][..], Verdict::Ask, "tools.modes.read"),
        (&[("read", Verdict::Deny)], Verdict::Deny, "tools.modes.read"),
        (&[("read", Verdict::Allow)], Verdict::Allow, "tools.profile"),
        (&[("write", Verdict::Deny)], Verdict::Allow, "tools.profile"),
        (&[("read", Verdict::Allow), ("*", Verdict::Ask)], Verdict::Ask, "tools.modes.*"),
        (&[("group:fs", Verdict::Deny), ("read", Verdict::Ask)], Verdict::Deny, "tools.modes.group:fs"),
    ] {
        let mut stage = global();
        stage.modes = modes.iter().map(|(tool, verdict)| ((*tool).to_owned(), *verdict)).collect();
        let decision = decide(&with(Profile::Full, stage), &call("read", Risk::Read));
        assert_eq!((decision.verdict, decision.rule.as_str()), (verdict, rule));
    }
}

#[test]
fn a_mode_says_what_it_wants() {
    for (mode, reason) in [
        (Verdict::Ask, "tools.modes.read wants somebody's approval"),
        (Verdict::Deny, "tools.modes.read denies it"),
    ] {
        let mut stage = global();
        stage.modes = [("read".to_owned(), mode)].into();
        assert_eq!(decide(&with(Profile::Full, stage), &call("read", Risk::Read)).reason, reason);
    }
}

#[test]
fn a_stage_may_have_a_profile_of_its_own() {
    let mut stage = Stage::new(StageKind::Provider, "tools.byProvider.local");
    stage.profile = Some(Profile::Minimal);
    let policy = with(Profile::Coding, stage);
    assert_eq!(shown(&policy), ["session_status"]);
    let decision = decide(&policy, &call("read", Risk::Read));
    assert_eq!(gist(&decision), (Verdict::Deny, StageKind::Provider, "tools.byProvider.local.profile"));
}

#[test]
fn a_model_sees_what_asks_but_not_what_is_denied() {
    let mut stage = global();
    stage.modes = [("read".to_owned(), Verdict::Ask), ("ls".to_owned(), Verdict::Deny)].into();
    stage.deny = list(&["find"]);
    let pipeline = pipeline(&with(Profile::Safe, stage));
    let names = ["ls", "Read", "glob", "grep", "write", "nothing"];
    assert_eq!(pipeline.tools(names, Trust::Normal), ["Read", "grep"]);
}

#[test]
fn a_sensitive_session_is_shown_no_web_tools() {
    let pipeline = pipeline(&policy(Profile::Full));
    let hidden = BUILT_IN.into_iter().filter(|name| pipeline.tools([*name], Trust::Sensitive).is_empty());
    assert_eq!(hidden.collect::<Vec<_>>(), ["browser", "http.request", "web_fetch", "web_search"]);
}

#[test]
fn a_name_that_means_nothing_is_reported() {
    let unknown = |at: &str, pattern: &str| Warning::UnknownTool { at: at.into(), pattern: pattern.into() };
    let mut policy = policy(Profile::Safe);
    policy.base.also_allow = also(&["exec", "exce"]);
    let mut stage = global();
    stage.allow = Some(list(&["web.fetch", "group:none"]));
    stage.deny = list(&["bash*", "exec"]);
    stage.modes = [("reed".to_owned(), Verdict::Ask), ("read".to_owned(), Verdict::Ask)].into();
    stage.rules = vec![super::rules::rule("typo", "wirte"), super::rules::rule("fine", "write")];
    policy.stages = vec![stage];
    let expected = [
        unknown("tools.alsoAllow[1]", "exce"),
        unknown("tools.allow[0]", "web.fetch"),
        unknown("tools.allow[1]", "group:none"),
        unknown("tools.deny[0]", "bash*"),
        unknown("tools.modes.reed", "reed"),
        unknown("tools.rules[typo]", "wirte"),
        Warning::NothingAllowed { at: "tools.allow".to_owned() },
    ];
    assert_eq!(pipeline(&policy).warnings(), expected);
    assert_eq!(expected[0].to_string(), "tools.alsoAllow[1]: `exce` is the name of no tool");
}

#[test]
fn lists_that_mean_something_are_not_reported() {
    for profile in Profile::ALL {
        let mut stage = global();
        stage.allow = Some(list(&["exec"]));
        let mut policy = with(profile, stage);
        policy.plugins = list(&["deploy"]);
        policy.base.also_allow = also(&["group:plugins", "Deploy"]);
        assert_eq!(pipeline(&policy).warnings(), []);
    }
}
