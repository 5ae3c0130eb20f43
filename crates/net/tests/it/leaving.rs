//! What rules about hosts and the look for secrets let out.

use std::time::Duration;

use tidegate_net::{
    Call, Client, Egress, Fetch, Guard, Headers, Hosts, LeakScan, Method, NetError, Origin, ProxyRules,
    Secret,
};
use tidegate_policy::{HostLevel, HostRules};
use tidegate_testkit::web_server::{Page, WebServer};

use crate::proxying::{Scene, rules};
use crate::refusing::{Answers, get};

const SECRET: &str = "canary-of-the-home-4711";

fn leaks() -> LeakScan {
    LeakScan::of(vec![("env.vars.CANARY".to_owned(), Secret::new(SECRET))])
}

fn only(hosts: &[&str]) -> HostRules {
    HostRules::default().and(HostLevel::of_list("egress", hosts).unwrap())
}

fn fetch(url: &str) -> Fetch {
    Fetch { call: get(url), redirects: 3, hosts: Hosts::Any, deadline: Duration::from_secs(20), limit: 1000 }
}

/// A client for which these names, at this port, are public hosts on the loopback.
fn client(port: u16, names: &[&str], hosts: &HostRules) -> Client {
    let guard = Guard::allowing(names.iter().map(|name| format!("{name}:{port}"))).unwrap();
    let guard = guard.resolving_with(Answers::of(&[&["127.0.0.1"]]));
    let egress = Egress { hosts: hosts.clone(), leaks: leaks() };
    Client::default().guarded_by(guard).within(&egress)
}

#[tokio::test]
async fn every_hop_is_judged_by_the_rules() {
    let server = WebServer::answering(|asked| match asked.path.as_str() {
        "/1" => Page::redirect(302, &format!("http://two.example:{}/2", port_of(asked))),
        "/2" => Page::redirect(302, &format!("http://three.example:{}/3", port_of(asked))),
        _ => Page::html("end"),
    })
    .await;
    let port = server.address().port();
    let names = ["one.example", "two.example", "three.example"];
    let url = format!("http://one.example:{port}/1");
    let all = client(port, &names, &only(&["*.example"]));
    assert_eq!(all.fetch(fetch(&url)).await.unwrap().body, b"end");
    let before = server.asked().len();
    let two = client(port, &names, &only(&["one.example", "two.example"]));
    let error = two.fetch(fetch(&url)).await.unwrap_err();
    assert!(matches!(&error, NetError::Refused(refusal) if refusal.host() == "three.example"), "{error:?}");
    assert!(error.to_string().contains("egress.allowHosts"), "{error}");
    assert_eq!(server.asked().len() - before, 2, "the third host is not asked");
    let denied = client(port, &names, &only(&["*.example", "!two.example"]));
    let error = denied.fetch(fetch(&url)).await.unwrap_err();
    assert!(error.to_string().contains("egress.denyHosts"), "{error}");
}

fn port_of(asked: &tidegate_testkit::web_server::Asked) -> &str {
    asked.headers["host"].rsplit(':').next().unwrap()
}

#[tokio::test]
async fn a_second_hop_whose_name_turns_private_is_refused() {
    let server = WebServer::answering(|asked| match asked.path.as_str() {
        "/1" => Page::redirect(302, &format!("http://two.example:{}/2", port_of(asked))),
        _ => Page::html("inside"),
    })
    .await;
    let port = server.address().port();
    // Public for the first name; for the second, an address that nobody allowed.
    let answers = Answers::of(&[&["127.0.0.1"], &["127.0.0.9"]]);
    let guard = Guard::allowing([server.address().to_string()]).unwrap().resolving_with(answers.clone());
    let client = Client::default().guarded_by(guard);
    let error = client.fetch(fetch(&format!("http://one.example:{port}/1"))).await.unwrap_err();
    assert!(matches!(&error, NetError::Forbidden { host, .. } if host == "two.example"), "{error:?}");
    assert_eq!((server.asked().len(), answers.asked()), (1, 2));
}

#[tokio::test]
async fn a_name_that_rules_refuse_is_not_even_looked_up() {
    let answers = Answers::of(&[&["93.184.215.14"]]);
    let guard = Guard::default().resolving_with(answers.clone()).narrowed_by(&only(&["example.com"]));
    let url = format!("http://{SECRET}.evil.test/");
    let error = Client::default().guarded_by(guard).call(get(&url)).await.err().unwrap();
    assert!(matches!(error, NetError::Refused(_)), "{error:?}");
    assert_eq!(answers.asked(), 0);
}

#[tokio::test]
async fn a_secret_is_found_wherever_it_is_and_nothing_is_sent() {
    let server = WebServer::of_pages([("/", Page::html("page"))]).await;
    let client = Client::default()
        .guarded_by(Guard::allowing([server.address().to_string()]).unwrap().looking_for(&leaks()));
    let mut header = Headers::default();
    header.set("x-note", format!("it is {SECRET}."));
    let base = get(&server.url("/"));
    for (part, call) in [
        ("the address", Call { url: server.url(&format!("/?{SECRET}")), ..base.clone() }),
        ("the header x-note", Call { headers: header.clone(), ..base.clone() }),
        ("the body", Call { body: SECRET.into(), method: Method::Post, ..base.clone() }),
    ] {
        let error = client.call(call).await.err().unwrap();
        let said = error.to_string();
        assert!(said.starts_with("EGRESS_LEAK") && said.contains(part) && said.contains("CANARY"), "{said}");
        assert!(!said.contains(SECRET), "{said}");
    }
    assert_eq!(server.asked(), []);
    // Whoever was configured gets the key that was configured.
    let configured = Call { origin: Origin::Configured, headers: header, ..base };
    assert_eq!(client.call(configured).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_redirect_cannot_carry_a_secret_on() {
    let to = format!("/next?{SECRET}");
    let server = WebServer::of_pages([("/", Page::redirect(302, &to)), ("/next", Page::html("end"))]).await;
    let guard = Guard::allowing([server.address().to_string()]).unwrap().looking_for(&leaks());
    let error = Client::default().guarded_by(guard).fetch(fetch(&server.url("/"))).await.unwrap_err();
    assert!(matches!(error, NetError::Leak { .. }), "{error:?}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn no_secret_leaves_through_plain_requests_to_the_proxy() {
    let server = WebServer::of_pages([("/", Page::html("page"))]).await;
    let rules = rules(server.address(), &["api.example"]);
    let scene = Scene::new(ProxyRules { guard: rules.guard.clone().looking_for(&leaks()), ..rules });
    let url = format!("http://api.example:{}/", server.address().port());
    let length = SECRET.len();
    for answer in [
        scene.get(&format!("{url}?{SECRET}"), "").await,
        scene.get(&url, &format!("x-note: {SECRET}\r\n")).await,
        scene
            .say(&format!(
                "POST {url} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{SECRET}"
            ))
            .await,
    ] {
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("EGRESS_LEAK"), "{answer}");
        assert!(!answer.contains(SECRET), "{answer}");
    }
    assert_eq!(server.asked(), []);
}
