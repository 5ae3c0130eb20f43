//! `sessions fork`, `edit`, `branches` and `switch`: a conversation goes on from any of its lines, and back.

use std::process::ExitCode;

use serde_json::json;
use tidegate_engine::session_key;
use tidegate_protocol::api::{ForkSession, Forked};
use tidegate_protocol::{Entry, ErrorCode, Message, Place, Role, SessionKey};
use tidegate_runtime::iso_timestamp;
use tidegate_storage::{SessionRow, title_of};

use super::find::{is_called, logs_of, named_in, tip, without_copies};
use super::{label_of, name, read, session_json, titles};
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed, missing_value};
use crate::commands::block_on;
use crate::commands::table::AT;
use crate::commands::tools::fitted;
use crate::failure::{Failure, With as _};
use crate::output::{complain, print, print_json, print_line, printable};
use crate::reach::{Reach, reach};
use crate::store::open_existing;
use crate::{Outcome, texts};

/// The digits of a line's id in a transcript file.
const SHORT_ID: usize = 8;

pub(in crate::commands) fn fork(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let (row, entries) = read(app, parsed, None)?;
    if let Some(to) = parsed.value("to").filter(|_| !parsed.has("force")) {
        refuse_taken(app, parsed, &row, to)?;
    }
    let after_seq = match parsed.value("at") {
        Some(at) => Some(line_at(app, command, &row, &entries, at)?.seq),
        None => None,
    };
    let asked = ForkSession {
        source: Some(row.id.to_string()),
        after_seq,
        to: parsed.value("to").map(str::to_owned),
    };
    let forked = put(app, parsed, &row.key, &asked)?;
    let target = parsed.value("to").map_or_else(|| label_of(&row.key), str::to_owned);
    tell(app, parsed, &target, &forked)
}

/// A conversation that has the name already must not go on in another one unawares.
fn refuse_taken(app: &App, parsed: &Parsed, row: &SessionRow, to: &str) -> Result<(), Failure> {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let key = session_key(&row.key.scope.tenant, || Ok(row.key.scope.clone()), to)?;
    let taken = block_on(async {
        let store = open_existing(&home, &loaded.config).await?;
        Ok::<_, Failure>(match store {
            Some(store) => store.session(&key).await?.is_some(),
            None => false,
        })
    })?;
    if !taken || key == row.key {
        return Ok(());
    }
    let message = texts::sessions::NAME_TAKEN.with(&[("name", &printable(to))]);
    Err(Failure::new(ErrorCode::InvalidValue, message))
}

/// Goes back to a log. It is shared and stays as it is: what is written from now on stands in a copy, which shares all
/// of its lines.
pub(in crate::commands) fn switch(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let (row, logs) = branches_of(app, parsed)?;
    let (wanted, target) = (&parsed.arguments[1], label_of(&row.key));
    let log = logs.iter().find(|log| is_called(log, wanted)).ok_or_else(|| {
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("name", &target), ("id", wanted), ("program", &app.program)];
        Failure::new(ErrorCode::NotFound, texts::sessions::NO_SUCH_BRANCH.with(&values))
    })?;
    let current = logs.iter().find(|log| log.current);
    let there = current.filter(|current| tip(current) == tip(log));
    let copied = there.is_none();
    let used = if let Some(current) = there {
        // It goes on there already, and nothing was written since.
        (current.id, name(current))
    } else {
        let asked = ForkSession { source: Some(log.id.to_string()), after_seq: None, to: None };
        let forked = put(app, parsed, &row.key, &asked)?;
        (forked.id, forked.name)
    };
    if parsed.has("json") {
        print_json(&json!({
            "sessionKey": target, "sessionId": used.1, "id": used.0, "switchedTo": name(log), "copied": copied,
        }))?;
    } else {
        let text = if copied { texts::sessions::SWITCHED } else { texts::sessions::IS_THERE };
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("name", &printable(&target)), ("id", &name(log)), ("log", &used.1)];
        print_line(&app.fill(text, &values))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Forks right before a message and asks something else there.
