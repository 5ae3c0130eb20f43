//! A long conversation, request by request.

use std::borrow::Cow;
use std::time::Duration;

use tidegate_models::{Api, Request, ToolSpec};
use tidegate_protocol::{EntryBody, Message};
use tidegate_storage::Context;

use super::history::entry;
use super::{answer, at, called, result, user};
use crate::context::{BootstrapFile, Pruning, PruningMode, Scene, history, prune, system};

const PRUNING: Pruning = Pruning {
    mode: PruningMode::CacheTtl,
    ttl: Duration::from_mins(5),
    keep_assistants: 3,
    untrusted: false,
};

fn scene() -> Scene {
    let file = |name: &str| BootstrapFile { name: name.into(), text: Some(format!("This is {name}.")) };
    Scene {
        agent: "main".into(),
        workspace: Some("/w".into()),
        files: vec![file("AGENTS.md"), file("SOUL.md")],
        zone: "Europe/Berlin".into(),
        ..Scene::default()
    }
}

fn tools() -> Vec<ToolSpec> {
    let parameters = serde_json::json!({"type": "object", "properties": {}});
    vec![ToolSpec { name: "t".into(), description: "Does something.".into(), parameters }]
}

/// What is asked when the log has these messages.
fn request(messages: &[Message]) -> Request {
    let entries = messages.iter().zip(1..);
    let entries = entries.map(|(message, seq)| entry(seq, EntryBody::Message(message.clone()))).collect();
    let lines = history(&Context { entries, ..Context::default() }, &[], u32::MAX);
    let all: Vec<Message> = lines.into_iter().map(|line| line.message).collect();
    let tools = tools();
    Request {
        system: system(&scene(), &tools),
        messages: prune(&all, &PRUNING, 10_000).into_iter().map(Cow::into_owned).collect(),
        tools,
        ..Request::default()
    }
}

/// The request as bytes, what is said last at its end.
fn bytes(request: &Request) -> String {
    let tools =
        request.tools.iter().map(|tool| format!("{}{}{}", tool.name, tool.description, tool.parameters));
    let messages = request.messages.iter().map(|message| serde_json::to_string(message).unwrap());
    request.system.iter().cloned().chain(tools).chain(messages).collect::<Vec<_>>().join("\n")
}

/// The body in the format whose messages carry no marks that move, without what follows the messages.
fn on_the_wire(request: &Request) -> String {
    let body = tidegate_models::testing::body(Api::OpenaiCompletions, request);
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let messages = body["messages"].as_array().unwrap().iter().map(ToString::to_string);
    [body["tools"].to_string()].into_iter().chain(messages).collect::<Vec<_>>().join("\n")
}

#[test]
fn over_fifty_turns_every_request_begins_with_the_one_before() {
    let mut log: Vec<Message> = Vec::new();
    let mut before: Option<Request> = None;
    let mut now = 0;
    let mut ask = |log: &[Message]| {
        let next = request(log);
        if let Some(before) = before.replace(next.clone()) {
            assert!(bytes(&next).starts_with(&bytes(&before)), "{} messages", log.len());
            assert!(on_the_wire(&next).starts_with(&on_the_wire(&before)), "{} messages", log.len());
        }
    };
    for turn in 0..50_usize {
        let mut say = |message: Message| {
            now += 4 * 60_000;
            log.push(at(message, now));
            log.clone()
        };
        ask(&say(user(&format!("question {turn}"))));
        if turn % 3 == 0 {
            let id = format!("call-{turn}");
            say(called(&[&id]));
            ask(&say(result(&id, &"line\n".repeat(turn * 40))));
        }
        say(answer(&format!("answer {turn}")));
    }
    let last = request(&log);
    assert_eq!(last.messages, log, "nothing was thinned while the prompt was cached");
}
