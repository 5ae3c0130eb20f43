//! `up` and `gateway`: the process that stays.

mod call;
mod hold;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_channels::local::{self, Local};
use tidegate_client::{Client, ClientError};
use tidegate_config::schema::Bind;
use tidegate_config::{Loaded, Origin};
use tidegate_engine::{Drain, Engine, Home, HomeLock, Options, Settings, StoredStandings, Wish};
use tidegate_gateway::{ServeError, Server, ServerOptions};
use tidegate_policy::Profile;
use tidegate_protocol::api::LoginLink;
use tidegate_protocol::{Connector, ErrorCode, RunState, SessionKey};
use tidegate_runtime::{Shutdown, SystemClock, fault};
use tidegate_sandbox::Sandboxes;

pub(super) use self::call::call;
use self::hold::{hold, mention_holder};
use super::channels::without_connector;
use super::{block_on, first_run};
use crate::app::{App, config_file, home_of, now_ms};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, Message, With as _};
use crate::output::{complain, print, print_json, print_line, printable, table};
use crate::registry::registry;
use crate::sandboxes::sandboxes;
use crate::signals::Signals;
use crate::store::{Access, open_to_stay};
use crate::toolbox::{mention_bare, toolbox};
use crate::{Outcome, log, texts};

/// How long a live gateway may take for a small answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Undelivered parts that are named one by one at the start.
const NAMED: usize = 10;

pub(super) fn run(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    host(app, command, parsed, &home, false)
}

/// Sets up what is missing, then runs. Where a gateway runs already, only a new link is wanted.
pub(super) fn up(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let made = first_run::prepare(&home)?;
    if made && !parsed.has("json") {
        let file = home.config_file();
        let values: [(&str, &dyn std::fmt::Display); 2] =
            [("home", &home.root().display()), ("file", &file.display())];
        print_line(&app.fill(texts::UP_FIRST, &values))?;
    }
    if let Ok(link) = block_on(fresh_link(&home)) {
        let live = block_on(live_status(&home))?.unwrap_or_default();
        if parsed.has("json") {
            print_line(&json!({ "url": live["address"], "link": link, "pid": live["pid"] }).to_string())?;
            return Ok(ExitCode::SUCCESS);
        }
        let at = live["address"].as_str().unwrap_or_default();
        print_line(&app.fill(texts::UP_RUNNING, &[("url", &at)]))?;
        return show_link(app, parsed, &link);
    }
    host(app, command, parsed, &home, true)
}

/// Runs the gateway until a signal, a request or a failure ends it.
fn host(app: &App, command: &'static Command, parsed: &Parsed, home: &Home, link: bool) -> Outcome {
    let loaded = app.config(home)?;
    let port = port(command, parsed, &loaded)?;
    log::start(loaded.config.logging.level, &home.logs());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let lock = hold(home).await?;
        let host = Host::start(app, home, &loaded, lock, port).await?;
        // Whoever reads that it is there may stop it at once.
        let signals = Signals::listen()?;
        host.report(app, parsed, link).await?;
        host.serve(app, parsed, signals).await
    });
    // Nothing is torn down under a run that did not come to its end: it would take that for a failure and write it
    // down. The process ends with it, and the next start settles it like after a crash.
    std::mem::forget(runtime);
    outcome
}

fn port(command: &'static Command, parsed: &Parsed, loaded: &Loaded) -> Result<u16, Failure> {
    let Some(text) = parsed.value("port") else { return Ok(loaded.config.gateway.port) };
    text.parse().map_err(|_| {
        let message = texts::INVALID_PORT.with(&[("value", &text)]);
        Failure::new(ErrorCode::InvalidValue, message).with_usage(command)
    })
}

/// Finds out what can hold programs, and notes it where somebody looks who wonders.
async fn test_sandboxes(sandboxes: Arc<Sandboxes>, wanted: Profile) {
    let reports = sandboxes.report_on(|profile| profile == wanted || profile != Profile::Microvm).await;
    for report in &reports {
        let (backend, detail) = (report.backend, report.probe.detail());
        tracing::info!(
            profile = report.profile.name(),
            backend,
            works = report.probe.works(),
            detail,
            "sandbox"
        );
    }
    let works = reports.iter().any(|report| report.profile == wanted && report.probe.works());
    if wanted != Profile::None && !works {
        tracing::warn!(
            profile = wanted.name(),
            "no sandbox of the configured profile works: programs are refused"
        );
    }
}

