//! Loading: what is good is typed, what is bad is named, and nothing panics.

use proptest::prelude::*;
use serde_json::json;
use tidegate_config::schema::{AgentModel, Backend, Bind, DmScope, ModelApi, ResetMode};
use tidegate_config::{Config, Origin, Reveal, Secrets};

use crate::home::Home;

#[test]
fn a_missing_file_is_the_default_config_with_the_hash_of_nothing() {
    let loaded = Home::empty().load().unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.origin, Origin::Missing);
    assert_eq!(loaded.hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(loaded.config.gateway.port, 18789);
    assert_eq!(loaded.config.agents.defaults.timeout_seconds, 600);
}

#[test]
fn a_whole_config_is_read_into_its_types() {
    let home = Home::with(
        r#"// everything at once
        {
          $schema: "https://example.org/schema.json",
          meta: { lastTouchedVersion: "2026.1.27", lastTouchedAt: "2026-01-27T00:00:00Z" },
          env: { vars: { HOST: "models.example.org" } },
          gateway: { port: 1234, bind: "lan" },
          agents: {
            defaults: {
              model: { primary: "work/large", fallbacks: ["offline"] },
              timeoutSeconds: 6e1,
              compaction: { reserveTokensFloor: 1, memoryFlush: { enabled: false, softThresholdTokens: 2, prompt: "p" } },
              contextPruning: { mode: "cache-ttl", ttl: "10m" },
              memorySearch: { enabled: true, provider: "local", model: "m", query: { hybrid: { enabled: true, vectorWeight: 1, textWeight: 0, candidateMultiplier: 2 } }, cache: { enabled: true, maxEntries: 5 } },
            },
            list: [{ id: "main", default: true, name: "Main" }, { id: "b", model: "work/small" }, { id: "c", model: { primary: "offline" }, workspace: "~/w" }],
          },
          models: { providers: { work: { api: "openai-completions", baseUrl: "https://${HOST}/v1", apiKey: "${KEY}", models: [{ id: "large", name: "Large", contextWindow: 1000, maxTokens: 10 }] } } },
          session: { dmScope: "per-account-channel-peer", reset: { mode: "idle", atHour: 23, idleMinutes: 5 }, resetByType: { group: { mode: "off" } }, resetByChannel: { slack: { idleMinutes: 9 } }, resetTriggers: ["fresh"], timezone: "UTC", identityLinks: { me: ["telegram:1"] } },
          channels: { defaults: { x: 1 }, telegram: { botToken: "1:a" }, local: {} },
          storage: { backend: "postgres", postgres: { url: "postgres://u:p@h/d", migrateUrl: "postgresql://o:p@h/d", schema: "t_1", maxConnections: 3 } },
          logging: { level: "debug", redactSensitive: "tools" },
          ui: { language: "zh-CN" },
        }"#,
    )
    .env("KEY", "sk-1");
    let loaded = home.load().unwrap();
    let config = &loaded.config;
    assert_eq!((config.gateway.port, config.gateway.bind), (1234, Bind::Lan));
    assert_eq!(config.agents.defaults.timeout_seconds, 60);
    assert_eq!(config.agents.list[1].model, Some(AgentModel::One("work/small".into())));
    let provider = &config.models.providers["work"];
    assert_eq!(provider.api, Some(ModelApi::OpenaiCompletions));
    assert_eq!(provider.base_url.as_deref(), Some("https://models.example.org/v1"));
    assert_eq!(provider.api_key.as_ref().unwrap().expose(), "sk-1");
    assert_eq!(config.session.dm_scope, Some(DmScope::PerAccountChannelPeer));
    assert_eq!(config.session.reset_by_type.group.unwrap().mode, Some(ResetMode::Off));
    assert_eq!(config.session.reset_by_channel["slack"].idle_minutes, Some(9));
    assert_eq!(config.session.reset_triggers, ["fresh"]);
    assert_eq!(config.storage.backend, Backend::Postgres);
    assert_eq!(config.storage.postgres.url.as_ref().unwrap().expose(), "postgres://u:p@h/d");
    assert_eq!(loaded.origin, Origin::File);
    let shown = format!("{loaded:?} {config:?} {}", serde_json::to_string(config).unwrap());
    for secret in ["sk-1", "1:a", "u:p@h"] {
        assert!(!shown.contains(secret), "{secret} leaked");
    }
}

