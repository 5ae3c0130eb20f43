//! The port: who is let in, what is kept from strangers, and what an operator is told.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use tidegate_testkit::skip::skip_loudly;

use super::homes::with_channels;
use super::http;
use super::live::{Live, eventually};
use crate::home::{Backend, Home, PROGRAM};

fn gateway() -> (Home, Live) {
    let home = with_channels(Backend::Sqlite).expect("SQLite is always there");
    let live = Live::start(&home);
    (home, live)
}

/// The port in the command that a message offers.
fn offered(message: &str, command: &str) -> u16 {
    let (_, rest) = message.split_once(command).unwrap_or_else(|| panic!("no {command} in: {message}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a port")
}

#[test]
fn a_port_that_another_gateway_has_names_its_home() {
    let (first, live) = gateway();
    let port = live.address.rsplit(':').next().unwrap().to_owned();
    let second = Home::new();
    let failed = second.call(&["gateway", "run", "--port", &port]).fails("PORT_IN_USE");
    let root = first.root().canonicalize().unwrap();
    assert!(failed.message.contains(&format!("gateway of {}", root.display())), "{failed:?}");
    assert!(failed.message.contains(&format!("process {}", live.pid())), "{failed:?}");
    offered(&failed.message, "tidegate gateway run --port ");
    live.end();
}

#[test]
fn where_the_system_does_not_tell_who_has_a_port_it_is_named_all_the_same() {
    let (_first, live) = gateway();
    let port = live.address.rsplit(':').next().unwrap().to_owned();
    let foreign = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = foreign.local_addr().unwrap().port().to_string();
    let second = Home::new();
    // In a view of the file system of its own, without the tables of the system.
    let blind = |port: &str| {
        let script = "mount -t tmpfs none /proc && exec \"$@\"";
        let words = ["--mount", "sh", "-c", script, "sh", PROGRAM, "gateway", "run", "--port", port];
        second.call_as(Path::new("unshare"), &words)
    };
    let probe = ["--mount", "sh", "-c", "mount -t tmpfs none /proc"];
    if second.call_as(Path::new("unshare"), &probe).run().code != Some(0) {
        return skip_loudly("only root can hide /proc");
    }
    let gateway = blind(&port).fails("PORT_IN_USE");
    assert!(gateway.message.contains("another Tidegate gateway"), "{gateway:?}");
    let program = blind(&other).fails("PORT_IN_USE");
    assert!(program.message.contains("another program"), "{program:?}");
    for failed in [gateway, program] {
        offered(&failed.message, "tidegate gateway run --port ");
    }
    live.end();
}

#[test]
fn a_taken_port_is_named_with_the_way_to_choose_another() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for words in [["up", "--json"].as_slice(), &["gateway", "run"]] {
        let words: Vec<_> = words.iter().copied().chain(["--port", &port]).collect();
        let failed = home.call(&words).fails("PORT_IN_USE");
        assert!(failed.message.contains(&format!("127.0.0.1:{port}")), "{failed:?}");
        let own = std::env::current_exe().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        assert!(failed.message.contains(&format!("{own} (process {})", std::process::id())), "{failed:?}");
        let command = words[..words.len() - 2].iter().filter(|word| **word != "--json");
        let command = command.copied().collect::<Vec<_>>().join(" ");
        let free = offered(&failed.message, &format!("tidegate {command} --port "));
        assert_eq!(offered(&failed.message, "tidegate config set gateway.port "), free, "{failed:?}");
        TcpListener::bind(("127.0.0.1", free)).expect("the port that is offered is free");
        let chinese = home.call(&words).env("TIDEGATE_LANG", "zh-CN").fails("PORT_IN_USE");
        assert!(chinese.message.contains("占用") && chinese.message.contains("--port"), "{chinese:?}");
    }
    drop(taken);
    Live::with(home.call(&["up", "--json", "--port", &port]), home.root()).end();
}

