//! The whole way out of a sandbox: a real program in its namespaces, the bridge, the gateway's own proxy, a real server.
//! What is listed is reached, with a key that the program never has; everything else stays inside.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_testkit::skip::skip_loudly;
use tidegate_testkit::web_server::{Page, WebServer};
use tokio::runtime::Runtime;

use crate::home::{Home, PROGRAM};
use crate::process::{Call, Done};

/// The key that requests get on their way.
const KEY: &str = "Bearer egress-canary-9b1d77";
const CANARY: &str = "egress-canary";

struct Scene {
    home: Home,
    server: WebServer,
    _runtime: Runtime,
}

/// How programs reach a server through the proxy: `127.0.0.1` is on everybody's list of what needs none.
const THROUGH: &str = r#"
import http.client, json, os, socket, sys
def ask(url, method="GET"):
    host, port = os.environ["http_proxy"].removeprefix("http://").split(":")
    way = http.client.HTTPConnection(host, int(port), timeout=20)
    way.request(method, url)
    answer = way.getresponse()
    return [answer.status, answer.read().decode()]
def tunnel(place):
    return ask(place, "CONNECT")
"#;

impl Scene {
    /// A home whose programs reach `hosts`; `private` are the places on this machine that its owner opened.
    fn set(hosts: &[&str], private: impl Fn(u16) -> Vec<String>) -> Option<Self> {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(WebServer::answering(|_| Page::new(200, "text/plain", "reached")));
        let home = Home::new();
        let config = json!({
            "tools": {
                "profile": "coding",
                "exec": {"security": "full", "ask": "off"},
                "web": {"allowPrivate": private(server.address().port())},
            },
            "egress": {"credentials": {"api": {"host": hosts[0], "value": KEY, "https": false}}},
            "agents": {"defaults": {"sandbox": {"network": "allowlist", "allowHosts": hosts}}},
        });
        home.write_config(&config.to_string());
        home.ask("makes the home");
        let scene = Self { home, server, _runtime: runtime };
        scene.is_held().then_some(scene)
    }

    fn is_held(&self) -> bool {
        let told = self.home.call(&["sandbox", "status", "--profile", "local", "--json"]).run().json();
        let works = told["backends"].as_array().unwrap().iter().any(|backend| {
            (backend["backend"].as_str(), backend["state"].as_str()) == (Some("bubblewrap"), Some("works"))
        });
        let python = Path::new("/usr/bin/python3").exists();
        if !works || !python {
            skip_loudly(&format!("the way out needs bubblewrap and python3: {told}"));
        }
        works && python
    }

    fn workspace(&self) -> PathBuf {
        let root = self.home.root().join("agents/main/workspace");
        std::fs::create_dir_all(&root).unwrap();
        root
    }

    /// What a program that an agent starts prints, as JSON.
    fn python(&self, program: &str) -> Value {
        said(&self.call(program).run())
    }

    fn call(&self, program: &str) -> Call {
        let root = self.workspace();
        std::fs::write(root.join("program.py"), format!("{THROUGH}{program}")).unwrap();
        let args = json!({"command": "/usr/bin/python3 program.py"}).to_string();
        self.home.call(&["tools", "invoke", "exec", "--args", &args, "--root", root.to_str().unwrap()])
    }
}

fn said(done: &Done) -> Value {
    let told = done.json();
    let data = &told["result"]["data"];
    let text = data["stdout"].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{done:?}"))
}

#[test]
fn a_listed_host_is_reached_with_a_key_that_the_program_never_has() {
    let Some(scene) = Scene::set(&["127.0.0.1"], |port| vec![format!("127.0.0.1:{port}")]) else { return };
    let url = scene.server.url("/things");
    let said = scene.python(&format!(
        r#"
everything = []
for process in [entry for entry in os.listdir("/proc") if entry.isdigit()]:
    for part in ["environ", "cmdline"]:
        try: everything.append(open(f"/proc/{{process}}/{{part}}").read())
        except OSError as error: everything.append(type(error).__name__)
print(json.dumps({{"answer": ask("{url}"), "env": dict(os.environ), "proc": everything}}))"#
    ));
    assert_eq!(said["answer"], json!([200, "reached"]), "{said}");
    assert!(!said.to_string().contains(CANARY), "{said}");
    assert!(said["proc"].to_string().contains("program.py"), "the program saw processes: {said}");
    let asked = scene.server.asked();
    assert_eq!((asked.len(), asked[0].path.as_str()), (1, "/things"));
    assert_eq!(asked[0].headers.get("authorization").map(String::as_str), Some(KEY));
}

