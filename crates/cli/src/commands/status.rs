//! `status`: what there is, without touching it.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tidegate_client::Client;
use tidegate_config::Origin;
use tidegate_config::schema::Backend;
use tidegate_engine::{Home, Settings};
use tidegate_policy::Profile;
use tidegate_protocol::SessionKey;
use tidegate_protocol::api::LaneStatus;
use tidegate_runtime::catalogue::Text;

use super::block_on;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::output::{print, print_json, table};
use crate::store::open_existing;
use crate::{Outcome, texts};

/// How long the process that holds the home may take to say how its lanes stand.
const ANSWER: Duration = Duration::from_secs(2);

pub(super) fn run(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let settings = Settings::new(&loaded);
    let scope = settings.scope(None)?;
    let tenant = scope.tenant.clone();
    let backend = match loaded.config.storage.backend {
        Backend::Sqlite => "sqlite",
        Backend::Postgres => "postgres",
    };
    let config = match &loaded.origin {
        Origin::File => "file",
        Origin::Missing => "defaults",
        Origin::LastGood { .. } => "lastGood",
    };
    let holder = home.holder();
    let lanes = if holder.is_some() { block_on(async { Ok(lanes(&home).await) })? } else { None };
    let stored = block_on(async {
        match open_existing(&home, &loaded.config).await? {
            Some(store) => Ok(Some(store.status(&tenant).await?)),
            None => Ok(None),
        }
    });
    // What is wrong with the storage is the last thing to hide the rest for.
    let (stored, trouble) = match stored {
        Ok(stored) => (stored, None),
        Err(failure) => (None, Some(failure)),
    };
    if parsed.has("json") {
        if let Some(failure) = trouble {
            return Err(failure);
        }
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
            "lanes": lanes,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |title: Text, text: String| vec![app.output.dim(app.say(title)), text];
    let mut rows = vec![
        row(texts::STATUS_VERSION, env!("CARGO_PKG_VERSION").to_owned()),
        row(texts::STATUS_HOME, home.root().display().to_string()),
        row(texts::STATUS_CONFIG, format!("{} ({config})", home.config_file().display())),
    ];
    match stored {
        None if trouble.is_some() => rows.push(row(texts::STATUS_STORAGE, backend.to_owned())),
        None => {
            let empty = app.fill(texts::STATUS_EMPTY, &[("program", &app.program)]);
            rows.push(row(texts::STATUS_STORAGE, format!("{backend}: {empty}")));
        }
        Some(status) => {
            let list = |pairs: &[(String, u64)]| {
                let parts: Vec<_> = pairs.iter().map(|(state, count)| format!("{count} {state}")).collect();
                if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
            };
            let size = status.bytes.map_or(String::new(), |bytes| format!(", {} KB", bytes / 1024));
            rows.push(row(texts::STATUS_STORAGE, format!("{backend}, schema {}{size}", status.schema)));
            rows.push(row(texts::STATUS_SESSIONS, status.sessions.to_string()));
            rows.push(row(texts::STATUS_RUNS, list(&status.runs)));
            rows.push(row(texts::STATUS_OUTBOX, list(&status.outbox)));
        }
    }
    let main = SessionKey::named(scope.clone(), "main").to_string();
    let profile = settings.profile(&scope, &main);
    let bare = if profile == Profile::None { app.say(texts::sandbox::STATUS_BARE) } else { "" };
    rows.push(row(texts::sandbox::STATUS_SANDBOX, format!("{}{bare}", profile.name())));
    rows.extend(lane_rows(app, &lanes.unwrap_or_default(), parsed.has("verbose")));
    if let Some(holder) = holder {
        rows.push(row(texts::STATUS_HOLDER, holder));
    }
    print(&table(&rows))?;
    match trouble {
        Some(failure) => Err(failure),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// How runs wait in the process that holds the home; nothing where it does not answer, or is of a release without lanes.
async fn lanes(home: &Home) -> Option<Vec<LaneStatus>> {
    let mut status = Client::control(home.control_socket()).status(ANSWER).await.ok()?;
    serde_json::from_value(status.get_mut("lanes")?.take()).ok()
}

/// A line a lane, where somebody waits; or for all that are used or could be.
fn lane_rows(app: &App, lanes: &[LaneStatus], all: bool) -> Vec<Vec<String>> {
    let shown = lanes.iter().filter(|lane| all || lane.waiting > 0);
    let row = |lane: &LaneStatus| {
        let mut values: Vec<(&str, &dyn std::fmt::Display)> =
            vec![("running", &lane.running), ("limit", &lane.limit), ("waiting", &lane.waiting)];
        let seconds = lane.oldest_wait_ms.map(|ms| format!("{}.{}", ms / 1000, ms % 1000 / 100));
        let text = match &seconds {
            Some(seconds) => {
                values.push(("seconds", seconds));
                app.fill(texts::STATUS_PLACES_SINCE, &values)
            }
            None => app.fill(texts::STATUS_PLACES, &values),
        };
        vec![app.output.dim(&app.fill(texts::STATUS_LANE, &[("lane", &lane.lane)])), text]
    };
    shown.map(row).collect()
}
