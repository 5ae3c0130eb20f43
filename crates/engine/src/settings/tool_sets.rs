//! What tools are made of: the configured part of commands, the web and tools of one's own.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tidegate_config::schema::{self, CustomBody, CustomHttp, ToolRisk};
use tidegate_protocol::Risk;
use tidegate_tools::{
    CommandOutput, CommandSpec, CustomKind, CustomSpec, ExecSettings, HttpSpec, SearchProvider,
    WebFetchSettings, WebSearchSettings,
};

use super::Settings;
use super::tools::custom_name;

impl Settings {
    /// How long a call may take, for tools that do not say otherwise.
    pub fn tool_timeout(&self) -> Duration {
        seconds(self.config.tools.timeout_seconds)
    }

    /// Whether there is a tool `apply_patch`.
    pub fn has_apply_patch(&self) -> bool {
        self.config.tools.exec.apply_patch.enabled
    }

    pub fn exec_settings(&self) -> ExecSettings {
        let exec = &self.config.tools.exec;
        ExecSettings {
            timeout: seconds(exec.timeout_sec),
            yield_after: Duration::from_millis(exec.background_ms.into()),
        }
    }

    /// What commands find in their environment: of the system's only what names the place and the language, then what is
    /// configured. `system` looks a variable of this process up.
    pub fn command_env(&self, system: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
        const PLAIN: [&str; 7] = ["HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR"];
        let exec = &self.config.tools.exec;
        let plain = PLAIN.into_iter().filter_map(|name| Some((name.to_owned(), system(name)?)));
        let mut env: BTreeMap<_, _> = plain.collect();
        let found = system("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".to_owned());
        let folders: Vec<&str> =
            exec.path_prepend.iter().map(String::as_str).chain([found.as_str()]).collect();
        env.insert("PATH".to_owned(), folders.join(":"));
        env.extend(exec.env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())));
        env
    }

    pub fn web_fetch(&self) -> WebFetchSettings {
        let fetch = &self.config.tools.web.fetch;
        WebFetchSettings {
            max_chars: size(fetch.max_chars),
            timeout: seconds(fetch.timeout_seconds),
            max_redirects: size(fetch.max_redirects),
            cache_ttl: minutes(fetch.cache_ttl_minutes),
        }
    }

    pub fn web_search(&self) -> WebSearchSettings {
        let search = &self.config.tools.web.search;
        WebSearchSettings {
            provider: search.provider.map(|provider| match provider {
                schema::SearchProvider::Brave => SearchProvider::Brave,
                schema::SearchProvider::Searxng => SearchProvider::Searxng,
                schema::SearchProvider::Tavily => SearchProvider::Tavily,
            }),
            api_key: search.api_key.clone(),
            base_url: search.base_url.clone(),
            max_results: size(search.max_results),
            timeout: seconds(search.timeout_seconds),
            cache_ttl: minutes(search.cache_ttl_minutes),
        }
    }

    /// Private addresses that tools may reach, each as `host:port`.
    pub fn private_addresses(&self) -> &[String] {
        &self.config.tools.web.allow_private
    }

    /// Tools of one's own, by name.
    pub fn custom_tools(&self) -> Vec<CustomSpec> {
        let tools = self.config.tools.custom.iter();
        tools.map(|(name, tool)| self.custom_tool(name, tool)).collect()
    }

    fn custom_tool(&self, name: &str, said: &schema::CustomTool) -> CustomSpec {
        let kind = match &said.http {
            Some(http) => CustomKind::Http(http_spec(http)),
            None => CustomKind::Command(CommandSpec {
                argv: said.command.clone(),
                stdin_json: said.stdin_json,
                env: said.env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect(),
                output: if said.json_output { CommandOutput::Json } else { CommandOutput::Text },
            }),
        };
        CustomSpec {
            name: custom_name(name),
            description: said.description.clone(),
            input_schema: object_schema(&said.schema),
            risk: said.risk.map_or_else(|| usual_risk(said.http.as_ref()), risk),
            idempotent: said.idempotent,
            timeout: said.timeout_seconds.map_or_else(|| self.tool_timeout(), seconds),
            kind,
        }
    }
}

fn http_spec(said: &CustomHttp) -> HttpSpec {
    HttpSpec {
        method: said.method.clone(),
        url: said.url.clone(),
        headers: said.headers.clone(),
        body: said.body.as_ref().map(|body| match body {
            CustomBody::Text(text) => Value::from(text.as_str()),
            CustomBody::Json(object) => Value::Object(object.clone()),
        }),
    }
}

/// A tool without a schema takes no arguments.
fn object_schema(said: &Map<String, Value>) -> Value {
    if said.is_empty() { json!({ "type": "object" }) } else { Value::Object(said.clone()) }
}

/// A command can do anything, and so can a request that is more than a look.
fn usual_risk(http: Option<&CustomHttp>) -> Risk {
    let looks = http.is_some_and(|http| ["GET", "HEAD"].contains(&http.method.to_uppercase().as_str()));
    if looks { Risk::Network } else { Risk::Execute }
}

