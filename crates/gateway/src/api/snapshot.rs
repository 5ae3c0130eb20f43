//! A conversation as it stands: the end of its log, and the runs that are not in it.

use tidegate_engine::spoken;
use tidegate_protocol::api::{Cursor, LogLine, PartialText, RunLine, Snapshot, SummaryLine};
use tidegate_protocol::{
    Entry, EntryBody, Message, Role, RunCommand, RunId, RunState, SessionId, SessionKey,
};
use tidegate_storage::{RunFilter, RunLookup, RunRow};

use crate::answer::Refusal;
use crate::gate::Gate;

/// Lines of the log in a snapshot.
const LINES: u32 = 200;
/// Runs looked at for those that are not in the log.
const RUNS: u32 = 100;

/// A snapshot and what a feed needs to go on from it.
pub(crate) struct Standing {
    pub(crate) snapshot: Snapshot,
    /// The log that is shown.
    pub(crate) session: Option<SessionId>,
}

/// Reads it: whole, or what came after a place that the reader knows.
pub(crate) async fn read(
    gate: &Gate,
    key: &SessionKey,
    name: &str,
    cursor: Option<&Cursor>,
) -> Result<Standing, Refusal> {
    let engine = gate.engine();
    let library = engine.library();
    // Runs first: one that ends meanwhile is then shown twice at worst (by id), never left out.
    let filter = RunFilter { session: Some(key.clone()), limit: RUNS, ..RunFilter::default() };
    let rows = library.runs(engine.tenant(), filter).await?;
    let session = library.session(key).await?;
    let after = session.as_ref().map_or(0, |row| (row.head_seq - i64::from(LINES)).max(0));
    let mut written = match &session {
        Some(row) => {
            let entries = library.entries(engine.tenant(), row.id, after, LINES + 64).await?;
            Written::of(entries.iter())
        }
        None => Written::default(),
    };
    let under_way = under_way(gate, &rows, &written.messages).await?;
    written.leave_out(&under_way);
    let Written { mut messages, mut summaries } = written;
    let session = session.map(|row| row.id);
    // Newest first, as far back as this log goes: what another log answered was another conversation.
    let of_this_log = rows.into_iter().take_while(|row| match &row.spec.command {
        Some(command) => *command != RunCommand::Reset || row.state != RunState::Completed,
        None => row.state != RunState::Completed || row.session == session,
    });
    let mut runs: Vec<RunLine> = of_this_log
        .filter(|row| !is_answered(row, &messages, &under_way))
        .map(|row| run_line(gate, row))
        .collect();
    runs.reverse();
    // A place further back than what is read here would leave a hole.
    let known = cursor.filter(|cursor| Some(cursor.session_id) == session && cursor.seq >= after);
    if let Some(Cursor { seq, .. }) = known {
        messages.retain(|line| line.seq > *seq);
        summaries.retain(|line| line.seq > *seq);
    }
    let snapshot = Snapshot {
        session: name.to_owned(),
        session_id: session,
        partial: known.is_some(),
        messages,
        summaries,
        runs,
    };
    Ok(Standing { snapshot, session })
}

/// Runs that have lines in the log and have not ended. A row may be older than the log: it is looked at again.
async fn under_way(gate: &Gate, rows: &[RunRow], messages: &[LogLine]) -> Result<Vec<RunId>, Refusal> {
    let engine = gate.engine();
    let mut open = Vec::new();
    let has_lines = |row: &&RunRow| messages.iter().any(|line| line.run_id == row.id);
    for row in rows.iter().filter(|row| !row.state.is_terminal()).filter(has_lines) {
        let now = engine.library().run(engine.tenant(), &RunLookup::Id(row.id)).await?;
        if now.is_some_and(|row| !row.state.is_terminal()) {
            open.push(row.id);
        }
    }
    Ok(open)
}

/// Whether the log has a run's answer. The row may be older than the log that was read after it.
fn is_answered(row: &RunRow, messages: &[LogLine], under_way: &[RunId]) -> bool {
    if row.state == RunState::Joined {
        // Its line is among those of the run that took it in, once that one's lines are shown.
        return row.joined.is_none_or(|host| !under_way.contains(&host));
    }
    let in_log = |line: &LogLine| line.run_id == row.id && line.role == Role::Assistant;
    (row.state == RunState::Completed && said(row).is_none()) || messages.iter().any(in_log)
}

/// What a command answered. No log has it.
fn said(row: &RunRow) -> Option<String> {
    match &row.spec.command {
        Some(RunCommand::Say { text, logged: None })
            if row.state == RunState::Completed && !text.is_empty() =>
        {
            Some(text.clone())
        }
        _ => None,
    }
}

/// How a command ended, for whoever watches.
pub(crate) enum Commanded {
    /// The conversation began anew.
    Reset,
    Said(String),
}

/// What came of a run that was a command.
pub(crate) async fn commanded(gate: &Gate, run: RunId) -> Result<Option<Commanded>, Refusal> {
    let engine = gate.engine();
    let row = engine.library().run(engine.tenant(), &RunLookup::Id(run)).await?;
    Ok(row.filter(|row| row.state == RunState::Completed).and_then(|row| match &row.spec.command {
        Some(RunCommand::Reset) => Some(Commanded::Reset),
        _ => said(&row).map(Commanded::Said),
    }))
}

