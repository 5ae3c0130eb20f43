//! What must hold of services and of the browser's profiles.

use super::suggest;
use super::tools::variable_names;
use super::view::View;
use crate::format::AGENT_ID;
use crate::problem::Problem;

pub(super) fn check(root: &View<'_>, found: &mut Vec<Problem>) {
    for (name, service) in root.key("services").iter().flat_map(View::entries) {
        if !(AGENT_ID.accepts)(name) {
            found.push(service.problem(format!("a service's name must be {}", AGENT_ID.expected)));
        }
        if let Some(env) = service.key("env") {
            variable_names(&env, found);
        }
        if let Some(health) = service.key("health") {
            one_way_to_look(&health, found);
        }
    }
    if let Some(browser) = root.key("browser") {
        profiles(&browser, found);
    }
}

fn one_way_to_look(health: &View<'_>, found: &mut Vec<Problem>) {
    let command = health.key("command").is_some_and(|command| command.items().next().is_some());
    let ways = [health.key("http").is_some(), health.key("tcp").is_some(), command];
    match ways.into_iter().filter(|way| *way).count() {
        0 => found.push(health.problem("say how to look: give it one of `http`, `tcp` and `command`")),
        1 => {}
        _ => found.push(health.problem("one of `http`, `tcp` and `command`, not several")),
    }
    if let Some(url) = health.key("http")
        && url.text().is_some_and(|text| !text.starts_with("http://") && !text.starts_with("https://"))
    {
        found.push(url.problem(format!("expected an address with http:// or https://, got {}", url.shown())));
    }
    if let Some(place) = health.key("tcp") {
        let is_place = |text: &str| {
            text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        if place.text().is_some_and(|text| !is_place(text)) {
            found.push(place.problem(format!(
                "expected a host and a port, such as 127.0.0.1:8080, got {}",
                place.shown()
            )));
        }
    }
}

fn profiles(browser: &View<'_>, found: &mut Vec<Problem>) {
    let profiles = browser.key("profiles");
    let names: Vec<&str> = profiles.iter().flat_map(View::entries).map(|(name, _)| name).collect();
    for (name, profile) in profiles.iter().flat_map(View::entries) {
        if !(AGENT_ID.accepts)(name) {
            found.push(profile.problem(format!("a profile's name must be {}", AGENT_ID.expected)));
        }
    }
    if let Some(chosen) = browser.key("profile")
        && let Some(text) = chosen.text()
        && text != "default"
        && !names.contains(&text)
    {
        let meant = suggest::nearest(text, names.iter().copied());
        found.push(chosen.problem(format!("browser.profiles has no {}", chosen.shown())).suggesting(meant));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(document: &serde_json::Value) -> Vec<String> {
        let mut found = Vec::new();
        check(&View::new(document, document), &mut found);
        found.into_iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
    }

    #[test]
    fn a_service_is_looked_at_in_one_way() {
        let service =
            |health: serde_json::Value| json!({ "services": { "db": { "command": "x", "health": health } } });
        let none = messages(&service(json!({ "intervalSeconds": 3 })));
        assert_eq!(none, ["services.db.health: say how to look: give it one of `http`, `tcp` and `command`"]);
        let both = messages(&service(json!({ "tcp": "a:1", "http": "http://a/" })));
        assert_eq!(both, ["services.db.health: one of `http`, `tcp` and `command`, not several"]);
        assert_eq!(messages(&service(json!({ "tcp": "nowhere" }))).len(), 1);
        assert_eq!(messages(&service(json!({ "http": "ftp://a/" }))).len(), 1);
        assert_eq!(messages(&service(json!({ "command": ["true"] }))), Vec::<String>::new());
    }

    #[test]
    fn names_become_files_and_variables() {
        let document = json!({ "services": { "../x": { "command": "x", "env": { "A B": "1" } } } });
        assert_eq!(messages(&document).len(), 2);
    }

    #[test]
    fn a_profile_that_is_chosen_is_there() {
        let document = json!({ "browser": { "profile": "wrok", "profiles": { "work": { "keep": true } } } });
        assert_eq!(messages(&document), ["browser.profile: browser.profiles has no \"wrok\""]);
        assert_eq!(messages(&json!({ "browser": { "profile": "default" } })), Vec::<String>::new());
    }
}
