//! From configuration to MCP servers, and to what policy says about their tools.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_config::schema::{KeyStore, McpOauth, McpServer, SandboxMode, SandboxNetwork};
use tidegate_mcp::{AddressSpec, OauthSpec, ProgramSpec, Reach, ServerSpec, ToolFilter};
use tidegate_policy::tools::{AlsoAllow, Stage, StageKind};
use tidegate_policy::{Access, Besides, Confinement, Network, Profile};
use tidegate_secrets::{KeyChoice, StoreOptions};

use super::Settings;
use super::confinement::{limits, profile_of, slug};
use super::tool_sets::risk;
use super::tools::verdict;
use crate::home::Home;

impl Settings {
    /// The servers that are used, by name.
    pub fn mcp_servers(&self, home: &Home) -> Vec<ServerSpec> {
        let used = self.config.mcp.servers.iter().filter(|(_, server)| server.enabled);
        used.map(|(name, server)| self.mcp_server(name, server, home)).collect()
    }

    /// One of them, whether it is used or not.
    pub fn mcp_server_named(&self, name: &str, home: &Home) -> Option<ServerSpec> {
        self.config.mcp.servers.get(name).map(|server| self.mcp_server(name, server, home))
    }

    fn mcp_server(&self, name: &str, said: &McpServer, home: &Home) -> ServerSpec {
        let reach = match &said.url {
            Some(url) => Reach::Http(AddressSpec {
                url: url.clone(),
                headers: said.headers.clone(),
                oauth: oauth(&said.oauth),
            }),
            None => Reach::Stdio(self.mcp_program(name, said, home)),
        };
        ServerSpec {
            name: name.to_owned(),
            reach,
            tools: ToolFilter { allow: said.tools.allow.clone(), deny: said.tools.deny.clone() },
            mode: verdict(said.mode),
            risk: said.risk.map(risk),
            timeout: Duration::from_secs(said.timeout_seconds.into()),
            startup: Duration::from_secs(said.startup_timeout_seconds.into()),
        }
    }

    /// How stored credentials are sealed.
    pub fn credential_options(&self) -> StoreOptions {
        let keys = match self.config.auth.key_store {
            KeyStore::Auto => KeyChoice::Auto,
            KeyStore::File => KeyChoice::File,
            KeyStore::Keychain => KeyChoice::Keychain,
        };
        StoreOptions { keys, ..StoreOptions::default() }
    }

    /// It works in a folder of its own unless it was given one.
    fn mcp_program(&self, name: &str, said: &McpServer, home: &Home) -> ProgramSpec {
        let place = slug(&format!("mcp:{name}"));
        let own = home.sandboxes().join(&place).join("work");
        let folder = said.cwd.as_ref().map_or(own, PathBuf::from);
        let command = said.command.clone().unwrap_or_default();
        ProgramSpec {
            argv: std::iter::once(command).chain(said.args.iter().cloned()).collect(),
            env: said.env.clone(),
            confinement: self.mcp_confinement(place, said, &folder, home),
            folder,
        }
    }

    fn mcp_confinement(&self, place: String, said: &McpServer, folder: &Path, home: &Home) -> Confinement {
        let (own, all) = (&said.sandbox, &self.config.agents.defaults.sandbox);
        let usual = if all.mode == SandboxMode::Off { Profile::None } else { profile_of(all.profile) };
        Confinement {
            profile: own.profile.map_or(usual, profile_of),
            place,
            folder: folder.to_owned(),
            access: Access::ReadWrite,
            // What is shown is compared without links, so the home is hidden both ways.
            hidden: [home.root().to_owned()].into_iter().chain(real_root(home)).collect(),
            besides: Besides { read: paths(&own.read), write: paths(&own.write) },
            network: match own.network.unwrap_or(all.network) {
                SandboxNetwork::None => Network::None,
                SandboxNetwork::Allowlist => {
                    Network::Allowlist(own.allow_hosts.as_ref().unwrap_or(&all.allow_hosts).clone())
                }
                SandboxNetwork::Full => Network::Full,
            },
            limits: limits(own.limits.as_ref().unwrap_or(&all.limits)),
        }
    }

    /// Whoever configured a server wants its tools to be there …
    pub(super) fn mcp_additions(&self) -> impl Iterator<Item = AlsoAllow> {
        let used = self.config.mcp.servers.iter().filter(|(_, server)| server.enabled);
        used.map(|(name, _)| AlsoAllow { source: at(name), tools: vec![tools_of(name)] })
    }

    /// … and that somebody is asked about each call, unless it says otherwise.
    pub(super) fn mcp_stages(&self) -> impl Iterator<Item = Stage> {
        let used = self.config.mcp.servers.iter().filter(|(_, server)| server.enabled);
        used.map(|(name, server)| Stage {
            mode: Some((tools_of(name), verdict(server.mode))),
            ..Stage::new(StageKind::Global, at(name))
        })
    }
}

/// Where the home really lies, if it is reached by a link.
fn real_root(home: &Home) -> Option<PathBuf> {
    home.root().canonicalize().ok().filter(|real| real != home.root())
}

fn paths(said: &[String]) -> Vec<PathBuf> {
    said.iter().map(PathBuf::from).collect()
}

