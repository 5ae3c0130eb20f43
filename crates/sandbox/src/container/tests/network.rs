//! The way out of a container: to the proxy, and nowhere else.

use std::sync::Arc;

use tidegate_policy::{Exit, Network};

use super::{Room, begin, container_at, room, run_in, settings};
use crate::tests::echo::Echo;
use crate::tests::{script, site};

/// A room whose containers reach one host, through a proxy that repeats what it is asked.
async fn with_hosts() -> Option<(Room, Arc<Echo>)> {
    let mut room = room().await?;
    let echo = Arc::new(Echo::default());
    let site = site(room.root.path().join("places"), Some(echo.clone()));
    let container = container_at(site, settings(&room.container.settings.image));
    container.facts.set(Arc::clone(room.container.facts.get().unwrap())).unwrap();
    room.container = container;
    Some((room, echo))
}

fn listed() -> Network {
    Network::Allowlist(vec!["example.com".to_owned()])
}

#[tokio::test]
async fn a_container_reaches_the_proxy_by_its_environment_and_nothing_besides() {
    let Some((room, echo)) = with_hosts().await else { return };
    let held = room.held_so(|confinement| confinement.network = listed());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!(
        "wget -q -O - http://example.com/path; echo; cat /proc/net/dev | grep -c : ; \
         http_proxy= wget -q -T 2 -O - http://127.0.0.1:{port}/ || echo held"
    );
    let (exit, kept) = run_in(&held, &script(&text).plan).await;
    let said = kept.stdout();
    assert_eq!(exit, Exit::Code(0), "{said} {}", kept.stderr());
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines, ["GET http://example.com/path HTTP/1.1", "1", "held"], "{}", kept.stderr());
    assert!(listener.accept().is_err());
    assert_eq!(*echo.started.lock().unwrap(), [vec!["example.com".to_owned()]]);
}

#[tokio::test]
async fn a_container_of_another_user_reaches_the_proxy_as_well() {
    let Some((mut room, _echo)) = with_hosts().await else { return };
    room.container.settings.user = Some("12345:12345".to_owned());
    let held = room.held_so(|confinement| confinement.network = listed());
    let (exit, kept) = run_in(&held, &script("id -u; wget -q -O - http://example.com/").plan).await;
    assert_eq!((exit, kept.stdout()), (Exit::Code(0), "12345\nGET http://example.com/ HTTP/1.1".to_owned()));
}

#[tokio::test]
async fn hosts_that_nothing_leads_to_are_refused() {
    let Some(room) = room().await else { return };
    let held = room.held_so(|confinement| confinement.network = listed());
    let kept = Arc::new(super::Kept::default());
    let started = begin(&held, &script("true").plan, tidegate_policy::Start::default(), kept).await;
    assert!(started.is_err());
}
