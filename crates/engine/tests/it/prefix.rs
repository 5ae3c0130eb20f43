//! What a provider has read it need not read again: every request begins with the bytes of the one before, through the
//! whole engine and over the wire, with tools, notes, summaries and a restart on the way.

use serde_json::{Value, json};
use tidegate_engine::{Engine, Request};
use tidegate_protocol::ReplyTarget;
use tidegate_testkit::model_server::{ModelServer, Recorded, Step, Tokens, Turn};
use tidegate_testkit::stores::Backend;
use tidegate_tools::{Registry, basic_tools, file_tools};

use crate::close;
use crate::vendor::{Bench, followed, question, with_bench};

/// Turns that people take.
const TURNS: usize = 50;
/// In a window of 128,000 tokens: beyond the line for notes, and beyond the one for a summary.
const FOR_NOTES: u64 = 105_000;
const FOR_SUMMARY: u64 = 115_000;

const SUMMARY: &str = "They spoke of the tide.";

/// The agent has the tool that takes notes, or it says them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notes {
    ByTool,
    InWords,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_fifty_turns_every_request_begins_with_the_bytes_of_the_one_before() {
    for (model, notes) in [
        ("openai/second", Notes::ByTool),
        ("openai/second", Notes::InWords),
        ("anthropic/first", Notes::ByTool),
        ("anthropic/first", Notes::InWords),
    ] {
        with_bench(Backend::Sqlite, async |bench| {
            let requests = talk(bench, model, notes).await;
            let seen = judge(&requests);
            assert_eq!(
                (seen.notes, seen.summaries),
                (if notes == Notes::ByTool { 4 } else { 2 }, 2),
                "{model}"
            );
            assert_eq!(seen.usual, TURNS + TURNS / 3, "{model} {notes:?}");
        })
        .await;
    }
}

/// Fifty turns, every third with a tool, with notes and a summary after the twentieth and after the fortieth.
async fn talk(bench: &Bench<'_>, model: &str, notes: Notes) -> Vec<Recorded> {
    let mut engine = start(bench, model, notes).await;
    for turn in 1..=TURNS {
        if turn == TURNS / 2 {
            close(engine).await;
            engine = start(bench, model, notes).await;
        }
        let vendor = &bench.vendor;
        match turn {
            21 | 41 => push_notes(vendor, notes),
            22 | 42 => drop(vendor.push(Turn::say(SUMMARY))),
            _ => {}
        }
        if turn % 3 == 0 {
            vendor.push(used(Turn::call(&format!("t{turn}"), "tools_echo", json!({"message": "hi"})), 10));
        }
        let tokens = match turn {
            20 | 40 => FOR_NOTES,
            21 | 41 => FOR_SUMMARY,
            _ => 10,
        };
        vendor.push(used(Turn::say(&format!("answer {turn}")), tokens));
        let request = Request {
            text: format!("question {turn}"),
            reply: ReplyTarget::Session,
            ..question(&engine, "main")
        };
        let (answer, _) = followed(engine.submit(request).await.unwrap()).await;
        assert_eq!(answer.unwrap().text, format!("answer {turn}"));
        assert_eq!(vendor.turns_left(), 0, "turn {turn}");
    }
    close(engine).await;
    bench.vendor.requests()
}

fn push_notes(vendor: &ModelServer, notes: Notes) {
    match notes {
        Notes::ByTool => {
            vendor.push(Turn::call("n1", "memory_append", json!({"text": "likes tea"})));
            vendor.push(Turn::say("NO_REPLY"));
        }
        Notes::InWords => drop(vendor.push(Turn::say("- likes tea"))),
    }
}

fn used(turn: Turn, input: u64) -> Turn {
    turn.then(Step::Usage(Tokens { input, output: 1, ..Tokens::default() }))
}

async fn start(bench: &Bench<'_>, model: &str, notes: Notes) -> Engine {
    let profile = if notes == Notes::ByTool { "full" } else { "safe" };
    let config = json!({
        "agents": {"defaults": {"model": {"primary": model, "fallbacks": []}}},
        "tools": {"profile": profile, "highRisk": "allow"},
    });
    let mut registry = Registry::default();
    for tool in basic_tools().into_iter().chain(file_tools()) {
        registry.add(tool).unwrap();
    }
    let toolbox = tidegate_engine::Toolbox { registry: registry.into(), ..tidegate_engine::Toolbox::empty() };
    bench.engine_with(config, |options| options.toolbox = toolbox).await
}

/// A request in the pieces that a provider's cache knows it by, to the byte.
#[derive(Debug, Clone, PartialEq)]
struct Pieces {
    /// Tools and instructions.
    fixed: Vec<String>,
    messages: Vec<String>,
}

impl Pieces {
    fn of(request: &Recorded) -> Self {
        let body = &request.body;
        assert_eq!(body.to_string(), request.raw, "written anew it is what came, to the byte");
        let messages = said(body).iter().map(|message| unmarked(&message.to_string())).collect();
        Self {
            fixed: ["tools", "system", "instructions"].map(|name| body[name].to_string()).to_vec(),
            messages,
        }
    }
}

/// A message without the mark that says how far the cache goes: it is where the request ends, so it moves.
fn unmarked(raw: &str) -> String {
    const MARK: &str = r#""cache_control":{"type":"ephemeral"}"#;
    raw.replace(&format!(",{MARK}"), "").replace(&format!("{MARK},"), "")
}

#[derive(Debug, Default)]
struct Seen {
    usual: usize,
    notes: usize,
    summaries: usize,
}

fn judge(requests: &[Recorded]) -> Seen {
    let mut seen = Seen::default();
    let mut before: Option<Pieces> = None;
    let mut begins_anew = false;
    for (at, request) in requests.iter().enumerate() {
        let now = Pieces::of(request);
        if request.raw.contains("Use these headings") {
            seen.summaries += 1;
            begins_anew = true;
            continue;
        }
        if let Some(before) = &before {
            assert_eq!(now.fixed, before.fixed, "request {at}: tools and instructions stay as they are");
            let shared = if begins_anew { 0 } else { before.messages.len() };
            assert!(now.messages.len() > shared, "request {at}");
            assert_eq!(now.messages[..shared], before.messages[..shared], "request {at}");
            assert!(!begins_anew || now.messages.iter().any(|message| message.contains(SUMMARY)));
        }
        // Notes are asked for beside the conversation: what is asked for next does not go on from there.
        if is_for_notes(&request.body) {
            seen.notes += 1;
            continue;
        }
        seen.usual += 1;
        begins_anew = false;
        before = Some(now);
    }
    seen
}

/// What was said, by whichever name the format has for it.
fn said(body: &Value) -> &[Value] {
    let said = ["messages", "input"].into_iter().find_map(|name| body[name].as_array());
    said.unwrap_or_else(|| panic!("nothing is said in {body}"))
}

fn is_for_notes(body: &Value) -> bool {
    said(body).iter().any(|message| message.to_string().contains("will soon be shortened"))
}
