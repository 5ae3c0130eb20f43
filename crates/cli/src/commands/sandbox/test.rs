//! `sandbox test`: runs a program as an agent's programs are held, so that one sees what it can and cannot do.

use std::fs::DirBuilder;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tidegate_policy::exec::{Plan, PlanPlace};
use tidegate_policy::{
    Confinement, Confiner as _, Exit, PermittedPlan, Principal, Profile, Refusal, Requester, RunError, Sink,
    Start, Stream,
};
use tidegate_protocol::ErrorCode;
use tidegate_sandbox::Sandboxes;
use tidegate_tools::{Disk, Place};

use super::refusals::Refusals;
use super::{Known, access, amount, limits, named_profile, network, real};
use crate::Outcome;
use crate::app::App;
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::failure::{Failure, Message};
use crate::output::{complain, print_json};
use crate::sandboxes::sandboxes;
use crate::texts::sandbox as words;
use crate::toolbox::bare;

/// Bytes of each stream that are kept where they are told in one piece.
const MOST_KEPT: usize = 1 << 20;

pub(in crate::commands) fn test(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let mut known = Known::new(app, parsed)?;
    if let Some(profile) = named_profile(command, parsed)? {
        known.confinement.profile = profile;
    }
    if !known.confinement.folder.is_dir() {
        // The agent may not have worked yet.
        DirBuilder::new().recursive(true).mode(0o700).create(&known.confinement.folder)?;
        known.confinement.folder = real(&known.confinement.folder)?;
    }
    let sandboxes = sandboxes(app, &known.home, &known.settings)?;
    let plan = plan(app, &known, &sandboxes, &parsed.arguments)?;
    let json = parsed.has("json");
    if known.confinement.profile == Profile::None {
        let key = parsed.value("profile").map_or(known.keys.profile.as_str(), |_| "--profile");
        complain(&bare(app, known.scope.agent.as_str(), key));
    } else if !json {
        complain(&app.output.dim(&held(app, &known.confinement)));
    }
    let kept = json.then(Mutex::default);
    let seen = Arc::new(Seen { watches: Refusals::are_seen(&known.confinement), kept, ..Seen::default() });
    let exit = block_on(async { run(&sandboxes, &known.confinement, &plan, &seen).await.map_err(refused) })?;
    let end = end(app, &exit)?;
    if json {
        print_json(&told_json(app, &known, &seen, &exit))?;
    } else {
        for line in seen.refusals.told(app, &known.confinement, &known.keys) {
            complain(&app.output.dim(&line));
        }
        complain(&app.output.dim(&app.fill(words::ENDED, &[("end", &end)])));
    }
    Ok(match exit {
        Exit::Code(code) => u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from),
        // As shells tell it.
        Exit::Signal(signal) => u8::try_from(128 + signal).map_or(ExitCode::FAILURE, ExitCode::from),
        _ => ExitCode::FAILURE,
    })
}

fn told_json(app: &App, known: &Known, seen: &Seen, exit: &Exit) -> Value {
    let [stdout, stderr] = seen.kept.as_ref().map(kept_text).unwrap_or_default();
    let mut told = json!({
        "confinement": known.confinement,
        "stdout": stdout,
        "stderr": stderr,
        "exitCode": Value::Null,
        "refused": seen.refusals.json(app, &known.confinement, &known.keys),
    });
    match exit {
        Exit::Code(code) => told["exitCode"] = json!(code),
        Exit::Signal(signal) => told["signal"] = json!(signal),
        Exit::Limit { what, limit } => told["limit"] = json!({ "what": what, "limit": limit }),
        Exit::Killed | Exit::Failed(_) => {}
    }
    told
}

