//! Servers in the sandbox: those that are useful work there, and a hostile one gets nowhere.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tidegate_mcp::{Reach, Servers, Standing};
use tidegate_policy::{Besides, Profile};
use tidegate_testkit::skip::skip_loudly;
use tidegate_tools::ToolProvider as _;

use crate::npm::installed;
use crate::scene::{Scene, helper, means_with, program, spec};

/// What can hold programs on a machine like this one.
const WAYS: [&str; 2] = ["bubblewrap", "landlock"];

/// Not in `/tmp`: programs in a sandbox have one of their own, and may write what they like there.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A server in the sandbox. Our own state lies in `state`, and what it works in lies in there, as in a real home.
fn scene(way: &'static str, argv: Vec<String>, besides: Besides) -> Scene {
    let folder = folder();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("state")).unwrap();
    std::fs::write(root.join("state/secret"), "the canary").unwrap();
    let mut reach = program(argv, &root.join("state"));
    if let Reach::Stdio(said) = &mut reach {
        said.confinement.profile = Profile::Local;
        said.confinement.hidden = vec![root.join("state")];
        said.confinement.besides = besides;
    }
    let means = means_with(&root, |sandboxes| sandboxes.only(way));
    Scene { servers: Servers::new(vec![spec("held", reach)], &means), folder }
}

/// Whether it came up; loudly not, where nothing can hold it so.
async fn is_up(scene: &Scene, way: &str) -> bool {
    scene.servers.settled().await;
    match scene.status().standing {
        Standing::Ready { .. } => true,
        Standing::Failed { why, .. } if why.contains("cannot be used here") => {
            skip_loudly(&format!("a server held by {way}: {why}"));
            false
        }
        other => panic!("{way}: {other:?}"),
    }
}

#[tokio::test]
async fn npms_server_for_files_works_in_the_folder_it_was_given() {
    let Some(script) = installed("server-filesystem") else { return };
    for way in WAYS {
        let given = tempfile::tempdir().unwrap();
        let data = given.path().canonicalize().unwrap();
        std::fs::write(data.join("note.txt"), "by the tide").unwrap();
        let argv = vec!["node".to_owned(), script.clone(), data.display().to_string()];
        let besides = Besides { read: Vec::new(), write: vec![data.clone()] };
        let scene = scene(way, argv, besides);
        if !is_up(&scene, way).await {
            continue;
        }
        let path = |name: &str| data.join(name).display().to_string();
        let read = scene.call("mcp.held.read_text_file", json!({"path": path("note.txt")})).await;
        assert!(read.ok && read.text().contains("by the tide"), "{way}: {read:?}");
        let written = json!({"path": path("new.txt"), "content": "x"});
        assert!(scene.call("mcp.held.write_file", written).await.ok, "{way}");
        assert_eq!(std::fs::read_to_string(data.join("new.txt")).unwrap(), "x");
        scene.servers.close().await;
    }
}

#[tokio::test]
async fn a_folder_that_is_only_named_can_be_read_and_not_written() {
    let Some(script) = installed("server-filesystem") else { return };
    let given = tempfile::tempdir().unwrap();
    let data = given.path().canonicalize().unwrap();
    std::fs::write(data.join("note.txt"), "by the tide").unwrap();
    let argv = vec!["node".to_owned(), script, data.display().to_string()];
    let scene = scene("bubblewrap", argv, Besides::default());
    if !is_up(&scene, "bubblewrap").await {
        return;
    }
    let path = |name: &str| data.join(name).display().to_string();
    assert!(scene.call("mcp.held.read_text_file", json!({"path": path("note.txt")})).await.ok);
    let refused = scene.call("mcp.held.write_file", json!({"path": path("new"), "content": "x"})).await;
    assert!(!refused.ok && !data.join("new").exists(), "{refused:?}");
    scene.servers.close().await;
}

/// A server in Python without any library: it tries what it is told to and says what came of it.
const HOSTILE: &str = r#"
import json, os, socket, sys

def attempt(what, where):
    try:
        if what == "read":
            return "got " + open(where).read()
        if what == "list":
            return "got " + " ".join(os.listdir(where))
        if what == "write":
            open(where, "w").write("owned")
            return "got it written"
        if what == "connect":
            host, port = where.rsplit(":", 1)
            socket.create_connection((host, int(port)), 3).close()
            return "got through"
        return "got " + os.environ.get(where, "")
    except OSError as error:
        return "refused: " + type(error).__name__

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "hostile", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "attempt", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        said = attempt(params["arguments"]["what"], params["arguments"]["where"])
        result = {"content": [{"type": "text", "text": said}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

fn python() -> Option<PathBuf> {
    let found =
        ["/usr/bin/python3", "/usr/local/bin/python3"].map(PathBuf::from).into_iter().find(|p| p.exists());
    let works = |path: &PathBuf| Command::new(path).arg("--version").output().is_ok();
    let found = found.filter(works);
    if found.is_none() {
        skip_loudly("an MCP server in Python: python3 is not installed");
    }
    found
}

async fn attempt(scene: &Scene, what: &str, place: &str) -> String {
    let args: Value = json!({"what": what, "where": place});
    scene.call("mcp.held.attempt", args).await.text()
}

#[tokio::test]
async fn a_hostile_server_reads_none_of_our_state_reaches_nobody_and_changes_nothing() {
    let Some(python) = python() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    for way in WAYS {
        let sources = folder();
        let script = sources.path().canonicalize().unwrap().join("server.py");
        std::fs::write(&script, HOSTILE).unwrap();
        let argv = vec![python.display().to_string(), script.display().to_string()];
        let scene = scene(way, argv, Besides::default());
        if !is_up(&scene, way).await {
            continue;
        }
        let root = scene.folder.path().canonicalize().unwrap();
        let text = |path: &Path| path.display().to_string();
        // It is a server that works …
        let own = text(&root.join("state/work/own"));
        assert!(attempt(&scene, "write", &own).await.contains("got it written"), "{way}");
        assert!(attempt(&scene, "read", &text(&script)).await.contains("got"), "{way}");
        // … and is kept from everything else.
        let helper = helper();
        let secret = text(&root.join("state/secret"));
        for (what, place) in [
            ("read", secret.as_str()),
            ("list", &text(&root.join("state"))),
            ("write", &text(&root.join("state/secret"))),
            ("write", &text(&root.join("outside"))),
            ("write", &text(&script)),
            ("write", &text(&helper)),
            ("read", "/etc/shadow"),
            ("list", "/root"),
            ("connect", address.as_str()),
            ("connect", "169.254.169.254:80"),
            ("connect", "1.1.1.1:53"),
        ] {
            let said = attempt(&scene, what, place).await;
            let contained = said.contains("refused") || (what == "list" && !said.contains("secret"));
            assert!(contained && !said.contains("canary"), "{way}: {what} {place}: {said}");
        }
        assert!(listener.accept().is_err(), "{way}: it came out");
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "the canary");
        assert_eq!(std::fs::read_to_string(&script).unwrap(), HOSTILE);
        scene.servers.close().await;
    }
}
