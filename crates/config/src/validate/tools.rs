//! What must hold between the keys about tools.
//!
//! A list that names a tool nobody has does not do what its owner thinks: above all a `deny` with a slip of the pen in
//! it. So every pattern has to mean something. Whether a rule does what its examples say is found out by `policy`.

use serde_json::Value;

use super::view::View;
use super::{custom, rules, suggest};
use crate::problem::{Problem, ProblemKind};
use crate::schema::{FOREIGN_TOOLS, KNOWN_TOOLS, TOOL_ALIASES, TOOL_GROUPS};

/// What a custom tool is called begins with this.
pub(super) const CUSTOM: &str = "tools.custom.";

pub(super) fn check(root: &View<'_>, found: &mut Vec<Problem>) {
    let tools = root.key("tools");
    let agents = root.of_agents("tools");
    let custom_tools = root.at(&["tools", "custom"]);
    let servers = root.at(&["mcp", "servers"]);
    let own = Own {
        tools: custom_tools
            .iter()
            .flat_map(View::entries)
            .map(|(name, _)| format!("{CUSTOM}{name}"))
            .collect(),
        servers: servers.iter().flat_map(View::entries).map(|(name, _)| format!("mcp.{name}.")).collect(),
    };
    let providers = rules::provider_names(root);
    for holder in tools.iter().chain(&agents) {
        patterns(holder, &own, found);
        by_provider(holder, &providers, found);
        tool_rules(holder, found);
    }
    if let Some(tools) = &tools {
        exec(tools, found);
        web(tools, found);
        loop_detection(tools, found);
        custom::check(tools, found);
    }
    for agent in &agents {
        tightening(root, agent, found);
    }
}

/// Tools that are not part of the program.
struct Own {
    tools: Vec<String>,
    /// What the names of MCP servers' tools begin with; the rest is known only once they run.
    servers: Vec<String>,
}

impl Own {
    /// Whether a name or glob can mean a tool of a server.
    fn may_be_served(&self, wanted: &str) -> bool {
        let plain = wanted.split('*').next().unwrap_or_default();
        let is_glob = plain.len() < wanted.len();
        self.servers.iter().any(|server| wanted.starts_with(server) || is_glob && server.starts_with(plain))
    }
}

/// Every place of a holder where tools are named.
fn patterns(holder: &View<'_>, own: &Own, found: &mut Vec<Problem>) {
    let mut lists: Vec<View<'_>> =
        ["allow", "deny", "alsoAllow"].into_iter().filter_map(|key| holder.key(key)).collect();
    let providers = holder.key("byProvider");
    let stages = ["sandbox", "subagents"].into_iter().filter_map(|key| holder.at(&[key, "tools"]));
    let narrower = providers.iter().flat_map(View::entries).map(|(_, provider)| provider).chain(stages);
    lists.extend(
        narrower.flat_map(|lists| ["allow", "deny"].into_iter().filter_map(move |key| lists.key(key))),
    );
    for pattern in lists.iter().flat_map(View::items) {
        if let Some(text) = pattern.text() {
            pattern_means_something(text, &pattern, own, found);
        }
    }
    for (text, mode) in holder.key("modes").iter().flat_map(View::entries) {
        pattern_means_something(text, &mode, own, found);
    }
    for tool in holder.key("rules").iter().flat_map(View::items).filter_map(|rule| rule.key("tool")) {
        if let Some(text) = tool.text() {
            pattern_means_something(text, &tool, own, found);
        }
    }
}