/// The gateway of this process.
struct Host {
    engine: Engine,
    port: Server,
    control: Server,
    /// Asked for through the control socket.
    stop: Shutdown,
    drain: Duration,
}

impl Host {
    async fn start(
        app: &App,
        home: &Home,
        loaded: &Loaded,
        lock: HomeLock,
        port: u16,
    ) -> Result<Self, Failure> {
        config_file(home).activate(loaded, now_ms())?;
        for channel in without_connector(&loaded.config) {
            complain(&app.fill(texts::CHANNEL_NOT_YET, &[("channel", &channel)]));
        }
        let ip = match loaded.config.gateway.bind {
            Bind::Loopback => [127, 0, 0, 1],
            Bind::Lan => [0, 0, 0, 0],
        };
        // Before anything is received or answered.
        tidegate_gateway::check_port((ip, port).into())?;
        let store = open_to_stay(home, &loaded.config, Access::Write).await?;
        let settings = Settings::new(loaded);
        let scope = settings.scope(None)?;
        let main = SessionKey::named(scope.clone(), "main").to_string();
        mention_bare(app, &settings, &scope, &main);
        let sandboxes = Arc::new(sandboxes(app, home, &settings)?);
        let standings = Arc::new(StoredStandings::new(Arc::clone(&store), scope.tenant.clone()));
        let options = Options {
            connectors: connectors(loaded, home, &scope),
            stays: true,
            models: Arc::new(registry(app, home, loaded, standings)),
            toolbox: toolbox(app, home, &settings, Arc::clone(&sandboxes))?,
            ..Options::passing(scope.tenant.clone(), settings)
        };
        let profile = options.settings.profile(&scope, &main);
        let engine = Engine::start(lock, store, Arc::new(SystemClock), options).await?;
        let stop = Shutdown::new();
        let options = ServerOptions {
            address: (ip, port).into(),
            token: home.local_token(),
            hosts: loaded.config.gateway.hosts.clone(),
            stop: stop.clone(),
        };
        let (port, control) =
            tidegate_gateway::serve(engine.clone(), options, &home.control_socket()).await?;
        // Nobody waits for it, so it does not stand in the way of whoever waits for the gateway.
        drop(tidegate_runtime::spawn("sandbox self-test", test_sandboxes(sandboxes, profile)));
        let drain = Duration::from_secs(u64::from(loaded.config.gateway.drain_seconds));
        fault::pause("cli.gateway.listening").await;
        Ok(Self { engine, port, control, stop, drain })
    }

    /// Says where it is, and what the owner should know.
    async fn report(&self, app: &App, parsed: &Parsed, link: bool) -> Result<(), Failure> {
        let url = self.port.url();
        let link = if link { Some(self.port.login_link()?) } else { None };
        if parsed.has("json") {
            // One line: whoever started it reads exactly that.
            print_line(&json!({ "url": url, "link": link, "pid": std::process::id() }).to_string())?;
        } else {
            let channels = self.engine.channels();
            let names: Vec<String> =
                channels.iter().map(|channel| format!("{}:{}", channel.channel, channel.account)).collect();
            let names = if names.is_empty() {
                app.say(texts::GATEWAY_NO_CHANNELS).to_owned()
            } else {
                names.join(", ")
            };
            let version = env!("CARGO_PKG_VERSION");
            print_line(&app.fill(texts::GATEWAY_LISTENS, &[("version", &version), ("url", &url)]))?;
            let home = self.engine.home().root().display().to_string();
            print_line(&app.fill(texts::GATEWAY_HOME, &[("home", &home), ("channels", &names)]))?;
            if let Err(error) = self.usable_model() {
                complain(&app.fill(texts::UP_NO_MODEL, &[("cause", &error)]));
            } else if self.engine.settings().is_offline() {
                print_line(app.say(texts::UP_OFFLINE))?;
            }
            if let Some(link) = link {
                print_line("")?;
                print_line(app.say(texts::UP_LINK))?;
                print_line(&format!("  {}", app.output.bold(&link)))?;
                print_line("")?;
            }
            print_line(&app.fill(texts::GATEWAY_STOP_HINT, &[("seconds", &self.drain.as_secs())]))?;
        }
        if let Err(failure) = self.boot_report(app).await {
            // It is told at the next start; that is no reason not to serve.
            complain(&format!("[{}] {failure}", failure.code));
        }
        Ok(())
    }

