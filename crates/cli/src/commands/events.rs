//! `events`: what happens in the gateway, or in one conversation, as it happens, until somebody ends it. It outlives the
//! gateway: when that is started again it goes on.

mod shown;

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_client::{Client, ClientError, Heard, LinkEvent};
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::SubscribeSession;

use super::block_on;
use super::gateway::not_running;
use crate::Outcome;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::Failure;
use crate::output::{complain, print_line, printable};
use crate::signals::Signals;
use crate::texts::events as words;

/// How long a gateway that runs may take to let somebody in.
const ENTER: Duration = Duration::from_secs(5);

pub(super) fn run(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let json = parsed.has("json");
    block_on(async {
        let mut signals = Signals::listen()?;
        let client = Client::control(home.control_socket());
        let (link, mut news) = client.link(ENTER).await.map_err(not_running)?;
        let mut following = match parsed.value("session") {
            None => None,
            Some(session) => {
                let agent = parsed.value("agent").map(str::to_owned);
                Some(
                    link.follow(SubscribeSession { session: session.to_owned(), agent, cursor: None })
                        .await?,
                )
            }
        };
        if !json {
            complain(&app.fill(words::LISTENING, &[("home", &home.root().display())]));
        }
        let teller = Teller { app, json, conversation: following.is_some() };
        let mut first = true;
        loop {
            tokio::select! {
                // Being ended is how it ends.
                _ = signals.next() => return Ok(ExitCode::SUCCESS),
                event = news.recv() => match event {
                    Some(LinkEvent::Up(_)) if first => first = false,
                    Some(LinkEvent::Ended(error)) => return Err(error.into()),
                    Some(event) => teller.news(&event)?,
                    None => return Err(gone()),
                },
                heard = async {
                    match &mut following {
                        Some(following) => following.next().await,
                        None => std::future::pending().await,
                    }
                } => match heard {
                    Some(Heard::Refused(error)) => return Err(error.into()),
                    Some(heard) => teller.heard(heard)?,
                    None => return Err(gone()),
                },
            }
        }
    })
}

fn gone() -> Failure {
    ClientError::Closing { at: String::new() }.into()
}

struct Teller<'a> {
    app: &'a App,
    json: bool,
    /// One conversation is followed, and not everything.
    conversation: bool,
}

impl Teller<'_> {
    fn news(&self, event: &LinkEvent) -> Result<(), Failure> {
        match event {
            LinkEvent::Up(_) => complain(self.app.say(words::UP_AGAIN)),
            LinkEvent::Down(error) => complain(&self.app.fill(words::DOWN, &[("cause", &cause(error))])),
            LinkEvent::Stale if !self.conversation => complain(self.app.say(words::MISSED)),
            LinkEvent::News { event, payload } if !self.conversation => {
                if self.json {
                    return line(event, payload);
                }
                if let Some(text) = shown::news(self.app, event, payload) {
                    print_line(&printable(&text))?;
                }
            }
            LinkEvent::Stale | LinkEvent::News { .. } | LinkEvent::Ended(_) => {}
        }
        Ok(())
    }

    fn heard(&self, heard: Heard) -> Result<(), Failure> {
        if !self.json {
            for line in shown::heard(self.app, &heard) {
                print_line(&printable(&line))?;
            }
            return Ok(());
        }
        let (event, payload) = match heard {
            Heard::Snapshot(snapshot) => ("session.snapshot", serde_json::to_value(snapshot)),
            Heard::Run(run) => ("session.run", serde_json::to_value(run)),
            Heard::Delta(delta) => ("session.delta", serde_json::to_value(delta)),
            Heard::Tool(tool) => ("session.tool", serde_json::to_value(tool)),
            Heard::Note(note) => ("session.note", serde_json::to_value(note)),
            Heard::Waits(waits) => ("session.waits", serde_json::to_value(waits)),
            Heard::Done(done) => ("session.done", serde_json::to_value(done)),
            Heard::Refused(_) => return Ok(()),
        };
        line(event, &payload.unwrap_or_default())
    }
}

/// One event a line, for programs.
fn line(event: &str, payload: &Value) -> Result<(), Failure> {
    print_line(&json!({ "event": event, "payload": payload }).to_string())
}

fn cause(error: &ClientError) -> ErrorCode {
    error.body().code
}