fn pattern_means_something(text: &str, at: &View<'_>, own: &Own, found: &mut Vec<Problem>) {
    let wanted = text.trim().to_lowercase();
    let known = || {
        let shipped = [KNOWN_TOOLS, FOREIGN_TOOLS, TOOL_ALIASES].into_iter().flatten().copied();
        shipped.chain(own.tools.iter().map(String::as_str))
    };
    if own.may_be_served(&wanted) {
        return;
    }
    if wanted.starts_with("group:") {
        if !TOOL_GROUPS.contains(&wanted.as_str()) {
            let all = matches!(wanted.as_str(), "group:openclaw" | "group:clawdbot");
            let meant = if all {
                Some("group:tidegate".to_owned())
            } else {
                suggest::nearest(&wanted, TOOL_GROUPS.iter().copied())
            };
            found.push(at.problem(format!("there is no group of tools {text:?}")).suggesting(meant));
        }
    } else if wanted.contains('*') {
        if !known().any(|name| covers(&wanted, name)) {
            found.push(at.problem(format!("no tool has a name like {text:?}")));
        }
    } else if !known().any(|name| name == wanted) {
        let meant = suggest::nearest(&wanted, known());
        found.push(at.problem(format!("there is no tool {text:?}")).suggesting(meant));
    }
}

/// Whether a glob with `*` covers a name.
fn covers(glob: &str, name: &str) -> bool {
    let Some((start, rest)) = glob.split_once('*') else { return glob == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let mut pieces = rest.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return left.ends_with(piece);
        }
        let Some(at) = left.find(piece) else { return false };
        left = &left[at + piece.len()..];
    }
    true
}

fn by_provider(holder: &View<'_>, providers: &[&str], found: &mut Vec<Problem>) {
    for (name, entry) in holder.key("byProvider").iter().flat_map(View::entries) {
        let provider = name.split_once('/').map_or(name, |(provider, _)| provider);
        if !providers.contains(&provider) {
            let meant = suggest::nearest(provider, providers.iter().copied());
            let message = format!("{provider:?} is neither a known provider nor in models.providers");
            found.push(entry.problem(message).suggesting(meant));
        }
    }
}

fn tool_rules(holder: &View<'_>, found: &mut Vec<Problem>) {
    let mut names: Vec<(&str, String)> = Vec::new();
    for rule in holder.key("rules").iter().flat_map(View::items) {
        if let Some(name) = rule.key("name")
            && let Some(text) = name.text()
        {
            match names.iter().find(|(known, _)| *known == text) {
                Some((_, first)) => {
                    found.push(name.problem(format!("the name {} is already that of {first}", name.shown())));
                }
                None => names.push((text, rule.path.clone())),
            }
        }
        let says = |key: &str| rule.key(key).is_some_and(|conditions| conditions.entries().next().is_some());
        if rule.value.is_object() && !says("when") && !says("unless") {
            let message = "the rule applies to every call of its tools; say so in modes, or give it a `when`";
            found.push(rule.problem(message));
        }
    }
}

fn exec(tools: &View<'_>, found: &mut Vec<Problem>) {
    let Some(exec) = tools.key("exec") else { return };
    if let Some(host) = exec.key("host").filter(|host| host.text() == Some("node")) {
        found.push(
            host.problem("commands on paired devices are not available yet; \"sandbox\" and \"gateway\" are"),
        );
    }
    for folder in exec.key("pathPrepend").iter().flat_map(View::items) {
        if folder.text().is_some_and(|text| !text.starts_with('/')) {
            found.push(folder.problem(format!("expected an absolute path, got {}", folder.shown())));
        }
    }
    for name in exec.key("safeBins").iter().flat_map(View::items) {
        if name.text().is_some_and(|text| text.is_empty() || text.contains('/')) {
            let message = format!("expected the bare name of a program, got {}", name.shown());
            found.push(name.problem(message));
        }
    }
    if let Some(env) = exec.key("env") {
        variable_names(&env, found);
    }
}

/// Names that a program can be started with.
pub(super) fn variable_names(env: &View<'_>, found: &mut Vec<Problem>) {
    for (name, value) in env.entries() {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(plain) {
            let message = "a variable's name has letters, digits and _, with no digit first";
            found.push(value.problem(message));
        }
    }
}

fn web(tools: &View<'_>, found: &mut Vec<Problem>) {
    if let Some(search) = tools.at(&["web", "search"]) {
        let url = search.key("baseUrl");
        if search.key("provider").and_then(|provider| provider.text()) == Some("searxng") && url.is_none() {
            let message = "required key is missing because the provider is \"searxng\"; \
                           it takes the server's address, as https://host";
            found.push(Problem::new(ProblemKind::Required, search.path_of("baseUrl"), message));
        }
        if let Some(url) = url {
            rules::web_address(&url, found);
        }
    }
    for address in tools.at(&["web", "allowPrivate"]).iter().flat_map(View::items) {
        let Some(text) = address.text() else { continue };
        let parts = text.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains('/'));
        if parts.is_none_or(|(_, port)| port.parse::<u16>().map_or(true, |port| port == 0)) {
            found.push(address.problem(format!("expected an address as host:port, got {}", address.shown())));
        }
    }
}

