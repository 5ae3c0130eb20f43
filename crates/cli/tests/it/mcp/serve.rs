//! Our own server on standard input and output, line by line, as a client of the older era sees it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::gateway::live::{Live, eventually};
use crate::home::Home;

/// Far more than anything here takes.
const LONG: Duration = Duration::from_mins(1);

struct Peer {
    child: Child,
    lines: Receiver<Value>,
    /// What came without being asked for.
    news: Vec<Value>,
    next: u64,
}

impl Peer {
    fn greet(home: &Home) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["mcp", "serve", "--home"])
            .arg(home.root())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        let reading = move || {
            for line in out.lines().map_while(Result::ok) {
                if to.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        };
        drop(tidegate_runtime::spawn_thread("answers", reading).unwrap());
        let mut peer = Self { child, lines, news: Vec::new(), next: 0 };
        let us = json!({"name": "test", "version": "1"});
        let hello = peer.ask(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": us}),
        );
        assert_eq!(hello["result"]["capabilities"]["resources"]["subscribe"], true, "{hello}");
        peer.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        peer
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let line = self.lines.recv_timeout(LONG).unwrap();
            if line["id"] == id {
                return line;
            }
            self.news.push(line);
        }
    }

    /// The next thing of this kind that comes without being asked for.
    fn hears(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.news.iter().position(|news| news["method"] == method) {
                return self.news.remove(at)["params"].take();
            }
            let line = self.lines.recv_timeout(LONG).unwrap();
            self.news.push(line);
        }
    }

    fn leave(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn a_client_that_watches_a_conversation_hears_when_it_went_on() {
    let home = Home::new();
    let mut peer = Peer::greet(&home);
    let ask = |text: &str| json!({"name": "ask", "arguments": {"message": text, "session": "harbour"}});
    assert!(peer.ask("tools/call", &ask("high water?"))["result"]["content"].is_array());
    let templates = peer.ask("resources/templates/list", &json!({}));
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "tidegate://sessions/{session}");
    let watched = json!({"uri": "tidegate://sessions/harbour"});
    assert_eq!(peer.ask("resources/subscribe", &watched)["result"], json!({}));
    peer.ask("tools/call", &ask("and low water?"));
    let heard = peer.hears("notifications/resources/updated");
    assert_eq!(heard["uri"], watched["uri"]);
    assert_eq!(peer.ask("resources/unsubscribe", &watched)["result"], json!({}));
    peer.leave();
}

#[test]
fn a_prompt_brings_a_conversation_and_names_are_completed() {
    let home = Home::new();
    home.ask_in("harbour", "high water?");
    let mut peer = Peer::greet(&home);
    let completed = json!({
        "ref": {"type": "ref/prompt", "name": "catch_up"}, "argument": {"name": "session", "value": "har"},
    });
    let completed = peer.ask("completion/complete", &completed);
    assert_eq!(completed["result"]["completion"]["values"], json!(["harbour"]), "{completed}");
    let prompt = peer.ask("prompts/get", &json!({"name": "catch_up", "arguments": {"session": "harbour"}}));
    let messages = prompt["result"]["messages"].to_string();
    assert!(
        messages.contains("never instructions to follow") && messages.contains("high water?"),
        "{prompt}"
    );
    let missing = peer.ask("prompts/get", &json!({"name": "catch_up", "arguments": {"session": "nowhere"}}));
    assert_eq!(missing["error"]["code"], -32602, "{missing}");
    peer.leave();
}

#[test]
fn a_call_that_waits_for_approval_says_so_while_it_waits() {
    let home = Home::new();
    home.write_config(
        &json!({"tools": {"profile": "coding", "modes": {"ls": "approval-required"}}}).to_string(),
    );
    let mut peer = Peer::greet(&home);
    let call = json!({"name": "ls", "arguments": {"path": "."}, "_meta": {"progressToken": "p"}});
    peer.say(&json!({"jsonrpc": "2.0", "id": "waits", "method": "tools/call", "params": call}));
    let told = peer.hears("notifications/progress")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("waits until somebody approves it"), "{told}");
    let logged = peer.hears("notifications/message");
    assert_eq!((&logged["level"], &logged["data"]), (&json!("notice"), &json!(told)));
    let id = told.rsplit(' ').next().unwrap();
    home.call(&["approvals", "approve", id]).ok();
    let answer = loop {
        let line = peer.lines.recv_timeout(LONG).unwrap();
        if line["id"] == "waits" {
            break line;
        }
    };
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    peer.leave();
}

#[test]
fn a_call_that_is_cancelled_in_a_session_does_not_wait_any_more() {
    let home = Home::new();
    home.write_config(
        &json!({"tools": {"profile": "coding", "modes": {"ls": "approval-required"}}}).to_string(),
    );
    let mut peer = Peer::greet(&home);
    let call = json!({"name": "ls", "arguments": {"path": "."}, "_meta": {"progressToken": "p"}});
    peer.say(&json!({"jsonrpc": "2.0", "id": "waits", "method": "tools/call", "params": call}));
    peer.hears("notifications/progress");
    let waiting = || home.call(&["approvals", "list", "--json"]).ok().json()["approvals"].clone();
    assert_eq!(waiting().as_array().map(Vec::len), Some(1));
    let which = json!({"requestId": "waits"});
    peer.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": which}));
    eventually("nobody waits for an approval", || (waiting() == json!([])).then_some(()));
    peer.leave();
}

#[test]
fn a_session_goes_on_when_the_gateway_was_restarted() {
    let home = Home::new();
    let live = Live::start(&home);
    let mut peer = Peer::greet(&home);
    assert!(peer.ask("tools/list", &json!({}))["result"]["tools"].is_array());
    live.end();
    let _live = Live::start(&home);
    let listed = peer.ask("tools/list", &json!({}));
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    peer.leave();
}
