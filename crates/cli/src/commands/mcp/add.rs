//! `mcp add`: a server into the configuration.

use std::process::ExitCode;

use serde_json::{Map, Value, json};
use tidegate_config::Change;
use tidegate_protocol::ErrorCode;

use super::path;
use crate::Outcome;
use crate::app::{App, config_file, home_of, now_ms};
use crate::arguments::{Command, Parsed};
use crate::commands::config::mention_restart;
use crate::failure::{Failure, With as _};
use crate::output::{complain, print_json, print_line, printable};
use crate::texts::mcp as words;

pub(in crate::commands) fn add(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let (name, argv) =
        parsed.arguments.split_first().map_or(("", &[][..]), |(name, argv)| (name.as_str(), argv));
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    if loaded.config.mcp.servers.contains_key(name) {
        let failure = Failure::new(ErrorCode::InvalidValue, words::SERVER_THERE.with(&[("name", &name)]));
        return Err(
            failure.with_hint(words::REMOVE_FIRST.with(&[("program", &app.program), ("name", &name)]))
        );
    }
    let server = server(argv, parsed).map_err(|failure| failure.with_usage(command))?;
    let written_out = ["env", "headers"]
        .into_iter()
        .filter_map(|key| server[key].as_object())
        .flatten()
        .any(|(_, value)| value.as_str().is_some_and(|text| !text.contains("${")));
    let change = Change::Set { path: path(name)?, value: server };
    let edited = config_file(&home).edit(&change, None, &app.env, now_ms())?;
    let revision = edited.revision.number;
    if parsed.has("json") {
        print_json(&json!({ "ok": true, "name": name, "hash": edited.hash, "revision": revision }))?;
    } else {
        let name = printable(name);
        print_line(
            &app.fill(words::ADDED, &[("name", &name), ("revision", &revision), ("program", &app.program)]),
        )?;
        if written_out {
            complain(app.say(words::IN_THE_FILE));
        }
    }
    mention_restart(app, parsed)?;
    Ok(ExitCode::SUCCESS)
}

/// The entry as it is written. No value is shown again, whatever is wrong with it.
fn server(argv: &[String], parsed: &Parsed) -> Result<Value, Failure> {
    let wrong = |message| Failure::new(ErrorCode::InvalidValue, message);
    let mut server = Map::new();
    match (argv.split_first(), parsed.value("url")) {
        (None, None) => return Err(Failure::new(ErrorCode::MissingValue, words::NEITHER.with(&[]))),
        (Some(_), Some(_)) => return Err(wrong(words::BOTH.with(&[]))),
        (Some((program, args)), None) => {
            if parsed.value("header").is_some() {
                return Err(wrong(words::NOT_FOR_THIS.with(&[("flag", &"header")])));
            }
            server.insert("command".to_owned(), json!(program));
            server.insert("args".to_owned(), json!(args));
            server.insert("env".to_owned(), pairs(parsed, "env")?);
            server.extend(parsed.value("cwd").map(|cwd| ("cwd".to_owned(), json!(cwd))));
            server.insert("sandbox".to_owned(), sandbox(parsed));
        }
        (None, Some(url)) => {
            if let Some(flag) = ["env", "cwd", "allow-host", "read", "write"]
                .into_iter()
                .find(|flag| parsed.value(flag).is_some())
            {
                return Err(wrong(words::NOT_FOR_THIS.with(&[("flag", &flag)])));
            }
            server.insert("url".to_owned(), json!(url));
            server.insert("headers".to_owned(), pairs(parsed, "header")?);
        }
    }
    server.retain(|_, value| !matches!(value, Value::Object(pairs) if pairs.is_empty()));
    server.retain(|_, value| !matches!(value, Value::Array(words) if words.is_empty()));
    Ok(Value::Object(server))
}

/// What it may reach besides what it needs to start.
fn sandbox(parsed: &Parsed) -> Value {
    let mut sandbox = Map::new();
    let hosts: Vec<&str> = parsed.values("allow-host").collect();
    if !hosts.is_empty() {
        sandbox.insert("network".to_owned(), json!("allowlist"));
        sandbox.insert("allowHosts".to_owned(), json!(hosts));
    }
    for key in ["read", "write"] {
        let folders: Vec<&str> = parsed.values(key).collect();
        if !folders.is_empty() {
            sandbox.insert(key.to_owned(), json!(folders));
        }
    }
    Value::Object(sandbox)
}

fn pairs(parsed: &Parsed, flag: &str) -> Result<Value, Failure> {
    let pair = |text: &str| match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), json!(value))),
        _ => Err(Failure::new(ErrorCode::InvalidValue, words::NOT_A_PAIR.with(&[("flag", &flag)]))),
    };
    let pairs: Result<Map<_, _>, _> = parsed.values(flag).map(pair).collect();
    Ok(Value::Object(pairs?))
}
