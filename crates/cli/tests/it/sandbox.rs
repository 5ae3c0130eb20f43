//! What holds programs: shown, tried and explained, and there when an agent's tools run.

use serde_json::{Value, json};

use crate::home::Home;
use crate::process::Done;

/// Whether anything of profile `local` works on this machine; told if not.
fn works(home: &Home) -> bool {
    let told = home.call(&["sandbox", "status", "--profile", "local", "--json"]).run().json();
    if told["works"] != true {
        tidegate_testkit::skip::skip_loudly(&told.to_string());
    }
    told["works"] == true
}

fn exec(home: &Home, command: &str) -> Done {
    let args = json!({ "command": command }).to_string();
    let root = home.root().join("agents/main/workspace");
    home.call(&["tools", "invoke", "exec", "--args", &args, "--root", root.to_str().unwrap()]).run()
}

fn open() -> Home {
    let home = Home::new();
    home.write_config("{ tools: { profile: 'coding', exec: { security: 'full', ask: 'off' } } }");
    home.ask("makes the home");
    std::fs::create_dir_all(home.root().join("agents/main/workspace")).unwrap();
    home
}

#[test]
fn every_way_is_listed_with_what_it_is_or_why_not() {
    let home = Home::new();
    let told = home.call(&["sandbox", "status", "--json"]).run().json();
    let names: Vec<&Value> =
        told["backends"].as_array().unwrap().iter().map(|backend| &backend["backend"]).collect();
    assert!(names.contains(&&json!("bubblewrap")) && names.contains(&&json!("landlock")), "{told}");
    for backend in told["backends"].as_array().unwrap() {
        assert!(backend["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{told}");
        assert!(["works", "fails"].contains(&backend["state"].as_str().unwrap()), "{told}");
    }
    assert_eq!((&told["profile"], &told["by"]), (&json!("local"), &json!("agents.defaults.sandbox.profile")));
}

#[test]
fn a_program_is_tried_as_it_would_be_held_and_its_code_is_passed_on() {
    let home = open();
    if !works(&home) {
        return;
    }
    let script = "ls /root; cat ../../../config.json5; echo written > file; pwd; exit 7";
    let done = home.call(&["sandbox", "test", "--", "sh", "-c", script]).run();
    assert_eq!(done.code, Some(7), "{done:?}");
    assert!(done.stdout.trim_end().ends_with("agents/main/workspace"), "{done:?}");
    assert!(!done.stdout.contains("profile"), "{done:?}");
    assert!(done.stderr.contains("network none") && done.stderr.contains("exit code 7"), "{done:?}");
    assert!(home.root().join("agents/main/workspace/file").exists());
}

#[test]
fn a_profile_that_is_not_there_is_refused_and_nothing_runs() {
    let home = Home::new();
    home.write_config(
        "{ agents: { defaults: { sandbox: { profile: 'microvm', microvm: { kernel: '/nowhere' } } } } }",
    );
    let done = home.call(&["sandbox", "test", "--", "echo", "ran"]).run();
    assert_eq!((done.code == Some(0), done.stdout.as_str()), (false, ""), "{done:?}");
    assert!(done.stderr.contains("microvm"), "{done:?}");
}

#[test]
fn the_keys_that_decide_are_named() {
    let home = Home::new();
    home.write_config(
        "{ agents: { defaults: { sandbox: { network: 'full' } }, list: [{ id: 'main', sandbox: { workspaceAccess: 'ro' } }] } }",
    );
    let told = home.call(&["sandbox", "explain", "--json"]).json();
    assert_eq!(told["confinement"]["access"], "readonly");
    assert_eq!(told["by"]["access"], "agents.list[main].sandbox.workspaceAccess");
    assert_eq!(told["by"]["network"], "agents.defaults.sandbox.network");
    home.write_config("{ tools: { exec: { host: 'gateway' } } }");
    let told = home.call(&["sandbox", "explain", "--json"]).json();
    assert_eq!(
        (&told["confinement"]["profile"], &told["by"]["profile"]),
        (&json!("none"), &json!("tools.exec.host"))
    );
}

#[test]
fn an_agents_commands_are_held_without_a_word_of_configuration_about_it() {
    let home = open();
    if !works(&home) {
        return;
    }
    let done = exec(&home, "cat /etc/hostname; ls -a /root /home");
    let data = &done.json()["result"]["data"];
    assert!(!data["stdout"].as_str().unwrap().contains(".ssh"), "{done:?}");
    let config = home.root().join("config.json5");
    let done = exec(&home, &format!("sh -c 'cat {}'", config.display()));
    assert!(!done.stdout.contains("'coding'"), "{done:?}");
}

#[test]
fn a_limit_that_ends_a_command_is_named_in_its_result() {
    let home = Home::new();
    home.write_config(
        "{ tools: { profile: 'coding', exec: { security: 'full', ask: 'off' } },
           agents: { defaults: { sandbox: { limits: { processes: 16 } } } } }",
    );
    home.ask("makes the home");
    std::fs::create_dir_all(home.root().join("agents/main/workspace")).unwrap();
    if !works(&home) {
        return;
    }
    let done = exec(&home, "for i in $(seq 1 60); do sleep 30 & done; wait");
    let result = &done.json()["result"];
    assert_eq!(result["data"]["limit"], json!({ "what": "processes", "limit": 16 }), "{done:?}");
    assert!(result["error"]["message"].as_str().unwrap().contains("16 processes"), "{done:?}");
}

