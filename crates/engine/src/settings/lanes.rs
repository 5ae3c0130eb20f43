//! How many runs of which kind are under way at once.

use std::time::Duration;

use super::Settings;
use crate::lanes::LaneLimits;

impl Settings {
    /// Each limit has one meaning, whichever of its names it was given under; a file that gives both and differently is
    /// not loaded.
    pub fn lanes(&self) -> LaneLimits {
        let (lanes, defaults) = (&self.config.lanes, &self.config.agents.defaults);
        let usual = LaneLimits::default();
        let size = |said: Option<u32>, usual: usize| {
            said.map_or(usual, |said| usize::try_from(said).unwrap_or(usize::MAX))
        };
        LaneLimits {
            main: size(lanes.main.or(defaults.max_concurrent), usual.main),
            cron: size(lanes.cron.or(self.config.cron.max_concurrent_runs), usual.cron),
            subagent: size(lanes.subagent.or(defaults.subagents.max_concurrent), usual.subagent),
            nested: size(lanes.nested, usual.nested),
            warn_after: (lanes.warn_after_ms > 0).then(|| Duration::from_millis(lanes.warn_after_ms)),
            ..usual
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidegate_config::schema::Config;

    use super::*;

    fn lanes(config: Value) -> LaneLimits {
        let config: Config = serde_json::from_value(config).unwrap();
        Settings { config: Box::new(config), ..Settings::default() }.lanes()
    }

    #[test]
    fn a_limit_may_be_given_under_either_of_its_names() {
        let usual = LaneLimits::default();
        assert_eq!(lanes(json!({})), usual);
        let plain = json!({"lanes": {"main": 7, "cron": 6, "subagent": 5, "nested": 4, "warnAfterMs": 0}});
        let told = LaneLimits { main: 7, cron: 6, subagent: 5, nested: 4, warn_after: None, ..usual };
        assert_eq!(lanes(plain), told);
        let known = json!({
            "agents": {"defaults": {"maxConcurrent": 7, "subagents": {"maxConcurrent": 5}}},
            "cron": {"maxConcurrentRuns": 6},
        });
        assert_eq!(lanes(known), LaneLimits { main: 7, cron: 6, subagent: 5, ..usual });
    }
}