fn loop_detection(tools: &View<'_>, found: &mut Vec<Problem>) {
    let number = |key: &str, default: u64| {
        tools.at(&["loopDetection", key]).map_or(Some(default), |at| at.value.as_u64())
    };
    let (Some(warn), Some(stop)) = (number("warnAt", 3), number("stopAt", 5)) else { return };
    if let Some(section) = tools.key("loopDetection").filter(|_| stop < warn) {
        let message = format!("a call cannot be stopped ({stop}) before the model was warned ({warn})");
        found.push(section.problem(message));
    }
}

/// An agent that asks for more than all agents may have does not get it, so it must not look as if.
fn tightening(root: &View<'_>, agent: &View<'_>, found: &mut Vec<Problem>) {
    // From the strictest to the weakest.
    let orders = [
        ("security", ["deny", "allowlist", "full"], "allowlist"),
        ("ask", ["always", "on-miss", "off"], "on-miss"),
    ];
    for (key, order, default) in orders {
        let Some(own) = agent.at(&["exec", key]) else { continue };
        let all = root.at(&["tools", "exec", key]);
        let all = all.as_ref().map_or(Some(default), View::text);
        let place = |text: Option<&str>| order.iter().position(|known| Some(*known) == text);
        if let (Some(mine), Some(theirs)) = (place(own.text()), place(all))
            && mine > theirs
        {
            let message = format!(
                "an agent can only be stricter than tools.exec.{key}, which is {}",
                Value::from(order[theirs])
            );
            found.push(own.problem(message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn complaints(document: &Value) -> Vec<String> {
        let mut found = Vec::new();
        check(&View::new(document, document), &mut found);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_pattern_means_a_tool() {
        let document = json!({
            "tools": {
                "allow": ["fs.*", "group:fs", "Exec", "bash", "tools.custom.deploy", "*"],
                "deny": ["web_serch", "x*y", "group:wbe", "group:openclaw", "tools.custom.deply"],
                "modes": {"exce": "deny", "browser": "deny"},
                "byProvider": {"openai": {"deny": ["proces"]}, "opnai/gpt": {}},
                "custom": {"deploy": {"description": "d", "command": ["/bin/true"]}},
            },
            "agents": {"list": [{"id": "a", "tools": {"alsoAllow": ["wirte"], "sandbox": {"tools": {"deny": ["raed"]}}}}]},
        });
        assert_eq!(
            complaints(&document),
            [
                r#"tools.deny[0]: there is no tool "web_serch", did you mean "web_search"?"#,
                r#"tools.deny[1]: no tool has a name like "x*y""#,
                r#"tools.deny[2]: there is no group of tools "group:wbe", did you mean "group:web"?"#,
                r#"tools.deny[3]: there is no group of tools "group:openclaw", did you mean "group:tidegate"?"#,
                r#"tools.deny[4]: there is no tool "tools.custom.deply", did you mean "tools.custom.deploy"?"#,
                r#"tools.byProvider.openai.deny[0]: there is no tool "proces", did you mean "process"?"#,
                r#"tools.modes.exce: there is no tool "exce", did you mean "exec"?"#,
                r#"tools.byProvider.opnai/gpt: "opnai" is neither a known provider nor in models.providers, did you mean "openai"?"#,
                r#"agents.list[0].tools.alsoAllow[0]: there is no tool "wirte", did you mean "write"?"#,
                r#"agents.list[0].tools.sandbox.tools.deny[0]: there is no tool "raed", did you mean "read"?"#,
            ]
        );
    }

    #[test]
    fn a_glob_covers_what_has_its_pieces_in_order() {
        for (glob, name, expected) in [
            ("*", "exec", true),
            ("fs.*", "fs.read_file", true),
            ("fs.*", "read", false),
            ("*_file", "fs.read_file", true),
            ("f*r*e", "fs.read_file", true),
            ("f*x*e", "fs.read_file", false),
            ("ab*ba", "aba", false),
            ("ls*", "ls", true),
        ] {
            assert_eq!(covers(glob, name), expected, "{glob} {name}");
        }
    }

    #[test]
    fn a_rule_has_its_own_name_and_something_to_look_at() {
        let rules = json!([
            {"name": "a", "mode": "deny", "when": {"path": ["x"]}},
            {"name": "a", "mode": "deny", "unless": {"path": ["x"]}},
            {"name": "b", "tool": "exec", "mode": "deny"},
        ]);
        assert_eq!(
            complaints(&json!({"tools": {"rules": rules}})),
            [
                r#"tools.rules[1].name: the name "a" is already that of tools.rules[0]"#,
                "tools.rules[2]: the rule applies to every call of its tools; say so in modes, or give it a `when`",
            ]
        );
    }

    #[test]
    fn commands_run_where_they_can() {
        let exec = json!({"host": "node", "pathPrepend": ["bin", "/opt/bin"], "safeBins": ["/bin/sort", "wc"],
            "env": {"A_1": "x", "1A": "x", "A-B": "x"}});
        assert_eq!(
            complaints(&json!({"tools": {"exec": exec}})),
            [
                "tools.exec.host: commands on paired devices are not available yet; \"sandbox\" and \"gateway\" are",
                r#"tools.exec.pathPrepend[0]: expected an absolute path, got "bin""#,
                r#"tools.exec.safeBins[0]: expected the bare name of a program, got "/bin/sort""#,
                "tools.exec.env.1A: a variable's name has letters, digits and _, with no digit first",
                "tools.exec.env.A-B: a variable's name has letters, digits and _, with no digit first",
            ]
        );
    }

    #[test]
    fn an_agent_can_only_be_stricter_about_commands() {
        let document = |security: Value, ask: Value| {
            json!({"tools": {"exec": {"security": security}},
                "agents": {"list": [{"id": "a", "tools": {"exec": {"security": "allowlist", "ask": ask}}}]}})
        };
        assert_eq!(complaints(&document(json!("full"), json!("always"))), Vec::<String>::new());
        assert_eq!(complaints(&document(json!("allowlist"), json!("on-miss"))), Vec::<String>::new());
        assert_eq!(
            complaints(&document(json!("deny"), json!("off"))),
            [
                r#"agents.list[0].tools.exec.security: an agent can only be stricter than tools.exec.security, which is "deny""#,
                r#"agents.list[0].tools.exec.ask: an agent can only be stricter than tools.exec.ask, which is "on-miss""#,
            ]
        );
    }

    #[test]
    fn the_web_is_reached_by_addresses() {
        let web = json!({"search": {"provider": "searxng"},
            "allowPrivate": ["10.0.0.1:80", "[::1]:8080", "nas", "http://nas:80", "nas:0", ":80"]});
        assert_eq!(
            complaints(&json!({"tools": {"web": web}})),
            [
                "tools.web.search.baseUrl: required key is missing because the provider is \"searxng\"; it takes the server's address, as https://host",
                r#"tools.web.allowPrivate[2]: expected an address as host:port, got "nas""#,
                r#"tools.web.allowPrivate[3]: expected an address as host:port, got "http://nas:80""#,
                r#"tools.web.allowPrivate[4]: expected an address as host:port, got "nas:0""#,
                r#"tools.web.allowPrivate[5]: expected an address as host:port, got ":80""#,
            ]
        );
    }

    #[test]
    fn a_loop_is_warned_about_before_it_is_stopped() {
        let with = |section: Value| complaints(&json!({"tools": {"loopDetection": section}}));
        assert_eq!(with(json!({"warnAt": 5, "stopAt": 5})), Vec::<String>::new());
        assert_eq!(
            with(json!({"warnAt": 6})),
            ["tools.loopDetection: a call cannot be stopped (5) before the model was warned (6)"]
        );
    }
}
