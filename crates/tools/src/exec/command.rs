//! The `exec` tool: runs a command in the workspace.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tidegate_policy::exec::{Plan, PlanPlace};
use tidegate_policy::{Permitted, Preparation, PtySize, Start, Subject, SubjectKind};
use tidegate_protocol::Risk;

use super::lookup::Disk;
use super::processes::{Foreground, Order, Processes};
use super::started::Owner;
use super::{folder, outcome};
use crate::execute::deadline;
use crate::place::Place;
use crate::spec::ToolSpec;
use crate::tool::{Output, Tool, ToolFailure, Work};
use crate::web::unleaked_command;

/// What only the operator decides. A call that names one of these is told so instead of being half obeyed.
const OPERATORS: [&str; 5] = ["elevated", "host", "security", "ask", "node"];

const TERMINAL: PtySize = PtySize { columns: 120, rows: 30 };
const YIELD_RANGE: std::ops::RangeInclusive<u64> = 10..=120_000;
const LONGEST_TIMEOUT: Duration = Duration::from_hours(24);
/// How often people who watch are told what came.
const UPDATE_EVERY: Duration = Duration::from_millis(250);

/// More variables than this are no sensible call.
const MOST_VARIABLES: usize = 64;
const LONGEST_VARIABLE: usize = 32 * 1024;

/// How commands run when a call does not say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecSettings {
    /// A command is killed after this.
    pub timeout: Duration,
    /// A call waits so long before its command goes on in the background.
    pub yield_after: Duration,
}

impl Default for ExecSettings {
    fn default() -> Self {
        Self { timeout: Duration::from_mins(30), yield_after: Duration::from_secs(10) }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The command line. Plain commands joined by &&, ||, ; and | run without a shell; anything else needs one.
    command: String,
    /// The folder to start in, relative to the workspace.
    workdir: Option<String>,
    /// Variables to add to the environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Milliseconds to wait before the command goes on in the background.
    yield_ms: Option<u64>,
    /// Do not wait at all; the process tool can write to it.
    #[serde(default)]
    background: bool,
    /// Seconds after which the command is killed.
    #[schemars(range(min = 1, max = 86_400))]
    timeout: Option<u64>,
    /// Run it in a terminal, for programs that need one.
    #[serde(default)]
    pty: bool,
}

impl Arguments {
    fn read(args: &Value) -> Result<Self, ToolFailure> {
        if let Some(name) = OPERATORS.into_iter().find(|name| args.get(name).is_some()) {
            return Err(ToolFailure::arguments(format!(
                "{name}: only the operator sets this, in the configuration"
            )));
        }
        let read: Self =
            Self::deserialize(args).map_err(|error| ToolFailure::arguments(error.to_string()))?;
        check_variables(&read.env)?;
        if read.timeout == Some(0) {
            return Err(ToolFailure::arguments("timeout: a command has at least 1 second"));
        }
        Ok(read)
    }

    fn timeout(&self, settings: &ExecSettings) -> Duration {
        self.timeout.map_or(settings.timeout, Duration::from_secs).min(LONGEST_TIMEOUT)
    }

