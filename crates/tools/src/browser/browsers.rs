//! The browsers that run: one for each agent and kept profile, or for each conversation where nothing is kept.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::attend::Browser;
use super::egress::Egress;
use super::launch::{launch, make_private};
use super::{BrowserGround, BrowserProfile, BrowserSettings};
use crate::place::Place;
use crate::tool::ToolFailure;

/// How many may run at once in one gateway.
const MOST: usize = 8;
/// Between two looks whether a browser is still used.
const LOOK: Duration = Duration::from_secs(15);
/// Where profiles lie that are not kept.
const EPHEMERAL: &str = "ephemeral";

type Slot = Arc<tokio::sync::Mutex<Option<Arc<Browser>>>>;

/// Starts, keeps and closes browsers.
pub struct Browsers {
    pub(super) settings: BrowserSettings,
    pub(super) ground: Arc<dyn BrowserGround>,
    slots: Mutex<HashMap<String, Slot>>,
    /// Whether folders that were left behind are gone.
    swept: tokio::sync::OnceCell<()>,
}

impl Browsers {
    pub fn new(settings: BrowserSettings, ground: Arc<dyn BrowserGround>) -> Arc<Self> {
        Arc::new(Self { settings, ground, slots: Mutex::default(), swept: tokio::sync::OnceCell::new() })
    }

    pub(super) fn profile(&self, name: Option<&str>) -> Result<BrowserProfile, ToolFailure> {
        self.settings.profile(name).ok_or_else(|| {
            let known: Vec<&str> =
                self.settings.profiles.iter().map(|profile| profile.name.as_str()).collect();
            ToolFailure::arguments(format!(
                "there is no browser profile {:?}; browser.profiles has: {}",
                name.unwrap_or(&self.settings.profile),
                if known.is_empty() { "none".to_owned() } else { known.join(", ") },
            ))
        })
    }

    fn slot(&self, place: &Place, profile: &BrowserProfile) -> (String, Slot) {
        let key = key(place, profile);
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = Arc::clone(slots.entry(key.clone()).or_default());
        (key, slot)
    }

    /// The browser that runs for whoever asks, if one does.
    pub(super) async fn running(&self, place: &Place, profile: &BrowserProfile) -> Option<Arc<Browser>> {
        let (_, slot) = self.slot(place, profile);
        let browser = slot.lock().await.clone();
        browser.filter(|browser| !browser.wire.is_ended())
    }

    /// The same, started if none runs.
    pub(super) async fn started(
        self: &Arc<Self>,
        place: &Place,
        profile: &BrowserProfile,
    ) -> Result<Arc<Browser>, ToolFailure> {
        let (key, slot) = self.slot(place, profile);
        let mut browser = slot.lock().await;
        if let Some(running) = browser.as_ref().filter(|running| !running.wire.is_ended()) {
            return Ok(Arc::clone(running));
        }
        *browser = None;
        self.has_room(&key)?;
        let started = self.start(place, profile, &key).await?;
        *browser = Some(Arc::clone(&started));
        // It ends with the browser, which it does not hold.
        drop(tidegate_runtime::spawn(
            "idle browser",
            close_unused(Arc::downgrade(&started), self.settings.idle),
        ));
        Ok(started)
    }

    fn has_room(&self, but: &str) -> Result<(), ToolFailure> {
        let others: Vec<Slot> = {
            let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.iter().filter(|(key, _)| *key != but).map(|(_, slot)| Arc::clone(slot)).collect()
        };
        let busy = |slot: &Slot| match slot.try_lock() {
            Ok(browser) => browser.as_ref().is_some_and(|browser| !browser.wire.is_ended()),
            // Somebody starts or closes it.
            Err(_) => true,
        };
        if others.iter().filter(|slot| busy(slot)).count() >= MOST {
            return Err(ToolFailure::execution(format!(
                "{MOST} browsers run already: one of them has to be stopped, or left alone until it closes by itself"
            )));
        }
        Ok(())
    }

    async fn start(
        &self,
        place: &Place,
        profile: &BrowserProfile,
        key: &str,
    ) -> Result<Arc<Browser>, ToolFailure> {
        let unusable = |error: std::io::Error| {
            ToolFailure::execution(format!("the browser's folder cannot be made: {error}"))
        };
        let below =
            self.ground.folder().ok_or_else(|| ToolFailure::execution("no browser can be started here"))?;
        self.swept.get_or_init(|| sweep(below.join(EPHEMERAL))).await;
        let folder = folder(&below, profile, key);
        let folder = make_private(&folder).map_err(unusable)?;
        let runner = self.ground.runner(place, &folder);
        let launched = launch(&self.settings, place, &runner, &folder).await;
        let (wire, events) = launched.inspect_err(|_| {
            if !profile.keep {
                let _ = std::fs::remove_dir_all(&folder);
            }
        })?;
        let egress = Egress::new(self.ground.client(&place.requester));
        let ephemeral = (!profile.keep).then_some(folder);
        Browser::meet(wire, events, egress, self.settings.max_tabs, ephemeral).await
    }

    /// Closes the browser of whoever asks; `false` if none ran.
    pub(super) async fn stop(&self, place: &Place, profile: &BrowserProfile) -> bool {
        let (_, slot) = self.slot(place, profile);
        let browser = slot.lock().await.take();
        match browser {
            Some(browser) if !browser.wire.is_ended() => {
                browser.close().await;
                true
            }
            _ => false,
        }
    }

    /// Closes all of them.
    pub async fn close(&self) {
        let slots: Vec<Slot> = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.drain().map(|(_, slot)| slot).collect()
        };
        let closing = slots.into_iter().map(|slot| async move {
            if let Some(browser) = slot.lock().await.take() {
                browser.close().await;
            }
        });
        futures_util::future::join_all(closing).await;
    }
}

/// Who shares a browser: what is kept belongs to an agent, what is not to one conversation.
fn key(place: &Place, profile: &BrowserProfile) -> String {
    let scope = &place.requester.scope;
    let session = if profile.keep { "" } else { place.requester.session.as_str() };
    format!("{} {} {} {} {session}", scope.tenant, scope.workspace, scope.agent, profile.name)
}

fn folder(below: &Path, profile: &BrowserProfile, key: &str) -> PathBuf {
    let mut digest = String::new();
    for byte in Sha256::digest(key.as_bytes()).iter().take(6) {
        let _ = write!(digest, "{byte:02x}");
    }
    let name = format!("{}-{digest}", profile.name);
    if profile.keep { below.join(name) } else { below.join(EPHEMERAL).join(name) }
}

/// Takes away what browsers of a gateway that was killed left behind.
async fn sweep(folder: PathBuf) {
    let swept = tidegate_runtime::spawn_blocking("browser folders", move || std::fs::remove_dir_all(folder));
    let _ = swept.join().await;
}

async fn close_unused(browser: Weak<Browser>, idle: Duration) {
    loop {
        tokio::time::sleep(LOOK.min(idle)).await;
        let Some(browser) = browser.upgrade() else { return };
        if browser.wire.is_ended() {
            return;
        }
        if browser.unused() >= idle
            && let Ok(_nobody) = browser.turn.try_lock()
        {
            return browser.close().await;
        }
    }
}
