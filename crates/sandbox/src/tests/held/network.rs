//! The way out to the hosts of an allowlist: through a proxy outside, and no other.

use std::sync::Arc;

use tidegate_policy::{Exit, Network};

use super::{Held, in_namespaces, landlock};
use crate::tests::echo::Echo;

fn with_hosts(mut held: Held) -> Held {
    held.confinement.network = Network::Allowlist(vec!["example.com".to_owned()]);
    held
}

#[tokio::test]
async fn programs_reach_the_proxy_by_their_environment_and_it_ends_with_the_plan() {
    let echo = Arc::new(Echo::default());
    let Some(held) = in_namespaces(Some(echo.clone())).await else { return };
    let held = with_hosts(held);
    let program =
        "import urllib.request\nprint(urllib.request.urlopen('http://example.com/path').read().decode())";
    let (exit, kept) = held.python(program).await;
    assert_eq!(
        (exit, kept.stdout().as_str()),
        (Exit::Code(0), "GET http://example.com/path HTTP/1.1\n"),
        "{}",
        kept.stderr()
    );
    assert_eq!(*echo.started.lock().unwrap(), [vec!["example.com".to_owned()]]);
    let left = std::fs::read_dir(held.base().join("places")).unwrap().flatten();
    assert!(
        !left
            .into_iter()
            .any(|entry| entry.file_name().to_string_lossy().contains('-') && !entry.path().is_dir())
    );
}

#[tokio::test]
async fn an_allowlist_opens_nothing_but_the_proxy() {
    let Some(held) = in_namespaces(Some(Arc::new(Echo::default()))).await else { return };
    let held = with_hosts(held);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let program = format!(
        "import socket\nsocket.create_connection(('127.0.0.1', {}), 2)",
        listener.local_addr().unwrap().port()
    );
    assert_eq!(held.python(&program).await.0, Exit::Code(1));
    assert!(listener.accept().is_err());
}

#[tokio::test]
async fn a_loopback_name_that_is_listed_is_the_machines_and_goes_through_the_proxy() {
    let Some(mut held) = in_namespaces(Some(Arc::new(Echo::default()))).await else { return };
    for (hosts, own) in
        [(vec!["example.com"], "localhost,127.0.0.1,::1"), (vec!["127.0.0.1", "localhost"], "::1")]
    {
        held.confinement.network = Network::Allowlist(hosts.iter().map(|host| (*host).to_owned()).collect());
        let (exit, kept) = held.run("echo $NO_PROXY $no_proxy").await;
        assert_eq!((exit, kept.stdout().as_str()), (Exit::Code(0), format!("{own} {own}\n").as_str()));
    }
}

#[tokio::test]
async fn whoever_reads_the_output_is_told_which_hosts_were_not_reached() {
    let Some(held) = in_namespaces(Some(Arc::new(Echo::default()))).await else { return };
    let held = with_hosts(held);
    let (exit, kept) = held.run("true").await;
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(*kept.away.lock().unwrap(), ["nowhere.example: it is not on the list"]);
}

#[tokio::test]
async fn an_allowlist_that_cannot_be_kept_is_refused() {
    let held = with_hosts(Held::new(landlock, None));
    assert!(held.backend.way(&held.confinement).is_err());
    let Some(held) = in_namespaces(None).await else { return };
    let held = with_hosts(held);
    let plan = held.plan(&["true"], "none");
    assert!(held.start(&plan, tidegate_policy::Start::default()).await.is_err());
}

#[tokio::test]
async fn the_whole_network_is_reached_only_when_it_is_given() {
    for mut held in super::all().await {
        held.confinement.network = Network::Full;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let program = format!(
            "import socket\nsocket.create_connection(('127.0.0.1', {}), 2)",
            listener.local_addr().unwrap().port()
        );
        let (exit, kept) = held.python(&program).await;
        assert_eq!(exit, Exit::Code(0), "{}: {}", held.backend.name(), kept.stderr());
    }
}