#[test]
fn everything_else_is_refused_by_the_name_of_its_key() {
    let hosts = ["127.0.0.1", "10.1.2.3", "169.254.169.254"];
    let Some(scene) = Scene::set(&hosts, |port| vec![format!("127.0.0.1:{port}")]) else { return };
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let port = other.local_addr().unwrap().port();
    let said = scene.python(&format!(
        r#"
print(json.dumps({{
    "unlisted": ask("http://evil.example.com/"),
    "unlisted_tunnel": tunnel("evil.example.com:443"),
    "metadata": ask("http://169.254.169.254/latest/meta-data/"),
    "private_tunnel": tunnel("10.1.2.3:443"),
    "another_port": ask("http://127.0.0.1:{port}/"),
    "by_number": ask("http://2130706433:{port}/"),
}}))"#
    ));
    for (case, words) in [
        ("unlisted", "evil.example.com is not in sandbox.allowHosts"),
        ("unlisted_tunnel", "evil.example.com is not in sandbox.allowHosts"),
        ("metadata", "tools.web.allowPrivate"),
        ("private_tunnel", "tools.web.allowPrivate"),
        ("another_port", "tools.web.allowPrivate"),
        ("by_number", "tools.web.allowPrivate"),
    ] {
        assert_eq!(said[case][0], 403, "{case}: {said}");
        assert!(said[case][1].as_str().unwrap().contains(words), "{case}: {said}");
    }
    assert!(other.accept().is_err(), "somebody reached a port that nobody opened");
    assert_eq!(scene.server.asked(), []);
    // A program that says nothing but "403" leaves nobody wondering.
    let told = scene.call("tunnel('evil.example.com:443')\n").run().json();
    let result = &told["result"];
    assert_eq!(result["data"]["refusedHosts"], json!(["evil.example.com"]), "{told}");
    assert!(
        result["content"].as_str().unwrap().contains("evil.example.com is not in sandbox.allowHosts"),
        "{told}"
    );
    let tested = scene.home.call(&["sandbox", "test", "--", "/usr/bin/python3", "program.py"]).run();
    assert!(tested.stderr.contains("evil.example.com is not in sandbox.allowHosts"), "{tested:?}");
}

#[test]
fn nothing_leads_out_but_the_proxy() {
    let Some(scene) = Scene::set(&["127.0.0.1"], |port| vec![format!("127.0.0.1:{port}")]) else { return };
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let in_a_file = scene.home.around().join("socket");
    let by_path = UnixListener::bind(&in_a_file).unwrap();
    let name = format!("tidegate-test-{}", std::process::id());
    let abstract_one = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    for listener in [&by_path, &abstract_one] {
        listener.set_nonblocking(true).unwrap();
    }
    let (tcp, udp_port) = (scene.server.address().port(), udp.local_addr().unwrap().port());
    let said = scene.python(&format!(
        r#"
def attempt(family, kind, place):
    try:
        way = socket.socket(family, kind)
        way.settimeout(3)
        way.connect(place)
        way.send(b"out")
        return "out"
    except OSError as error: return type(error).__name__
print(json.dumps({{
    "tcp": attempt(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", {tcp})),
    "tcp_far": attempt(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80)),
    "tcp6": attempt(socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80)),
    "udp_far": attempt(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53)),
    "unix": attempt(socket.AF_UNIX, socket.SOCK_STREAM, "{unix}"),
    "abstract": attempt(socket.AF_UNIX, socket.SOCK_STREAM, "\0{name}"),
    "vsock": attempt(40, socket.SOCK_STREAM, (2, 1)),
    "packet": attempt(socket.AF_PACKET, socket.SOCK_RAW, ("lo", 0)),
}}))
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"out", ("127.0.0.1", {udp_port}))"#,
        unix = in_a_file.display(),
    ));
    for (way, came) in said.as_object().unwrap() {
        assert_ne!(came, "out", "{way}: {said}");
    }
    assert!(by_path.accept().is_err() && abstract_one.accept().is_err());
    // Its own loopback took what was sent there.
    assert!(udp.recv(&mut [0; 8]).is_err(), "a datagram got out");
    assert_eq!(scene.server.asked(), []);
}

#[test]
fn a_listed_name_that_leads_to_a_private_address_is_refused() {
    let hosts = ["api.example.com", "rebound.example.com", "inner.example.com"];
    let Some(scene) = Scene::set(&hosts, |port| vec![format!("api.example.com:{port}")]) else { return };
    if !rustix::process::geteuid().is_root() {
        skip_loudly("names are given other addresses by another /etc/hosts, which takes root");
        return;
    }
    let names = scene.home.around().join("hosts");
    let text = "127.0.0.1 api.example.com\n169.254.169.254 rebound.example.com\n10.0.0.1 inner.example.com\n";
    std::fs::write(&names, text).unwrap();
    let port = scene.server.address().port();
    let root = scene.workspace();
    let program = format!(
        r#"
print(json.dumps({{
    "listed": ask("http://api.example.com:{port}/"),
    "metadata": ask("http://rebound.example.com/latest/meta-data/"),
    "metadata_tunnel": tunnel("rebound.example.com:443"),
    "private": ask("http://inner.example.com/"),
}}))"#
    );
    std::fs::write(root.join("program.py"), format!("{THROUGH}{program}")).unwrap();
    let args = json!({"command": "/usr/bin/python3 program.py"}).to_string();
    let (names, root) = (names.to_str().unwrap(), root.to_str().unwrap());
    let words = ["--dev-bind", "/", "/", "--ro-bind", names, "/etc/hosts", "--", PROGRAM];
    let words = [&words[..], &["tools", "invoke", "exec", "--args", &args, "--root", root]].concat();
    let said = said(&scene.home.call_as(Path::new("/usr/bin/bwrap"), &words).run());
    assert_eq!(said["listed"], json!([200, "reached"]), "{said}");
    for case in ["metadata", "metadata_tunnel", "private"] {
        assert_eq!(said[case][0], 403, "{case}: {said}");
        assert!(said[case][1].as_str().unwrap().contains("tools.web.allowPrivate"), "{case}: {said}");
    }
    assert_eq!(scene.server.asked().len(), 1);
}
