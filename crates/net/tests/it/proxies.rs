//! Proxies of the environment. A process has one environment, so that each case is a process of its own.

use std::process::Command;

use tidegate_net::{Call, Client, Guard, Origin};
use tidegate_testkit::web_server::{Page, WebServer};

use crate::refusing::get;

const TARGET: &str = "TIDEGATE_TEST_TARGET";

async fn body(client: &Client, origin: Origin, url: &str) -> Vec<u8> {
    let call = Call { origin, ..get(url) };
    client.call(call).await.unwrap().bytes(1000).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_of_the_environment_speaks_for_operators_and_not_for_models() {
    if let Ok(target) = std::env::var(TARGET) {
        let client = Client::default().guarded_by(Guard::allowing([&target]).unwrap());
        let url = format!("http://{target}/");
        assert_eq!(body(&client, Origin::Configured, &url).await, b"the proxy");
        assert_eq!(body(&client, Origin::Chosen, &url).await, b"the page");
        return;
    }
    let server = WebServer::of_pages([("/", Page::new(200, "text/plain", "the page"))]).await;
    let proxy = WebServer::answering(|_| Page::new(200, "text/plain", "the proxy")).await;
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "proxies::a_proxy_of_the_environment_speaks_for_operators_and_not_for_models"]);
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        again.env(name, proxy.url(""));
    }
    again.env_remove("no_proxy").env_remove("NO_PROXY").env(TARGET, server.address().to_string());
    let output = again.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!((server.asked().len(), proxy.asked().len()), (1, 1));
}
