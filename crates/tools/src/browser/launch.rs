//! Starting a browser: which program, with which words, in which folder.
//!
//! Nothing a model, a page or a message said is among its words: the program is the operator's, the rest is written
//! here. It gets no network: what pages ask for is fetched by us, and whatever does not ask (sockets, calls between
//! browsers, other transports) finds a proxy that is not there and names that do not resolve, also where no sandbox
//! takes the network away.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_policy::exec::{Lookup as _, Plan, PlanPlace};
use tidegate_policy::{PermittedPlan, Runner, Start};
use tokio::sync::mpsc;

use super::BrowserSettings;
use super::wire::{Event, Mouth, Wire};
use crate::exec::Disk;
use crate::place::Place;
use crate::tool::ToolFailure;

/// Looked for in this order when no program is configured.
const USUAL: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "microsoft-edge"];

/// The pipes are at the places where browsers look for them; what it prints goes with its errors.
const PIPES: &str = r#"exec 3<&0 4>&1 </dev/null 1>&2; exec "$0" "$@""#;

/// The window, in the pixels of pages.
pub(super) const WIDTH: u32 = 1280;
pub(super) const HEIGHT: u32 = 800;

const FLAGS: [&str; 27] = [
    "--remote-debugging-pipe",
    // No way out but ours.
    "--proxy-server=socks5://127.0.0.1:1",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-pings",
    // Nothing that asks people, or tells anybody.
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-features=Translate,MediaRouter,OptimizationHints,DialMediaRouteProvider",
    "--metrics-recording-only",
    "--password-store=basic",
    "--use-mock-keychain",
    "--mute-audio",
    // A sandbox has neither a graphics card nor shared memory of any size.
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--disable-backgrounding-occluded-windows",
];

/// Of the environment: where programs are found, and the language.
const ENVIRONMENT: [&str; 5] = ["PATH", "LANG", "LC_ALL", "TZ", "FONTCONFIG_PATH"];
/// What a window on a screen needs besides.
const SCREEN: [&str; 4] = ["DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"];

/// Starts a browser whose profile lies in this folder.
pub(super) async fn launch(
    settings: &BrowserSettings,
    place: &Place,
    runner: &Arc<dyn Runner>,
    folder: &Path,
) -> Result<(Wire, mpsc::Receiver<Event>), ToolFailure> {
    let plan = plan(settings, place, runner.confines(), folder)?;
    let (mouth, events) = Mouth::new();
    let start = Start { input: true, ..Start::default() };
    let running = runner.start(PermittedPlan::of_operator(&plan), start, Arc::clone(&mouth) as _).await;
    let running =
        running.map_err(|error| ToolFailure::execution(format!("no browser could be started: {error}")))?;
    Ok((Wire::new(running, mouth, settings.patience), events))
}

fn plan(
    settings: &BrowserSettings,
    place: &Place,
    confined: bool,
    folder: &Path,
) -> Result<Plan, ToolFailure> {
    let text =
        folder.to_str().ok_or_else(|| ToolFailure::execution("the browser's folder has no plain name"))?;
    let mut env: BTreeMap<String, String> = ENVIRONMENT
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), place.env.get(name)?.clone())))
        .collect();
    env.insert("HOME".to_owned(), text.to_owned());
    if !settings.headless {
        env.extend(SCREEN.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?))));
    }
    let disk = Disk::new(place);
    let here = PlanPlace { cwd: text.to_owned(), env, added_env: BTreeMap::new() };
    let program = program(settings, &disk, &here)?;
    if !confined && rustix::process::geteuid().is_root() {
        return Err(ToolFailure::execution(
            "a browser is not started as root without a sandbox: set agents.defaults.sandbox.profile to \"local\" \
             or another profile that confines, or run the gateway as another user",
        ));
    }
    let shell =
        disk.shell().ok_or_else(|| ToolFailure::execution("there is no shell to start a browser with"))?;
    let mut argv = vec![shell.path, "-c".to_owned(), PIPES.to_owned(), program];
    argv.extend(FLAGS.map(str::to_owned));
    argv.push(format!("--user-data-dir={text}"));
    argv.push(format!("--window-size={WIDTH},{HEIGHT}"));
    if settings.headless {
        argv.push("--headless".to_owned());
    }
    if confined {
        // Its own sandbox needs rights that ours does not leave it.
        argv.push("--no-sandbox".to_owned());
    }
    argv.push("about:blank".to_owned());
    Plan::of_argv(argv, here, &disk).map_err(|error| ToolFailure::execution(error.to_string()))
}

fn program(settings: &BrowserSettings, disk: &Disk, here: &PlanPlace) -> Result<String, ToolFailure> {
    if let Some(configured) = &settings.executable {
        return disk.find(configured, here).map(|program| program.path).ok_or_else(|| {
            ToolFailure::execution(format!(
                "browser.executable is {configured:?}, and no program is there: correct it, or remove it and install a \
                 browser (Debian: apt-get install chromium)"
            ))
        });
    }
    USUAL.into_iter().find_map(|name| disk.find(name, here)).map(|program| program.path).ok_or_else(|| {
        ToolFailure::execution(
            "no browser is installed: install chromium (Debian: apt-get install chromium), or set browser.executable to \
             a program of the Chromium family",
        )
    })
}

/// Makes a folder that is its owner's alone.
pub(super) fn make_private(folder: &Path) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Left by a browser that was killed; nobody else can have one here.
    for lock in ["SingletonLock", "SingletonSocket", "SingletonCookie"] {
        let _ = std::fs::remove_file(folder.join(lock));
    }
    folder.canonicalize()
}
