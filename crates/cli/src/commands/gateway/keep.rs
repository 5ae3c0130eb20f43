//! The life of the process that stays: it serves until it is stopped, and takes a new configuration on the way.
//!
//! A restart changes everything but the process, its lock on the home, its port and its database. The next gateway is
//! made and checked first; only then the one at work ends, as at a stop. What cannot be started after that gives way to
//! the configuration before it.

use std::process::ExitCode;
use std::time::Duration;

use tidegate_config::Loaded;
use tidegate_gateway::{RestartAsk, Restarting};
use tidegate_protocol::{ErrorBody, ErrorCode};
use tidegate_runtime::fault;
use tidegate_storage::StoreError;
use tokio::sync::mpsc;

use super::host::Host;
use super::plan::{Kept, Plan, Process};
use crate::app::{config_file, now_ms};
use crate::failure::{Failure, With as _};
use crate::output::{complain, printable};
use crate::signals::{Heard, Signals};
use crate::texts::gateway as words;
use crate::{Outcome, log};

/// How long somebody who took the port has before it is tried again.
const PORT_TRIED_AGAIN: Duration = Duration::from_millis(500);

/// Why a gateway does not just go on.
enum Event {
    Stop,
    Failed(StoreError),
    /// Somebody wants the configuration taken that stands in the file; a signal leaves nobody to answer to.
    Restart(Option<RestartAsk>),
}

/// What was wanted while a restart was under way.
#[derive(Default)]
struct Wanted {
    /// The configuration once more: it may have changed since it was read.
    again: bool,
    /// The end, in good order: what drains already is not followed by another one.
    stop: bool,
}

/// Who may interrupt.
pub(super) struct Outside {
    pub(super) signals: Signals,
    pub(super) asks: mpsc::Receiver<RestartAsk>,
}

/// Starts the first gateway of the process.
pub(super) async fn begin(process: &Process<'_>, loaded: Loaded) -> Result<Host, Failure> {
    config_file(process.home).activate(&loaded, now_ms())?;
    Host::start(process, Plan::new(process, loaded, None).await?).await
}

/// Serves until a signal, a request or a failure ends it.
pub(super) async fn keep(process: &Process<'_>, mut host: Host, mut outside: Outside) -> Outcome {
    let mut wanted_again = false;
    loop {
        let event = if std::mem::take(&mut wanted_again) && is_stale(process, &host) {
            Event::Restart(None)
        } else {
            outside.wait(&host).await
        };
        let failed = match event {
            Event::Stop => None,
            Event::Failed(error) => Some(error),
            Event::Restart(ask) => {
                let Some(plan) = check(process, &host, ask).await else { continue };
                match Box::pin(give_way(process, host, plan, &mut outside)).await? {
                    Next::Goes(next, again) => (host, wanted_again) = (*next, again),
                    Next::Ended(code) => return Ok(code),
                }
                continue;
            }
        };
        return tokio::select! {
            ended = host.end(process, failed) => ended,
            // Whatever is under way is settled by the next start, like after a crash.
            code = outside.signals.next() => Ok(ExitCode::from(code)),
        };
    }
}

impl Outside {
    async fn wait(&mut self, host: &Host) -> Event {
        tokio::select! {
            heard = self.signals.heard() => match heard {
                Heard::End(_) => Event::Stop,
                Heard::Reload => Event::Restart(None),
            },
            Some(ask) = self.asks.recv() => Event::Restart(Some(ask)),
            () = host.stop.requested() => Event::Stop,
            error = host.engine.failed() => Event::Failed(error),
        }
    }

    /// Notes what is wanted while a gateway drains to make room; returns only when a second signal ends the process.
    async fn while_restarting(&mut self, host: &Host, wanted: &mut Wanted) -> u8 {
        loop {
            tokio::select! {
                heard = self.signals.heard() => match heard {
                    Heard::End(code) if wanted.stop => return code,
                    Heard::End(_) => wanted.stop = true,
                    Heard::Reload => wanted.again = true,
                },
                Some(ask) = self.asks.recv() => {
                    wanted.again = true;
                    ask.answer(Ok(Restarting { drain: host.drain, under_way: true }));
                }
                () = host.stop.requested(), if !wanted.stop => wanted.stop = true,
            }
        }
    }

    /// Waits while nobody serves, and notes what is wanted; a signal to end is followed at once, for nothing drains.
    async fn ended_within(&mut self, wait: Duration, wanted: &mut Wanted) -> Option<u8> {
        let until = tokio::time::Instant::now() + wait;
        loop {
            tokio::select! {
                heard = self.signals.heard() => match heard {
                    Heard::End(_) => return Some(0),
                    Heard::Reload => wanted.again = true,
                },
                () = tokio::time::sleep_until(until) => return None,
            }
        }
    }
}

/// Whether the file holds something else than the gateway works with.
fn is_stale(process: &Process<'_>, host: &Host) -> bool {
    config_file(process.home).hash().is_ok_and(|hash| hash != host.loaded.hash)
}