    /// Whether the default agent can answer at all.
    fn usable_model(&self) -> Result<(), tidegate_engine::SettingsError> {
        let settings = self.engine.settings();
        settings.run_spec(&settings.scope(None)?, &Wish::default()).map(drop)
    }

    /// What was left behind, and what could not be delivered while nobody was here to tell.
    async fn boot_report(&self, app: &App) -> Result<(), Failure> {
        let runs = &self.engine.recovered().runs;
        let count = |state: &RunState| runs.iter().filter(|run| run.state == *state).count();
        let (resumed, interrupted) = (count(&RunState::Queued), count(&RunState::Interrupted));
        if resumed > 0 {
            complain(&app.fill(texts::BOOT_RESUMED, &[("count", &resumed)]));
        }
        if interrupted > 0 {
            let values: [(&str, &dyn std::fmt::Display); 2] =
                [("count", &interrupted), ("program", &app.program)];
            complain(&app.fill(texts::INTERRUPTED_RUNS, &values));
        }
        let rows = self.engine.undelivered(1000).await?;
        if rows.is_empty() {
            return Ok(());
        }
        complain(&app.fill(texts::BOOT_UNDELIVERED, &[("count", &rows.len()), ("program", &app.program)]));
        for row in rows.iter().take(NAMED) {
            let reason = row.reason.as_deref().unwrap_or_default();
            let values: [(&str, &dyn std::fmt::Display); 3] =
                [("state", &row.state.as_str()), ("lane", &row.lane), ("reason", &reason)];
            complain(&printable(&app.fill(texts::BOOT_PART, &values)));
        }
        Ok(self.engine.told(&rows).await?)
    }

