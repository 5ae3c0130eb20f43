//! Lists of hosts: each entry is one, or everything below a domain.

use url::Host;

use super::view::View;
use crate::problem::Problem;

pub(super) fn check(root: &View<'_>, found: &mut Vec<Problem>) {
    if let Some(egress) = root.key("egress") {
        lists(&egress, found);
        for workspace in egress.key("workspaces").iter().flat_map(View::entries) {
            lists(&workspace.1, found);
        }
        for credential in egress.key("credentials").iter().flat_map(View::entries) {
            if let Some(host) = credential.1.key("host")
                && host.text().is_some_and(|text| !is_host(text))
            {
                found.push(host.problem(format!("expected one host, as example.com, got {}", host.shown())));
            }
        }
    }
    let usual = root.at(&["agents", "defaults", "sandbox"]);
    for holder in usual.into_iter().chain(root.of_agents("sandbox")).chain(root.of_agents("egress")) {
        lists(&holder, found);
    }
}

fn lists(holder: &View<'_>, found: &mut Vec<Problem>) {
    let lists = ["allowHosts", "denyHosts"].into_iter().filter_map(|key| holder.key(key));
    for entry in lists.flat_map(|list| list.items().collect::<Vec<_>>()) {
        if entry.text().is_some_and(|text| !is_pattern(text)) {
            let message = format!("expected a host as example.com or *.example.com, got {}", entry.shown());
            found.push(entry.problem(message));
        }
    }
}

fn is_pattern(text: &str) -> bool {
    match text.strip_prefix("*.") {
        Some(domain) => is_host(domain) && matches!(Host::parse(domain), Ok(Host::Domain(_))),
        None => is_host(text),
    }
}

/// Whether policy reads it as a host; crate `policy` compares them.
fn is_host(text: &str) -> bool {
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return true;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let label = |label: &str| !label.is_empty() && label.chars().all(plain);
    match Host::parse(text) {
        Ok(Host::Domain(domain)) => domain.strip_suffix('.').unwrap_or(&domain).split('.').all(label),
        Ok(_) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn complaints(document: &Value) -> Vec<String> {
        let mut found = Vec::new();
        check(&View::new(document, document), &mut found);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_entry_is_a_host() {
        let document = json!({
            "egress": {
                "allowHosts": ["example.com", "*.example.com", "bücher.example", "8.8.8.8", "::1", "*", "http://a.b"],
                "denyHosts": ["a.b:80"],
                "workspaces": {"default": {"denyHosts": ["a/b", "c.d"]}},
                "credentials": {"api": {"host": "*.example.com", "value": "x"}},
            },
            "agents": {
                "defaults": {"sandbox": {"allowHosts": ["pypi.org", "!x.org"]}},
                "list": [{"id": "a", "egress": {"allowHosts": [""]}, "sandbox": {"allowHosts": ["*.1.2.3.4"]}}],
            },
        });
        let expected = |place: &str, got: &str| {
            format!("{place}: expected a host as example.com or *.example.com, got {}", json!(got))
        };
        assert_eq!(
            complaints(&document),
            [
                expected("egress.allowHosts[5]", "*"),
                expected("egress.allowHosts[6]", "http://a.b"),
                expected("egress.denyHosts[0]", "a.b:80"),
                expected("egress.workspaces.default.denyHosts[0]", "a/b"),
                "egress.credentials.api.host: expected one host, as example.com, got \"*.example.com\""
                    .to_owned(),
                expected("agents.defaults.sandbox.allowHosts[1]", "!x.org"),
                expected("agents.list[0].sandbox.allowHosts[0]", "*.1.2.3.4"),
                expected("agents.list[0].egress.allowHosts[0]", ""),
            ]
        );
    }
}