    /// After how long the caller is sent away; absent where nobody could look after what runs on.
    fn yield_after(&self, settings: &ExecSettings, place: &Place) -> Option<Duration> {
        let chosen =
            |given: u64| Duration::from_millis(given.clamp(*YIELD_RANGE.start(), *YIELD_RANGE.end()));
        let waits = self.yield_ms.map_or(settings.yield_after, chosen);
        place.background.then_some(if self.background { Duration::ZERO } else { waits })
    }
}

fn check_variables(env: &BTreeMap<String, String>) -> Result<(), ToolFailure> {
    if env.len() > MOST_VARIABLES {
        return Err(ToolFailure::arguments(format!("env: more than {MOST_VARIABLES} variables")));
    }
    for (name, value) in env {
        if !is_variable(name) {
            return Err(ToolFailure::arguments(format!("env: {name:?} is no name of a variable")));
        }
        if value.contains('\0') || value.len() > LONGEST_VARIABLE {
            return Err(ToolFailure::arguments(format!("env: the value of {name} cannot be passed on")));
        }
    }
    Ok(())
}

/// Whether a shell could have a variable of this name.
pub(crate) fn is_variable(name: &str) -> bool {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    letters && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// Runs commands.
pub struct ExecTool {
    spec: ToolSpec,
    settings: ExecSettings,
    processes: Arc<Processes>,
}

impl ExecTool {
    pub fn new(settings: ExecSettings, processes: Arc<Processes>) -> Self {
        let description = "Runs a command in the workspace and returns its output. A command that takes longer \
                           goes on in the background; the process tool looks after it.";
        let spec = ToolSpec {
            aliases: vec!["bash".to_owned(), "bash.exec".to_owned()],
            risk: Risk::Execute,
            idempotent: false,
            // A command has its own time, also when nobody waits for it any more.
            timeout: None,
            ..ToolSpec::of::<Arguments>("exec", description)
        };
        Self { spec, settings, processes }
    }
}

#[async_trait]
impl Tool for ExecTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, args: &Value, place: &Place) -> Result<Preparation, ToolFailure> {
        let arguments = Arguments::read(args)?;
        if arguments.background && !place.background {
            return Err(ToolFailure::arguments(
                "background: nobody could look after it here; leave it out and wait for the end",
            ));
        }
        unleaked_command(place, args).await?;
        let place = place.clone();
        let looking =
            tidegate_runtime::spawn_blocking("prepare command", move || prepare(&arguments, &place));
        looking.join().await.map_err(|end| ToolFailure::execution(end.to_string()))?
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        let arguments = Arguments::read(permitted.prepared().args())?;
        let plan = permitted.plan().ok_or_else(|| ToolFailure::execution("the call has no command"))?;
        folder::check(permitted, work.place).await?;
        let pty = arguments.pty.then_some(TERMINAL);
        let order = Order {
            owner: Owner::of(permitted.prepared().requester()),
            command: arguments.command.clone(),
            // Whoever waits for the end cannot write to it: a program that reads its input finds the end at once.
            start: Start { pty, input: arguments.pty || arguments.background },
            timeout: arguments.timeout(&self.settings),
        };
        let foreground = self.processes.start(work.runner, plan, order).await?;
        attend(&foreground, arguments.yield_after(&self.settings, work.place), work).await
    }
}

fn prepare(arguments: &Arguments, place: &Place) -> Result<Preparation, ToolFailure> {
    let folder = folder::find(place, arguments.workdir.as_deref())?;
    let mut env = place.env.clone();
    if arguments.pty {
        env.insert("TERM".to_owned(), "xterm-256color".to_owned());
    }
    env.extend(arguments.env.clone());
    let plan_place = PlanPlace { cwd: folder.path.clone(), env, added_env: arguments.env.clone() };
    let plan = Plan::of_script(&arguments.command, plan_place, &Disk::new(place))
        .map_err(|error| outcome::plan_failure(&error))?;
    Ok(Preparation {
        subjects: vec![Subject::new(SubjectKind::Path, folder.relative.clone())],
        plan: Some(plan),
        conditions: vec![folder.condition()],
        ..Preparation::default()
    })
}

/// Waits for the end, but not for ever: after a while the command goes on without the caller, or its time is over.
async fn attend(
    foreground: &Foreground,
    patience: Option<Duration>,
    work: &Work<'_>,
) -> Result<Output, ToolFailure> {
    let started = foreground.started();
    let patience = deadline(patience);
    tokio::pin!(patience);
    let mut told = 0;
    loop {
        tokio::select! {
            biased;
            end = started.wait() => return outcome::result_of(&started.output, &end),
            () = work.cancel.cancelled() => {
                started.stop().await;
                return Err(ToolFailure::execution("it was stopped"));
            }
            () = &mut patience => {
                if foreground.put_in_background() {
                    return Ok(outcome::running_on(started));
                }
                let end = started.wait().await;
                return outcome::result_of(&started.output, &end);
            }
            () = tokio::time::sleep(UPDATE_EVERY) => {
                let (news, until) = started.output.since(told);
                told = until;
                if !news.is_empty() {
                    (work.update)(&news);
                }
            }
        }
    }
}
