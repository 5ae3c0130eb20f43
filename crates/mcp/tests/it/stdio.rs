//! A server that behaves.

use std::sync::Mutex;
use std::time::Duration;

use tidegate_mcp::{Standing, ToolFilter};
use tidegate_protocol::Risk;
use tidegate_tools::ToolProvider as _;
use tokio_util::sync::CancellationToken;

use crate::scene::{LONG, Scene, call, text};

#[tokio::test]
async fn nothing_is_started_before_somebody_wants_a_tool() {
    let scene = Scene::of("good");
    assert_eq!((scene.status().standing, scene.servers.tools().len()), (Standing::Idle, 0));
    assert_eq!(scene.notes(), "");
    assert_eq!(scene.tools().await, ["mcp.kit.change", "mcp.kit.say"]);
    let Standing::Ready { version, software } = scene.status().standing else {
        panic!("{:?}", scene.status())
    };
    assert_eq!((version.as_str(), software.as_deref()), ("2025-11-25", Some("testkit 1")));
    scene.servers.close().await;
}

#[tokio::test]
async fn a_call_goes_there_and_its_answer_comes_back_in_a_fence() {
    let scene = Scene::of("good");
    let result = scene.call("mcp.kit.say", text("hello")).await;
    assert!(result.ok, "{result:?}");
    assert!(
        result.text().contains("you said hello") && result.text().contains("the MCP server kit"),
        "{result:?}"
    );
    let failed = scene.call("mcp.kit.change", text("fail")).await;
    assert!(!failed.ok && failed.text().contains("it cannot be changed"), "{failed:?}");
    scene.servers.close().await;
}

#[tokio::test]
async fn what_the_server_says_of_a_tool_and_what_the_operator_says_decide_its_risk() {
    let scene = Scene::of("good");
    assert_eq!(scene.tool("mcp.kit.say").await.spec().risk, Risk::Read);
    assert_eq!(scene.tool("mcp.kit.change").await.spec().risk, Risk::Execute);
    scene.servers.close().await;
    let scene = Scene::with("good", |spec| {
        spec.risk = Some(Risk::Network);
        spec.tools = ToolFilter { allow: None, deny: vec!["ch*".to_owned()] };
    });
    assert_eq!(scene.tools().await, ["mcp.kit.say"]);
    assert_eq!(scene.tool("mcp.kit.say").await.spec().risk, Risk::Network);
    scene.servers.close().await;
}

#[tokio::test]
async fn progress_is_told_while_a_call_goes_on() {
    let scene = Scene::of("slow");
    let tool = scene.tool("mcp.kit.say").await;
    let told = Mutex::new(Vec::new());
    let update = |note: &str| told.lock().unwrap().push(note.to_owned());
    let result = call(&tool, text("x"), &CancellationToken::new(), &update).await;
    assert!(result.ok, "{result:?}");
    assert_eq!(*told.lock().unwrap(), ["1/3 on its way"]);
    scene.servers.close().await;
}

#[tokio::test]
async fn a_call_that_is_cancelled_tells_the_server_so() {
    let scene = Scene::of("hangs");
    let tool = scene.tool("mcp.kit.say").await;
    let cancel = CancellationToken::new();
    let calling = call(&tool, text("x"), &cancel, &|_| {});
    let ending = async {
        while !scene.notes().contains("tools/call") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(calling, ending);
    assert!(!result.ok && result.text().contains("aborted"), "{result:?}");
    let told = async {
        while !scene.notes().contains("notifications/cancelled") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, told).await.expect("the server is told");
    scene.servers.close().await;
}

#[tokio::test]
async fn tools_that_come_later_are_there_for_the_next_who_look() {
    let scene = Scene::of("grows");
    assert_eq!(scene.tools().await.len(), 2);
    assert!(scene.call("mcp.kit.say", text("x")).await.ok);
    let seen = async {
        while scene.servers.tools().len() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, seen).await.expect("the new tool is listed");
    assert_eq!(scene.tools().await, ["mcp.kit.change", "mcp.kit.later", "mcp.kit.say"]);
    scene.servers.close().await;
}

#[tokio::test]
async fn the_program_is_gone_when_everything_was_closed() {
    let scene = Scene::of("good");
    scene.tools().await;
    let notes = scene.folder.path().join("notes").display().to_string();
    let alive = || {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        processes
            .filter(|entry| {
                let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&words).contains(&notes)
            })
            .count()
    };
    assert!(alive() > 0);
    scene.servers.close().await;
    assert_eq!((alive(), scene.status().standing), (0, Standing::Closed));
}