#[test]
fn a_misspelt_key_gets_a_suggestion_and_all_problems_come_at_once() {
    let home = Home::with(
        r#"{
          gateway: { prot: 1, port: "${NO_PORT}" },
          port: 1,
          agents: { defaults: { model: { primary: "wrok/m" } }, list: [{ id: "a" }, { id: "a" }] },
          models: { providers: { work: { api: "openai", baseUrl: "https://h", apikey: "sk-1" } } },
          storage: { backend: "postgres" },
        }"#,
    );
    assert_eq!(
        home.complaints(),
        [
            r#"Missing env var "NO_PORT" referenced at config path: gateway.port"#,
            r#"gateway.prot: unknown key, did you mean "gateway.port"?"#,
            r#"port: unknown key, did you mean "gateway.port"?"#,
            r#"models.providers.work.api: expected one of "anthropic-messages", "openai-completions", "openai-responses", "openai-codex-responses", "google-generative-ai", "bedrock-converse-stream", "ollama", "scripted", "offline", got "openai", did you mean "openai-responses"?"#,
            r#"models.providers.work.apikey: unknown key, did you mean "models.providers.work.apiKey"?"#,
            r#"agents.list[1].id: the id "a" is already that of agents.list[0]"#,
            r#"agents.defaults.model.primary: "wrok/m" names a provider that is neither known nor in models.providers, did you mean "work/m"?"#,
            r#"storage.postgres.url: required key is missing because storage.backend is "postgres"; it takes postgres://user:password@host/database"#,
        ]
    );
    assert_eq!(home.load().unwrap_err().code(), "CONFIG_INVALID");
}

#[test]
fn each_kind_of_error_has_its_code() {
    let cases = [
        ("{a: }", "CONFIG_SYNTAX"),
        ("", "CONFIG_SYNTAX"),
        ("{gateway: {port: 1, port: 2}}", "CONFIG_SYNTAX"),
        ("{$include: 'none.json5'}", "CONFIG_INCLUDE"),
        ("{ui: {language: '${NOPE}'}}", "CONFIG_ENV_MISSING"),
        ("{nope: 1}", "CONFIG_INVALID"),
        ("{nope: '${NOPE}', also: 1}", "CONFIG_INVALID"),
        ("[]", "CONFIG_INVALID"),
    ];
    for (text, code) in cases {
        assert_eq!(Home::with(text).load().unwrap_err().code(), code, "{text}");
    }
    let home = Home::empty();
    std::fs::create_dir(home.file.path()).unwrap();
    assert_eq!(home.load().unwrap_err().code(), "CONFIG_IO");
}

#[test]
fn included_files_are_read_beside_the_including_one() {
    let home = Home::with("{ $include: ['conf.d/a.json5', './b.json5'], gateway: { port: 3 } }");
    std::fs::create_dir(home.path("conf.d")).unwrap();
    home.write(
        "conf.d/a.json5",
        "{ agents: { $include: 'agents.json5' }, gateway: { port: 1, bind: 'lan' } }",
    );
    home.write("conf.d/agents.json5", "{ list: [{ id: 'a' }] }");
    home.write("b.json5", "{ agents: { list: [{ id: 'b' }] } }");
    let config = home.load().unwrap().config;
    assert_eq!((config.gateway.port, config.gateway.bind), (3, Bind::Lan));
    assert_eq!(config.agents.list.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    home.write("b.json5", "{ agents: ");
    assert_eq!(home.load().unwrap_err().code(), "CONFIG_INCLUDE");
    assert!(
        home.complaints()[0].contains("b.json5: line 1, column 1: the file ends where a value should follow")
    );
}

#[test]
fn keys_without_effect_are_named_in_the_warnings() {
    let home = Home::with(
        "{ session: { dmScope: 'main' }, agents: { defaults: { memorySearch: {} }, list: [{ id: 'a', name: 'A' }] } }",
    );
    let warnings: Vec<_> = home.load().unwrap().warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "agents.defaults.memorySearch: accepted, not used by this version",
            "session.dmScope: accepted, not used by this version"
        ]
    );
}