fn oauth(said: &McpOauth) -> OauthSpec {
    OauthSpec {
        client_id: said.client_id.clone(),
        client_secret: said.client_secret.clone(),
        scopes: said.scopes.clone(),
        issuer: said.authorization_server.clone(),
        callback_port: said.callback_port,
    }
}

fn at(name: &str) -> String {
    format!("mcp.servers.{name}")
}

fn tools_of(name: &str) -> String {
    format!("mcp.{name}.*")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidegate_config::schema::Config;
    use tidegate_policy::tools::{Circumstances, Trust, Verdict};
    use tidegate_policy::{Preparation, Prepared, Requester};
    use tidegate_protocol::{Risk, ToolCall, ToolSource};

    use super::*;
    use crate::settings::ToolContext;

    fn settings(config: &Value) -> Settings {
        let config: Config = serde_json::from_value(config.clone()).unwrap();
        Settings { config: Box::new(config), ..Settings::default() }
    }

    fn decided(settings: &Settings, tool: &str, risk: Risk) -> Verdict {
        let scope = settings.scope(None).unwrap();
        let provided = ["mcp.s.look".to_owned(), "mcp.s.change".to_owned()];
        let context = ToolContext { provided: &provided, ..ToolContext::default() };
        let pipeline = settings.pipeline(&scope, &context).unwrap();
        let call = ToolCall { id: "c".into(), name: tool.into(), args: json!({}), source: ToolSource::Model };
        let requester = Requester { scope, session: "x".into(), actor: "x".into(), root: "/".into() };
        let prepared = Prepared::new(call, requester, risk, false, Preparation::default());
        pipeline.decide(&prepared, &Circumstances { trust: Trust::Normal, allowed: &[] }).verdict
    }

    #[test]
    fn every_call_of_a_server_asks_until_its_mode_lets_those_that_only_read() {
        let server = |more: Value| {
            let mut server = json!({"command": "x"});
            server.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            settings(&json!({"mcp": {"servers": {"s": server}}}))
        };
        let (look, change) = ("mcp.s.look", "mcp.s.change");
        let usual = server(json!({}));
        assert_eq!(decided(&usual, look, Risk::Read), Verdict::Ask);
        assert_eq!(decided(&usual, change, Risk::Execute), Verdict::Ask);
        let open = server(json!({"mode": "allow"}));
        assert_eq!(decided(&open, look, Risk::Read), Verdict::Allow);
        assert_eq!(decided(&open, change, Risk::Execute), Verdict::Ask);
        let shut = server(json!({"mode": "deny"}));
        assert_eq!(decided(&shut, look, Risk::Read), Verdict::Deny);
        let off = server(json!({"enabled": false, "mode": "allow"}));
        assert_eq!(decided(&off, look, Risk::Read), Verdict::Deny);
        let denied = settings(&json!({
            "tools": {"deny": ["group:plugins"]}, "mcp": {"servers": {"s": {"command": "x", "mode": "allow"}}},
        }));
        assert_eq!(decided(&denied, look, Risk::Read), Verdict::Deny);
    }

    #[test]
    fn a_server_is_held_like_every_program_unless_it_says_otherwise() {
        let home = Home::at("/home/x/.tidegate");
        let servers = settings(&json!({
            "agents": {"defaults": {"sandbox": {"network": "allowlist", "allowHosts": ["a.example"]}}},
            "mcp": {"servers": {
                "far": {"url": "https://h/mcp", "headers": {"x": "y"}},
                "here": {"command": "npx", "args": ["-y", "x"], "timeoutSeconds": 5},
                "loose": {"command": "y", "cwd": "/srv", "sandbox": {"profile": "none", "network": "full"}},
                "off": {"command": "z", "enabled": false},
            }},
        }))
        .mcp_servers(&home);
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["far", "here", "loose"]);
        let Reach::Stdio(here) = &servers[1].reach else { panic!("a program") };
        assert_eq!(here.argv, ["npx", "-y", "x"]);
        assert!(here.folder.starts_with(home.sandboxes()));
        let held = &here.confinement;
        assert_eq!((held.profile, &held.folder), (Profile::Local, &here.folder));
        assert_eq!(held.network, Network::Allowlist(vec!["a.example".to_owned()]));
        assert_eq!(held.hidden, [home.root()]);
        assert_eq!(servers[1].timeout, Duration::from_secs(5));
        let Reach::Stdio(loose) = &servers[2].reach else { panic!("a program") };
        assert_eq!((loose.confinement.profile, &loose.confinement.network), (Profile::None, &Network::Full));
        assert_eq!(loose.folder, Path::new("/srv"));
    }
    #[cfg(unix)]
    #[test]
    fn a_home_that_is_reached_by_a_link_is_hidden_where_it_lies_too() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().canonicalize().unwrap().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let settings = settings(&json!({"mcp": {"servers": {"s": {"command": "x"}}}}));
        let Reach::Stdio(program) = settings.mcp_servers(&Home::at(&link)).remove(0).reach else {
            panic!("a program")
        };
        assert_eq!(program.confinement.hidden, [link, real]);
    }
}
