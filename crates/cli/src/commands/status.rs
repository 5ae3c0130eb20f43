//! `status`: what there is, without touching it.

use std::process::ExitCode;

use serde_json::json;
use tidegate_config::Origin;
use tidegate_config::schema::Backend;

use super::block_on;
use crate::app::App;
use crate::arguments::{Command, Parsed};
use crate::output::{print, print_json, table};
use crate::store::open_existing;
use crate::{Outcome, settings, texts};

pub(super) fn run(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = app.home(parsed)?;
    let loaded = app.config(&home)?;
    let tenant = settings::scope(&loaded.config, None)?.tenant;
    let backend = match loaded.config.storage.backend {
        Backend::Sqlite => "sqlite",
        Backend::Postgres => "postgres",
    };
    let config = match &loaded.origin {
        Origin::File => "file",
        Origin::Missing => "defaults",
        Origin::LastGood { .. } => "lastGood",
    };
    let stored = block_on(async {
        match open_existing(&home, &loaded.config).await? {
            Some(store) => Ok(Some(store.status(&tenant).await?)),
            None => Ok(None),
        }
    })?;
    let holder = home.holder();
    if parsed.has("json") {
        let counts = |pairs: &[(String, u64)]| -> serde_json::Map<_, _> {
            pairs.iter().map(|(state, count)| (state.clone(), json!(count))).collect()
        };
        let storage = stored.as_ref().map(|status| {
            json!({
                "schema": status.schema, "sessions": status.sessions, "runs": counts(&status.runs),
                "outbox": counts(&status.outbox), "bytes": status.bytes,
            })
        });
        print_json(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "home": home.root(),
            "config": { "path": home.config_file(), "origin": config, "hash": loaded.hash },
            "backend": backend,
            "storage": storage,
            "holder": holder,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |title: &str, text: String| vec![app.output.dim(title), text];
    let mut rows = vec![
        row("version", env!("CARGO_PKG_VERSION").to_owned()),
        row("home", home.root().display().to_string()),
        row("config", format!("{} ({config})", home.config_file().display())),
    ];
    match stored {
        None => rows.push(row(
            "storage",
            format!("{backend}: {}", app.fill(texts::STATUS_EMPTY, &[("program", &app.program)])),
        )),
        Some(status) => {
            let list = |pairs: &[(String, u64)]| {
                let parts: Vec<_> = pairs.iter().map(|(state, count)| format!("{count} {state}")).collect();
                if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
            };
            let size = status.bytes.map_or(String::new(), |bytes| format!(", {} KB", bytes / 1024));
            rows.push(row("storage", format!("{backend}, schema {}{size}", status.schema)));
            rows.push(row("sessions", status.sessions.to_string()));
            rows.push(row("runs", list(&status.runs)));
            rows.push(row("outbox", list(&status.outbox)));
        }
    }
    if let Some(holder) = holder {
        rows.push(row("in use by", holder));
    }
    print(&table(&rows))?;
    Ok(ExitCode::SUCCESS)
}
