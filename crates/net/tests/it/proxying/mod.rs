//! The proxy for programs in a sandbox, spoken to as such a program would.

mod keys;
mod limits;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tidegate_net::{EgressProxy, Guard, ProxyCounts, ProxyCredential, ProxyLimits, ProxyRules};
use tidegate_runtime::socket;
use tidegate_testkit::web_server::{Page, WebServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::refusing::Answers;

/// Far more than an exchange on the loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Scene {
    proxy: Option<EgressProxy>,
    path: PathBuf,
    _folder: TempDir,
}

/// `api.example` at the server's port counts as public, and so does no other name.
pub(crate) fn rules(server: SocketAddr, hosts: &[&str]) -> ProxyRules {
    let allowed = ["api.example", "other.example"].map(|host| format!("{host}:{}", server.port()));
    let guard = Guard::allowing(allowed).unwrap().resolving_with(Answers::of(&[&["127.0.0.1"]]));
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    ProxyRules { hosts, guard, credentials: Vec::new() }
}

impl Scene {
    pub(crate) fn new(rules: ProxyRules) -> Self {
        Self::within(rules, ProxyLimits::default())
    }

    fn within(rules: ProxyRules, limits: ProxyLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("egress.sock");
        let proxy = Some(EgressProxy::listen_within(&path, rules, limits).unwrap());
        Self { proxy, path, _folder: folder }
    }

    async fn connect(&self) -> UnixStream {
        socket::connect(&self.path).await.unwrap()
    }

    /// Sends these bytes and reads until the other side is done.
    pub(crate) async fn say(&self, text: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        all(&mut stream).await
    }

    pub(crate) async fn get(&self, url: &str, headers: &str) -> String {
        self.say(&format!("GET {url} HTTP/1.1\r\nhost: ignored\r\nconnection: close\r\n{headers}\r\n")).await
    }

    async fn connect_to(&self, place: &str) -> (UnixStream, String) {
        let mut stream = self.connect().await;
        let asked = format!("CONNECT {place} HTTP/1.1\r\nhost: {place}\r\n\r\n");
        stream.write_all(asked.as_bytes()).await.unwrap();
        let head = head(&mut stream).await;
        (stream, head)
    }

    fn counts(&self) -> ProxyCounts {
        self.proxy.as_ref().unwrap().counts()
    }
}

async fn all(stream: &mut UnixStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    let _ = read.expect("the proxy closes in time");
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn head(stream: &mut UnixStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(PATIENCE, stream.read_u8()).await.expect("an answer in time");
        bytes.push(byte.expect("a whole head"));
    }
    String::from_utf8(bytes).unwrap()
}

