//! Tabs: opening, going elsewhere, choosing and closing them.

use std::time::Duration;

use serde_json::{Value, json};

use super::attend::{Browser, Tab};
use super::egress::NotFetched;
use crate::tool::ToolFailure;
use crate::web::failed;

/// How long a page may take to be there. After that it is looked at as it is.
const LOADING: Duration = Duration::from_secs(15);
/// What a use of a page sets off begins within this time, or not at all.
const SETTLING: Duration = Duration::from_millis(300);

/// Which page a call means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Which {
    pub(super) name: String,
    pub(super) target: String,
    pub(super) session: String,
    pub(super) url: String,
}

impl From<&Tab> for Which {
    fn from(tab: &Tab) -> Self {
        let Tab { name, target, session, url, .. } = tab;
        Self { name: name.clone(), target: target.clone(), session: session.clone(), url: url.clone() }
    }
}

impl Browser {
    /// The tab of this name, or the current one.
    pub(super) fn which(&self, name: Option<&str>) -> Result<Which, ToolFailure> {
        let state = self.state();
        let tab = match name {
            Some(name) => state.tabs.iter().find(|tab| tab.name == name),
            None => state.tabs.iter().find(|tab| Some(&tab.target) == state.current.as_ref()),
        };
        tab.map(Which::from).ok_or_else(|| match name {
            Some(name) => ToolFailure::execution(format!("there is no tab {name}; see action tabs")),
            None => ToolFailure::execution("no page is open: use action open first"),
        })
    }

    /// A new tab with this page.
    pub(super) async fn open(&self, url: &str) -> Result<Which, ToolFailure> {
        // The empty one that a browser begins with is taken first.
        let blank = self.state().tabs.iter().find(|tab| tab.url == "about:blank").map(Which::from);
        let which = match blank {
            Some(which) => which,
            None => self.new_tab().await?,
        };
        self.state().current = Some(which.target.clone());
        self.navigate(&which, url).await
    }

    async fn new_tab(&self) -> Result<Which, ToolFailure> {
        let open = self.state().tabs.len();
        if open >= self.max_tabs {
            return Err(ToolFailure::execution(format!(
                "{open} tabs are open, which is the most (browser.maxTabs): close one first"
            )));
        }
        let made = self.wire.call(None, "Target.createTarget", json!({ "url": "about:blank" })).await?;
        let target = made["targetId"].as_str().unwrap_or_default().to_owned();
        if !self.until(LOADING, |state| state.tabs.iter().any(|tab| tab.target == target)).await {
            return Err(ToolFailure::execution("the browser did not open a tab"));
        }
        let state = self.state();
        let tab = state.tabs.iter().find(|tab| tab.target == target);
        tab.map(Which::from).ok_or_else(|| ToolFailure::execution("the tab was closed"))
    }

    /// Has a tab show another page.
    pub(super) async fn navigate(&self, which: &Which, url: &str) -> Result<Which, ToolFailure> {
        let going = self.wire.call(Some(&which.session), "Page.navigate", json!({ "url": url })).await;
        let gone = going?;
        if let Some(error) = gone["errorText"].as_str().filter(|error| *error != "net::ERR_ABORTED") {
            return Err(self.not_reached(which, url, error));
        }
        self.shown(which, url, &gone).await;
        self.loaded(which).await;
        self.which(Some(&which.name))
    }

    /// Waits until the tab shows what it was sent to. A browser answers when it is about to, and until then the tab has
    /// the address that it had.
    async fn shown(&self, which: &Which, url: &str, gone: &Value) {
        if gone["errorText"].is_string() {
            return;
        }
        if let Some(document) = gone["loaderId"].as_str() {
            let shows = |tab: &Tab| tab.target == which.target && tab.has_shown(document);
            self.until(LOADING, |state| state.tabs.iter().any(shows)).await;
        } else {
            // Another place in the same document.
            let is_there = |tab: &Tab| tab.target == which.target && tab.url == url;
            self.until(SETTLING, |state| state.tabs.iter().any(is_there)).await;
        }
    }