#[test]
fn who_runs_programs_on_the_bare_machine_is_warned() {
    let home = Home::new();
    let bare = "{ tools: { profile: 'coding' }, agents: { defaults: { sandbox: { profile: 'none' } } } }";
    home.write_config(bare);
    let told = home.call(&["sandbox", "status"]).run();
    assert!(
        told.stderr.contains("WARNING") && told.stderr.contains("agents.defaults.sandbox.profile"),
        "{told:?}"
    );
    let words = home.call(&["status"]).ok().stdout;
    assert!(words.contains("none (programs have all your rights)"), "{words}");
    home.write_config("{ tools: { profile: 'coding' } }");
    assert!(!home.call(&["sandbox", "status"]).run().stderr.contains("WARNING"));
}

/// What `sandbox test` says about a program of Python's, held by either way.
fn refusals(home: &Home, program: &str) -> Done {
    home.call(&["sandbox", "test", "--", "/usr/bin/python3", "-c", program]).run()
}

#[test]
fn what_a_program_is_refused_is_listed_with_the_key_that_decides() {
    let home = open();
    if !works(&home) || !std::path::Path::new("/usr/bin/python3").exists() {
        return;
    }
    let secret = home.root().join("config.json5");
    let program = format!(
        "
import ctypes, os, socket
def attempt(what):
    try: what()
    except OSError as error: print(error)
attempt(lambda: open('/usr/written', 'w'))
attempt(lambda: open('{secret}'))
attempt(lambda: socket.create_connection(('192.0.2.1', 80), 2))
libc = ctypes.CDLL(None, use_errno=True)
libc.mount(b'none', b'/mnt', b'tmpfs', 0, None)
libc.ptrace(16, 1, 0, 0)
open('inside', 'w').write('fine')
if os.fork() == 0:
    attempt(lambda: open('/usr/by-a-child', 'w'))
    os._exit(0)
os.wait()
",
        secret = secret.display()
    );
    let done = refusals(&home, &program);
    assert_eq!(done.code, Some(0), "{done:?}");
    let told = |words: &[&str]| {
        let found = done.stderr.lines().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(found, "{words:?} is not in one line of {}", done.stderr);
    };
    told(&["/usr/written", "to change it", "agents.defaults.sandbox.profile"]);
    told(&["/usr/by-a-child"]);
    told(&[secret.to_str().unwrap(), "agents.defaults.sandbox.profile"]);
    told(&["agents.defaults.sandbox.network"]);
    told(&["  mount: ", "agents.defaults.sandbox.profile"]);
    told(&["  ptrace: "]);
    assert!(!done.stderr.contains("/inside"), "{done:?}");
    home.write_config("{ agents: { defaults: { sandbox: { workspaceAccess: 'ro' } } } }");
    let done = refusals(&home, "open('no', 'w')");
    assert!(done.stderr.contains("agents.defaults.sandbox.workspaceAccess: \"rw\""), "{done:?}");
    let done = home.call(&["sandbox", "test", "--", "/usr/bin/true"]).run();
    assert!(done.stderr.contains("nothing was refused"), "{done:?}");
}

#[test]
fn a_host_that_a_rule_takes_away_is_told_with_the_rules_key() {
    let home = Home::new();
    home.write_config(
        "{ egress: { allowHosts: ['other.example'], denyHosts: ['bad.example.com'] }, agents: { defaults: { \
         sandbox: { network: 'allowlist', allowHosts: ['pypi.org'] } } } }",
    );
    let text = home.call(&["sandbox", "explain"]).ok().stdout;
    let told = text.lines().find(|line| line.contains("pypi.org")).unwrap_or_default();
    assert!(told.contains("egress.allowHosts"), "{text}");
    assert!(!text.contains("only !") && text.contains("no host"), "{text}");
}

#[test]
fn whoever_runs_something_bare_is_warned_and_told_of_no_limits() {
    let home = Home::new();
    let done = home.call(&["sandbox", "test", "--profile", "none", "--", "true"]).run();
    assert!(done.stderr.contains("WARNING") && !done.stderr.contains("at most"), "{done:?}");
    home.write_config(
        "{ tools: { profile: 'coding' }, agents: { defaults: { sandbox: { profile: 'none' } } } }",
    );
    let done = home.call(&["ask", "hi"]).ok();
    assert!(done.stderr.contains("WARNING"), "{done:?}");
}

