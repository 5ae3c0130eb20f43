//! `tools explain` names the rule that decides and the stage it stands in, and what it says is what happens.

use serde_json::{Value, json};

use super::workspace;
use crate::home::Home;
use crate::process::Call;

fn home(config: &str) -> Home {
    let home = Home::new();
    home.write_config(config);
    home
}

fn explain(home: &Home, words: &[&str]) -> Value {
    let all = [["tools", "explain"].as_slice(), words, &["--json"]].concat();
    home.call(&all).inside(&workspace(home)).json()
}

fn invoke(home: &Home, words: &[&str]) -> Call {
    home.call(&[["tools", "invoke"].as_slice(), words].concat()).inside(&workspace(home))
}

/// Verdict, stage and rule, as JSON tells them and as a person reads them.
fn says(home: &Home, words: &[&str], expected: [&str; 3]) {
    let told = explain(home, words);
    let said = ["verdict", "stage", "rule"].map(|name| told[name].as_str().unwrap_or_default());
    assert_eq!(said, expected, "{words:?}: {told}");
    assert!(told["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{told}");
    let all = [["tools", "explain"].as_slice(), words].concat();
    let text = home.call(&all).inside(&workspace(home)).ok().stdout;
    assert!(text.contains(expected[1]) && text.contains(expected[2]), "{text}");
}

const WRITE: &str = r#"{"path": "a.txt", "content": "x"}"#;
const READ: &str = r#"{"path": "six.txt"}"#;

#[test]
fn the_profile_decides_what_nobody_else_speaks_about() {
    let home = home("{}");
    says(&home, &["read", "--args", READ], ["allow", "profile", "tools.profile"]);
    says(&home, &["write", "--args", WRITE], ["deny", "profile", "tools.profile"]);
    says(&home, &["exec"], ["deny", "profile", "tools.profile"]);
}

#[test]
fn a_denied_name_is_denied_by_the_list_that_has_it() {
    let home = home(
        "{ tools: { profile: 'coding', deny: ['group:runtime'] }, \
         agents: { list: [{ id: 'main', tools: { deny: ['wri*'] } }, { id: 'other' }] } }",
    );
    says(&home, &["exec"], ["deny", "global", "tools.deny[0]"]);
    says(&home, &["write", "--args", WRITE], ["deny", "agent", "agents.list[main].tools.deny[0]"]);
    says(&home, &["write", "--args", WRITE, "--agent", "other"], ["allow", "profile", "tools.profile"]);
    says(&home, &["read", "--args", READ], ["allow", "profile", "tools.profile"]);
}

#[test]
fn a_mode_can_ask_and_deny_and_never_widen() {
    let home = home(
        "{ tools: { profile: 'safe', modes: { read: 'approval-required', 'fs.*': 'deny', write: 'allow' } } }",
    );
    says(&home, &["read", "--args", READ], ["approval-required", "global", "tools.modes.read"]);
    says(&home, &["fs.read_file", "--args", READ], ["deny", "global", "tools.modes.fs.*"]);
    says(&home, &["write", "--args", WRITE], ["deny", "profile", "tools.profile"]);
}

#[test]
fn a_rule_about_what_a_call_touches_is_named() {
    let home = home(
        "{ tools: { profile: 'coding', rules: [{ name: 'keys', tool: 'group:fs', when: { path: ['**/*.pem'] }, \
         mode: 'deny', reason: 'keys stay where they are', \
         examples: { matches: [{ path: 'a/b.pem' }], misses: [{ path: 'a.txt' }] } }] } }",
    );
    let pem = r#"{"path": "sub/../sub/k.pem", "content": "x"}"#;
    says(&home, &["write", "--args", pem], ["deny", "global", "tools.rules[keys]"]);
    says(&home, &["write", "--args", WRITE], ["allow", "profile", "tools.profile"]);
    let refused = invoke(&home, &["write", "--args", pem]).run().json()["result"]["error"].clone();
    assert_eq!(refused["details"]["policy"]["rule"], "tools.rules[keys]", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("keys stay where they are"), "{refused}");
}

#[test]
fn a_rule_whose_example_is_wrong_stops_every_command_and_is_named() {
    for (examples, tool) in
        [("{ matches: [{ path: 'a.txt' }] }", "group:fs"), ("{ misses: [{ path: 'b/c.pem' }] }", "group:fs")]
    {
        let home = home(&format!(
            "{{ tools: {{ rules: [{{ name: 'keys', tool: '{tool}', when: {{ path: ['**/*.pem'] }}, mode: 'deny', \
             examples: {examples} }}] }} }}"
        ));
        for words in
            [["tools", "list"].as_slice(), &["tools", "explain", "read"], &["tools", "invoke", "time.now"]]
        {
            let refused = home.call(words).fails("CONFIG_INVALID");
            assert!(refused.message.contains("tools.rules[keys]"), "{words:?}: {refused:?}");
        }
        let started = home.call(&["up", "--json", "--port", "0"]).fails("CONFIG_INVALID");
        assert!(started.message.contains("tools.rules[keys]"), "{started:?}");
    }
}

#[test]
fn what_destroys_a_machine_is_denied_in_every_profile_and_every_mode() {
    let home = home(
        "{ tools: { profile: 'full', modes: { '*': 'allow' }, \
         exec: { host: 'gateway', security: 'full', ask: 'off' } } }",
    );
    for command in ["rm -rf /", "env rm -rf /", "sh -c 'rm -rf /'", "true && dd if=/dev/zero of=/dev/sda"] {
        let args = json!({ "command": command }).to_string();
        let told = explain(&home, &["exec", "--args", &args]);
        assert_eq!(
            (&told["verdict"], &told["stage"]),
            (&json!("deny"), &json!("shipped")),
            "{command}: {told}"
        );
        assert!(told["rule"].as_str().is_some_and(|rule| !rule.is_empty()), "{told}");
    }
    let fine = json!({ "command": "rm -rf sub" }).to_string();
    assert_eq!(explain(&home, &["exec", "--args", &fine])["verdict"], "allow");
}

#[test]
fn a_sensitive_session_has_no_web_tools() {
    let home = home("{ tools: { profile: 'full', sensitiveSessions: ['*payroll*'] } }");
    let args = r#"{"url": "https://example.org/"}"#;
    let words = ["web_fetch", "--args", args, "--session", "agent:main:payroll"];
    let told = explain(&home, &words);
    assert_eq!((&told["verdict"], &told["stage"]), (&json!("deny"), &json!("trust")), "{told}");
    assert!(told["rule"] == "sensitive session", "{told}");
    assert_ne!(
        explain(&home, &["web_fetch", "--args", args, "--session", "agent:main:fun"])["stage"],
        "trust"
    );
}

#[test]
fn commands_are_decided_by_the_allowlist() {
    let home = home("{ tools: { profile: 'coding', exec: { host: 'gateway' } } }");
    let uname = r#"{"command": "uname -s"}"#;
    says(&home, &["exec", "--args", uname], ["approval-required", "exec", "allowlist"]);
    let call = invoke(&home, &["exec", "--wait", "--args", uname]).start();
    let asked = crate::approvals::question(&home);
    home.call(&["approvals", "approve", asked["id"].as_str().unwrap(), "--always"]).ok();
    assert_eq!(call.wait().code, Some(0));
    let told = explain(&home, &["exec", "--args", uname]);
    assert_eq!((&told["verdict"], &told["allowedBy"].is_string()), (&json!("allow"), &true), "{told}");
    invoke(&home, &["exec", "--args", uname]).ok();
    let script = r#"{"command": "uname -s $(id)"}"#;
    let told = explain(&home, &["exec", "--args", script]);
    assert_eq!((&told["verdict"], &told["stage"]), (&json!("approval-required"), &json!("exec")), "{told}");
}

#[test]
fn what_is_explained_about_our_own_folder_is_what_happens() {
    let home =
        home("{ tools: { profile: 'full', exec: { host: 'gateway', security: 'full', ask: 'off' } } }");
    let command = format!("cat {}/config.json5", home.root().display());
    let args = json!({ "command": command }).to_string();
    let told = explain(&home, &["exec", "--args", &args]);
    let done = invoke(&home, &["exec", "--args", &args]).run();
    let policy = done.json()["result"]["error"]["details"]["policy"].clone();
    assert_eq!(done.code, Some(1), "{done:?}");
    for name in ["verdict", "stage", "rule"] {
        assert_eq!(told[name], policy[name], "{told} {policy}");
    }
    assert!(!done.stdout.contains("security"), "{done:?}");
}

#[test]
fn an_address_that_is_never_called_is_refused_by_egress_and_by_a_key() {
    let home = home("{ tools: { profile: 'full' }, egress: { denyHosts: ['bad.example'] } }");
    let fetch = |url: &str| format!(r#"{{"url": "{url}"}}"#);
    let private = fetch("http://169.254.169.254/");
    says(&home, &["web_fetch", "--args", &private], ["deny", "egress", "egress.private"]);
    let listed = fetch("https://bad.example/");
    says(&home, &["web_fetch", "--args", &listed], ["deny", "egress", "egress.denyHosts"]);
}

#[test]
fn a_command_is_judged_as_what_holds_it_here() {
    let reason = |profile: &str| {
        let home = home(&format!(
            "{{ tools: {{ profile: 'coding' }}, agents: {{ defaults: {{ sandbox: {{ profile: '{profile}' }} }} }} }}"
        ));
        let told = explain(&home, &["exec", "--args", r#"{"command": "mkdir x"}"#]);
        told["reason"].as_str().unwrap_or_default().to_owned()
    };
    assert!(reason("none").contains("nothing holds it"), "{}", reason("none"));
    assert!(!reason("local").contains("nothing holds it"), "{}", reason("local"));
}