#[test]
fn a_secret_in_a_file_that_others_can_read_is_warned_about() {
    let literal = Home::with(
        "{ models: { providers: { p: { api: 'ollama', baseUrl: 'http://h', apiKey: 'sk-1' } } } }",
    );
    let reference = Home::with(
        "{ models: { providers: { p: { api: 'ollama', baseUrl: 'http://h', apiKey: '${KEY}' } } } }",
    )
    .env("KEY", "sk-1");
    for home in [&literal, &reference] {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(home.file.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let warnings = literal.load().unwrap().warnings;
    assert!(warnings[0].to_string().contains("run: chmod 600"), "{warnings:?}");
    assert_eq!(reference.load().unwrap().warnings, []);
}

#[test]
fn get_shows_source_or_effect_and_no_secret_unless_asked() {
    let home = Home::with(
        "{ models: { providers: { 'my.p': { api: 'ollama', baseUrl: '${URL}', apiKey: 'sk-1' } } } }",
    )
    .env("URL", "http://h");
    let get = |path: &str, reveal, secrets| {
        home.file.get(Some(&path.parse().unwrap()), reveal, secrets, &home.env).unwrap()
    };
    let key = r"models.providers.my\.p.apiKey";
    let url = r"models.providers.my\.p.baseUrl";
    assert_eq!(get(key, Reveal::Effective, Secrets::Redacted), Some(json!("[redacted]")));
    assert_eq!(get(key, Reveal::Source, Secrets::Redacted), Some(json!("[redacted]")));
    assert_eq!(get(key, Reveal::Effective, Secrets::Shown), Some(json!("sk-1")));
    assert_eq!(get(url, Reveal::Source, Secrets::Redacted), Some(json!("${URL}")));
    assert_eq!(get(url, Reveal::Effective, Secrets::Redacted), Some(json!("http://h")));
    assert_eq!(get("gateway.port", Reveal::Effective, Secrets::Redacted), Some(json!(18789)));
    assert_eq!(get("gateway.port", Reveal::Source, Secrets::Redacted), None);
    assert_eq!(
        get("models.providers", Reveal::Source, Secrets::Redacted).unwrap()["my.p"]["apiKey"],
        "[redacted]"
    );
    let whole = home.file.get(None, Reveal::Effective, Secrets::Redacted, &home.env).unwrap().unwrap();
    assert!(!whole.to_string().contains("sk-1"));
}

#[test]
fn damaged_files_are_refused_with_a_place() {
    let good = "{\n  gateway: { port: 1234 }, // the port\n}\n";
    let home = Home::with(good);
    for length in 0..good.len() - 2 {
        home.write("config.json5", &good[..length]);
        let error = home.load().unwrap_err();
        assert_eq!(error.code(), "CONFIG_SYNTAX", "cut at {length}");
    }
    home.write("config.json5", [b"{\n\"a\": \"".as_slice(), &[0xff, 0xfe], b"\"}"].concat());
    assert_eq!(home.complaints(), ["line 2: byte 9 of the file is not UTF-8 text"]);
    home.write("config.json5", "[".repeat(10_000));
    assert!(home.complaints()[0].contains("nested deeper than 64 levels"));
    home.write("config.json5", "\0".repeat(43));
    assert_eq!(home.load().unwrap_err().code(), "CONFIG_SYNTAX");
}

#[test]
fn byte_order_mark_and_windows_line_ends_are_fine() {
    let home = Home::with("\u{feff}{\r\n  gateway: { port: 5 }, // five\r\n}\r\n");
    assert_eq!(home.load().unwrap().config.gateway.port, 5);
}

proptest! {
    #[test]
    fn any_bytes_in_the_file_are_loaded_or_refused(bytes: Vec<u8>) {
        let home = Home::empty();
        home.write("config.json5", &bytes);
        if let Err(error) = home.load() {
            prop_assert!(!error.problems().is_empty());
        }
    }
}
