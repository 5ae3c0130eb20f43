//! `channels`: which networks are configured, and how they do.

use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_channels::local;
use tidegate_client::{Client, ClientError};
use tidegate_config::schema::Config;
use tidegate_engine::{ChannelStatus, Home};
use tidegate_runtime::iso_timestamp;

use super::block_on;
use super::sessions::titles;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::output::{complain, print, print_json, print_line, printable, table};
use crate::{Outcome, texts};

/// How long a live gateway may take to tell.
const ANSWER: std::time::Duration = std::time::Duration::from_secs(5);

/// One account, as it is configured.
struct Configured {
    channel: &'static str,
    account: String,
    enabled: bool,
    details: Value,
}

/// Networks that are configured and have no connector in this version.
pub(super) fn without_connector(config: &Config) -> Vec<&'static str> {
    let channels = &config.channels;
    [
        ("telegram", channels.telegram.is_some()),
        ("discord", channels.discord.is_some()),
        ("slack", channels.slack.is_some()),
        ("whatsapp", channels.whatsapp.is_some()),
        ("signal", channels.signal.is_some()),
        ("matrix", channels.matrix.is_some()),
        ("feishu", channels.feishu.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, there)| there.then_some(name))
    .collect()
}

fn configured(config: &Config, home: &Home) -> Vec<Configured> {
    let Some(section) = &config.channels.local else { return Vec::new() };
    let running = local::from_config(section, &home.channels());
    let mut accounts: Vec<Configured> = running
        .into_iter()
        .map(|settings| Configured {
            channel: "local",
            account: settings.account,
            enabled: true,
            details: json!({ "inbox": settings.inbox, "outbox": settings.outbox }),
        })
        .collect();
    for name in section.accounts.keys() {
        if !accounts.iter().any(|account| account.account == *name) {
            accounts.push(Configured {
                channel: "local",
                account: name.clone(),
                enabled: false,
                details: Value::Null,
            });
        }
    }
    accounts
}

pub(super) fn list(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let accounts = configured(&loaded.config, &home);
    for channel in without_connector(&loaded.config) {
        complain(&app.fill(texts::CHANNEL_NOT_YET, &[("channel", &channel)]));
    }
    if parsed.has("json") {
        let rows: Vec<Value> = accounts
            .iter()
            .map(|row| {
                json!({ "channel": row.channel, "account": row.account, "enabled": row.enabled, "details": row.details })
            })
            .collect();
        print_json(&json!({ "channels": rows }))?;
    } else if accounts.is_empty() {
        print_line(&app.fill(texts::NO_CHANNELS, &[("program", &app.program)]))?;
    } else {
        let mut lines = vec![titles(app, texts::CHANNEL_LIST_TITLES)];
        lines.extend(accounts.iter().map(|row| {
            let details = row.details["inbox"].as_str().unwrap_or_default();
            vec![
                row.channel.to_owned(),
                printable(&row.account),
                if row.enabled { "yes" } else { "no" }.to_owned(),
                printable(details),
            ]
        }));
        print(&table(&lines))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn status(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let live = block_on(async {
        let client = Client::control(home.control_socket());
        match client.get::<Vec<ChannelStatus>>("/api/v1/channels", ANSWER).await {
            Ok(channels) => Ok(Some(channels)),
            Err(ClientError::Nobody { .. } | ClientError::Closing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    })?;
    let running = live.is_some();
    let mut channels = live.unwrap_or_default();
    if let Some(only) = parsed.value("channel") {
        channels.retain(|status| status.channel.as_str() == only);
    }
    if parsed.has("json") {
        print_json(&json!({ "running": running, "channels": channels }))?;
    } else if !running {
        print_line(&app.fill(texts::CHANNELS_STOPPED, &[("program", &app.program)]))?;
    } else if channels.is_empty() {
        let none = configured(&loaded.config, &home).is_empty();
        let text = if none { texts::NO_CHANNELS } else { texts::CHANNELS_NOT_STARTED };
        print_line(&app.fill(text, &[("program", &app.program)]))?;
    } else {
        let time = |at: Option<i64>| at.map_or_else(|| "-".to_owned(), iso_timestamp);
        let mut lines = vec![titles(app, texts::CHANNEL_TITLES)];
        lines.extend(channels.iter().map(|status| {
            vec![
                status.channel.to_string(),
                printable(&status.account),
                json!(status.state).as_str().unwrap_or_default().to_owned(),
                iso_timestamp(status.since),
                status.restarts.to_string(),
                time(status.last_inbound_at),
                time(status.last_outbound_at),
                printable(status.last_error.as_deref().unwrap_or("-")),
            ]
        }));
        print(&table(&lines))?;
    }
    Ok(ExitCode::SUCCESS)
}
