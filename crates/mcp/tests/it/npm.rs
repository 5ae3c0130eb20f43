//! The reference servers of npm, over both transports. `scripts/sdk/node-modules.sh` installs them.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tidegate_mcp::{AddressSpec, OauthSpec, Reach, Standing};
use tidegate_protocol::{Block, Risk};
use tidegate_testkit::skip::skip_loudly;
use tidegate_tools::ToolProvider as _;

use crate::scene::{Scene, program, spec};

/// The script of an installed server; nothing, loudly, without it.
pub(crate) fn installed(server: &str) -> Option<String> {
    let sdk = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/sdk");
    let script = sdk.join(format!("node_modules/@modelcontextprotocol/{server}/dist/index.js"));
    if !script.exists() {
        let _ = Command::new(sdk.join("node-modules.sh")).stdout(Stdio::null()).status();
    }
    if !script.exists() {
        skip_loudly(&format!("npm's {server} is not installed: run scripts/sdk/node-modules.sh"));
        return None;
    }
    Some(script.canonicalize().unwrap().display().to_string())
}

#[tokio::test]
async fn everything_over_stdio() {
    let Some(script) = installed("server-everything") else { return };
    let folder = tempfile::tempdir().unwrap();
    let reach = program(vec!["node".to_owned(), script, "stdio".to_owned()], folder.path());
    let scene = Scene::running(vec![spec("everything", reach)], folder);
    let tools = scene.tools().await;
    assert!(
        tools.len() >= 10 && tools.contains(&"mcp.everything.echo".to_owned()),
        "{tools:?} {:?}",
        scene.status()
    );
    let result = scene.call("mcp.everything.echo", json!({"message": "by the tide"})).await;
    assert!(result.ok && result.text().contains("Echo: by the tide"), "{result:?}");
    let image = scene.call("mcp.everything.get-tiny-image", json!({})).await;
    assert!(image.content.iter().any(|block| matches!(block, Block::Image { .. })), "{image:?}");
    let structured =
        scene.call("mcp.everything.get-structured-content", json!({"location": "New York"})).await;
    assert!(structured.data.is_some_and(|data| data["temperature"].is_number()));
    let wrong = scene.call("mcp.everything.get-sum", json!({"a": 2, "b": 3})).await;
    assert!(wrong.ok && wrong.text().contains('5'), "{wrong:?}");
    scene.servers.close().await;
}

#[tokio::test]
async fn a_file_system_server_reads_what_it_was_given_and_nothing_else() {
    let Some(script) = installed("server-filesystem") else { return };
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().canonicalize().unwrap().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("note.txt"), "tide at six").unwrap();
    let reach = program(vec!["node".to_owned(), script, shared.display().to_string()], folder.path());
    let scene = Scene::running(vec![spec("files", reach)], folder);
    let path = shared.join("note.txt").display().to_string();
    let read = scene.call("mcp.files.read_text_file", json!({ "path": path })).await;
    assert!(read.ok && read.text().contains("tide at six"), "{read:?}");
    assert_eq!(scene.tool("mcp.files.read_text_file").await.spec().risk, Risk::Read);
    assert_eq!(scene.tool("mcp.files.write_file").await.spec().risk, Risk::Execute);
    let outside = scene.call("mcp.files.read_text_file", json!({"path": "/etc/passwd"})).await;
    assert!(!outside.ok && outside.text().contains("denied"), "{outside:?}");
    scene.servers.close().await;
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn everything_over_streamable_http() {
    let Some(script) = installed("server-everything") else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Command::new("node")
        .args([script.as_str(), "streamableHttp"])
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _running = Running(server);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let reach = Reach::Http(AddressSpec {
        url,
        headers: std::collections::BTreeMap::new(),
        oauth: OauthSpec::default(),
    });
    let scene = Scene::running(vec![spec("far", reach)], folder);
    scene.servers.begin();
    // It is tried again until it listens.
    scene.until(|standing| matches!(standing, Standing::Ready { .. })).await;
    let result = scene.call("mcp.far.echo", json!({"message": "over there"})).await;
    assert!(result.ok && result.text().contains("Echo: over there"), "{result:?}");
    let long = scene.call("mcp.far.trigger-long-running-operation", json!({"duration": 1, "steps": 2})).await;
    assert!(long.ok, "{long:?}");
    tokio::time::timeout(Duration::from_mins(1), scene.servers.close()).await.unwrap();
}
