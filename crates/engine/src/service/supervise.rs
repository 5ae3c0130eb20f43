//! Keeping one service running.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidegate_policy::exec::{Plan, PlanPlace};
use tidegate_policy::{Exit, PermittedPlan, Profile, Runner, Running, Start};
use tidegate_tools::Disk;
use tokio::time::Instant;

use super::health::look;
use super::log::{LARGEST, Log};
use super::{LIMITS, Look, Service, ServiceSpec, ServiceState};
use crate::settings::Again;
use crate::start::Core;

/// One that ran this long was well: the next failure is the first again.
const WELL: Duration = Duration::from_mins(1);
/// Between looks until the first good one.
const SOON: Duration = Duration::from_millis(500);

/// How a life of a service ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// By itself, well or badly, in plain words.
    Itself { well: bool, how: String },
    /// Somebody wants it anew.
    Anew,
    /// The engine ends.
    Engine,
}

/// What a service is started with.
struct Ready {
    runner: Arc<dyn Runner>,
    plan: Plan,
    look: Option<Plan>,
}

/// Until the engine ends.
pub(crate) async fn supervise(core: Arc<Core>, service: Arc<Service>) {
    let spec = &service.spec;
    let mut failures = 0;
    loop {
        let begin = Instant::now();
        core.tell_service(&service, ServiceState::Starting, None);
        let end = match live(&core, &service).await {
            Ok(end) => end,
            Err(how) => End::Itself { well: false, how },
        };
        service.note(|status| status.pid = None);
        let how = match &end {
            End::Itself { how, .. } => how.as_str(),
            End::Anew => "stopped to be started anew",
            End::Engine => "stopped with the gateway",
        };
        core.audit_service(&service, "service.ended", json!({ "how": how })).await;
        let next = match end {
            End::Engine => break,
            End::Anew => {
                failures = 0;
                None
            }
            End::Itself { well, how } => {
                let again = match spec.again {
                    Again::Always => true,
                    Again::OnFailure => !well,
                    Again::Never => false,
                };
                failures = if begin.elapsed() >= WELL { 1 } else { failures + 1 };
                let given_up = spec.attempts.is_some_and(|most| failures > most);
                if again && given_up {
                    let metadata = json!({ "how": how, "restarts": failures - 1 });
                    core.audit_service(&service, "service.gave_up", metadata).await;
                }
                Some(ended(&core, &service, how, failures, again, given_up))
            }
        };
        if let Some(pause) = next {
            let rested = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = rested => {}
                () = service.anew.notified() => failures = 0,
                () = core.stopped.requested() => break,
            }
        }
        service.note(|status| status.restarts += 1);
    }
    core.tell_service(&service, ServiceState::Stopped, None);
}

/// Says what happens now that it ended, and answers how long it rests; for good without a time.
fn ended(
    core: &Arc<Core>,
    service: &Arc<Service>,
    how: String,
    failures: u32,
    again: bool,
    given_up: bool,
) -> Option<Duration> {
    let name = &service.spec.name;
    if !again {
        tracing::info!(service = name, how, "service ended; it is not started again");
        core.tell_service(service, ServiceState::Ended, Some(how));
        return None;
    }
    if given_up {
        tracing::error!(
            service = name,
            how,
            failures,
            "service failed too often and is given up; see `services logs`"
        );
        let how = format!("{how}; given up after {} restarts", failures - 1);
        core.tell_service(service, ServiceState::GaveUp, Some(how));
        return None;
    }
    let pause = backoff(&service.spec, failures, RandomState::new().hash_one(failures));
    tracing::warn!(service = name, how, pause_ms = pause.as_millis(), "service ended; it is started again");
    core.tell_service(service, ServiceState::Waiting, Some(how));
    Some(pause)
}

