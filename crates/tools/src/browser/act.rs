//! Using a page, as a person at the keyboard would.

use serde_json::{Value, json};

use super::args::Direction;
use super::attend::Browser;
use super::keys;
use super::page::Which;
use super::snapshot::Meant;
use crate::tool::ToolFailure;

const CLICK: &str = "function() { this.click(); }";
const CHOOSE_ALL: &str = "function() { this.focus(); if (this.select) this.select(); else { const range = document.createRange(); \
                          range.selectNodeContents(this); const all = getSelection(); all.removeAllRanges(); all.addRange(range); } }";
const SELECT: &str = "function(wanted) { if (!(this instanceof HTMLSelectElement)) return false; let found = 0; \
                      for (const option of this.options) { const is = wanted.includes(option.value) || wanted.includes(option.label.trim()); \
                      if (is) found++; if (this.multiple) option.selected = is; else if (is) { this.value = option.value; } } \
                      this.dispatchEvent(new Event('input', { bubbles: true })); this.dispatchEvent(new Event('change', { bubbles: true })); \
                      return found > 0; }";

impl Browser {
    /// What a name from the last snapshot means.
    pub(super) fn meant(&self, which: &Which, name: &str) -> Result<Meant, ToolFailure> {
        let state = self.state();
        let tab = state.tabs.iter().find(|tab| tab.target == which.target);
        tab.and_then(|tab| tab.names.find(name)).cloned().ok_or_else(|| {
            ToolFailure::execution(format!(
                "{name:?} is nothing on this page: take a snapshot and use a ref from it"
            ))
        })
    }

    pub(super) async fn click(&self, which: &Which, meant: &Meant, twice: bool) -> Result<(), ToolFailure> {
        let node = json!({ "backendNodeId": meant.node });
        if meant.session != which.session {
            // A frame in a process of its own has other coordinates.
            return self.on(meant, CLICK, json!([])).await.map(drop);
        }
        let session = Some(which.session.as_str());
        let _ = self.wire.call(session, "DOM.scrollIntoViewIfNeeded", node.clone()).await;
        let quads = self.wire.call(session, "DOM.getContentQuads", node).await;
        let Some((x, y)) = quads.ok().as_ref().and_then(middle) else {
            return Err(ToolFailure::execution("it cannot be clicked: it is not visible"));
        };
        let mouse = |kind: &str, count: u8| json!({ "type": kind, "x": x, "y": y, "button": if count == 0 { "none" } else { "left" }, "clickCount": count });
        let mut moves = vec![mouse("mouseMoved", 0), mouse("mousePressed", 1), mouse("mouseReleased", 1)];
        if twice {
            moves.extend([mouse("mousePressed", 2), mouse("mouseReleased", 2)]);
        }
        for event in moves {
            self.wire.call(session, "Input.dispatchMouseEvent", event).await?;
        }
        Ok(())
    }

    /// Types instead of what is there.
    pub(super) async fn type_text(
        &self,
        which: &Which,
        meant: &Meant,
        text: &str,
    ) -> Result<(), ToolFailure> {
        let focus = json!({ "backendNodeId": meant.node });
        let focused = self.wire.call(Some(&meant.session), "DOM.focus", focus).await;
        focused.map_err(|_| ToolFailure::execution("nothing can be typed into it"))?;
        self.on(meant, CHOOSE_ALL, json!([])).await?;
        if text.is_empty() {
            return self.press(which, "Delete").await;
        }
        self.wire.call(Some(&which.session), "Input.insertText", json!({ "text": text })).await?;
        Ok(())
    }

    pub(super) async fn press(&self, which: &Which, key: &str) -> Result<(), ToolFailure> {
        let events = keys::events(key).ok_or_else(|| ToolFailure::arguments(format!("{key:?} is no key")))?;
        for event in events {
            self.wire.call(Some(&which.session), "Input.dispatchKeyEvent", event).await?;
        }
        Ok(())
    }