    async fn serve(self, app: &App, parsed: &Parsed, mut signals: Signals) -> Outcome {
        let failed = tokio::select! {
            _ = signals.next() => None,
            () = self.stop.requested() => None,
            error = self.engine.failed() => Some(error),
        };
        let quiet = parsed.has("json");
        if failed.is_none() && !quiet {
            complain(&app.fill(texts::GATEWAY_DRAINING, &[("seconds", &self.drain.as_secs())]));
        }
        let drained = tokio::select! {
            drained = self.drain(failed.is_some()) => drained,
            // Whatever is under way is settled by the next start, like after a crash.
            code = signals.next() => return Ok(ExitCode::from(code)),
        };
        if let Some(error) = failed {
            let message = texts::GATEWAY_FAILED.with(&[("cause", &error)]);
            return Err(Failure::new(error.code(), message));
        }
        if !quiet && drained > 0 {
            complain(&app.fill(texts::GATEWAY_STOPPED, &[("count", &drained)]));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Ends in good order. The port stays open until runs have ended: it says that nothing new is taken.
    async fn drain(&self, failed: bool) -> usize {
        let budget = if failed { Duration::ZERO } else { self.drain };
        let drained = self.engine.close(Drain::Within(budget)).await;
        for server in [&self.port, &self.control] {
            server.stop_listening();
        }
        for server in [&self.port, &self.control] {
            let _ = tokio::time::timeout(Duration::from_secs(2), server.drained()).await;
        }
        drained.given_back
    }
}

fn connectors(loaded: &Loaded, home: &Home, scope: &tidegate_protocol::Scope) -> Vec<Arc<dyn Connector>> {
    let Some(section) = &loaded.config.channels.local else { return Vec::new() };
    local::from_config(section, &home.channels())
        .into_iter()
        .map(|settings| -> Arc<dyn Connector> {
            let (tenant, workspace) = (scope.tenant.clone(), scope.workspace.clone());
            Arc::new(Local::new(settings, Arc::new(SystemClock), tenant, workspace))
        })
        .collect()
}

async fn fresh_link(home: &Home) -> Result<String, Failure> {
    let client = Client::control(home.control_socket());
    let link: LoginLink =
        client.post("/api/v1/login-links", &Value::Null, ANSWER).await.map_err(not_running)?;
    Ok(link.link)
}

pub(super) fn not_running(error: ClientError) -> Failure {
    match error.body().code {
        // Whoever holds the home without a port is no gateway.
        ErrorCode::Unavailable | ErrorCode::Closing => {
            Failure::new(ErrorCode::GatewayStopped, texts::GATEWAY_NOT_RUNNING.with(&[]))
                .with_hint(texts::GATEWAY_NOT_RUNNING_HINT.with(&[("program", &"{program}")]))
        }
        _ => error.into(),
    }
}

fn show_link(app: &App, parsed: &Parsed, link: &str) -> Outcome {
    if parsed.has("json") {
        print_line(&json!({ "link": link }).to_string())?;
    } else {
        print_line(app.say(texts::UP_LINK))?;
        print_line(&format!("  {}", app.output.bold(link)))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn link(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    app.config(&home)?;
    let link = block_on(fresh_link(&home))?;
    show_link(app, parsed, &link)
}

/// What the gateway of this home says about itself; `None` when none runs.
pub(super) async fn live_status(home: &Home) -> Result<Option<Value>, Failure> {
    match Client::control(home.control_socket()).status(ANSWER).await {
        // A command that holds the home for a moment is no gateway.
        Ok(status) if status["address"].is_null() => Ok(None),
        Ok(status) => Ok(Some(status)),
        Err(ClientError::Nobody { .. } | ClientError::Closing { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn status(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let live = block_on(live_status(&home))?;
    if parsed.has("json") || !app.output.terminal {
        let mut value = live.clone().unwrap_or_else(|| json!({ "pid": null }));
        value["running"] = json!(live.is_some());
        value["status"] = json!(if live.is_some() { "running" } else { "stopped" });
        print_json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(live) = live else {
        print_line(&format!(
            "{}. {}",
            app.say(texts::GATEWAY_NOT_RUNNING),
            app.fill(texts::GATEWAY_NOT_RUNNING_HINT, &[("program", &app.program)])
        ))?;
        mention_holder(app, &home);
        return Ok(ExitCode::SUCCESS);
    };
    let text = |key: &str| match &live[key] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut rows = vec![
        vec![app.output.dim(app.say(texts::STATUS_GATEWAY)), text("address")],
        vec![app.output.dim(app.say(texts::STATUS_VERSION)), text("version")],
        vec![app.output.dim("pid"), text("pid")],
    ];
    if let Origin::LastGood { revision, .. } = &loaded.origin {
        rows.push(vec![app.output.dim(app.say(texts::STATUS_CONFIG)), format!("revision {revision}")]);
    }
    for service in live["services"].as_array().into_iter().flatten() {
        let word = |key: &str| printable(service[key].as_str().unwrap_or_default());
        rows.push(vec![app.output.dim(&word("name")), word("state")]);
    }
    for problem in live["problems"].as_array().into_iter().flatten() {
        rows.push(vec!["!".to_owned(), problem.as_str().unwrap_or_default().to_owned()]);
    }
    print(&table(&rows))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn stop(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let patience = Duration::from_secs(u64::from(loaded.config.gateway.drain_seconds) + 10);
    block_on(async {
        let Some(live) = live_status(&home).await? else {
            if parsed.has("json") {
                print_json(&json!({ "stopped": false, "running": false }))?;
            } else {
                print_line(app.say(texts::GATEWAY_ALREADY_STOPPED))?;
                mention_holder(app, &home);
            }
            return Ok(ExitCode::SUCCESS);
        };
        let client = Client::control(home.control_socket());
        client.post::<Value>("/api/v1/stop", &Value::Null, ANSWER).await.map_err(not_running)?;
        if !parsed.has("json") {
            complain(&app.fill(texts::GATEWAY_STOPPING, &[("pid", &live["pid"])]));
        }
        let begin = Instant::now();
        while home.holder().is_some_and(|holder| holder.contains("(gateway)")) {
            if begin.elapsed() > patience {
                let message = texts::GATEWAY_STILL_THERE.with(&[("seconds", &patience.as_secs())]);
                return Err(Failure::new(ErrorCode::GatewayRunning, message));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if parsed.has("json") {
            print_json(&json!({ "stopped": true, "running": false, "pid": live["pid"] }))?;
        } else {
            print_line(app.say(texts::GATEWAY_GONE))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let code = error.body().code;
        let message = match &error {
            ServeError::PortInUse { address } => texts::E_PORT_IN_USE.with(&[("address", address)]),
            ServeError::Port { address, cause } => {
                texts::E_PORT.with(&[("address", address), ("cause", cause)])
            }
            ServeError::Socket { path, cause } | ServeError::Token { path, cause } => {
                texts::E_HOME_UNUSABLE.with(&[("path", &path.display()), ("cause", cause)])
            }
            ServeError::TokenDamaged { path } => texts::E_TOKEN.with(&[("path", &path.display())]),
            ServeError::NoPort | ServeError::Randomness(_) => Message::plain(error.to_string()),
        };
        Self::new(code, message)
    }
}