fn kept_text(kept: &Mutex<[Vec<u8>; 2]>) -> [String; 2] {
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.each_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn held(app: &App, confinement: &Confinement) -> String {
    let [memory, processes, disk] = limits(app, confinement);
    let values: [(&str, &dyn std::fmt::Display); 7] = [
        ("profile", &confinement.profile.name()),
        ("folder", &confinement.folder.display()),
        ("access", &access(app, confinement)),
        ("network", &network(app, confinement)),
        ("memory", &memory),
        ("processes", &processes),
        ("disk", &disk),
    ];
    app.fill(words::HELD, &values)
}

/// The person at the keyboard named the program; nothing in it comes from anybody else.
fn plan(app: &App, known: &Known, sandboxes: &Sandboxes, words: &[String]) -> Result<Plan, Failure> {
    let Known { settings, scope, confinement, home, .. } = known;
    let mut env = settings.command_env(|name| app.env.get(name).map(str::to_owned));
    if let Some(search) = env.get_mut("PATH") {
        let shown = search.split(':').filter(|folder| sandboxes.shows(confinement, Path::new(folder)));
        *search = shown.collect::<Vec<_>>().join(":");
    }
    let cwd = confinement.folder.to_string_lossy().into_owned();
    let place = Place {
        requester: Requester {
            scope: scope.clone(),
            session: "cli".to_owned(),
            actor: Principal::local_owner(scope.tenant.clone()).actor().to_owned(),
            root: cwd.clone(),
        },
        root: confinement.folder.clone(),
        forbidden: vec![home.root().to_owned()],
        env: env.clone(),
        background: false,
        egress: tidegate_net::Egress::default(),
    };
    let at = PlanPlace { cwd, env, added_env: std::collections::BTreeMap::new() };
    Plan::of_argv(words.to_vec(), at, &Disk::new(&place))
        .map_err(|error| Failure::new(ErrorCode::InvalidValue, Message::plain(error.to_string())))
}

async fn run(
    sandboxes: &Sandboxes,
    confinement: &Confinement,
    plan: &Plan,
    seen: &Arc<Seen>,
) -> Result<Exit, RunError> {
    let runner = sandboxes.runner(confinement)?;
    let sink: Arc<dyn Sink> = seen.clone();
    let running = runner.start(PermittedPlan::of_operator(plan), Start::default(), sink).await?;
    Ok(running.wait().await)
}

fn end(app: &App, exit: &Exit) -> Result<String, Failure> {
    Ok(match exit {
        Exit::Code(code) => app.fill(words::ENDED_CODE, &[("code", code)]),
        Exit::Signal(signal) => app.fill(words::ENDED_SIGNAL, &[("signal", signal)]),
        Exit::Limit { what, limit } => {
            app.fill(words::ENDED_LIMIT, &[("limit", &amount(app, *what, *limit))])
        }
        Exit::Killed => app.say(words::ENDED_KILLED).to_owned(),
        Exit::Failed(error) => return Err(refused(error.clone())),
    })
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that mapping an error has")]
fn refused(error: RunError) -> Failure {
    Failure::new(ErrorCode::Unavailable, Message::plain(error.to_string()))
}

/// What a program prints is printed, or kept for whoever wants it in one piece; what it is refused is kept.
#[derive(Default)]
struct Seen {
    watches: bool,
    refusals: Refusals,
    /// Both streams, up to a limit.
    kept: Option<Mutex<[Vec<u8>; 2]>>,
}

impl Sink for Seen {
    fn wants_refusals(&self) -> bool {
        self.watches
    }

    fn refused(&self, refusal: &Refusal) {
        self.refusals.add(refusal);
    }

    fn turned_away(&self, host: &str, why: &str) {
        self.refusals.turned_away(host, why);
    }

    fn write(&self, stream: Stream, bytes: &[u8]) {
        if let Some(kept) = &self.kept {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let into = match stream {
                Stream::Stdout => &mut kept[0],
                Stream::Stderr => &mut kept[1],
            };
            let room = MOST_KEPT.saturating_sub(into.len());
            into.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return;
        }
        // Whoever does not read any more is not told either.
        let _ = match stream {
            Stream::Stdout => std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush()),
            Stream::Stderr => std::io::stderr().write_all(bytes),
        };
    }
}
