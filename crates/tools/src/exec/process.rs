//! The `process` tool: looks after commands that run in the background.
//!
//! Looking at them and ending them needs no approval: they were approved when they started. Writing to one does: a shell
//! that somebody let start could be fed anything.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_policy::{Permitted, Preparation};
use tidegate_protocol::Risk;

use super::input::{self, Input, Keys};
use super::outcome::{exit_code, milliseconds, status, trouble};
use super::processes::Processes;
use super::started::{Owner, Started};
use crate::place::Place;
use crate::spec::ToolSpec;
use crate::tool::{Output, Tool, ToolFailure, Work};
use crate::web::unleaked_command;

/// So many lines of a log when a call does not say.
const LOG_LINES: usize = 200;
/// How long a program may take to take what is written to it.
const WRITING: Duration = Duration::from_secs(5);
/// The condition that binds input to the process it was prepared for.
const PROCESS: &str = "process";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Action {
    List,
    Poll,
    Log,
    Write,
    Submit,
    SendKeys,
    Paste,
    Kill,
    Clear,
    Remove,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// list: all; poll: new output; log: lines; write, submit (with Enter), send-keys, paste: input; clear: forget a
    /// finished one; remove: kill and forget.
    action: Action,
    /// Which one; for everything but list.
    session_id: Option<String>,
    /// write, submit: the text.
    data: Option<String>,
    /// write: end the input after it.
    #[serde(default)]
    eof: bool,
    /// send-keys: keys such as C-c, M-x, S-Tab, Up, F5, Enter.
    #[serde(default)]
    keys: Vec<String>,
    /// send-keys: bytes as pairs of hex digits.
    #[serde(default)]
    hex: Vec<String>,
    /// send-keys: text to type as it is, before the rest.
    literal: Option<String>,
    /// paste: the text.
    text: Option<String>,
    /// paste: mark it as pasted, as terminals do; true when absent.
    bracketed: Option<bool>,
    /// log: the first line, from 0; the last ones when absent.
    offset: Option<usize>,
    /// log: how many lines.
    limit: Option<usize>,
}

impl Arguments {
    fn read(args: &Value) -> Result<Self, ToolFailure> {
        Self::deserialize(args).map_err(|error| ToolFailure::arguments(error.to_string()))
    }

    fn risk(&self) -> Risk {
        match self.action {
            Action::List | Action::Poll | Action::Log => Risk::Read,
            Action::Kill | Action::Clear | Action::Remove => Risk::Write,
            Action::Write | Action::Submit | Action::SendKeys | Action::Paste => Risk::Execute,
        }
    }

    /// What it would send; nothing for what does not send.
    fn input(&self, pty: bool) -> Result<Option<Input>, ToolFailure> {
        let input = match self.action {
            Action::Write => input::write(self.data.as_deref(), self.eof, pty),
            Action::Submit => input::submit(self.data.as_deref(), pty),
            Action::Paste => input::paste(self.text.as_deref(), self.bracketed.unwrap_or(true), pty),
            Action::SendKeys => input::keys(&Keys {
                literal: self.literal.clone(),
                hex: self.hex.clone(),
                tokens: self.keys.clone(),
            }),
            _ => return Ok(None),
        };
        input.map(Some).map_err(ToolFailure::arguments)
    }
}

/// Looks after what [`super::ExecTool`] left in the background.
pub struct ProcessTool {
    spec: ToolSpec,
    processes: Arc<Processes>,
}

impl ProcessTool {
    pub fn new(processes: Arc<Processes>) -> Self {
        let description = "Looks after commands that exec left running in the background.";
        let spec = ToolSpec {
            risk: Risk::Execute,
            idempotent: false,
            ..ToolSpec::of::<Arguments>("process", description)
        };
        Self { spec, processes }
    }

    fn named(&self, owner: &Owner, arguments: &Arguments) -> Result<Arc<Started>, ToolFailure> {
        let name = arguments.session_id.as_deref();
        let name = name.ok_or_else(|| ToolFailure::arguments("sessionId: say which process"))?;
        let found = self.processes.get(owner, name);
        found.ok_or_else(|| ToolFailure::execution(format!("there is no process {name:?}")))
    }

    fn list(&self, owner: &Owner) -> Output {
        let all = self.processes.list(owner);
        let lines: Vec<_> = all.iter().map(|started| line(started)).collect();
        let text =
            if lines.is_empty() { "(nothing runs in the background)".to_owned() } else { lines.join("\n") };
        let data: Vec<_> = all.iter().map(|started| facts(started)).collect();
        Output::text(text).with_data(json!({ "processes": data }))
    }

    async fn end(&self, started: &Started, action: Action) -> Result<Output, ToolFailure> {
        let name = &started.name;
        if action == Action::Clear && started.end().is_none() {
            return Err(ToolFailure::execution(format!("{name} still runs; kill or remove it")));
        }
        started.stop().await;
        if action == Action::Kill {
            return Ok(Output::text(format!("{name}: {}", how(started))).with_data(facts(started)));
        }
        self.processes.forget(started);
        Ok(Output::text(format!("{name} is forgotten")).with_data(facts(started)))
    }
}

