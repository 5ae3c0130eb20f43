//! What a model is sent in a conversation, and how large it is.

use std::fmt::Display;
use std::sync::Arc;

use tidegate_agent::context::{Line, Part, report, summary};
use tidegate_protocol::{Entry, EntryBody, Message, ReplyTarget, RunId, RunSpec};
use tidegate_runtime::new_id;
use tidegate_storage::{SessionRow, StoreError};

use super::answers::short;
use super::plan::Writer;
use crate::error::EngineError;
use crate::execute::Work;
use crate::start::Core;
use crate::texts;
use crate::tools::AgentBox;

/// The newest lines that are counted.
const COUNTED: u32 = 2_000;

impl Core {
    /// A report for whoever wonders where the tokens go.
    pub(super) async fn about_context(
        self: &Arc<Self>,
        writer: Writer<'_>,
        spec: &RunSpec,
    ) -> Result<String, EngineError> {
        let row = self.store.session(writer.key).await?;
        let work = self.imagined(writer, spec)?;
        let scene = self.surroundings(&work, spec).await;
        let tools = AgentBox::shown_to(self, &work, spec)?;
        let lines = match &row {
            Some(row) => self.shown_lines(row).await?,
            None => Vec::new(),
        };
        let report = report(&scene, &tools, &lines);
        let window = self.settings.window(&spec.models, scene.group);
        let files: Vec<Part> = report.files.iter().map(|file| file.shown.clone()).collect();
        let tool_tokens: u64 = report.tools.iter().map(|tool| tool.tokens).sum();
        let limit = window.line();
        let kept: [(&str, &dyn Display); 2] =
            [("limit", &short(limit)), ("kept", &short(window.keep_recent))];
        let parts = [
            self.how_full(spec, row.as_ref()),
            self.fill(texts::CONTEXT_ESTIMATED, &[("tokens", &short(report.tokens()))]),
            self.fill(
                texts::CONTEXT_SYSTEM,
                &[("tokens", &short(report.system.tokens)), ("files", &listed(&files))],
            ),
            self.fill(
                texts::CONTEXT_TOOLS,
                &[("tokens", &short(tool_tokens)), ("tools", &listed(&report.tools))],
            ),
            self.fill(
                texts::CONTEXT_HISTORY,
                &[("tokens", &short(report.history.tokens)), ("messages", &report.messages)],
            ),
            self.fill(texts::CONTEXT_KEPT, &kept),
        ];
        Ok(parts.join("\n"))
    }

    /// The run that the next message would be.
    fn imagined(&self, writer: Writer<'_>, spec: &RunSpec) -> Result<Work, EngineError> {
        let now = self.clock.now_ms();
        let run: RunId = new_id(self.clock.as_ref())?;
        Ok(Work {
            run,
            key: writer.key.clone(),
            client_key: None,
            principal: writer.principal.clone(),
            spec: spec.clone(),
            input: Message::user("", now),
            reply: ReplyTarget::Session,
            created_at: now,
        })
    }

    async fn shown_lines(&self, row: &SessionRow) -> Result<Vec<Line>, StoreError> {
        let after = (row.head_seq - i64::from(COUNTED)).max(0);
        let entries = self.store.entries(&self.tenant, row.id, after, COUNTED).await?;
        Ok(after_summary(&entries))
    }
}

/// What is left to show once the last summary stands for what it sums up.
fn after_summary(entries: &[Entry]) -> Vec<Line> {
    let last = entries.iter().rev().find_map(|entry| match &entry.body {
        EntryBody::Compaction(compaction) => Some((entry, compaction.first_kept_seq)),
        _ => None,
    });
    let first_kept = last.map_or(0, |(_, first_kept)| first_kept);
    let summed_up = last.and_then(|(entry, _)| summary(entry)).map(|message| Line { seq: None, message });
    let kept = entries
        .iter()
        .filter(|entry| entry.seq >= first_kept)
        .filter_map(|entry| Some(Line { seq: Some(entry.seq), message: entry.body.message()?.clone() }));
    summed_up.into_iter().chain(kept).collect()
}

/// The pieces by name and size, the largest first.
fn listed(parts: &[Part]) -> String {
    let mut parts: Vec<&Part> = parts.iter().collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.tokens));
    let told: Vec<String> =
        parts.iter().map(|part| format!("{} {}", part.name, short(part.tokens))).collect();
    if told.is_empty() { "-".to_owned() } else { told.join(", ") }
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{Compaction, EntryId, FileTrail, Id as _, SessionId};

    use super::*;

    fn entry(seq: i64, body: EntryBody) -> Entry {
        Entry {
            session_id: SessionId::from_parts(1, [0; 10]),
            seq,
            id: EntryId::from_parts(1, [0; 10]),
            parent_id: None,
            run_id: RunId::from_parts(1, [0; 10]),
            created_at: 0,
            body,
        }
    }

    fn said(seq: i64) -> Entry {
        entry(seq, EntryBody::Message(Message::user(format!("line {seq}"), 0)))
    }

    #[test]
    fn what_was_summed_up_is_not_counted_and_its_summary_is() {
        let compaction = EntryBody::Compaction(Compaction {
            summary: "before".to_owned(),
            first_kept_seq: 3,
            tokens_before: 1,
            mechanical: false,
            files: FileTrail::default(),
        });
        let entries = [said(1), said(2), said(3), entry(4, compaction), said(5)];
        let shown: Vec<Option<i64>> = after_summary(&entries).iter().map(|line| line.seq).collect();
        assert_eq!(shown, [None, Some(3), Some(5)]);
        assert_eq!(after_summary(&entries[..3]).len(), 3);
    }

    #[test]
    fn the_largest_pieces_come_first() {
        let part = |name: &str, tokens| Part { name: name.to_owned(), chars: 0, tokens };
        assert_eq!(listed(&[part("a", 5), part("b", 1_500)]), "b 1.5k, a 5");
        assert_eq!(listed(&[]), "-");
    }
}
