//! Attending to one browser: its tabs, what happens in them, and its end.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::egress::Egress;
use super::launch::{HEIGHT, WIDTH};
use super::snapshot::Names;
use super::wire::{Event, Wire};
use crate::tool::ToolFailure;

/// What holds a browser so that it starts.
const HELD: &str = "in a sandbox it needs the profile local with bubblewrap, or the profile container with an image that has \
                    the browser; `sandbox status` says what there is";

/// What pages said that is kept of each, and how much of one saying.
const KEPT_SAYINGS: usize = 100;
const LONGEST_SAYING: usize = 500;
/// Documents of a tab that are remembered: a page may lead to the next before anybody looked.
const KEPT_DOCUMENTS: usize = 16;
/// How long a browser may take to end when it is asked to.
const FAREWELL: Duration = Duration::from_secs(3);
/// How long a browser may take to say which tab it begins with.
const BEGINNING: Duration = Duration::from_secs(5);

/// A browser that runs.
pub(super) struct Browser {
    pub(super) wire: Arc<Wire>,
    pub(super) egress: Arc<Egress>,
    pub(super) max_tabs: usize,
    state: Arc<Mutex<State>>,
    /// Told that the state is another one.
    changes: watch::Sender<u64>,
    used: Mutex<Instant>,
    /// One call after the other.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Removed with it.
    ephemeral: Option<PathBuf>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) tabs: Vec<Tab>,
    /// The target of the tab that calls mean when they name none.
    pub(super) current: Option<String>,
    opened: u64,
}

/// One page.
pub(super) struct Tab {
    /// As calls name it.
    pub(super) name: String,
    pub(super) target: String,
    pub(super) session: String,
    pub(super) url: String,
    /// Whether the page itself said its address. What a browser says of a tab that it begins is older than that.
    pub(super) is_known: bool,
    /// The documents that it showed last, as the browser names them.
    shown: VecDeque<String>,
    pub(super) loading: bool,
    /// Frames that live in a process of their own: the session of each, by the frame.
    pub(super) frames: HashMap<String, String>,
    pub(super) names: Names,
    sayings: VecDeque<String>,
}

impl Tab {
    /// Whether it shows this document, or showed it just now.
    pub(super) fn has_shown(&self, document: &str) -> bool {
        self.shown.iter().any(|shown| shown == document)
    }

    fn shows(&mut self, frame: &Value) {
        frame["url"].as_str().unwrap_or_default().clone_into(&mut self.url);
        self.is_known = true;
        self.shown.push_back(frame["loaderId"].as_str().unwrap_or_default().to_owned());
        if self.shown.len() > KEPT_DOCUMENTS {
            self.shown.pop_front();
        }
    }

    fn say(&mut self, saying: &str) {
        let one_line: String = saying.split_whitespace().collect::<Vec<_>>().join(" ");
        self.sayings.push_back(one_line.chars().take(LONGEST_SAYING).collect());
        if self.sayings.len() > KEPT_SAYINGS {
            self.sayings.pop_front();
        }
    }

    pub(super) fn sayings(&self) -> impl Iterator<Item = &str> {
        self.sayings.iter().map(String::as_str)
    }
}

impl Browser {
    /// Makes a started program usable: from here on every request of a page is ours to answer.
    pub(super) async fn meet(
        wire: Wire,
        events: mpsc::Receiver<Event>,
        egress: Egress,
        max_tabs: usize,
        ephemeral: Option<PathBuf>,
    ) -> Result<Arc<Self>, ToolFailure> {
        let browser = Arc::new(Self {
            wire: Arc::new(wire),
            egress: Arc::new(egress),
            max_tabs,
            state: Arc::default(),
            changes: watch::Sender::new(0),
            used: Mutex::new(Instant::now()),
            turn: tokio::sync::Mutex::default(),
            ephemeral,
        });
        // It holds no browser, only what belongs to one, and ends with it.
        let attending = Attending {
            wire: Arc::clone(&browser.wire),
            egress: Arc::clone(&browser.egress),
            state: Arc::clone(&browser.state),
            changes: browser.changes.clone(),
            max_tabs,
        };
        drop(tidegate_runtime::spawn("browser", attending.attend(events)));
        browser.begin().await.map_err(|failure| browser.did_not_begin(&failure))?;
        Ok(browser)
    }