#[async_trait]
impl Tool for ProcessTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, args: &Value, place: &Place) -> Result<Preparation, ToolFailure> {
        let arguments = Arguments::read(args)?;
        let mut preparation = Preparation { risk: Some(arguments.risk()), ..Preparation::default() };
        if arguments.action == Action::List {
            return Ok(preparation);
        }
        let started = self.named(&Owner::of(&place.requester), &arguments)?;
        unleaked_command(place, args).await?;
        if let Some(input) = arguments.input(started.pty)? {
            can_be_written_to(&started)?;
            preparation.preview = Some(format!(
                "input for {} ({}):\n{}",
                started.name,
                started.command.escape_debug(),
                input.shown()
            ));
            preparation.conditions = vec![(PROCESS.to_owned(), started.identity())];
        }
        Ok(preparation)
    }

    async fn run(&self, permitted: &Permitted, _work: &Work<'_>) -> Result<Output, ToolFailure> {
        let prepared = permitted.prepared();
        let arguments = Arguments::read(prepared.args())?;
        let owner = Owner::of(prepared.requester());
        if arguments.action == Action::List {
            return Ok(self.list(&owner));
        }
        let started = self.named(&owner, &arguments)?;
        if let Some(input) = arguments.input(started.pty)? {
            let same = |(name, found): &(String, String)| name == PROCESS && *found == started.identity();
            if !prepared.conditions().iter().any(same) {
                return Err(ToolFailure::execution("the process is no longer the one that was permitted"));
            }
            return send(&started, &input).await;
        }
        match arguments.action {
            Action::Poll => Ok(poll(&started)),
            Action::Log => Ok(log(&started, &arguments)),
            action => self.end(&started, action).await,
        }
    }
}

fn can_be_written_to(started: &Started) -> Result<(), ToolFailure> {
    if started.end().is_some() {
        return Err(ToolFailure::execution(format!("{} has ended", started.name)));
    }
    if !started.input {
        return Err(ToolFailure::execution(format!(
            "{} has no input; start it with background or pty to write to it",
            started.name
        )));
    }
    Ok(())
}

async fn send(started: &Started, input: &Input) -> Result<Output, ToolFailure> {
    can_be_written_to(started)?;
    let sending = async {
        if !input.bytes.is_empty() {
            started.running.write(&input.bytes).await?;
        }
        if input.ends { started.running.close_input().await } else { Ok(()) }
    };
    let sent = tokio::time::timeout(WRITING, sending).await;
    let sent =
        sent.map_err(|_| ToolFailure::execution(format!("{} does not read its input", started.name)))?;
    sent.map_err(|error| ToolFailure::execution(error.to_string()))?;
    let text = format!("{} bytes sent to {}; poll to see what comes of it", input.bytes.len(), started.name);
    Ok(Output::text(text).with_data(json!({ "sessionId": started.name, "bytes": input.bytes.len() })))
}

fn poll(started: &Started) -> Output {
    // The end first: what a program wrote before it ended is then in the output that is read after.
    let state = how(started);
    let mut data = facts(started);
    let output = started.output.poll();
    data["output"] = output.clone().into();
    let text = if output.is_empty() { "(no new output)".to_owned() } else { output };
    Output::text(format!("{text}\n{}: {state}", started.name)).with_data(data)
}

fn log(started: &Started, arguments: &Arguments) -> Output {
    let lines = started.output.lines(arguments.offset, arguments.limit.unwrap_or(LOG_LINES));
    let mut data = facts(started);
    data["output"] = lines.text.clone().into();
    data["offset"] = lines.offset.into();
    data["lines"] = lines.count.into();
    data["totalLines"] = lines.total.into();
    let mut text = format!(
        "{}\n(lines {} to {} of {}",
        lines.text,
        lines.offset,
        lines.offset + lines.count,
        lines.total
    );
    if lines.gone > 0 {
        text.push_str("; older ones are gone");
    }
    text.push(')');
    Output { truncated: lines.gone > 0, ..Output::text(text).with_data(data) }
}

/// `running for 12 s`, `completed after 3 s`, `failed after 3 s: it ended with exit code 1`.
fn how(started: &Started) -> String {
    let seconds = started.runs_for().as_secs();
    match started.end() {
        None => format!("running for {seconds} s"),
        Some(end) => {
            let trouble = trouble(&end).map(|trouble| format!(": {trouble}")).unwrap_or_default();
            format!("{} after {seconds} s{trouble}", status(Some(&end)))
        }
    }
}

fn line(started: &Started) -> String {
    let first = started.command.lines().next().unwrap_or_default();
    let shown: String = first.chars().filter(|c| super::clean::is_kept(*c)).take(80).collect();
    format!("{}  {}  {shown}", started.name, how(started))
}

fn facts(started: &Started) -> Value {
    let end = started.end();
    json!({
        "sessionId": started.name,
        "status": status(end.as_ref()),
        "command": started.command,
        "cwd": started.cwd,
        "pid": started.running.pid(),
        "pty": started.pty,
        "startedAt": started.began_at,
        "durationMs": milliseconds(started.runs_for()),
        "exitCode": end.as_ref().map_or(Value::Null, exit_code),
    })
}
