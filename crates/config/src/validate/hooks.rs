//! What must hold between the keys of `hooks`.

use super::view::View;
use crate::problem::Problem;

const PRESETS: [&str; 1] = ["gmail"];

pub(super) fn check(root: &View<'_>, found: &mut Vec<Problem>) {
    let Some(hooks) = root.key("hooks") else { return };
    let enabled = hooks.key("enabled").is_some_and(|enabled| *enabled.value == true);
    let has_token =
        hooks.key("token").and_then(|token| token.text()).is_some_and(|token| !token.trim().is_empty());
    if enabled && !has_token {
        found.push(hooks.problem("hooks.enabled requires hooks.token"));
    }
    if let Some(path) = hooks.key("path").filter(|path| path.text().is_some_and(|text| text.trim() == "/")) {
        found.push(path.problem("hooks.path may not be '/'"));
    }
    for preset in hooks.key("presets").iter().flat_map(View::items) {
        if preset.text().is_some_and(|name| !PRESETS.contains(&name)) {
            let known = PRESETS.join(", ");
            found.push(preset.problem(format!("there is no preset {}; known: {known}", preset.shown())));
        }
    }
}