/// Twice as long each time, up to a limit, and never all at the same moment: a fifth less to a fifth more.
fn backoff(spec: &ServiceSpec, failures: u32, chance: u64) -> Duration {
    let doubled =
        spec.backoff.saturating_mul(1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
    let plain = doubled.min(spec.longest_backoff);
    let percent = 80 + u32::try_from(chance % 41).unwrap_or(20);
    plain.saturating_mul(percent) / 100
}

/// One life: from its start to its end.
async fn live(core: &Arc<Core>, service: &Arc<Service>) -> Result<End, String> {
    let spec = &service.spec;
    let log = Arc::new(
        Log::open(&spec.log, LARGEST).map_err(|error| format!("its log cannot be written: {error}"))?,
    );
    let ready = ready(core, spec).inspect_err(|why| log.say(why))?;
    let started =
        ready.runner.start(PermittedPlan::of_operator(&ready.plan), Start::default(), Arc::clone(&log) as _);
    let started = tokio::select! {
        started = started => started,
        () = core.stopped.requested() => return Ok(End::Engine),
    };
    let running = started.map_err(|error| error.to_string()).inspect_err(|why| log.say(why))?;
    log.say(&format!("started as {}", running.pid()));
    service.note(|status| status.pid = Some(running.pid()));
    core.audit_service(service, "service.started", json!({ "pid": running.pid() })).await;
    if spec.watch.is_none() {
        core.tell_service(service, ServiceState::Running, None);
    }
    let end = tokio::select! {
        exit = running.wait() => End::Itself { well: exit == Exit::Code(0), how: exit.told(LIMITS) },
        how = unhealthy(core, service, &ready) => End::Itself { well: false, how },
        () = service.anew.notified() => End::Anew,
        () = core.stopped.requested() => End::Engine,
    };
    stop(running.as_ref(), spec.grace).await;
    log.say(&match &end {
        End::Itself { how, .. } => format!("ended: {how}"),
        End::Anew => "stopped to be started anew".to_owned(),
        End::Engine => "stopped with the gateway".to_owned(),
    });
    Ok(end)
}

/// Asks it to end, and makes it.
async fn stop(running: &dyn Running, grace: Duration) {
    running.ask_to_end();
    if tokio::time::timeout(grace, running.wait()).await.is_err() {
        running.kill();
        running.wait().await;
    }
}

/// Looks at it again and again; returns when it has to be started anew.
async fn unhealthy(core: &Arc<Core>, service: &Arc<Service>, ready: &Ready) -> String {
    let Some(watch) = &service.spec.watch else { return std::future::pending().await };
    let begin = Instant::now();
    let (mut was_well, mut bad) = (false, 0);
    loop {
        tokio::time::sleep(if was_well { watch.interval } else { SOON.min(watch.interval) }).await;
        match look(watch, &ready.runner, ready.look.as_ref()).await {
            Ok(()) => {
                (was_well, bad) = (true, 0);
                let now = core.clock.now_ms();
                service.note(|status| status.last_healthy_at = Some(now));
                core.tell_service(service, ServiceState::Running, None);
            }
            Err(why) if was_well => {
                bad += 1;
                if bad >= watch.failures {
                    return format!("not healthy {bad} times in a row: {why}");
                }
                core.tell_service(service, ServiceState::Unhealthy, Some(why));
            }
            Err(why) if begin.elapsed() >= watch.start => {
                return format!("not healthy within {} s: {why}", watch.start.as_secs());
            }
            Err(_) => {}
        }
    }
}

fn ready(core: &Core, spec: &ServiceSpec) -> Result<Ready, String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&spec.folder);
    let folder = made.and_then(|()| spec.folder.canonicalize());
    let folder =
        folder.map_err(|error| format!("its folder {} cannot be used: {error}", spec.folder.display()))?;
    let mut confinement = spec.confinement.clone();
    confinement.folder.clone_from(&folder);
    confinement.hidden.extend(core.lock.home().root().canonicalize().ok());
    let runner = core.toolbox.confiner.runner(&confinement).map_err(|error| error.to_string())?;
    let cwd = folder.to_string_lossy().into_owned();
    // Of the environment of commands only what names the place: what is configured for them is not for services.
    let plain = ["PATH", "LANG", "LC_ALL", "TZ"];
    let base =
        plain.into_iter().filter_map(|name| Some((name.to_owned(), core.toolbox.env.get(name)?.clone())));
    let mut env: BTreeMap<_, _> = base.collect();
    // A name means a program that can be started there: what a sandbox does not show is not searched.
    if let Some(search) = env.get_mut("PATH").filter(|_| confinement.profile != Profile::None) {
        let confiner = &core.toolbox.confiner;
        let shown = search.split(':').filter(|folder| confiner.shows(&confinement, Path::new(folder)));
        *search = shown.collect::<Vec<_>>().join(":");
    }
    env.insert("HOME".to_owned(), cwd.clone());
    env.extend(spec.env.clone());
    let disk = Disk::seen_from(&folder, &env);
    let plan = |argv: &[String]| {
        let here = PlanPlace { cwd: cwd.clone(), env: env.clone(), added_env: BTreeMap::new() };
        Plan::of_argv(argv.to_vec(), here, &disk).map_err(|error| error.to_string())
    };
    let look = match spec.watch.as_ref().map(|watch| &watch.look) {
        Some(Look::Command(argv)) => Some(plan(argv)?),
        _ => None,
    };
    Ok(Ready { runner, plan: plan(&spec.argv)?, look })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_limit_and_differs_by_a_fifth_at_most() {
        let config = serde_json::json!({ "services": { "db": {
            "command": "x", "restart": { "backoffMs": 1000, "maxBackoffMs": 5000 },
        } } });
        let settings = crate::settings::tests::settings(config);
        let spec = settings.services(&crate::home::Home::at("/h")).remove(0);
        for (failures, plain) in [(1, 1_000), (2, 2_000), (3, 4_000), (4, 5_000), (40, 5_000)] {
            let least = backoff(&spec, failures, 0).as_millis();
            let most = backoff(&spec, failures, 40).as_millis();
            assert_eq!((least, most), (plain * 8 / 10, plain * 12 / 10), "{failures}");
        }
    }
}