fn run_line(gate: &Gate, row: RunRow) -> RunLine {
    let said = said(&row).map(|text| PartialText { text, seq: 1 });
    let partial = gate.engine().partial(row.id).filter(|_| !row.state.is_terminal());
    RunLine {
        run_id: row.id,
        text: row.input.text(),
        key: row.client_key,
        at: row.created_at,
        error: row.error,
        attempt: partial.as_ref().map_or(row.attempt, |partial| partial.attempt),
        partial: partial.map(|partial| PartialText { text: partial.text, seq: partial.seq }).or(said),
        state: row.state,
    }
}

/// A line that people read: what was asked and what was answered.
fn line(entry: &Entry) -> Option<LogLine> {
    let message = entry.body.message()?;
    let role = match message {
        Message::User { .. } => Role::User,
        Message::Assistant { .. } => Role::Assistant,
        Message::ToolResult { .. } => return None,
    };
    let text = message.text();
    // The line of an agent that chose to be silent is there, and empty.
    let shown = if role == Role::Assistant { spoken(&text) } else { &text };
    (!text.is_empty()).then_some(LogLine {
        seq: entry.seq,
        role,
        text: shown.to_owned(),
        at: entry.created_at,
        run_id: entry.run_id,
    })
}

/// What people see of a piece of a log.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) messages: Vec<LogLine>,
    pub(crate) summaries: Vec<SummaryLine>,
}

impl Written {
    fn of<'e>(entries: impl Iterator<Item = &'e Entry> + Clone) -> Self {
        let summed_up = entries.clone().filter(|entry| matches!(entry.body, EntryBody::Compaction(_)));
        let summaries = summed_up.map(|entry| SummaryLine { seq: entry.seq, at: entry.created_at }).collect();
        Self { messages: entries.filter_map(line).collect(), summaries }
    }

    /// Leaves out what runs under way have written so far. It is told with their end, all at once; until then a reader has
    /// the words of the answer so far, and its place in the log is before them.
    fn leave_out(&mut self, open: &[RunId]) {
        let theirs = self.messages.iter().filter(|line| open.contains(&line.run_id));
        if let Some(first) = theirs.map(|line| line.seq).min() {
            self.messages.retain(|line| line.seq < first);
            self.summaries.retain(|line| line.seq < first);
        }
    }
}

/// What a run wrote, and the log it is in.
pub(crate) async fn lines_of(gate: &Gate, run: RunId) -> Result<Option<(SessionId, Written)>, Refusal> {
    let engine = gate.engine();
    let row = engine.library().run(engine.tenant(), &RunLookup::Id(run)).await?;
    let Some(RunRow { session: Some(session), entries: Some((first, last)), .. }) = row else {
        return Ok(None);
    };
    let count = u32::try_from(last - first + 1).unwrap_or(LINES);
    let entries = engine.library().entries(engine.tenant(), session, first - 1, count).await?;
    let written = Written::of(entries.iter().filter(|entry| entry.run_id == run));
    Ok(Some((session, written)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_protocol::{Entry, Role};

    use super::{Written, line};

    #[test]
    fn where_a_log_was_summed_up_is_told_beside_its_lines_and_the_summary_itself_is_not() {
        let summary = json!({"summary": "secret", "firstKeptSeq": 1, "tokensBefore": 9, "mechanical": false});
        let mut summed_up = serde_json::to_value(said("user", "")).unwrap();
        (summed_up["kind"], summed_up["body"], summed_up["seq"]) = (json!("compaction"), summary, json!(2));
        summed_up["createdAt"] = json!(7);
        let entries = [said("user", "hi"), serde_json::from_value(summed_up).unwrap()];
        let written = Written::of(entries.iter());
        assert_eq!(written.messages.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["hi"]);
        let places: Vec<_> = written.summaries.iter().map(|summary| (summary.seq, summary.at)).collect();
        assert_eq!(places, [(2, 7)]);
    }

    #[test]
    fn what_a_run_under_way_wrote_so_far_waits_for_its_end() {
        let mut later = serde_json::to_value(said("user", "under way")).unwrap();
        let run = "01890a5d-ac96-774b-bcce-b302099a8052";
        (later["seq"], later["runId"]) = (json!(2), json!(run));
        let entries = [said("user", "hi"), serde_json::from_value(later).unwrap()];
        let mut written = Written::of(entries.iter());
        written.leave_out(&[]);
        assert_eq!(written.messages.len(), 2);
        written.leave_out(&[run.parse().unwrap()]);
        assert_eq!(written.messages.iter().map(|line| line.seq).collect::<Vec<_>>(), [1]);
    }

    fn said(role: &str, text: &str) -> Entry {
        let usage = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "cost": 0});
        let body = json!({
            "role": role, "content": [{"type": "text", "text": text}], "provider": "p", "model": "m", "api": "a",
            "route": "r", "stage": "s", "usage": usage, "stopReason": "stop", "timestamp": 0,
        });
        let id = "01890a5d-ac96-774b-bcce-b302099a8051";
        let entry = json!({
            "sessionId": id, "seq": 1, "id": id, "runId": id, "createdAt": 0, "kind": "message", "body": body,
        });
        serde_json::from_value(entry).unwrap()
    }

    #[test]
    fn silence_is_an_empty_line_of_the_agent_and_a_person_may_write_the_token() {
        let line = |role, text| line(&said(role, text)).map(|line| (line.role, line.text));
        assert_eq!(line("assistant", "NO_REPLY"), Some((Role::Assistant, String::new())));
        assert_eq!(line("assistant", "Done. NO_REPLY"), Some((Role::Assistant, "Done.".to_owned())));
        assert_eq!(line("user", "NO_REPLY"), Some((Role::User, "NO_REPLY".to_owned())));
        assert_eq!(line("assistant", ""), None);
    }
}