#[test]
fn without_access_to_the_workspace_the_callers_folder_is_not_shown_either() {
    let home = Home::new();
    home.write_config(
        "{ tools: { profile: 'coding', exec: { security: 'full', ask: 'off' } },
           agents: { defaults: { sandbox: { workspaceAccess: 'none' } } } }",
    );
    home.ask("makes the home");
    if !works(&home) {
        return;
    }
    let folder = tempfile::tempdir_in(home.root().parent().unwrap()).unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("mine"), "canary").unwrap();
    let root = root.to_str().unwrap();
    let script = "ls; cat mine; touch left";
    let args = json!({ "command": script }).to_string();
    for words in [
        &["tools", "invoke", "exec", "--root", root, "--args", &args][..],
        &["sandbox", "test", "--root", root, "--", "sh", "-c", script],
    ] {
        let done = home.call(words).run();
        assert!(!done.stdout.contains("canary") && !done.stdout.contains("mine\\n"), "{done:?}");
        assert!(!std::path::Path::new(root).join("left").exists(), "{done:?}");
    }
}

#[test]
fn a_test_is_told_as_json_with_its_output_its_end_and_what_was_refused() {
    let home = open();
    if !works(&home) {
        return;
    }
    let done = home
        .call(&[
            "sandbox",
            "test",
            "--json",
            "--",
            "sh",
            "-c",
            "echo out; echo err >&2; echo x >/usr/x; exit 3",
        ])
        .run();
    assert_eq!(done.code, Some(3), "{done:?}");
    let told: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((&told["stdout"], &told["exitCode"]), (&json!("out\n"), &json!(3)), "{told}");
    assert!(told["stderr"].as_str().unwrap().starts_with("err\n"), "{told}");
    let refused = told["refused"].as_array().unwrap();
    assert!(refused.iter().any(|one| one["path"] == "/usr/x" && one["write"] == true), "{told}");
    let killed = home.call(&["sandbox", "test", "--", "sh", "-c", "kill -9 $$"]).run();
    assert_eq!(killed.code, Some(137), "as shells tell it: {killed:?}");
}

#[test]
fn what_a_small_machine_cannot_do_is_said_before_one_is_booted() {
    let home = Home::new();
    home.write_config(
        "{ agents: { defaults: { sandbox: { profile: 'microvm', network: 'allowlist', microvm: { kernel: '/nowhere' } } } } }",
    );
    let done = home.call(&["sandbox", "test", "--", "echo", "ran"]).run();
    assert!(done.stderr.contains("`network` has to be") && !done.stderr.contains("/nowhere"), "{done:?}");
    let explained = home.call(&["sandbox", "explain"]).run();
    assert!(explained.stderr.contains("no program starts"), "{explained:?}");
}

#[test]
fn a_call_by_hand_waits_for_its_end_where_nobody_would_look_after_it() {
    let home = Home::new();
    home.write_config("{ tools: { profile: 'coding', exec: { security: 'full', ask: 'off' } } }");
    home.ask("makes the home");
    if !works(&home) {
        return;
    }
    let args = json!({ "command": "sleep 2; echo ended", "yieldMs": 10 }).to_string();
    let done = home.call(&["tools", "invoke", "exec", "--args", &args]).run();
    assert_eq!(done.json()["result"]["data"]["stdout"], "ended\n", "{done:?}");
}

#[test]
fn programs_that_work_in_a_persons_home_do_not_see_the_keys_there() {
    let home = open();
    if !works(&home) {
        return;
    }
    let person = tempfile::tempdir_in(home.root().parent().unwrap()).unwrap();
    let person = person.path().canonicalize().unwrap();
    std::fs::create_dir_all(person.join(".ssh")).unwrap();
    std::fs::write(person.join(".ssh/id"), "canary").unwrap();
    std::fs::write(person.join("notes"), "for everybody").unwrap();
    let root = person.to_str().unwrap();
    let script = "cat notes; cat .ssh/id";
    let args = json!({ "command": script }).to_string();
    for words in [
        &["tools", "invoke", "exec", "--root", root, "--args", &args][..],
        &["sandbox", "test", "--root", root, "--", "sh", "-c", script],
    ] {
        let done = home.call(words).env("HOME", root).run();
        assert!(!done.stdout.contains("canary"), "{done:?}");
        let only_landlock = done.stderr.contains("bubblewrap") || done.stdout.contains("bubblewrap");
        assert!(done.stdout.contains("for everybody") || only_landlock, "{done:?}");
    }
}
