//! What a call of `browser` says.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::tool::ToolFailure;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    Status,
    Open,
    Navigate,
    Back,
    Forward,
    Tabs,
    Focus,
    Close,
    Snapshot,
    Screenshot,
    Pdf,
    Console,
    Click,
    Type,
    Press,
    Select,
    Scroll,
    Wait,
    Evaluate,
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Direction {
    Up,
    Down,
    Left,
    Right,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BrowserArgs {
    /// open: a new tab with url. navigate: the current tab to url. snapshot: the page as text, with a ref for everything
    /// that can be used. click, type, press, select: use the page. stop: close the browser.
    pub(super) action: Action,
    /// For open and navigate, with http:// or https://.
    #[serde(default)]
    pub(super) url: Option<String>,
    /// A tab from tabs, such as t1; the current one without it.
    #[serde(default)]
    pub(super) tab: Option<String>,
    /// From the last snapshot, such as e3; for click, type, select, scroll, screenshot.
    #[serde(rename = "ref", default)]
    pub(super) reference: Option<String>,
    /// What to type (instead of what is there); for wait, what has to be on the page.
    #[serde(default)]
    pub(super) text: Option<String>,
    /// Press Enter after typing.
    #[serde(default)]
    pub(super) submit: bool,
    /// For press, such as Enter, Tab, ArrowDown, Control+A.
    #[serde(default)]
    pub(super) key: Option<String>,
    /// For select: values or labels of options.
    #[serde(default)]
    pub(super) values: Vec<String>,
    #[serde(default)]
    pub(super) double_click: bool,
    /// For scroll (down).
    #[serde(default)]
    pub(super) direction: Option<Direction>,
    /// Of the screenshot: the whole page instead of what is in view.
    #[serde(default)]
    pub(super) full_page: bool,
    /// Where the pdf goes in the working folder (page.pdf).
    #[serde(default)]
    pub(super) path: Option<String>,
    /// For wait: what must be gone from the page.
    #[serde(default)]
    pub(super) text_gone: Option<String>,
    /// For wait, at most.
    #[schemars(range(min = 1, max = 30_000))]
    #[serde(default)]
    pub(super) time_ms: Option<u64>,
    /// Of a snapshot (20000).
    #[schemars(range(min = 500, max = 80_000))]
    #[serde(default)]
    pub(super) max_chars: Option<usize>,
    /// For evaluate: an expression in the page's own language.
    #[serde(rename = "fn", default)]
    pub(super) expression: Option<String>,
    /// A configured profile; the usual one without it.
    #[serde(default)]
    pub(super) profile: Option<String>,
}

impl BrowserArgs {
    pub(super) fn need<'a>(&self, name: &str, value: Option<&'a str>) -> Result<&'a str, ToolFailure> {
        value.filter(|value| !value.is_empty()).ok_or_else(|| {
            ToolFailure::arguments(format!("missing required argument for {}: {name}", self.action.name()))
        })
    }
}

impl Action {
    pub(super) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Whether it can make a page do something elsewhere.
    pub(super) fn uses_page(self) -> bool {
        matches!(self, Self::Click | Self::Type | Self::Press | Self::Select | Self::Evaluate)
    }

    /// Whether it is about the page in a tab.
    pub(super) fn sees_page(self) -> bool {
        !matches!(self, Self::Status | Self::Open | Self::Tabs | Self::Stop | Self::Close)
    }

    /// Whether it makes sense without a browser that runs.
    pub(super) fn starts(self) -> bool {
        matches!(self, Self::Open | Self::Navigate)
    }
}
