//! Where tools work: in the folder of the caller, never in our own state, and with none of our environment.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use super::workspace;
use crate::gateway::live::Live;
use crate::home::Home;
use crate::process::{Call, Done};

/// A home that lies in the folder of its user, with something in it that no tool may tell.
fn home_inside() -> Home {
    let home = Home::new();
    home.write_config(
        "{ tools: { profile: 'coding', exec: { host: 'gateway', security: 'full', ask: 'off' } } }",
    );
    home.ask("makes the home");
    fs::write(home.root().join("canary.txt"), CANARY).unwrap();
    home
}

const CANARY: &str = "canary-of-the-state-folder";

fn invoke(home: &Home, root: &Path, tool: &str, args: &Value) -> Done {
    let args = args.to_string();
    home.call(&["tools", "invoke", tool, "--args", &args, "--root", root.to_str().unwrap()]).run()
}

#[test]
fn file_tools_see_the_folder_of_the_caller_and_nothing_above_it() {
    let home = home_inside();
    let root = workspace(&home);
    let sub = root.join("sub");
    let call = |args: &Value| {
        let args = args.to_string();
        home.call(&["tools", "invoke", "read", "--args", &args]).inside(&sub).run()
    };
    assert_eq!(call(&json!({"path": "deep/b.txt"})).json()["result"]["content"], "b");
    symlink(root.join("six.txt"), sub.join("link")).unwrap();
    for path in
        ["../six.txt", "deep/../../six.txt", "link", root.join("six.txt").to_str().unwrap(), "/etc/passwd"]
    {
        let done = call(&json!({ "path": path }));
        assert_eq!(done.code, Some(1), "{path}: {done:?}");
        assert!(!done.stdout.contains("sixsix") && !done.stdout.contains("root:"), "{path}: {done:?}");
    }
}

/// Every tool that could tell or change something below `base`, asked to do it.
fn tries(base: &str) -> Vec<(&'static str, Value)> {
    let file = format!("{base}/canary.txt");
    vec![
        ("read", json!({ "path": file })),
        ("fs.read_file", json!({ "path": file })),
        ("fs.list_dir", json!({ "path": base })),
        ("ls", json!({ "path": base })),
        ("find", json!({ "pattern": "*.txt", "path": base })),
        ("grep", json!({ "pattern": "canary", "path": base })),
        ("write", json!({ "path": format!("{base}/new.txt"), "content": "x" })),
        ("edit", json!({ "path": file, "oldText": "canary", "newText": "owned" })),
        ("exec", json!({ "command": "ls", "workdir": base })),
    ]
}

#[test]
fn our_own_folder_is_never_reached_from_a_folder_that_has_it() {
    let home = home_inside();
    let root = home.around().canonicalize().unwrap();
    symlink(home.root(), root.join("alias")).unwrap();
    symlink("../home", root.join("user/up")).unwrap();
    let state = home.root().canonicalize().unwrap();
    for base in ["home", "alias", "user/up", "user/../home", "./home/.", state.to_str().unwrap()] {
        for (tool, args) in tries(base) {
            let done = invoke(&home, &root, tool, &args);
            assert_eq!(done.code, Some(1), "{tool} {args}: {done:?}");
            let error = done.json()["result"]["error"].clone();
            assert_eq!(error["code"], "execution_error", "{tool} {args}: {error}");
            assert!(!done.stdout.contains(CANARY), "{tool} {args}: {done:?}");
        }
    }
    assert_eq!(fs::read_to_string(home.root().join("canary.txt")).unwrap(), CANARY);
    assert!(!home.root().join("new.txt").exists());
}

#[test]
fn a_search_from_above_passes_our_own_folder_by() {
    let home = home_inside();
    let root = home.around().canonicalize().unwrap();
    fs::write(root.join("user/mine.txt"), "canary of mine").unwrap();
    symlink(home.root(), root.join("user/alias")).unwrap();
    for (tool, args) in [
        ("grep", json!({ "pattern": "canary", "path": "." })),
        ("find", json!({ "pattern": "**/*.txt", "path": "." })),
        ("fs.list_dir", json!({ "path": ".", "recursive": true, "maxDepth": 6 })),
    ] {
        let done = invoke(&home, &root, tool, &args);
        assert_eq!(done.code, Some(0), "{tool}: {done:?}");
        assert!(done.stdout.contains("mine.txt"), "{tool}: {done:?}");
        assert!(!done.stdout.contains("canary.txt") && !done.stdout.contains(CANARY), "{tool}: {done:?}");
    }
}

#[test]
fn commands_that_name_our_own_folder_are_refused() {
    let home = home_inside();
    let root = workspace(&home);
    let state = home.root().display();
    for command in [
        format!("cat {state}/canary.txt"),
        format!("cat '{state}'/canary.txt"),
        "cat ../home/canary.txt".to_owned(),
        format!("cp -r {state} ."),
        format!("grep -r canary --include=*.txt {state}/"),
    ] {
        let done = invoke(&home, &root, "exec", &json!({ "command": command }));
        assert_eq!(done.code, Some(1), "{command}: {done:?}");
        assert!(!done.stdout.contains(CANARY), "{command}: {done:?}");
    }
}

fn env_of_a_command(call: Call) -> String {
    let done = call.run();
    assert_eq!(done.code, Some(0), "{done:?}");
    done.json()["result"]["data"]["stdout"].as_str().unwrap().to_owned()
}

#[test]
fn a_command_sees_none_of_our_environment() {
    let home = home_inside();
    home.write_config(
        "{ tools: { profile: 'coding', exec: { host: 'gateway', security: 'full', ask: 'off', \
         env: { OURS: 'configured' } } } }",
    );
    let root = workspace(&home);
    let words = ["tools", "invoke", "exec", "--args", r#"{"command": "env"}"#];
    let canary = |call: Call| {
        call.env("SOME_API_KEY", "canary-of-the-environment").env("ANTHROPIC_API_KEY", "canary-2")
    };
    let alone = env_of_a_command(canary(home.call(&words)).inside(&root));
    let live = Live::with(canary(home.call(&["up", "--json", "--port", "0"])), home.root());
    let through = env_of_a_command(canary(home.call(&words)).inside(&root));
    live.end();
    for seen in [alone, through] {
        assert!(seen.contains("OURS=configured") && seen.contains("PATH="), "{seen}");
        assert!(!seen.contains("canary") && !seen.contains("TIDEGATE"), "{seen}");
    }
}
