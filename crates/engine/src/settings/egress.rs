//! From configuration to what agents may reach.

use tidegate_config::schema::HostLists;
use tidegate_net::{Guard, NamedSecret, ProxyCredential};
use tidegate_policy::{HostLevel, HostPattern, HostRefusal, HostRules};
use tidegate_protocol::Scope;

use super::Settings;

impl Settings {
    /// Which hosts an agent may reach: what its tenant, its workspace and it itself leave of all there are.
    pub fn host_rules(&self, scope: &Scope) -> HostRules {
        let egress = &self.config.egress;
        let tenant = level("egress", egress.allow_hosts.as_deref(), &egress.deny_hosts);
        let lists =
            |key: &str, lists: &HostLists| level(key, lists.allow_hosts.as_deref(), &lists.deny_hosts);
        let workspace = scope.workspace.as_str();
        let workspace =
            egress.workspaces.get(workspace).map(|own| lists(&format!("egress.workspaces.{workspace}"), own));
        let agent = self
            .agent(&scope.agent)
            .map(|agent| lists(&format!("agents.list[{}].egress", agent.id), &agent.egress));
        let levels = std::iter::once(tenant).chain(workspace).chain(agent);
        levels
            .filter(|level| level.allow.is_some() || !level.deny.is_empty())
            .fold(HostRules::default(), HostRules::and)
    }

    /// What is left of the hosts that an agent's programs may reach.
    pub(super) fn program_hosts(&self, scope: &Scope, hosts: &[String]) -> Vec<String> {
        self.host_rules(scope).narrow_list(&patterns(hosts).unwrap_or_default())
    }

    /// The hosts of an agent's programs that the rules take away again, and which key does.
    pub fn withheld_hosts(&self, scope: &Scope) -> Vec<HostRefusal> {
        let rules = self.host_rules(scope);
        let mut hosts = self.sandbox_hosts(scope);
        // Of everything below a domain a part may be left.
        hosts.retain(|host| !host.starts_with("*."));
        hosts.iter().filter_map(|host| rules.judge(host).err()).collect()
    }

    /// Keys that are put into the requests of programs on their way out.
    pub fn egress_credentials(&self) -> Vec<ProxyCredential> {
        let credentials = self.config.egress.credentials.iter();
        let read = credentials.map(|(name, said)| ProxyCredential {
            name: name.clone(),
            host: said.host.clone(),
            header: said.header.clone(),
            value: said.value.clone(),
            https: said.https,
        });
        read.collect()
    }

    /// Judges the addresses that models and programs choose. What the operator wrote was checked when the file was read;
    /// an address that cannot be read after all allows nothing.
    pub fn guard(&self) -> Guard {
        Guard::allowing(self.private_addresses()).unwrap_or_default()
    }

    /// What the configuration holds that must not leave.
    pub fn secrets(&self) -> &[NamedSecret] {
        &self.secrets
    }
}

/// A level as it was written. One that cannot be read after all leaves nothing: the file was checked, and a rule that is
/// lost must not open anything.
fn level(key: &str, allow: Option<&[String]>, deny: &[String]) -> HostLevel {
    let read = || Some((allow.map(patterns).map_or(Some(None), |read| read.map(Some))?, patterns(deny)?));
    let (allow, deny) = read().unwrap_or_else(|| (Some(Vec::new()), Vec::new()));
    HostLevel { key: key.to_owned(), allow, deny }
}

fn patterns(texts: &[String]) -> Option<Vec<HostPattern>> {
    texts.iter().map(|text| HostPattern::parse(text).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_policy::Network;

    use crate::settings::tests::settings;

    #[test]
    fn tenant_workspace_and_agent_narrow_one_after_the_other() {
        let settings = settings(json!({
            "egress": {
                "allowHosts": ["*.example.com", "example.org"],
                "denyHosts": ["bad.example.com"],
                "workspaces": {"default": {"denyHosts": ["ws.example.com"]}, "other": {"allowHosts": []}},
            },
            "agents": {"list": [{"id": "main"}, {"id": "small", "egress": {"allowHosts": ["a.example.com", "evil.test"]}}]},
        }));
        for (agent, host, key) in [
            ("main", "a.example.com", None),
            ("main", "example.org", None),
            ("main", "evil.test", Some("egress.allowHosts")),
            ("main", "bad.example.com", Some("egress.denyHosts")),
            ("main", "ws.example.com", Some("egress.workspaces.default.denyHosts")),
            ("small", "a.example.com", None),
            ("small", "b.example.com", Some("agents.list[small].egress.allowHosts")),
            ("small", "evil.test", Some("egress.allowHosts")),
        ] {
            let rules = settings.host_rules(&settings.scope(Some(agent)).unwrap());
            let refused = rules.judge(host).err().and_then(|refusal| refusal.key());
            assert_eq!(refused.as_deref(), key, "{agent} {host}");
        }
    }

    #[test]
    fn programs_reach_what_their_list_and_the_rules_leave() {
        let settings = settings(json!({
            "egress": {"allowHosts": ["pypi.org", "*.example.com"], "denyHosts": ["bad.example.com"]},
            "agents": {"defaults": {"sandbox": {"network": "allowlist",
                "allowHosts": ["pypi.org", "crates.io", "a.example.com"]}}},
        }));
        let scope = settings.scope(None).unwrap();
        let held = settings.confinement(&scope, "s", std::path::Path::new("/srv"), Vec::new());
        let expected = ["a.example.com", "pypi.org", "!bad.example.com"].map(str::to_owned).to_vec();
        assert_eq!(held.network, Network::Allowlist(expected));
        let withheld = settings.withheld_hosts(&scope);
        let withheld: Vec<_> = withheld.iter().map(|one| (one.host().to_owned(), one.key())).collect();
        assert_eq!(withheld, [("crates.io".to_owned(), Some("egress.allowHosts".to_owned()))]);
    }

    #[test]
    fn without_a_word_nothing_is_narrower() {
        let settings = settings(json!({}));
        assert!(settings.host_rules(&settings.scope(None).unwrap()).is_empty());
    }
}
