//! Programs in a terminal, as far as the tools have a part in it: how one is asked for, what it is answered, what is typed.
//! The terminal itself is the sandbox's; here a scripted program stands in for it.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use tidegate_policy::{Exit, PermittedPlan, PtySize, RunError, Runner, Running, Sink, Start, Stream};
use tokio::sync::watch;

use crate::stage::Stage;

/// Starts one program that prints `prints` and ends when it is killed or when `ends_with` was typed.
struct Scripted {
    prints: &'static [&'static str],
    ends_with: &'static str,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    start: Mutex<Option<Start>>,
    term: Mutex<Option<String>>,
    typed: Mutex<Vec<u8>>,
}

struct Script {
    ends_with: &'static str,
    seen: Arc<Seen>,
    end: watch::Sender<Option<Exit>>,
}

#[async_trait]
impl Runner for Scripted {
    fn confines(&self) -> bool {
        false
    }

    async fn start(
        &self,
        plan: PermittedPlan<'_>,
        start: Start,
        sink: Arc<dyn Sink>,
    ) -> Result<Box<dyn Running>, RunError> {
        *self.seen.start.lock().unwrap() = Some(start);
        *self.seen.term.lock().unwrap() = plan.plan().env().get("TERM").cloned();
        for piece in self.prints {
            sink.write(Stream::Stdout, piece.as_bytes());
        }
        Ok(Box::new(Script {
            ends_with: self.ends_with,
            seen: self.seen.clone(),
            end: watch::Sender::new(None),
        }))
    }
}

#[async_trait]
impl Running for Script {
    fn pid(&self) -> u32 {
        1
    }

    async fn wait(&self) -> Exit {
        self.end.subscribe().wait_for(Option::is_some).await.unwrap().clone().unwrap()
    }

    async fn write(&self, bytes: &[u8]) -> Result<(), RunError> {
        let mut typed = self.seen.typed.lock().unwrap();
        typed.extend_from_slice(bytes);
        if typed.ends_with(self.ends_with.as_bytes()) {
            self.end.send_replace(Some(Exit::Code(0)));
        }
        Ok(())
    }

    async fn close_input(&self) -> Result<(), RunError> {
        panic!("a terminal has no end of input");
    }

    fn kill(&self) {
        self.end.send_replace(Some(Exit::Killed));
    }
}

fn stage(prints: &'static [&'static str], ends_with: &'static str) -> (Stage, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let mut stage = Stage::new();
    stage.runner = Arc::new(Scripted { prints, ends_with, seen: seen.clone() });
    (stage, seen)
}

#[tokio::test]
async fn a_terminal_is_120_by_30_and_says_what_it_is() {
    let (stage, seen) = stage(&["\x1b[6n"], "\x1b[1;1R");
    stage.exec(json!({ "command": "true", "pty": true })).await.unwrap();
    let expected = Start { pty: Some(PtySize { columns: 120, rows: 30 }), input: true };
    assert_eq!(*seen.start.lock().unwrap(), Some(expected));
    assert_eq!(seen.term.lock().unwrap().as_deref(), Some("xterm-256color"));
}

#[tokio::test]
async fn a_question_for_the_cursor_is_answered_and_not_shown() {
    // The question comes in two pieces, and then once more in its other form.
    let (stage, seen) = stage(&["a\x1b[", "6nb", "\x1b[?6nc"], "\x1b[1;1R\x1b[1;1R");
    let output = stage.exec(json!({ "command": "true", "pty": true })).await.unwrap();
    assert_eq!(output.data.unwrap()["stdout"], "abc");
    assert_eq!(*seen.typed.lock().unwrap(), b"\x1b[1;1R\x1b[1;1R");
}

#[tokio::test]
async fn a_program_without_a_terminal_is_answered_nothing() {
    let (stage, seen) = stage(&["\x1b[6n"], "end\n");
    let args = json!({ "command": "true", "background": true });
    let name = stage.exec(args).await.unwrap().data.unwrap()["sessionId"].as_str().unwrap().to_owned();
    stage.process(json!({ "action": "submit", "sessionId": name, "data": "end" })).await.unwrap();
    stage.poll_until(&name, "completed").await;
    assert_eq!(*seen.typed.lock().unwrap(), b"end\n");
}

#[tokio::test]
async fn what_is_typed_is_what_the_keys_of_a_terminal_send() {
    let (stage, seen) = stage(&[], "\x04");
    let args = json!({ "command": "true", "pty": true, "background": true });
    let name = stage.exec(args).await.unwrap().data.unwrap()["sessionId"].as_str().unwrap().to_owned();
    for args in [
        json!({ "action": "submit", "sessionId": name, "data": "ls" }),
        json!({ "action": "paste", "sessionId": name, "text": "x\ny" }),
        json!({ "action": "send-keys", "sessionId": name, "keys": ["C-c", "Up"] }),
        json!({ "action": "write", "sessionId": name, "eof": true }),
    ] {
        stage.process(args).await.unwrap();
    }
    assert_eq!(*seen.typed.lock().unwrap(), b"ls\r\x1b[200~x\ny\x1b[201~\x03\x1b[A\x04");
    stage.poll_until(&name, "completed").await;
}
