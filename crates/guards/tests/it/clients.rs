//! One HTTP client in the whole program. Whatever else could open a connection or ask for a name is named here with its
//! reason, file by file; nothing else may.

use crate::workspace::{members, read, rust_files};

/// What opens a connection, speaks HTTP on one, or resolves a name. Written in two halves, so that this file has none.
const WAYS_OUT: [&str; 16] = [
    concat!("req", "west"),
    concat!("hyper::", "client"),
    concat!("hyper_util::", "client"),
    concat!("ur", "eq::"),
    concat!("TcpStream::", "connect"),
    concat!("TcpSocket", "::new"),
    concat!("UdpSocket", "::bind"),
    concat!("UnixStream::", "connect"),
    concat!("lookup", "_host"),
    concat!("to_socket", "_addrs"),
    concat!("ToSocket", "Addrs"),
    concat!("tungs", "tenite"),
    concat!("native_", "tls"),
    concat!("tokio_", "rustls"),
    concat!("hickory_", "resolver"),
    concat!("dns_", "lookup"),
];

/// Files that may, and why.
const MAY: [(&str, &str); 7] = [
    ("crates/runtime/src/socket.rs", "connects to Unix sockets of this home, for those below"),
    ("crates/client/src/connect.rs", "talks to this home's own gateway, whose address it reads in the home"),
    ("crates/client/src/link/socket.rs", "speaks WebSocket on a connection that the one above has made"),
    ("crates/gateway/src/ws/socket.rs", "the server side of WebSocket, on connections that came in"),
    ("crates/engine/src/service/health.rs", "asks whether a port that the operator named is open"),
    ("crates/sandbox/src/supervise/bridge.rs", "inside a sandbox: from its loopback to the proxy's socket"),
    ("crates/models/src/login/fake.rs", "plays a browser in the tests of logins"),
];

/// The packages that are clients, and who may depend on them.
const CLIENTS: [(&str, &[&str]); 4] = [
    (concat!("req", "west"), &["net"]),
    (concat!("ur", "eq"), &[]),
    // Servers too are made of it; that nobody uses its client is seen in the files.
    ("hyper", &["net", "client", "gateway", "testkit"]),
    (concat!("tokio-", "rustls"), &["net"]),
];

/// Tests play the outside world, and the crate is the one that may.
fn is_free(file: &str) -> bool {
    file.starts_with("crates/net/")
        || file.starts_with("crates/guards/")
        || file.starts_with("crates/testkit/")
        || file.starts_with("bench/")
        || file.starts_with("fuzz/")
        || file.contains("/tests/")
        || file.ends_with("/tests.rs")
        || file.ends_with("_tests.rs")
}

/// Ways out on a line of code; what a comment says opens nothing.
fn ways_out(line: &str) -> impl Iterator<Item = &'static str> + '_ {
    let code = line.split("//").next().unwrap_or_default();
    WAYS_OUT.into_iter().filter(move |way| code.contains(way))
}

#[test]
fn nothing_but_net_opens_a_connection() {
    let mut found = Vec::new();
    for file in rust_files().into_iter().filter(|file| !is_free(file)) {
        if MAY.iter().any(|(known, _)| *known == file) {
            continue;
        }
        for (number, line) in read(&file).lines().enumerate() {
            found.extend(ways_out(line).map(|way| format!("{file}:{}: {way}", number + 1)));
        }
    }
    assert!(
        found.is_empty(),
        "use the client of crate `net`, which has the egress guard, or add the file to crates/guards/tests/it/clients.rs \
         with a reason:\n  {}",
        found.join("\n  ")
    );
}

#[test]
fn only_net_depends_on_an_http_client() {
    let mut found = Vec::new();
    for package in members() {
        let name = package["name"].as_str().unwrap().trim_start_matches("tidegate-").to_owned();
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            let listed = CLIENTS.iter().find(|(client, _)| *client == used);
            if listed.is_some_and(|(_, may)| !may.contains(&name.as_str())) && dependency["kind"] != "dev" {
                found.push(format!("{name} -> {used}"));
            }
        }
    }
    assert!(found.is_empty(), "only crate `net` is an HTTP client:\n  {}", found.join("\n  "));
}

#[test]
fn every_file_that_may_has_a_reason_that_is_still_true() {
    let files = rust_files();
    for (file, reason) in MAY {
        assert!(reason.len() > 10, "{file} has no reason");
        // A file that another part of the program brings along later is no mistake yet.
        if files.iter().any(|known| known == file) {
            let text = read(file);
            assert!(
                text.lines().any(|line| ways_out(line).next().is_some()),
                "{file} opens nothing; take it off the list"
            );
        }
    }
}

#[test]
fn a_way_out_is_seen_in_code_and_not_in_comments() {
    let call = concat!("let s = tokio::net::TcpStream::", "connect(a)");
    assert_eq!(ways_out(call).count(), 1);
    assert_eq!(ways_out(&format!("// {call}")).count(), 0);
    assert_eq!(ways_out(concat!("use req", "west::Client;")).count(), 1);
    assert_eq!(ways_out("let listener = TcpListener::bind(address)").count(), 0);
}
