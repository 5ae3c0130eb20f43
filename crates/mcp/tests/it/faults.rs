//! Servers that do not behave: whoever calls them is told, and nothing is done twice.

use std::time::Duration;

use tidegate_mcp::Standing;
use tidegate_tools::ToolProvider as _;

use crate::scene::{Scene, text};

fn failed(standing: &Standing) -> bool {
    matches!(standing, Standing::Failed { .. })
}

#[tokio::test]
async fn a_call_during_which_the_server_dies_fails_clearly_and_is_not_made_again() {
    let scene = Scene::of("dies");
    let result = scene.call("mcp.kit.change", text("x")).await;
    assert!(!result.ok && result.text().contains("went away during the call"), "{result:?}");
    assert!(result.text().contains("not tried again by itself"), "{result:?}");
    // It is restarted, and the call is not among what the new one was told.
    scene.until(|standing| matches!(standing, Standing::Ready { .. })).await;
    assert_eq!(scene.notes().matches("\"tools/call\"").count(), 1);
    assert!(scene.notes().matches("\"tools/list\"").count() >= 2, "{}", scene.notes());
    scene.servers.close().await;
}

#[tokio::test]
async fn a_server_that_ends_at_once_is_told_with_its_last_words_and_left_alone_for_longer_each_time() {
    let scene = Scene::of("dumb");
    assert!(scene.tools().await.is_empty());
    let status = scene.until(failed).await;
    let Standing::Failed { why, stderr, .. } = status.standing else { panic!() };
    assert_eq!(why, "it ended with exit code 3; it last said: I have nothing to say");
    assert_eq!(stderr, "I have nothing to say");
    scene.servers.close().await;
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_after_its_time() {
    let scene = Scene::with("mute", |spec| spec.startup = Duration::from_millis(500));
    assert!(scene.tools().await.is_empty());
    let status = scene.until(failed).await;
    assert!(
        matches!(&status.standing, Standing::Failed { why, .. } if why.contains("did not answer within")),
        "{status:?}"
    );
    scene.servers.close().await;
}

#[tokio::test]
async fn a_call_that_hangs_ends_after_its_time() {
    let scene = Scene::with("hangs", |spec| spec.timeout = Duration::from_millis(300));
    let result = scene.call("mcp.kit.say", text("x")).await;
    assert!(!result.ok && result.text().contains("timed out"), "{result:?}");
    scene.servers.close().await;
}

#[tokio::test]
async fn a_flood_ends_the_connection_and_not_the_gateway() {
    let scene = Scene::of("flood");
    assert!(scene.tools().await.is_empty());
    let status = scene.until(failed).await;
    assert!(matches!(&status.standing, Standing::Failed { why, .. } if why.contains("16 MB")), "{status:?}");
    scene.servers.close().await;
}

#[tokio::test]
async fn an_answer_that_is_no_json_fails_the_call_and_the_server_is_started_anew() {
    let scene = Scene::of("garbage");
    let result = scene.call("mcp.kit.say", text("x")).await;
    assert!(!result.ok && result.text().contains("went away"), "{result:?}");
    scene.until(|standing| matches!(standing, Standing::Ready { .. })).await;
    scene.servers.close().await;
}

#[tokio::test]
async fn what_a_malicious_server_says_of_its_tools_does_no_harm() {
    let scene = Scene::of("malicious");
    let tools = scene.tools().await;
    assert_eq!(tools.len(), 128);
    assert!(tools.contains(&"mcp.kit.exec".to_owned()) && !tools.contains(&"exec".to_owned()));
    let status = scene.status();
    assert!(
        status.left_out.iter().any(|left| left.tool == "bloated" && left.why == "its schema is too large")
    );
    let evil = scene.tool("mcp.kit.exec").await;
    let said = &evil.spec().description;
    assert!(!said.contains(['\u{202e}', '\u{1b}']) && said.len() < 4096, "{said}");
    scene.servers.close().await;
}