/// Makes the next gateway ready to start. Nothing has changed if that is not possible, and whoever asked knows why.
async fn check(process: &Process<'_>, host: &Host, ask: Option<RestartAsk>) -> Option<Plan> {
    let plan = prepare(process, host).await;
    let told = match &plan {
        Ok(_) => Ok(Restarting { drain: host.drain, under_way: false }),
        Err(failure) => {
            let cause = process.app.message(&failure.message).to_owned();
            complain(&printable(&format!(
                "[{}] {}",
                failure.code,
                process.app.fill(words::NOT_RESTARTED, &[("cause", &cause)])
            )));
            tracing::error!(code = %failure.code, cause = failure.message.en, "the configuration is not taken");
            Err(ErrorBody::new(failure.code, failure.message.en.clone()))
        }
    };
    if let Some(ask) = ask {
        ask.answer(told);
    }
    plan.ok()
}

async fn prepare(process: &Process<'_>, host: &Host) -> Result<Plan, Failure> {
    let loaded = config_file(process.home).load(&process.app.env)?;
    let health = host.engine.health();
    if !health.ready && host.kept.is_for(&loaded) {
        // What is wrong now would be wrong for the next one as well, and that one could not even start.
        let message = words::NOT_READY.with(&[("problems", &health.problems.join(", "))]);
        return Err(Failure::new(ErrorCode::Unavailable, message));
    }
    Plan::new(process, loaded, Some(&host.kept)).await
}

/// How a restart went.
enum Next {
    /// A gateway is at work, and whether the configuration was wanted once more meanwhile.
    Goes(Box<Host>, bool),
    /// A signal ended it on the way.
    Ended(ExitCode),
}

/// Ends the gateway at work and starts the next one; if that cannot start, one like the one before.
async fn give_way(
    process: &Process<'_>,
    host: Host,
    plan: Plan,
    outside: &mut Outside,
) -> Result<Next, Failure> {
    let app = process.app;
    if !process.quiet {
        complain(&app.fill(words::RESTARTING, &[("seconds", &host.drain.as_secs())]));
    }
    tracing::info!("restarting with the configuration of the file");
    let mut wanted = Wanted::default();
    tokio::select! {
        () = host.make_room() => {}
        code = outside.while_restarting(&host, &mut wanted) => return Ok(Next::Ended(ExitCode::from(code))),
    }
    if wanted.stop {
        return Ok(Next::Ended(ExitCode::SUCCESS));
    }
    let Host { loaded: before, mut kept, .. } = host;
    if plan.waits_for_port() {
        kept.listener = None;
    }
    fault::pause("cli.gateway.between").await;
    let next = match Host::start(process, plan).await {
        Ok(next) => {
            settle_in(process, &next);
            next
        }
        Err(failure) => {
            let cause = app.message(&failure.message).to_owned();
            complain(&printable(&format!(
                "[{}] {}",
                failure.code,
                app.fill(words::FELL_BACK, &[("cause", &cause)])
            )));
            tracing::error!(code = %failure.code, cause = failure.message.en, "went on with the configuration before");
            let mut told = false;
            loop {
                match Box::pin(fall_back(process, &before, &kept)).await {
                    Ok(next) => break next,
                    Err(failure) if failure.code == ErrorCode::PortInUse => {
                        if !std::mem::replace(&mut told, true) {
                            say_that_it_waits(process, &failure);
                        }
                    }
                    Err(failure) => return Err(failure),
                }
                if let Some(code) = outside.ended_within(PORT_TRIED_AGAIN, &mut wanted).await {
                    return Ok(Next::Ended(ExitCode::from(code)));
                }
            }
        }
    };
    Ok(Next::Goes(Box::new(next), wanted.again))
}

/// Starts a gateway like the one before.
async fn fall_back(process: &Process<'_>, before: &Loaded, kept: &Kept) -> Result<Host, Failure> {
    Host::start(process, Plan::new(process, before.clone(), Some(kept)).await?).await
}

/// Somebody took the port in the moment in which nobody held it. A gateway that was at work does not end over that.
fn say_that_it_waits(process: &Process<'_>, failure: &Failure) {
    let cause = process.app.message(&failure.message).to_owned();
    let told = process.app.fill(words::WAITS_FOR_PORT, &[("cause", &cause)]);
    complain(&printable(&format!("[{}] {told}", failure.code)));
    tracing::error!(cause = failure.message.en, "waits for the port that it had");
}

/// The new configuration holds: it is the one to fall back to, and the log follows it.
fn settle_in(process: &Process<'_>, next: &Host) {
    if let Err(error) = config_file(process.home).activate(&next.loaded, now_ms()) {
        tracing::warn!(%error, "the configuration could not be noted as good");
    }
    process.app.speak(&next.loaded);
    log::set_level(next.loaded.config.logging.level);
    let url = next.url();
    tracing::info!(url, "the new configuration holds");
    if !process.quiet {
        complain(&process.app.fill(words::RESTARTED, &[("url", &url)]));
    }
}
