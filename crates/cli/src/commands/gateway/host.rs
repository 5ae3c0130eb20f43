//! The gateway of this process: its start, what it reports, and its end in good order.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_config::Loaded;
use tidegate_engine::{Drain, Engine, Wish};
use tidegate_gateway::{Server, ServerOptions};
use tidegate_policy::Profile;
use tidegate_protocol::RunState;
use tidegate_runtime::{Shutdown, SystemClock, fault, memory};
use tidegate_sandbox::Sandboxes;
use tidegate_storage::StoreError;

use super::plan::{Kept, Plan, Process};
use crate::app::App;
use crate::failure::{Failure, With as _};
use crate::output::{complain, print_line, printable};
use crate::{Outcome, texts};

/// Undelivered parts that are named one by one at the start.
const NAMED: usize = 10;
/// How long the last answers may take to be read.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A gateway that runs.
pub(super) struct Host {
    pub(super) engine: Engine,
    port: Server,
    control: Server,
    /// Asked for through the control socket.
    pub(super) stop: Shutdown,
    pub(super) drain: Duration,
    /// What it was made from.
    pub(super) loaded: Loaded,
    pub(super) kept: Kept,
    /// How long its start took: the next one will take about as long.
    pub(super) took: Duration,
    /// Requested when it has drained.
    ended: Shutdown,
}

impl Host {
    pub(super) async fn start(process: &Process<'_>, mut plan: Plan) -> Result<Self, Failure> {
        let begin = Instant::now();
        let home = process.home;
        let (listener, kept) = plan.port(process).await?;
        let Plan { loaded, options, store, sandboxes, profile, .. } = plan;
        let clock = std::sync::Arc::new(SystemClock);
        let engine = Engine::start(process.lock.share()?, store, clock, options).await?;
        let (stop, ended) = (Shutdown::new(), Shutdown::new());
        let options = ServerOptions {
            listener,
            token: home.local_token(),
            hosts: loaded.config.gateway.hosts.clone(),
            stop: stop.clone(),
            restart: process.restarter.clone(),
        };
        let served = tidegate_gateway::serve(engine.clone(), options, &home.control_socket());
        let (port, control) = match served {
            Ok(servers) => servers,
            Err(error) => {
                // Another one may be started in its place.
                engine.close(Drain::Within(Duration::ZERO)).await;
                return Err(error.into());
            }
        };
        // Nobody waits for it, so it does not stand in the way of whoever waits for the gateway.
        drop(tidegate_runtime::spawn("sandbox self-test", test_sandboxes(sandboxes, profile)));
        drop(tidegate_runtime::spawn("memory", memory::keep_small(ended.clone())));
        let drain = Duration::from_secs(u64::from(loaded.config.gateway.drain_seconds));
        fault::pause("cli.gateway.listening").await;
        Ok(Self { engine, port, control, stop, drain, loaded, kept, took: begin.elapsed(), ended })
    }

    pub(super) fn url(&self) -> String {
        self.port.url()
    }

    /// Says where it is, and what the owner should know.
    pub(super) async fn report(&self, process: &Process<'_>, link: bool) -> Result<(), Failure> {
        let (app, url) = (process.app, self.url());
        let link = if link { Some(self.port.login_link()?) } else { None };
        if process.quiet {
            // One line: whoever started it reads exactly that.
            print_line(&json!({ "url": url, "link": link, "pid": std::process::id() }).to_string())?;
        } else {
            self.introduce(app, &url, link.as_deref())?;
        }
        if let Err(failure) = self.boot_report(app).await {
            // It is told at the next start; that is no reason not to serve.
            complain(&format!("[{}] {failure}", failure.code));
        }
        Ok(())
    }

    fn introduce(&self, app: &App, url: &str, link: Option<&str>) -> Result<(), Failure> {
        let channels = self.engine.channels();
        let names: Vec<String> =
            channels.iter().map(|channel| format!("{}:{}", channel.channel, channel.account)).collect();
        let names =
            if names.is_empty() { app.say(texts::GATEWAY_NO_CHANNELS).to_owned() } else { names.join(", ") };
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
            print_line(&format!("  {}", app.output.bold(link)))?;
            print_line("")?;
        }
        print_line(&app.fill(texts::GATEWAY_STOP_HINT, &[("seconds", &self.drain.as_secs())]))?;
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

    /// Ends in good order. The port stays open until runs have ended: it says that nothing new is taken. Answers how many
    /// runs were given back.
    pub(super) async fn drain(&self, budget: Duration) -> usize {
        let drained = self.engine.close(Drain::Within(budget)).await;
        for server in [&self.port, &self.control] {
            server.stop_listening();
        }
        for server in [&self.port, &self.control] {
            let _ = tokio::time::timeout(LAST_ANSWERS, server.drained()).await;
        }
        self.port.cut_off();
        self.ended.request();
        drained.given_back
    }

    /// The same on the way to the next gateway: clients are told when it comes.
    pub(super) async fn make_room(&self) {
        self.port.comes_back_in(self.took * 2 + Duration::from_millis(250));
        self.drain(self.drain).await;
    }

    /// Ends for good, because somebody asked for it or the engine failed.
    pub(super) async fn end(&self, process: &Process<'_>, failed: Option<StoreError>) -> Outcome {
        let app = process.app;
        if failed.is_none() && !process.quiet {
            complain(&app.fill(texts::GATEWAY_DRAINING, &[("seconds", &self.drain.as_secs())]));
        }
        let budget = if failed.is_some() { Duration::ZERO } else { self.drain };
        let given_back = self.drain(budget).await;
        if let Some(error) = failed {
            let message = texts::GATEWAY_FAILED.with(&[("cause", &error)]);
            return Err(Failure::new(error.code(), message));
        }
        if !process.quiet && given_back > 0 {
            complain(&app.fill(texts::GATEWAY_STOPPED, &[("count", &given_back)]));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Finds out what can hold programs, and notes it where somebody looks who wonders.
async fn test_sandboxes(sandboxes: std::sync::Arc<Sandboxes>, wanted: Profile) {
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
