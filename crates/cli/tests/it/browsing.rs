//! An agent uses a page in a real browser: through the gateway, held by the sandbox, under the rules for what leaves.

use std::path::Path;

use serde_json::{Value, json};
use tidegate_testkit::model_server::Turn;
use tidegate_testkit::skip::skip_loudly;
use tidegate_testkit::web_server::{Page, WebServer};
use tokio::runtime::Runtime;

use crate::gateway::live::Live;
use crate::home::{Backend, Home};
use crate::talking::Vendor;

const FORM: &str = "<!doctype html><title>Order</title><h1>Order</h1>\
    <form action=/done><label>Name <input name=name></label><button>Send it</button></form>\
    <img src=http://169.254.169.254/picture>";

fn site(runtime: &Runtime) -> WebServer {
    runtime.block_on(WebServer::answering(|asked| match asked.path.as_str() {
        "/" => Page::html(FORM),
        "/done" => {
            Page::html(&format!("<title>Done</title><p>thanks, {}", asked.query("name").unwrap_or("?")))
        }
        _ => Page::new(404, "text/plain", "missing"),
    }))
}

fn home(vendor: &Vendor, server: &WebServer, browser: &Value) -> Home {
    let tools = json!({
        "profile": "full", "highRisk": "allow",
        "web": {"allowPrivate": [server.address().to_string()]},
    });
    let more = [("browser", browser.clone()), ("tools", tools)];
    vendor.home(Backend::Sqlite, &more).expect("SQLite is always there")
}

/// Has the model call the tool, and answers with what it was told about it.
fn call(vendor: &Vendor, home: &Home, args: Value) -> String {
    vendor.push(Turn::call("c1", "browser", args)).push(Turn::say("done"));
    home.ask("use the page");
    let messages = vendor.last_request().body["messages"].as_array().expect("messages").clone();
    messages.last().expect("a result").to_string()
}

#[test]
fn an_agent_opens_reads_and_uses_a_page_through_the_gateway() {
    if !Path::new("/usr/bin/chromium").exists() || !Path::new("/usr/bin/bwrap").exists() {
        skip_loudly("chromium or bubblewrap is not installed");
        return;
    }
    let runtime = Runtime::new().unwrap();
    let (vendor, server) = (Vendor::open(), site(&runtime));
    let home = home(&vendor, &server, &json!({"enabled": true}));
    let live = Live::start(&home);
    let opened = call(&vendor, &home, json!({"action": "open", "url": server.url("/")}));
    assert!(opened.contains("Title: Order"), "{opened}");
    let shown = call(&vendor, &home, json!({"action": "snapshot"}));
    let reference = |of: &str| {
        let line = shown.split("\\n").find(|line| line.contains(of)).unwrap_or_else(|| panic!("{shown}"));
        let (_, name) = line.split_once("[ref=").expect("what can be used has a ref");
        name.split(']').next().unwrap_or_default().to_owned()
    };
    let (name, button) = (reference("textbox"), reference("Send it"));
    let typed = call(&vendor, &home, json!({"action": "type", "ref": name, "text": "Ada"}));
    assert!(!typed.contains("refused"), "{typed}");
    call(&vendor, &home, json!({"action": "click", "ref": button}));
    let done = call(&vendor, &home, json!({"action": "wait", "text": "thanks, Ada", "timeMs": 20_000}));
    assert!(!done.contains("is_error\":true"), "{done}");
    assert!(server.asked().iter().any(|asked| asked.path == "/done" && asked.query("name") == Some("Ada")));
    let refused = call(&vendor, &home, json!({"action": "open", "url": "http://169.254.169.254/latest/"}));
    assert!(refused.contains("tools.web.allowPrivate"), "{refused}");
    live.end();
}

#[test]
fn a_machine_without_a_browser_is_told_what_to_install() {
    let runtime = Runtime::new().unwrap();
    let (vendor, server) = (Vendor::open(), site(&runtime));
    let home = home(&vendor, &server, &json!({"enabled": true, "executable": "/nowhere/chromium"}));
    let told = call(&vendor, &home, json!({"action": "open", "url": server.url("/")}));
    assert!(told.contains("browser.executable") && told.contains("/nowhere/chromium"), "{told}");
    assert_eq!(server.asked(), []);
}