pub(super) fn risk(said: ToolRisk) -> Risk {
    match said {
        ToolRisk::Read => Risk::Read,
        ToolRisk::Write => Risk::Write,
        ToolRisk::Network => Risk::Network,
        ToolRisk::Execute => Risk::Execute,
    }
}

fn seconds(said: u32) -> Duration {
    Duration::from_secs(said.into())
}

fn minutes(said: u32) -> Duration {
    Duration::from_secs(u64::from(said) * 60)
}

fn size(said: u32) -> usize {
    usize::try_from(said).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use tidegate_config::schema::Config;

    use super::*;

    fn settings(tools: &Value) -> Settings {
        let config: Config = serde_json::from_value(json!({ "tools": tools })).unwrap();
        Settings { config: Box::new(config), ..Settings::default() }
    }

    #[test]
    fn a_tool_of_ones_own_is_called_by_its_key_and_asks_unless_it_only_looks() {
        let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}});
        let tools = settings(&json!({"timeoutSeconds": 9, "custom": {
            "a": {"description": "d", "command": ["/bin/a", "{{q}}"], "schema": schema, "env": {"K": "v"}},
            "b": {"description": "d", "http": {"url": "https://h/", "method": "post", "body": {"q": "x"}}},
            "c": {"description": "d", "http": {"url": "https://h/", "body": "x"}, "timeoutSeconds": 5, "idempotent": true},
            "d": {"description": "d", "command": ["/bin/d"], "risk": "read", "jsonOutput": true, "stdinJson": true},
        }}))
        .custom_tools();
        let told: Vec<_> = tools
            .iter()
            .map(|tool| (tool.name.as_str(), tool.risk, tool.timeout.as_secs(), tool.idempotent))
            .collect();
        assert_eq!(
            told,
            [
                ("tools.custom.a", Risk::Execute, 9, false),
                ("tools.custom.b", Risk::Execute, 9, false),
                ("tools.custom.c", Risk::Network, 5, true),
                ("tools.custom.d", Risk::Read, 9, false),
            ]
        );
        assert_eq!((&tools[0].input_schema, &tools[1].input_schema), (&schema, &json!({"type": "object"})));
        let CustomKind::Command(command) = &tools[0].kind else { panic!("a command") };
        assert_eq!(
            (command.argv.as_slice(), &command.env["K"]),
            (["/bin/a", "{{q}}"].map(str::to_owned).as_slice(), &"v".to_owned())
        );
        assert!(!command.stdin_json && command.output == CommandOutput::Text);
        let CustomKind::Command(command) = &tools[3].kind else { panic!("a command") };
        assert!(command.stdin_json && command.output == CommandOutput::Json);
        let bodies: Vec<_> = tools[1..3]
            .iter()
            .map(|tool| match &tool.kind {
                CustomKind::Http(http) => http.body.clone(),
                CustomKind::Command(_) => None,
            })
            .collect();
        assert_eq!(bodies, [Some(json!({"q": "x"})), Some(json!("x"))]);
    }

    #[test]
    fn commands_see_nothing_of_the_gateways_environment_but_where_they_are() {
        let settings = settings(&json!({"exec": {"env": {"MODE": "test"}, "pathPrepend": ["/opt/bin"]}}));
        let env = settings.command_env(|name| (name != "TZ").then(|| format!("<{name}>")));
        let names: Vec<&str> = env.keys().map(String::as_str).collect();
        assert_eq!(names, ["HOME", "LANG", "LC_ALL", "LOGNAME", "MODE", "PATH", "TMPDIR", "USER"]);
        assert_eq!((env["PATH"].as_str(), env["MODE"].as_str()), ("/opt/bin:<PATH>", "test"));
        assert_eq!(settings.command_env(|_| None)["PATH"], "/opt/bin:/usr/local/bin:/usr/bin:/bin");
    }

    #[test]
    fn the_web_and_commands_keep_the_configured_limits() {
        let settings = settings(&json!({
            "exec": {"timeoutSec": 7, "backgroundMs": 500, "applyPatch": {"enabled": false}},
            "web": {"fetch": {"maxChars": 900, "timeoutSeconds": 3, "maxRedirects": 1, "cacheTtlMinutes": 2},
                "search": {"provider": "searxng", "baseUrl": "https://s", "maxResults": 4, "timeoutSeconds": 6, "cacheTtlMinutes": 0},
                "allowPrivate": ["nas:80"]},
        }));
        let exec = settings.exec_settings();
        assert_eq!((exec.timeout.as_secs(), exec.yield_after.as_millis()), (7, 500));
        assert!(!settings.has_apply_patch());
        let fetch = settings.web_fetch();
        assert_eq!(
            (fetch.max_chars, fetch.timeout.as_secs(), fetch.max_redirects, fetch.cache_ttl.as_secs()),
            (900, 3, 1, 120)
        );
        let search = settings.web_search();
        assert_eq!(
            (search.provider, search.base_url.as_deref()),
            (Some(SearchProvider::Searxng), Some("https://s"))
        );
        assert_eq!((search.max_results, search.timeout.as_secs(), search.cache_ttl.as_secs()), (4, 6, 0));
        assert_eq!(settings.private_addresses(), ["nas:80"]);
    }
}
