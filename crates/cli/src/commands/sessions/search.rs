//! `sessions search`: lines of all conversations that have the words.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_engine::Settings;
use tidegate_protocol::{Entry, EntryBody, ErrorCode, SessionId};
use tidegate_runtime::iso_timestamp;
use tidegate_storage::{Search, SessionRow};

use super::show::{short, who};
use super::{Whose, find_of, label, limit, titles};
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::failure::{Failure, With as _};
use crate::output::{print, print_json, print_line, printable, table};
use crate::store::open_existing;
use crate::{Outcome, texts};

type Found = (Vec<Entry>, BTreeMap<SessionId, SessionRow>);

pub(in crate::commands) fn search(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let words = parsed.arguments.join(" ");
    if words.trim().is_empty() {
        let failure = Failure::new(ErrorCode::MissingValue, texts::MISSING_ARGUMENT.with(&[]));
        return Err(failure.with_usage(command));
    }
    let (entries, logs) = look(app, parsed, words.trim().to_owned(), limit(command, parsed)?)?;
    if parsed.has("json") {
        let lines = entries.iter().map(|entry| line_json(entry, logs.get(&entry.session_id)));
        print_json(&json!({ "lines": lines.collect::<Vec<_>>() }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if entries.is_empty() {
        print_line(&app.fill(texts::sessions::NOTHING_FOUND, &[("words", &printable(words.trim()))]))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![titles(app, texts::sessions::FOUND_TITLES)];
    rows.extend(entries.iter().map(|entry| {
        let log = logs.get(&entry.session_id);
        vec![
            log.map_or_else(|| entry.session_id.to_string(), |log| printable(&label(log))),
            entry.seq.to_string(),
            who(app, &entry.body).to_owned(),
            iso_timestamp(entry.created_at),
            around(&text(entry), words.trim()),
        ]
    }));
    print(&table(&rows))?;
    Ok(ExitCode::SUCCESS)
}

fn look(app: &App, parsed: &Parsed, words: String, limit: u32) -> Result<Found, Failure> {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let settings = Settings::new(&loaded);
    block_on(async {
        let store = open_existing(&home, &loaded.config).await?;
        let whose = Whose::of(&settings, store.as_ref(), parsed).await?;
        let Some(store) = store else { return Ok(Found::default()) };
        let (tenant, agent) = (&whose.scope.tenant, whose.agent());
        let session = match parsed.value("session") {
            Some(name) => Some(find_of(app, &store, &whose, name).await?.id),
            None => None,
        };
        let entries = store.search(tenant, Search { words, session, agent, limit }).await?;
        let mut logs = BTreeMap::new();
        for entry in &entries {
            if !logs.contains_key(&entry.session_id)
                && let Some(row) = store.session_by_name(tenant, &entry.session_id.to_string()).await?
            {
                logs.insert(entry.session_id, row);
            }
        }
        Ok((entries, logs))
    })
}

fn text(entry: &Entry) -> String {
    match &entry.body {
        EntryBody::Message(message) => message.text(),
        EntryBody::Compaction(compaction) => compaction.summary.clone(),
        EntryBody::Unknown(_) => String::new(),
    }
}

fn line_json(entry: &Entry, log: Option<&SessionRow>) -> Value {
    json!({
        "sessionKey": log.map(|log| log.key.label()),
        "sessionId": log.map(super::name),
        "key": log.map(|log| log.key.to_string()),
        "seq": entry.seq,
        "id": entry.id,
        "runId": entry.run_id,
        "createdAt": iso_timestamp(entry.created_at),
        "text": text(entry),
    })
}

/// Characters before the words that are shown.
const BEFORE: usize = 30;

/// The text around the words.
fn around(text: &str, words: &str) -> String {
    let (line, wanted) = (text.to_lowercase(), words.to_lowercase());
    // In characters, since small letters may take other bytes than capital ones.
    let at = line.find(&wanted).and_then(|at| line.get(..at)).map_or(0, |before| before.chars().count());
    let skipped = at.saturating_sub(BEFORE);
    let cut: String = text.chars().skip(skipped).collect();
    if skipped == 0 { short(&cut) } else { format!("…{}", short(&cut)) }
}

#[cfg(test)]
mod tests {
    use super::around;

    #[test]
    fn what_is_found_is_shown_with_what_is_around_it() {
        assert_eq!(around("one\ntwo", "TWO"), "one two");
        let long = format!("{}needle {}", "word ".repeat(100), "tail ".repeat(100));
        let shown = around(&long, "needle");
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains("needle tail"), "{shown}");
        assert_eq!(around("İstanbul ile", "ile"), "İstanbul ile");
    }
}