async fn server() -> WebServer {
    WebServer::of_pages([("/", Page::html("the page")), ("/away", Page::redirect(302, "http://evil.test/"))])
        .await
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

#[tokio::test]
async fn a_host_of_the_list_is_reached_plainly_and_through_a_tunnel() {
    let server = server().await;
    let port = server.address().port();
    let scene = Scene::new(rules(server.address(), &["api.example"]));
    let answer = scene.get(&format!("http://API.example:{port}/"), "x-own: 1\r\n").await;
    assert_eq!((status(&answer), answer.ends_with("the page")), (200, true), "{answer}");
    let (mut stream, head) = scene.connect_to(&format!("api.example:{port}")).await;
    assert_eq!(status(&head), 200);
    stream.write_all(b"GET / HTTP/1.1\r\nhost: inside\r\n\r\n").await.unwrap();
    assert!(all(&mut stream).await.ends_with("the page"));
    let asked = server.asked();
    assert_eq!(asked[0].headers["host"], format!("api.example:{port}"));
    assert_eq!(asked[0].headers["x-own"], "1");
    assert_eq!(asked[1].headers["host"], "inside");
    assert_eq!(scene.counts(), ProxyCounts { passed: 2, refused: 0 });
}

#[tokio::test]
async fn other_hosts_are_refused_with_the_key_that_would_allow_them() {
    let server = server().await;
    let port = server.address().port();
    let scene =
        Scene::new(rules(server.address(), &["api.example", "*.below.example", "!bad.below.example"]));
    let hosts =
        ["other.example", "sub.api.example", "below.example", "bad.below.example", "api.example.evil.test"];
    for host in hosts {
        let plain = scene.get(&format!("http://{host}:{port}/?key=of-a-secret"), "").await;
        let (mut stream, tunnel) = scene.connect_to(&format!("{host}:{port}")).await;
        let tunnel = tunnel + &all_of_body(&mut stream).await;
        for answer in [plain, tunnel] {
            assert_eq!(status(&answer), 403, "{answer}");
            assert!(
                answer.contains(host) && answer.contains("sandbox.") && answer.contains("Hosts"),
                "{answer}"
            );
            assert!(answer.contains("agents.defaults.sandbox"), "{answer}");
            assert!(!answer.contains("of-a-secret"), "{answer}");
        }
    }
    assert_eq!(server.asked(), []);
    assert_eq!(scene.counts(), ProxyCounts { passed: 0, refused: 2 * hosts.len() as u64 });
}

/// What follows a refusal's head; the connection stays open for more.
async fn all_of_body(stream: &mut UnixStream) -> String {
    stream.shutdown().await.unwrap();
    all(stream).await
}

#[tokio::test]
async fn being_on_the_list_makes_no_address_public() {
    let server = server().await;
    let port = server.address().port();
    let hosts = ["127.0.0.1", "localhost", "inside.example", "::1", "169.254.169.254"];
    let scene = Scene::new(rules(server.address(), &hosts));
    for host in
        ["127.0.0.1", "2130706433", "0x7f.1", "localhost", "inside.example", "[::1]", "169.254.169.254"]
    {
        let answer = scene.get(&format!("http://{host}:{port}/"), "").await;
        assert_eq!(status(&answer), 403, "{host}: {answer}");
        assert!(answer.contains("tools.web.allowPrivate"), "{answer}");
        let (_, head) = scene.connect_to(&format!("{host}:{port}")).await;
        assert_eq!(status(&head), 403, "{host}");
    }
    assert_eq!(server.asked(), []);
}

#[tokio::test]
async fn a_name_that_changes_its_mind_reaches_only_what_was_judged() {
    let server = server().await;
    let port = server.address().port();
    let place = format!("rebind.example:{port}");
    let hosts = vec!["rebind.example".to_owned()];
    for tunnel in [true, false] {
        let answers = Answers::of(&[&["127.0.0.1"], &["127.0.0.2"]]);
        let guard = Guard::allowing([server.address().to_string()]).unwrap().resolving_with(answers.clone());
        let scene = Scene::new(ProxyRules { hosts: hosts.clone(), guard, credentials: Vec::new() });
        let ask = async || {
            if tunnel {
                return scene.connect_to(&place).await.1;
            }
            scene.get(&format!("http://{place}/"), "").await
        };
        assert_eq!(status(&ask().await), 200);
        assert_eq!(answers.asked(), 1, "nobody asks again between the judgement and the connection");
        let second = ask().await;
        assert_eq!(status(&second), 403, "{second}");
    }
}

#[tokio::test]
async fn what_is_no_request_to_a_proxy_is_told_so() {
    let server = server().await;
    let scene = Scene::new(rules(server.address(), &["api.example"]));
    for request in [
        "GET / HTTP/1.1\r\nhost: api.example\r\nconnection: close\r\n\r\n",
        "GET ftp://api.example/ HTTP/1.1\r\nconnection: close\r\n\r\n",
        "GET http://me:word@api.example/ HTTP/1.1\r\nconnection: close\r\n\r\n",
        "CONNECT api.example HTTP/1.1\r\nconnection: close\r\n\r\n",
        "CONNECT me@api.example:443 HTTP/1.1\r\nconnection: close\r\n\r\n",
        "nonsense\r\n\r\n",
    ] {
        let answer = scene.say(request).await;
        assert_eq!(status(&answer), 400, "{request}: {answer}");
        assert!(!answer.contains("word"), "{answer}");
    }
}

#[tokio::test]
async fn redirects_are_the_programs_to_follow() {
    let server = server().await;
    let scene = Scene::new(rules(server.address(), &["api.example"]));
    let answer = scene.get(&format!("http://api.example:{}/away", server.address().port()), "").await;
    assert_eq!(status(&answer), 302);
    assert!(answer.to_lowercase().contains("location: http://evil.test/"), "{answer}");
}

#[tokio::test]
async fn what_belongs_to_one_connection_is_not_passed_on() {
    let server = server().await;
    let scene = Scene::new(rules(server.address(), &["api.example"]));
    let url = format!("http://api.example:{}/", server.address().port());
    let headers = "proxy-authorization: Basic eA==\r\nproxy-connection: keep-alive\r\nconnection: x-hop\r\nx-hop: 1\r\n\
                   te: trailers\r\nupgrade: h2c\r\nx-stays: 1\r\n";
    scene.get(&url, headers).await;
    let asked = &server.asked()[0].headers;
    for name in ["proxy-authorization", "proxy-connection", "x-hop", "te", "upgrade"] {
        assert!(!asked.contains_key(name), "{name} in {asked:?}");
    }
    assert_eq!(asked["x-stays"], "1");
}

#[tokio::test]
async fn a_list_that_cannot_be_read_is_no_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("egress.sock");
    for host in ["*", "http://a.com", "a.com:80", ""] {
        let rules = ProxyRules { hosts: vec![host.to_owned()], ..ProxyRules::default() };
        let error = EgressProxy::listen(&path, rules).err().unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(!path.exists());
    }
}

fn key(host: &str, value: &str, https: bool) -> ProxyCredential {
    ProxyCredential {
        name: "api".to_owned(),
        host: host.to_owned(),
        header: "Authorization".to_owned(),
        value: value.to_owned().into(),
        https,
    }
}