pub(in crate::commands) fn edit(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let Some(at) = parsed.value("at") else {
        return Err(missing_value(command, &AT));
    };
    let (row, entries) = read(app, parsed, None)?;
    let line = line_at(app, command, &row, &entries, at)?;
    let is_question = line.body.message().is_some_and(|message| message.role() == Role::User);
    let asked_here = matches!(row.key.place, Place::Main | Place::Named { .. }) && row.key.thread.is_none();
    if !is_question || !asked_here {
        let text = if asked_here { texts::sessions::NOT_A_QUESTION } else { texts::sessions::NOT_ASKED_HERE };
        let message = text.with(&[("line", &line.seq), ("name", &row.key.label())]);
        return Err(Failure::new(ErrorCode::InvalidValue, message));
    }
    let asked = ForkSession { source: Some(row.id.to_string()), after_seq: Some(line.seq - 1), to: None };
    put(app, parsed, &row.key, &asked)?;
    keep_title(app, parsed, &row, &entries, line.seq)?;
    let code = crate::commands::run(app, &question(parsed, &row.key))?;
    if code != ExitCode::SUCCESS {
        // The question failed, and the conversation is cut already.
        let values: [(&str, &dyn std::fmt::Display); 4] = [
            ("name", &printable(&label_of(&row.key))),
            ("line", &line.seq),
            ("log", &name(&row)),
            ("program", &app.program),
        ];
        complain(&app.fill(texts::sessions::EDIT_CUT, &values));
    }
    Ok(code)
}

/// A title that a person gave holds for the conversation, also when it is asked anew from its first line on.
fn keep_title(
    app: &App,
    parsed: &Parsed,
    row: &SessionRow,
    entries: &[Entry],
    line: i64,
) -> Result<(), Failure> {
    let first = entries.first().and_then(|entry| entry.body.message()).map(Message::text);
    let made = first.as_deref().and_then(title_of);
    let Some(title) = row.title.as_deref().filter(|title| line == 1 && made.as_deref() != Some(title)) else {
        return Ok(());
    };
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let set = async |reach: Reach| reach.set_title(&row.key, Some(title)).await;
    block_on(async { reach(app, &home, &loaded, "sessions edit", set).await })?;
    Ok(())
}

/// The words that ask in a conversation.
fn question(parsed: &Parsed, key: &SessionKey) -> Vec<String> {
    let mut words = vec!["ask".to_owned()];
    let agent = key.scope.agent.to_string();
    let session = key.label();
    let values =
        [("home", parsed.value("home")), ("instance", parsed.value("instance")), ("agent", Some(&agent))];
    for (name, value) in values.into_iter().chain([("session", Some(session.as_str()))]) {
        words.extend(value.map(|value| format!("--{name}={value}")));
    }
    if parsed.has("json") {
        words.push("--json".to_owned());
    }
    words.push("--".to_owned());
    words.extend(parsed.arguments[1..].iter().cloned());
    words
}

