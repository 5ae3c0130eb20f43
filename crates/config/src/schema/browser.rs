//! Section `browser`: the browser that agents use pages with.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Browser {
    /// Whether there is a tool `browser`. Its description is part of every request, and it starts a large program.
    pub enabled: bool,
    /// The program, by path or name; the usual names of Chromium's family are looked for when absent.
    pub executable: Option<String>,
    /// Whether it runs without a window.
    pub headless: bool,
    /// The profile of calls that name none: `default`, which keeps nothing, or one of `profiles`.
    pub profile: String,
    /// Profiles by name.
    pub profiles: BTreeMap<String, BrowserProfile>,
    /// Minutes after which a browser that nobody used is closed.
    #[schemars(range(min = 1, max = 1440))]
    pub idle_minutes: u32,
    /// Tabs a browser may have open.
    #[schemars(range(min = 1, max = 50))]
    pub max_tabs: u32,
    /// Whether agents may run scripts of their own in pages.
    pub evaluate: bool,
}

impl Default for Browser {
    fn default() -> Self {
        Self {
            enabled: false,
            executable: None,
            headless: true,
            profile: "default".to_owned(),
            profiles: BTreeMap::new(),
            idle_minutes: 10,
            max_tabs: 8,
            evaluate: false,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BrowserProfile {
    /// Whether cookies and everything else that pages leave behind is kept, for each agent.
    pub keep: bool,
}
