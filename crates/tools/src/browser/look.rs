//! Looking at a page: as text with names, at what it said, and until something is there.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::attend::Browser;
use super::page::Which;
use super::snapshot::{self, Frame};
use crate::tool::ToolFailure;
use crate::truncate::tail_bytes;

/// A page with more things in it is not asked for its whole tree.
const LARGE: u64 = 15_000;
/// Frames that are looked into.
const MOST_FRAMES: usize = 20;
/// Bytes of what a page said: the end of it.
const SAYINGS: usize = 16 << 10;
const LOOK_AGAIN: Duration = Duration::from_millis(150);

const COUNT: &str = "document.getElementsByTagName('*').length";
const TITLE: &str = "document.title.slice(0, 300)";

impl Browser {
    pub(super) async fn title(&self, which: &Which) -> String {
        let title = self.beside(which, TITLE).await;
        title.ok().as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// The page as text, and whether there was more.
    pub(super) async fn snapshot(&self, which: &Which, limit: usize) -> Result<(String, bool), ToolFailure> {
        let count = self.beside(which, COUNT).await?.as_u64().unwrap_or_default();
        if count > LARGE {
            return self.beginning(which, count, limit).await;
        }
        let page = self.frame(&which.session, None).await?;
        let inner = self.inner(which, &page).await;
        let mut state = self.state();
        let Some(tab) = state.tabs.iter_mut().find(|tab| tab.target == which.target) else {
            return Err(ToolFailure::execution("the tab was closed"));
        };
        Ok(snapshot::text(&page, &inner, &mut tab.names, limit))
    }

    /// Only the first words of a page that is too large for anything else.
    async fn beginning(
        &self,
        which: &Which,
        count: u64,
        limit: usize,
    ) -> Result<(String, bool), ToolFailure> {
        let script = format!(
            "(() => {{ const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); let out = ''; \
             while (out.length < {limit} && walk.nextNode()) {{ const text = walk.currentNode.data.trim(); \
             const tag = walk.currentNode.parentElement?.tagName; \
             if (text && tag !== 'SCRIPT' && tag !== 'STYLE') out += text.slice(0, {limit}) + '\\n'; }} \
             return out.slice(0, {limit}); }})()"
        );
        let text = self.beside(which, &script).await?;
        let text = text.as_str().unwrap_or_default();
        Ok((
            format!("(The page has {count} elements, too many for names; its first words are:)\n{text}"),
            true,
        ))
    }

    async fn frame(&self, session: &str, frame: Option<&str>) -> Result<Frame, ToolFailure> {
        let of = frame.map_or_else(|| json!({}), |frame| json!({ "frameId": frame }));
        let mut tree = self.wire.call(Some(session), "Accessibility.getFullAXTree", of).await?;
        let nodes = match tree["nodes"].take() {
            Value::Array(nodes) => nodes,
            _ => Vec::new(),
        };
        Ok(Frame { session: session.to_owned(), nodes })
    }

    /// The frames of a page, by the node that holds each. One that does not answer is left out.
    async fn inner(&self, which: &Which, page: &Frame) -> HashMap<u64, Frame> {
        let elsewhere = {
            let state = self.state();
            state
                .tabs
                .iter()
                .find(|tab| tab.target == which.target)
                .map(|tab| tab.frames.clone())
                .unwrap_or_default()
        };
        let holders = page.nodes.iter().filter(|node| node["role"]["value"] == "Iframe");
        let holders = holders.filter_map(|node| node["backendDOMNodeId"].as_u64());
        let mut inner = HashMap::new();
        for holder in holders.take(MOST_FRAMES) {
            let asked = json!({ "backendNodeId": holder });
            let node = self.wire.call(Some(&which.session), "DOM.describeNode", asked).await;
            let Some(id) = node.ok().and_then(|node| node["node"]["frameId"].as_str().map(str::to_owned))
            else {
                continue;
            };
            let frame = match elsewhere.get(&id) {
                Some(session) => self.frame(session, None).await,
                None => self.frame(&which.session, Some(&id)).await,
            };
            if let Ok(frame) = frame {
                inner.insert(holder, frame);
            }
        }
        inner
    }

    /// What the page said, and what it did not get.
    pub(super) fn console(&self, which: &Which) -> String {
        let state = self.state();
        let tab = state.tabs.iter().find(|tab| tab.target == which.target);
        let mut lines: Vec<String> =
            tab.into_iter().flat_map(|tab| tab.sayings().map(str::to_owned)).collect();
        lines.extend(self.egress.refusals().into_iter().map(|why| format!("not fetched: {why}")));
        if lines.is_empty() {
            "(nothing)".to_owned()
        } else {
            tail_bytes(&lines.join("\n"), SAYINGS).to_owned()
        }
    }

    /// Waits until a text is on the page, and another one is not. `false` when that did not come about.
    pub(super) async fn wait_for(
        &self,
        which: &Which,
        wanted: Option<&str>,
        unwanted: Option<&str>,
        within: Duration,
    ) -> Result<bool, ToolFailure> {
        let (wanted, unwanted) = (Value::from(wanted.unwrap_or("")), Value::from(unwanted));
        let script = format!(
            "(() => {{ const text = document.body ? document.body.innerText : ''; const gone = {unwanted}; \
             return text.includes({wanted}) && !(gone && text.includes(gone)); }})()"
        );
        let deadline = tokio::time::Instant::now() + within;
        loop {
            if self.beside(which, &script).await? == true {
                return Ok(true);
            }
            if tokio::time::Instant::now() + LOOK_AGAIN > deadline {
                return Ok(false);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}