#[test]
fn a_second_gateway_is_refused_and_told_how_to_reach_the_first() {
    let (home, live) = gateway();
    let failed = home.call(&["gateway", "run", "--port", "0"]).fails("GATEWAY_RUNNING");
    assert!(failed.message.contains(&live.pid().to_string()), "{failed:?}");
    assert!(failed.stderr.contains("gateway link") && failed.stderr.contains("gateway stop"), "{failed:?}");
    let again = home.call(&["up", "--json", "--port", "0"]).json();
    assert!(again["link"].as_str().is_some_and(|link| link.contains(&live.address)), "{again}");
    live.end();
}

#[test]
fn strangers_are_turned_away_at_every_address_and_the_owner_is_not() {
    let (_home, live) = gateway();
    let bearer = format!("Bearer {}", live.token);
    let chat = json!({ "model": "offline", "messages": [{ "role": "user", "content": "hi" }] }).to_string();
    let own = format!("http://{}", live.address);
    for (method, path, body) in [
        ("GET", "/v1/models", ""),
        ("POST", "/v1/chat/completions", chat.as_str()),
        ("GET", "/api/v1/status", ""),
        ("GET", "/api/v1/sessions", ""),
        ("POST", "/api/v1/sessions/main/messages", r#"{"text":"hi","key":"k"}"#),
        ("POST", "/api/v1/login-links", "{}"),
    ] {
        let send = |headers: &[(&str, &str)]| {
            http::request(&live.address, method, path, headers, body).expect("an answer")
        };
        for headers in [
            [].as_slice(),
            &[("Authorization", "Bearer wrong")],
            &[("Authorization", "Basic eDp5")],
            &[("Cookie", "tidegate=forged")],
        ] {
            let answer = send(headers);
            let code = answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned();
            // Whoever guesses tokens again and again is told to wait, and nobody else is.
            let guessed = headers.iter().any(|(name, _)| *name == "Authorization");
            let refused = (answer.status, code.as_str());
            let waits = guessed && refused == (429, "TOO_MANY_REQUESTS");
            assert!(waits || refused == (401, "UNAUTHORIZED"), "{path} {headers:?}: {answer:?}");
        }
        for stranger in ["evil.example", "localhost:1", "127.0.0.1.evil.example"] {
            let answer = send(&[("Host", stranger), ("Authorization", &bearer)]);
            assert!((400..500).contains(&answer.status), "{path} {stranger}: {answer:?}");
            assert_eq!(answer.json()["error"]["code"], "FORBIDDEN", "{answer:?}");
        }
        for stranger in ["https://evil.example", "null", "http://localhost"] {
            let answer = send(&[("Origin", stranger), ("Authorization", &bearer)]);
            assert_eq!(answer.status, 403, "{path} {stranger}: {answer:?}");
        }
        let answer = send(&[("Origin", &own), ("Authorization", &bearer)]);
        assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
    }
    let stop = live.http("POST", "/api/v1/stop", &json!({}));
    assert_eq!(stop.status, 403, "a gateway is not stopped through its port: {stop:?}");
    live.end();
}

#[test]
fn the_link_works_once_and_its_cookie_opens_the_page() {
    let (home, live) = gateway();
    let follow = |link: &str| {
        let path = link.strip_prefix(&format!("http://{}", live.address)).expect("a link to the gateway");
        http::request(&live.address, "GET", path, &[], "").expect("an answer")
    };
    let first = follow(&live.link);
    assert!((300..400).contains(&first.status), "{first:?}");
    let cookie = first.header("set-cookie").expect("a cookie").to_owned();
    for attribute in ["HttpOnly", "SameSite=", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap();
    let enter = |path: &str| http::request(&live.address, "GET", path, &[("Cookie", cookie)], "").unwrap();
    assert_eq!(enter("/api/v1/me").status, 200);
    assert_eq!(enter("/v1/models").status, 401, "the cookie is for the page only");
    let second = follow(&live.link);
    assert!(second.header("set-cookie").is_none(), "{second:?}");
    assert!((400..500).contains(&second.status), "{second:?}");
    let told = home.call(&["gateway", "link", "--json"]).json();
    let third = follow(told["link"].as_str().unwrap());
    assert!(third.header("set-cookie").is_some(), "{third:?}");
    live.end();
}

#[test]
fn secrets_are_in_no_output_and_no_log() {
    let home = with_channels(Backend::Sqlite).unwrap();
    let config = home.read_config().trim_end().trim_end_matches('}').to_owned();
    home.write_config(&format!("{config}, logging: {{ level: \"debug\" }} }}\n"));
    let live = Live::start(&home);
    let code = live.link.split("code=").nth(1).unwrap().to_owned();
    let path = live.link.split_once(&live.address).unwrap().1.to_owned();
    let entered = http::request(&live.address, "GET", &path, &[], "").unwrap();
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let value = cookie.split_once('=').unwrap().1.to_owned();
    http::request(&live.address, "GET", "/api/v1/me", &[("Cookie", &cookie)], "").unwrap();
    http::request(&live.address, "GET", "/api/v1/me", &[("Authorization", "Bearer guess")], "").unwrap();
    assert_eq!(live.chat("hello").status, 200);
    let mut said = String::new();
    for words in [
        ["status", "--json"].as_slice(),
        &["status"],
        &["gateway", "status"],
        &["channels", "status"],
        &["audit", "list", "--json"],
        &["config", "get", "--effective"],
    ] {
        let done = home.call(words).run();
        said.push_str(&done.stdout);
        said.push_str(&done.stderr);
    }
    let token = live.token.clone();
    let done = live.end();
    said.push_str(&done.stdout);
    said.push_str(&done.stderr);
    for entry in fs::read_dir(home.root().join("logs")).unwrap() {
        said.push_str(&String::from_utf8_lossy(&fs::read(entry.unwrap().path()).unwrap()));
    }
    assert!(said.contains("127.0.0.1"), "there is something to look at: {said}");
    for (name, secret) in [("token", &token), ("cookie", &value), ("code", &code)] {
        assert!(!said.contains(secret.as_str()), "the {name} is in: {said}");
    }
}

#[test]
fn the_files_of_a_gateway_are_for_their_owner_only() {
    let (home, live) = gateway();
    let mode = |path: &str| fs::metadata(home.root().join(path)).unwrap().permissions().mode() & 0o777;
    for file in ["credentials/local-token", "service/control.sock", "tidegate.db"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    // A connector makes its folder when it begins to work.
    eventually("the channel works", || home.root().join("channels/local/default").exists().then_some(()));
    for folder in ["credentials", "service", "logs", "channels"] {
        assert_eq!(mode(folder), 0o700, "{folder}");
    }
    live.end();
    // A token somebody opened to others is closed again.
    fs::set_permissions(home.root().join("credentials/local-token"), fs::Permissions::from_mode(0o644))
        .unwrap();
    let again = Live::start(&home);
    assert_eq!(mode("credentials/local-token"), 0o600);
    again.end();
}

#[test]
fn a_token_file_that_holds_none_is_named_with_the_way_to_mend_it() {
    let (home, live) = gateway();
    live.end();
    let file = home.root().join("credentials/local-token");
    for content in [&b""[..], b"short", b"\xff\xfe\x00"] {
        fs::write(&file, content).unwrap();
        let failed = home.call(&["up", "--json", "--port", "0"]).fails("HOME_UNUSABLE");
        assert!(failed.message.contains("local-token") && failed.message.contains("remove it"), "{failed:?}");
        let chinese = home.call(&["gateway", "run"]).env("TIDEGATE_LANG", "zh-CN").fails("HOME_UNUSABLE");
        assert!(chinese.message.contains("令牌"), "{chinese:?}");
    }
    fs::remove_file(&file).unwrap();
    Live::start(&home).end();
}

#[test]
fn health_needs_no_token_and_tells_nothing_about_the_home() {
    let (home, live) = gateway();
    for path in ["/healthz", "/readyz"] {
        let answer = http::request(&live.address, "GET", path, &[], "").unwrap();
        assert_eq!((answer.status, &answer.json()["ok"]), (200, &Value::Bool(true)), "{answer:?}");
        assert!(!answer.body.contains(home.root().to_str().unwrap()), "{answer:?}");
    }
    live.end();
}
