//! Which hosts tools reach for whom, and what does not leave with a call.

use serde_json::json;
use tidegate_net::{Egress, LeakScan, Secret};
use tidegate_policy::{HostLevel, HostRules};
use tidegate_testkit::web_server::{Page, WebServer};

use super::{client, place};
use crate::place::Place;
use crate::tool::Tool;
use crate::web::WebFetchSettings;
use crate::web::fetch::{FetchArgs, WebFetch};
use crate::web::request::{HttpTool, RequestArgs};

const SECRET: &str = "canary-of-the-home-4711";

fn egress(hosts: &[&str]) -> Egress {
    let level = HostLevel::of_list("egress", hosts).unwrap();
    let leaks = LeakScan::of(vec![("env.vars.CANARY".to_owned(), Secret::new(SECRET))]);
    Egress { hosts: HostRules::default().and(level), leaks }
}

fn at(egress: Egress) -> Place {
    Place { egress, ..place() }
}

fn tools(servers: &[&WebServer]) -> [Box<dyn Tool>; 2] {
    let client = client(servers);
    [Box::new(WebFetch::new(client.clone(), WebFetchSettings::default())), Box::new(HttpTool::new(client))]
}

#[tokio::test]
async fn a_host_that_a_level_leaves_out_is_refused_before_anybody_is_asked() {
    let server = WebServer::of_pages([("/", Page::html("page"))]).await;
    for tool in tools(&[&server]) {
        let place = at(egress(&["example.com"]));
        let failure = tool.prepare(&json!({ "url": server.url("/") }), &place).await.unwrap_err();
        assert_eq!(
            failure.message,
            "127.0.0.1 is not in egress.allowHosts; an operator can add it there",
            "{}",
            tool.spec().name
        );
        assert_eq!(failure.details.unwrap()["policy"]["rule"], "egress.allowHosts");
        let place = at(egress(&["127.0.0.1"]));
        tool.prepare(&json!({ "url": server.url("/") }), &place).await.unwrap();
    }
}

#[tokio::test]
async fn a_page_that_one_agent_saw_is_no_answer_for_one_that_may_not() {
    let server = WebServer::of_pages([("/", Page::html("page"))]).await;
    let tool = WebFetch::new(client(&[&server]), WebFetchSettings::default());
    let args: FetchArgs = serde_json::from_value(json!({ "url": server.url("/") })).unwrap();
    tool.fetch(&args, "local", &egress(&["127.0.0.1"])).await.unwrap();
    let failure = tool.fetch(&args, "local", &egress(&["example.com"])).await.unwrap_err();
    assert!(failure.message.contains("egress.allowHosts"), "{}", failure.message);
}

#[tokio::test]
async fn a_secret_leaves_in_no_part_of_a_call() {
    let server = WebServer::of_pages([("/", Page::html("page"))]).await;
    let base = server.url("/");
    let hex = "63616e6172792d6f662d7468652d686f6d652d34373131";
    let held = egress(&["127.0.0.1"]);
    for args in [
        json!({ "url": format!("{base}?k={SECRET}") }),
        json!({ "url": format!("{base}{}", SECRET.replace('-', "%2D")) }),
        json!({ "url": base, "headers": { "x-note": SECRET } }),
        json!({ "url": base, "headers": { SECRET: "x" } }),
        json!({ "url": base, "method": "POST", "body": format!("{{\"k\":\"{hex}\"}}") }),
        json!({ "url": base, "method": "POST", "body": format!("line\n{SECRET}\n") }),
    ] {
        for tool in tools(&[&server]) {
            let failure = tool.prepare(&args, &at(held.clone())).await.unwrap_err();
            assert_eq!(failure.details.as_ref().unwrap()["code"], "EGRESS_LEAK", "{args}");
            assert!(failure.message.contains("env.vars.CANARY"), "{}", failure.message);
            assert!(!format!("{failure:?}").contains(SECRET), "{failure:?}");
        }
        // The same if something got this far.
        let read: RequestArgs = serde_json::from_value(args.clone()).unwrap();
        let failure = HttpTool::new(client(&[&server])).send(read, &held).await.unwrap_err();
        assert!(failure.message.starts_with("EGRESS_LEAK"), "{args}: {}", failure.message);
        assert!(!format!("{failure:?}").contains(SECRET), "{failure:?}");
    }
    assert_eq!(server.asked(), []);
}
