//! Another page beside ours, from a folder: its files and nothing else.

use hyper::StatusCode;
use serde_json::json;

use crate::house::House;
use crate::wire::Reply;

fn text(reply: &Reply) -> String {
    String::from_utf8(reply.body.clone()).unwrap()
}

#[tokio::test]
async fn the_folders_files_are_served_and_every_other_address_of_the_page_gets_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page");
    std::fs::create_dir_all(page.join("assets")).unwrap();
    std::fs::write(
        page.join("index.html"),
        "<html><script>a()</script><script src=\"./assets/i.js\"></script></html>",
    )
    .unwrap();
    std::fs::write(page.join("assets/i.js"), "b()").unwrap();
    std::fs::write(page.join(".hidden"), "hidden").unwrap();
    std::fs::write(folder.path().join("secret.txt"), "secret").unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret.txt"), page.join("link.txt")).unwrap();
    let house = House::configured(&json!({ "gateway": { "controlUi": { "root": page } } })).await;

    for path in ["/control-ui/", "/control-ui/chat/agent%3Amain%3Amain", "/control-ui/index.html"] {
        let reply = house.call("GET", path).send().await;
        assert_eq!(reply.status, StatusCode::OK, "{path}");
        let policy = reply.header("content-security-policy");
        assert!(policy.contains("script-src 'self' 'sha256-") && !policy.contains("unsafe-eval"), "{policy}");
        let html = text(&reply);
        assert!(html.contains("data-openclaw-control-ui-base-path=\"/control-ui\""), "{html}");
        assert!(html.contains("src=\"/control-ui/assets/i.js\""), "{html}");
    }
    let script = house.call("GET", "/control-ui/assets/i.js").send().await;
    assert_eq!(script.header("content-type"), "text/javascript; charset=utf-8");
    assert_eq!(text(&script), "b()");
    let moved = house.call("GET", "/control-ui").send().await;
    assert_eq!((moved.status, moved.header("location")), (StatusCode::SEE_OTHER, "/control-ui/"));

    for path in [
        "/control-ui/link.txt",
        "/control-ui/../secret.txt",
        "/control-ui/%2e%2e/secret.txt",
        "/control-ui/assets/..%2f..%2fsecret.txt",
        "/control-ui//etc/hosts.txt",
        "/control-ui/assets/gone.js",
    ] {
        assert_eq!(house.call("GET", path).send().await.status, StatusCode::NOT_FOUND, "{path}");
    }
    // A hidden file is no file: this is an address of the page, as any other name without an ending.
    assert!(text(&house.call("GET", "/control-ui/.hidden").send().await).starts_with("<html"));
    let posted = house.call("POST", "/control-ui/").send().await;
    assert_eq!(posted.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn without_a_folder_it_leads_to_our_page_and_has_no_files() {
    let house = House::open().await;
    let moved = house.call("GET", "/control-ui").send().await;
    assert_eq!(moved.header("location"), "/");
    let file = house.call("GET", "/control-ui/index.html").send().await;
    assert_eq!(file.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_folder_with_the_gateways_own_files_is_no_page() {
    for root in ["", ".", "/", "credentials"] {
        let house = House::configured(&json!({ "gateway": { "controlUi": { "root": root } } })).await;
        let folder = house.engine.home().root().join(root);
        if root != "/" {
            std::fs::write(folder.join("index.html"), "<html></html>").unwrap();
        }
        let below = if root == "credentials" { "local-token" } else { "credentials/local-token" };
        for path in
            [format!("/control-ui/{below}"), "/control-ui/".to_owned(), "/control-ui/index.html".to_owned()]
        {
            let reply = house.call("GET", &path).send().await;
            assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{root:?} {path}: {}", text(&reply));
        }
    }
}