pub(in crate::commands) fn branches(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let logs = without_copies(branches_of(app, parsed)?.1);
    if parsed.has("json") {
        let value = |log: &SessionRow| {
            let mut value = session_json(log);
            value["parent"] = json!(log.parent.map(|(parent, _)| parent));
            value["forkSeq"] = json!(log.parent.map(|(_, seq)| seq));
            value
        };
        print_json(&json!({ "branches": logs.iter().map(value).collect::<Vec<_>>() }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = vec![titles(app, texts::sessions::BRANCH_TITLES)];
    let parent = |log: &SessionRow| {
        let (parent, seq) = log.parent?;
        let known = logs.iter().find(|other| other.id == parent).map(name);
        Some(format!("{} @ {seq}", known.unwrap_or_else(|| parent.to_string())))
    };
    lines.extend(logs.iter().map(|log| {
        vec![
            if log.current { "*" } else { "" }.to_owned(),
            name(log),
            log.head_seq.to_string(),
            iso_timestamp(log.updated_at),
            parent(log).unwrap_or_default(),
            printable(log.title.as_deref().unwrap_or_default()),
        ]
    }));
    print(&fitted(app, &lines))?;
    Ok(ExitCode::SUCCESS)
}

/// The conversation that the first argument names, and all its logs, the last used first.
fn branches_of(app: &App, parsed: &Parsed) -> Result<(SessionRow, Vec<SessionRow>), Failure> {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    block_on(async {
        let (store, row) = named_in(app, &home, &loaded, parsed).await?;
        let logs = logs_of(&store, &row.key).await?;
        Ok((row, logs))
    })
}

/// The line that is meant: by its number, by the beginning of its id, or by the short id of a transcript file.
fn line_at<'e>(
    app: &App,
    command: &'static Command,
    row: &SessionRow,
    entries: &'e [Entry],
    at: &str,
) -> Result<&'e Entry, Failure> {
    let last = entries.last().map_or(0, |entry| entry.seq);
    found_at(entries, at).ok_or_else(|| {
        let values: [(&str, &dyn std::fmt::Display); 4] = [
            ("at", &printable(at)),
            ("last", &last),
            ("name", &printable(&label_of(&row.key))),
            ("program", &app.program),
        ];
        Failure::new(ErrorCode::NotFound, texts::sessions::NO_SUCH_LINE.with(&values)).with_usage(command)
    })
}

fn found_at<'e>(entries: &'e [Entry], at: &str) -> Option<&'e Entry> {
    let by_id = |entry: &&Entry| {
        let (id, plain) = (entry.id.to_string(), entry.id.to_string().replace('-', ""));
        id.starts_with(at) || plain.starts_with(at) || (at.len() == SHORT_ID && plain.ends_with(at))
    };
    let number: Option<i64> = at.parse().ok();
    let by_number = entries.iter().find(|entry| number == Some(entry.seq));
    let mut found = entries.iter().filter(by_id);
    by_number.or_else(|| found.next().filter(|_| found.next().is_none() && !at.is_empty()))
}

fn put(app: &App, parsed: &Parsed, key: &SessionKey, asked: &ForkSession) -> Result<Forked, Failure> {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let fork = async |reach: Reach| reach.fork_session(key, asked).await;
    block_on(async { reach(app, &home, &loaded, "sessions fork", fork).await })
}

fn tell(app: &App, parsed: &Parsed, target: &str, forked: &Forked) -> Outcome {
    if parsed.has("json") {
        print_json(&json!({ "sessionKey": target, "sessionId": forked.name, "id": forked.id }))?;
    } else {
        let values: [(&str, &dyn std::fmt::Display); 2] =
            [("name", &printable(target)), ("log", &forked.name)];
        print_line(&app.fill(texts::sessions::FORKED, &values))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{EntryBody, EntryId, RunId, SessionId};

    use super::*;

    fn entry(seq: i64, id: &str) -> Entry {
        Entry {
            session_id: "01890a5d-ac96-774b-bcce-b302099a8057".parse::<SessionId>().unwrap(),
            seq,
            id: id.parse::<EntryId>().unwrap(),
            parent_id: None,
            run_id: "01890a5d-ac96-774b-bcce-b302099a8057".parse::<RunId>().unwrap(),
            created_at: 0,
            body: EntryBody::Message(Message::user("x", 0)),
        }
    }

    #[test]
    fn a_line_is_meant_by_its_number_or_by_as_much_of_its_id_as_is_needed() {
        let entries = [
            entry(1, "01890a5d-ac96-774b-bcce-b302099a8057"),
            entry(2, "01890a5d-ac97-774b-bcce-b302abcdef01"),
        ];
        let found = |at: &str| found_at(&entries, at).map(|entry| entry.seq);
        assert_eq!(
            ["1", "2", "01890a5d-ac96", "01890a5dac97", "abcdef01"].map(found),
            [Some(1), Some(2), Some(1), Some(2), Some(2)]
        );
        assert_eq!(["0", "3", "01890a5d", "", "zz"].map(found), [None; 5]);
    }
}