    pub(super) async fn select(&self, meant: &Meant, values: &[String]) -> Result<(), ToolFailure> {
        let found = self.on(meant, SELECT, json!([{ "value": values }])).await?;
        if found == true {
            return Ok(());
        }
        Err(ToolFailure::execution("none of these can be chosen there"))
    }

    /// Moves the page, or brings something into view. Answers where it is then.
    pub(super) async fn scroll(
        &self,
        which: &Which,
        meant: Option<&Meant>,
        direction: Direction,
    ) -> Result<Value, ToolFailure> {
        if let Some(meant) = meant {
            let node = json!({ "backendNodeId": meant.node });
            self.wire.call(Some(&meant.session), "DOM.scrollIntoViewIfNeeded", node).await?;
        }
        let (x, y) = match (meant, direction) {
            (Some(_), _) => ("0", "0"),
            (None, Direction::Up) => ("0", "-innerHeight * 0.9"),
            (None, Direction::Down) => ("0", "innerHeight * 0.9"),
            (None, Direction::Left) => ("-innerWidth * 0.9", "0"),
            (None, Direction::Right) => ("innerWidth * 0.9", "0"),
        };
        let script = format!(
            "(() => {{ scrollBy({{ left: {x}, top: {y}, behavior: 'instant' }}); \
             return {{ x: Math.round(scrollX), y: Math.round(scrollY), height: document.documentElement.scrollHeight, view: innerHeight }}; }})()"
        );
        self.beside(which, &script).await
    }

    /// Runs one of our own functions on a thing of a page.
    async fn on(&self, meant: &Meant, function: &str, arguments: Value) -> Result<Value, ToolFailure> {
        let session = Some(meant.session.as_str());
        let found = self.wire.call(session, "DOM.resolveNode", json!({ "backendNodeId": meant.node })).await;
        let found =
            found.map_err(|_| ToolFailure::execution("it is gone from the page: take a new snapshot"))?;
        let call = json!({
            "objectId": found["object"]["objectId"], "functionDeclaration": function,
            "arguments": arguments, "returnByValue": true, "userGesture": true,
        });
        let mut answer = self.wire.call(session, "Runtime.callFunctionOn", call).await?;
        Ok(answer["result"]["value"].take())
    }

    /// Runs a script of the model in the page. What it answers, or throws, is the page's word.
    pub(super) async fn evaluate(&self, which: &Which, script: &str) -> Result<String, ToolFailure> {
        let ask =
            json!({ "expression": script, "returnByValue": true, "awaitPromise": true, "timeout": 5_000 });
        let answer = self.wire.call(Some(&which.session), "Runtime.evaluate", ask).await?;
        if let Some(thrown) = answer["exceptionDetails"]["exception"]["description"].as_str() {
            return Ok(format!("thrown: {thrown}"));
        }
        Ok(match &answer["result"]["value"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }
}

/// The middle of the first part of a thing that has a size.
fn middle(quads: &Value) -> Option<(f64, f64)> {
    quads["quads"].as_array()?.iter().find_map(|quad| {
        let at: Vec<f64> = quad.as_array()?.iter().filter_map(Value::as_f64).collect();
        let [x1, y1, x2, y2, x3, y3, x4, y4] = at.try_into().ok()?;
        let area = ((x3 - x1) * (y4 - y2) - (x4 - x2) * (y3 - y1)).abs() / 2.0;
        (area >= 1.0).then_some(((x1 + x2 + x3 + x4) / 4.0, (y1 + y2 + y3 + y4) / 4.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_click_goes_to_the_middle_of_what_has_a_size() {
        let quads = json!({ "quads": [[5, 5, 5, 5, 5, 5, 5, 5], [0, 0, 10, 0, 10, 20, 0, 20]] });
        assert_eq!(middle(&quads), Some((5.0, 10.0)));
        assert_eq!(middle(&json!({ "quads": [] })), None);
        assert_eq!(middle(&json!({ "quads": [[1, 2]] })), None);
    }
}