    /// The same tab with the address of the page that it shows, which a page that another one opened has not said yet.
    pub(super) async fn certain(&self, which: Which) -> Result<Which, ToolFailure> {
        let is_known = |tab: &Tab| tab.target == which.target && tab.is_known;
        if self.state().tabs.iter().any(is_known) {
            return Ok(which);
        }
        let tree = self.wire.call(Some(&which.session), "Page.getFrameTree", json!({})).await?;
        self.note_address(&which.target, &tree["frameTree"]["frame"]);
        self.which(Some(&which.name))
    }

    /// In our own words why, where we know: a redirect may have led to what was refused.
    fn not_reached(&self, which: &Which, url: &str, error: &str) -> ToolFailure {
        let now = self.which(Some(&which.name)).map(|which| which.url).unwrap_or_default();
        let why =
            self.egress.refusal(url).or_else(|| self.egress.refusal(&now)).or_else(|| self.egress.last());
        match why {
            Some(NotFetched::Net(error)) => failed(&error),
            Some(NotFetched::Other(why)) => ToolFailure::execution(why),
            None => ToolFailure::execution(format!("the page could not be opened: {error}")),
        }
    }

    /// One page back or forward in what the tab showed.
    pub(super) async fn travel(&self, which: &Which, by: i64) -> Result<Which, ToolFailure> {
        let session = Some(which.session.as_str());
        let history = self.wire.call(session, "Page.getNavigationHistory", json!({})).await?;
        let at = history["currentIndex"].as_i64().unwrap_or_default() + by;
        let entry = usize::try_from(at).ok().and_then(|at| history["entries"].get(at));
        // What a browser begins with is not a page.
        let entry = entry.filter(|entry| entry["url"] != "about:blank");
        let Some(id) = entry.map(|entry| entry["id"].clone()) else {
            return Err(ToolFailure::execution("there is no page in that direction"));
        };
        self.wire.call(session, "Page.navigateToHistoryEntry", json!({ "entryId": id })).await?;
        self.settled(which).await;
        self.which(Some(&which.name))
    }

    pub(super) async fn focus(&self, which: &Which) -> Result<(), ToolFailure> {
        self.wire.call(None, "Target.activateTarget", json!({ "targetId": which.target })).await?;
        self.state().current = Some(which.target.clone());
        Ok(())
    }

    pub(super) async fn close_tab(&self, which: &Which) -> Result<(), ToolFailure> {
        self.wire.call(None, "Target.closeTarget", json!({ "targetId": which.target })).await?;
        self.until(LOADING, |state| state.tabs.iter().all(|tab| tab.target != which.target)).await;
        Ok(())
    }

    /// Every tab, its address and whether it is the current one.
    pub(super) fn tabs(&self) -> Vec<Value> {
        let state = self.state();
        let is_current = |tab: &Tab| Some(&tab.target) == state.current.as_ref();
        let tabs = state.tabs.iter().filter(|tab| tab.url != "about:blank");
        tabs.map(|tab| json!({ "tab": tab.name, "url": tab.url, "current": is_current(tab) })).collect()
    }

    /// Waits until a page is there, or long enough.
    async fn loaded(&self, which: &Which) {
        let done = |tab: &Tab| tab.target == which.target && !tab.loading;
        self.until(LOADING, |state| state.tabs.iter().any(done)).await;
    }

    /// Waits for what a use of the page set off, if it set something off.
    pub(super) async fn settled(&self, which: &Which) {
        let begun = |tab: &Tab| tab.target == which.target && (tab.loading || tab.url != which.url);
        if self.until(SETTLING, |state| state.tabs.iter().any(begun)).await {
            self.loaded(which).await;
        }
    }

    /// Runs our own script beside the page, where the page's scripts cannot touch it. Its answer is still the page's.
    pub(super) async fn beside(&self, which: &Which, script: &str) -> Result<Value, ToolFailure> {
        let session = Some(which.session.as_str());
        let world = json!({ "frameId": which.target, "worldName": "tidegate" });
        let world = self.wire.call(session, "Page.createIsolatedWorld", world).await?;
        let ask = json!({
            "expression": script, "contextId": world["executionContextId"], "returnByValue": true,
        });
        let mut answer = self.wire.call(session, "Runtime.evaluate", ask).await?;
        Ok(answer["result"]["value"].take())
    }
}
