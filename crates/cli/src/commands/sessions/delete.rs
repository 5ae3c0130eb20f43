//! `sessions delete`: a conversation goes for good, once somebody is sure.

use std::fmt::Display;
use std::io::{BufRead as _, IsTerminal as _};
use std::process::ExitCode;

use serde_json::json;
use tidegate_protocol::ErrorCode;
use tidegate_storage::SessionRow;

use super::find::{is_called, logs_of, named_in, without_copies};
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::failure::{Failure, With as _};
use crate::output::{print, print_json, print_line, printable};
use crate::reach::{Reach, reach};
use crate::{Outcome, texts};

pub(in crate::commands) fn delete(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let wanted = &parsed.arguments[0];
    let (row, logs) = block_on(async {
        let (store, row) = named_in(app, &home, &loaded, parsed).await?;
        let logs = without_copies(logs_of(&store, &row.key).await?);
        Ok((row, logs))
    })?;
    if is_called(&row, wanted) && !row.current {
        // Deleting takes the whole session: an old id must not take the conversation of today with it.
        let message = texts::DELETE_OLD.with(&[("id", wanted), ("name", &row.key.label())]);
        return Err(Failure::new(ErrorCode::InvalidValue, message));
    }
    if !parsed.has("yes") && !confirmed(app, &row, &logs)? {
        print_line(app.say(texts::NOT_DELETED))?;
        return Ok(ExitCode::from(1));
    }
    let names = block_on(async {
        let delete = async |reach: Reach| reach.delete_session(&row.key).await;
        reach(app, &home, &loaded, "sessions delete", delete).await
    })?;
    if parsed.has("json") {
        print_json(&json!({ "deleted": row.key.label(), "sessionIds": names }))?;
    } else {
        let values: [(&str, &dyn Display); 2] =
            [("name", &printable(&row.key.label())), ("count", &earlier(&logs))];
        let text = if earlier(&logs) == 0 { texts::DELETED } else { texts::DELETED_ALL };
        print_line(&app.fill(text, &values))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks a person; a program has to say `--yes`.
fn confirmed(app: &App, row: &SessionRow, logs: &[SessionRow]) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() || !app.output.terminal {
        return Err(Failure::new(ErrorCode::MissingValue, texts::DELETE_NEEDS_YES.with(&[])));
    }
    // Lines that are shared with another log count once.
    let own = |log: &SessionRow| log.head_seq - log.parent.map_or(0, |(_, seq)| seq);
    let messages: i64 = logs.iter().map(own).sum();
    let values: [(&str, &dyn Display); 3] =
        [("name", &printable(&row.key.label())), ("messages", &messages), ("count", &earlier(logs))];
    let text = if earlier(logs) == 0 { texts::DELETE_QUESTION } else { texts::DELETE_ALL_QUESTION };
    print(&app.fill(text, &values))?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Conversations of the name besides its last one.
fn earlier(logs: &[SessionRow]) -> usize {
    logs.len().saturating_sub(1)
}