    async fn begin(&self) -> Result<(), ToolFailure> {
        let attach = json!({ "autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true });
        let everything = json!({ "patterns": [{ "urlPattern": "*" }] });
        self.wire.call(None, "Fetch.enable", everything).await?;
        self.wire.call(None, "Browser.setDownloadBehavior", json!({ "behavior": "deny" })).await?;
        self.wire.call(None, "Target.setAutoAttach", attach).await?;
        // It begins with an empty tab, which the first page is to have. One without can be used as well.
        self.until(BEGINNING, |state| !state.tabs.is_empty()).await;
        Ok(())
    }

    fn did_not_begin(&self, failure: &ToolFailure) -> ToolFailure {
        let said = self.wire.last_words();
        let last: Vec<&str> = said.lines().rev().filter(|line| !line.contains("dbus")).take(3).collect();
        let last = last.into_iter().rev().collect::<Vec<_>>().join(" / ");
        let said = if last.is_empty() { String::new() } else { format!("; it said: {last}") };
        ToolFailure::execution(format!("the browser did not start: {}{said}; {HELD}", failure.message))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is so; `false` when it was not so in this time.
    pub(super) async fn until(&self, within: Duration, mut is_so: impl FnMut(&State) -> bool) -> bool {
        let mut changes = self.changes.subscribe();
        let wait = async {
            loop {
                if self.wire.is_ended() {
                    return false;
                }
                if is_so(&self.state()) {
                    return true;
                }
                if changes.changed().await.is_err() {
                    return false;
                }
            }
        };
        tokio::time::timeout(within, wait).await.unwrap_or(false)
    }

    /// Takes the address of a page from the page, unless it was heard meanwhile.
    pub(super) fn note_address(&self, target: &str, frame: &Value) {
        let mut state = self.state();
        let unknown = state.tabs.iter_mut().find(|tab| tab.target == target && !tab.is_known);
        if let Some(tab) = unknown {
            tab.shows(frame);
        }
    }

    pub(super) fn note_use(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// How long nobody used it.
    pub(super) fn unused(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Ends it, with a moment to write down what it keeps.
    pub(super) async fn close(&self) {
        self.wire.tell(None, "Browser.close", json!({})).await;
        if tokio::time::timeout(FAREWELL, self.wire.ended()).await.is_err() {
            self.wire.kill();
            self.wire.ended().await;
        }
        self.clean_up();
    }

    fn clean_up(&self) {
        if let Some(folder) = &self.ephemeral {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.wire.kill();
        self.clean_up();
    }
}

struct Attending {
    wire: Arc<Wire>,
    egress: Arc<Egress>,
    state: Arc<Mutex<State>>,
    changes: watch::Sender<u64>,
    max_tabs: usize,
}

impl Attending {
    async fn attend(self, mut events: mpsc::Receiver<Event>) {
        let ended = {
            let wire = Arc::clone(&self.wire);
            async move { wire.ended().await }
        };
        tokio::pin!(ended);
        loop {
            tokio::select! {
                () = &mut ended => break,
                event = events.recv() => {
                    let Some(event) = event else {
                        self.wire.kill();
                        ended.await;
                        break;
                    };
                    self.event(event).await;
                }
            }
        }
        self.changes.send_modify(|count| *count += 1);
    }

    async fn event(&self, event: Event) {
        let Event { method, mut params, session } = event;
        match method.as_str() {
            "Fetch.requestPaused" => return self.egress.take(&self.wire, params).await,
            "Target.attachedToTarget" => self.attached(&params, session.as_deref()).await,
            "Target.detachedFromTarget" => self.detached(params["sessionId"].as_str().unwrap_or_default()),
            "Page.javascriptDialogOpening" => self.dialog(&params, session.as_deref()).await,
            _ => self.in_tab(session.as_deref(), |tab| note(tab, &method, &mut params)),
        }
        self.changes.send_modify(|count| *count += 1);
    }

    fn in_tab(&self, session: Option<&str>, act: impl FnOnce(&mut Tab)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_its = |tab: &&mut Tab| Some(tab.session.as_str()) == session;
        if let Some(tab) = state.tabs.iter_mut().find(is_its) {
            act(tab);
        }
    }

    async fn attached(&self, params: &Value, parent: Option<&str>) {
        let (info, Some(session)) = (&params["targetInfo"], params["sessionId"].as_str()) else { return };
        let target = info["targetId"].as_str().unwrap_or_default().to_owned();
        match info["type"].as_str() {
            Some("page") if parent.is_none() => {
                // Nobody may use it before it was told to say what happens in it, or its next address is missed.
                if self.has_room_for(&target) {
                    self.prepare_tab(session).await;
                    self.add_tab(&target, session, info["url"].as_str().unwrap_or_default());
                } else {
                    self.wire.tell(None, "Target.closeTarget", json!({ "targetId": target })).await;
                }
            }
            Some("iframe") => {
                self.add_frame(target, session, parent);
                self.attach_frames(session).await;
            }
            _ => {}
        }
    }

    fn add_frame(&self, target: String, session: &str, parent: Option<&str>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |tab: &&mut Tab| {
            let inside = tab.frames.values().any(|known| Some(known.as_str()) == parent);
            inside || Some(tab.session.as_str()) == parent
        };
        if let Some(tab) = state.tabs.iter_mut().find(holds) {
            tab.frames.insert(target, session.to_owned());
        }
    }

    /// `false` when there are too many already: a page may open windows without end.
    fn has_room_for(&self, target: &str) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.tabs.len() <= self.max_tabs || state.tabs.iter().any(|tab| tab.target == target)
    }

    fn add_tab(&self, target: &str, session: &str, url: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.tabs.iter().any(|tab| tab.target == target) {
            return;
        }
        state.opened += 1;
        let name = format!("t{}", state.opened);
        state.current.get_or_insert_with(|| target.to_owned());
        state.tabs.push(Tab {
            name,
            target: target.to_owned(),
            session: session.to_owned(),
            url: url.to_owned(),
            is_known: false,
            shown: VecDeque::new(),
            loading: false,
            frames: HashMap::new(),
            names: Names::default(),
            sayings: VecDeque::new(),
        });
    }

    async fn prepare_tab(&self, session: &str) {
        let size = json!({ "width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": false });
        for (method, params) in [
            ("Page.enable", json!({})),
            ("Runtime.enable", json!({})),
            ("Log.enable", json!({})),
            ("Emulation.setDeviceMetricsOverride", size),
        ] {
            self.wire.tell(Some(session), method, params).await;
        }
        self.attach_frames(session).await;
    }

    async fn attach_frames(&self, session: &str) {
        let frames = json!([{ "type": "iframe" }]);
        let attach =
            json!({ "autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true, "filter": frames });
        self.wire.tell(Some(session), "Target.setAutoAttach", attach).await;
    }

    fn detached(&self, session: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.tabs.retain(|tab| tab.session != session);
        for tab in &mut state.tabs {
            tab.frames.retain(|_, known| known != session);
        }
        let gone =
            state.current.as_ref().is_some_and(|current| state.tabs.iter().all(|tab| tab.target != *current));
        if gone {
            state.current = state.tabs.last().map(|tab| tab.target.clone());
        }
    }

    /// Nobody is there to answer: a page that asks is told no, one that only wants to be left is left.
    async fn dialog(&self, params: &Value, session: Option<&str>) {
        let leave = params["type"] == "beforeunload";
        let message = format!("a dialog was dismissed: {}", params["message"].as_str().unwrap_or_default());
        self.in_tab(session, |tab| tab.say(&message));
        self.wire.tell(session, "Page.handleJavaScriptDialog", json!({ "accept": leave })).await;
    }
}

/// What happened in a tab.
fn note(tab: &mut Tab, method: &str, params: &mut Value) {
    let is_main = |frame: &Value| frame.as_str() == Some(tab.target.as_str());
    match method {
        "Page.frameNavigated" if is_main(&params["frame"]["id"]) => {
            tab.shows(&params["frame"]);
            tab.names.forget();
        }
        "Page.navigatedWithinDocument" if is_main(&params["frameId"]) => {
            params["url"].as_str().unwrap_or_default().clone_into(&mut tab.url);
        }
        "Page.frameStartedLoading" if is_main(&params["frameId"]) => tab.loading = true,
        "Page.frameStoppedLoading" if is_main(&params["frameId"]) => tab.loading = false,
        "Runtime.consoleAPICalled" => {
            let kind = params["type"].as_str().unwrap_or("log").to_owned();
            let words: Vec<String> = params["args"].as_array().into_iter().flatten().map(shown).collect();
            tab.say(&format!("{kind}: {}", words.join(" ")));
        }
        "Runtime.exceptionThrown" => {
            let details = &params["exceptionDetails"];
            let text = details["exception"]["description"].as_str().or_else(|| details["text"].as_str());
            tab.say(&format!("error: {}", text.unwrap_or("an exception")));
        }
        "Log.entryAdded" => {
            let entry = &params["entry"];
            let (level, text) =
                (entry["level"].as_str().unwrap_or("log"), entry["text"].as_str().unwrap_or_default());
            tab.say(&format!("{level}: {text}"));
        }
        _ => {}
    }
}

fn shown(value: &Value) -> String {
    match &value["value"] {
        Value::String(text) => text.chars().take(LONGEST_SAYING).collect(),
        Value::Null => value["description"].as_str().unwrap_or("null").chars().take(LONGEST_SAYING).collect(),
        other => other.to_string().chars().take(LONGEST_SAYING).collect(),
    }
}
