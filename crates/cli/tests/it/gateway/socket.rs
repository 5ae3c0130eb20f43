//! The control socket's place in the file system: whatever is found there, commands and gateways go on or say why not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::homes::settled;
use super::live::Live;
use crate::disk::SmallDisk;
use crate::home::{Home, PROGRAM};
use crate::process::Call;

/// Everything that looks for the socket, in a home that nobody holds.
fn goes_on(home: &Home) {
    assert_eq!(home.call(&["gateway", "status", "--json"]).json()["running"], false);
    assert_eq!(home.call(&["channels", "status", "--json"]).json()["running"], false);
    home.call(&["gateway", "stop"]).ok();
    home.call(&["gateway", "link"]).fails("GATEWAY_STOPPED");
    home.call(&["status"]).ok();
    assert_eq!(home.ask("hello")["success"], true);
    let live = Live::start(home);
    assert_eq!(home.ask("through the gateway")["success"], true);
    assert_eq!(home.call(&["gateway", "status", "--json"]).json()["running"], true);
    live.end();
    settled(home);
}

#[test]
fn a_socket_that_a_killed_gateway_left_is_no_gateway() {
    let home = Home::new();
    Live::start(&home).kill();
    assert!(home.root().join("service/control.sock").exists(), "it is stale");
    goes_on(&home);
}

#[test]
fn a_plain_file_a_dead_socket_and_a_link_in_the_sockets_place_are_no_gateway() {
    let put: [fn(&Path); 3] = [
        |path| fs::write(path, "not a socket").expect("a file can be written"),
        |path| drop(UnixListener::bind(path).expect("a socket can be made")),
        |path| std::os::unix::fs::symlink("/nowhere/at/all", path).expect("a link can be made"),
    ];
    for put in put {
        let home = Home::new();
        home.ask("makes the home");
        let path = home.root().join("service/control.sock");
        let _ = fs::remove_file(&path);
        put(&path);
        goes_on(&home);
    }
}

#[test]
fn a_home_with_a_path_longer_than_a_socket_may_have_works() {
    let around = Home::new();
    let deep = around.around().join("d".repeat(90)).join("e".repeat(90));
    let call = |words: &[&str]| {
        Call::new(Path::new(PROGRAM), words).env("TIDEGATE_HOME", &deep).env("HOME", around.around())
    };
    call(&["ask", "alone"]).ok();
    let live = Live::with(call(&["up", "--json", "--port", "0"]), &deep);
    assert_eq!(call(&["ask", "through the socket"]).json()["success"], true);
    assert_eq!(call(&["gateway", "status", "--json"]).json()["running"], true);
    let stopped = call(&["gateway", "stop", "--json"]).json();
    assert_eq!(stopped["stopped"], true, "{stopped}");
    assert_eq!(live.wait().code, Some(0));
}

#[test]
fn a_read_only_home_is_read_and_refuses_a_gateway_with_a_reason() {
    let Some(disk) = SmallDisk::sized("24m") else { return };
    let root = disk.root();
    disk.call(&["ask", "before"]).ok();
    disk.remount("ro");
    for words in [["up", "--json", "--port", "0"].as_slice(), &["gateway", "run", "--port", "0"]] {
        let done = disk.call(words).run();
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.stderr.contains("Read-only file system") && done.stderr.contains("--home"), "{done:?}");
        assert!(!done.stderr.contains("[INTERNAL]"), "{done:?}");
    }
    for words in [
        ["outbox", "list"].as_slice(),
        &["audit", "list"],
        &["audit", "verify"],
        &["channels", "list"],
        &["channels", "status"],
        &["gateway", "status"],
        &["runs", "list"],
    ] {
        disk.call(words).ok();
    }
    disk.remount("rw");
    Live::with(disk.call(&["up", "--json", "--port", "0"]), &root).end();
}

#[test]
fn a_socket_is_for_its_owner_only_however_open_its_folder_was() {
    let home = Home::new();
    home.ask("makes the home");
    fs::set_permissions(home.root().join("service"), fs::Permissions::from_mode(0o777))
        .expect("a mode can be set");
    let live = Live::start(&home);
    let mode =
        fs::metadata(home.root().join("service/control.sock")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    live.end();
}
