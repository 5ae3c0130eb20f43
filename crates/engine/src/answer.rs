//! What came of a run, read back from where it is stored.

use tidegate_agent::text::spoken;
use tidegate_agent::{calls_made, calls_of, step_limit};
use tidegate_protocol::{Message, RunCommand, StopReason, TenantId, ToolCall};
use tidegate_storage::{Library, RunRow, StoreError};

use crate::error::EngineError;
use crate::finish::{of_command, tool_error};
use crate::live::Answer;
use crate::start::Core;
use crate::texts;

/// What a completed run said to whoever reads its conversation; `None` when it chose to say nothing.
pub async fn said(
    library: &dyn Library,
    tenant: &TenantId,
    row: &RunRow,
) -> Result<Option<String>, StoreError> {
    if let Some(RunCommand::Say { text, .. }) = &row.spec.command {
        return Ok(Some(text.clone()));
    }
    let (Some(session), Some((first, last))) = (row.session, row.entries) else { return Ok(None) };
    let limit = u32::try_from(last - first + 1).unwrap_or(u32::MAX);
    let entries = library.entries(tenant, session, first - 1, limit).await?;
    let mut messages = entries.iter().rev().filter_map(|entry| entry.body.message());
    let answer = messages.find(|message| matches!(message, Message::Assistant { .. })).map(Message::text);
    Ok(answer.map(|text| spoken(&text).to_owned()).filter(|text| !text.trim().is_empty()))
}

impl Core {
    pub(crate) async fn read_answer(&self, row: &RunRow) -> Result<Answer, EngineError> {
        if let Some(command) = &row.spec.command {
            return Ok(self.answer_of_command(row, command));
        }
        let torn = || StoreError::Damaged(format!("run {} has no answer in its log", row.id));
        let (Some(session), Some((first, last))) = (row.session, row.entries) else {
            return Err(torn().into());
        };
        let limit = u32::try_from(last - first + 1).unwrap_or(u32::MAX);
        let entries = self.store.entries(&self.tenant, session, first - 1, limit).await?;
        let messages: Vec<&Message> = entries.iter().filter_map(|entry| entry.body.message()).collect();
        let answer = messages.iter().rev().find_map(|message| match message {
            message @ Message::Assistant { origin, stop_reason, .. } => {
                let handed = handed(row, message);
                Some((spoken(&message.text()).to_owned(), origin.clone(), *stop_reason, handed))
            }
            _ => None,
        });
        let (text, origin, stop_reason, handed) = answer.ok_or_else(torn)?;
        let session_name = self.session_name(session).await?;
        let calls = calls_made(&messages);
        let tool_error = tool_error(&calls, step_limit(&messages).as_ref());
        let (run, created_at, usage) = (row.id, row.created_at, row.usage);
        Ok(Answer {
            run,
            created_at,
            session_name,
            text,
            origin,
            usage,
            calls,
            tool_error,
            handed,
            stop_reason,
        })
    }

    fn answer_of_command(&self, row: &RunRow, command: &RunCommand) -> Answer {
        let text = match command {
            RunCommand::Reset => texts::NEW_SESSION.in_language(self.settings.language()).to_owned(),
            RunCommand::Say { text, .. } => text.clone(),
            RunCommand::Compact { .. } => String::new(),
        };
        let session_name = row.session.map(|session| session.to_string()).unwrap_or_default();
        Answer {
            run: row.id,
            created_at: row.created_at,
            session_name,
            text,
            origin: of_command(),
            usage: row.usage,
            calls: Vec::new(),
            tool_error: None,
            handed: Vec::new(),
            stop_reason: StopReason::Stop,
        }
    }
}

/// The calls of a run's last answer that whoever asked has to run.
fn handed(row: &RunRow, answer: &Message) -> Vec<ToolCall> {
    let Some(brought) = row.spec.brought.as_deref() else { return Vec::new() };
    let mut calls = calls_of(answer);
    calls.retain(|call| brought.runs(&call.name));
    calls
}
