//! FINISH: the log, the end, the reply and what other conversations are told, in one commit.

use std::sync::Arc;
use std::time::Duration;

use tidegate_agent::{Desk as _, StepLimit};
use tidegate_protocol::{
    Block, EntryBody, Logged, Message, Origin, ReplyTarget, RunCommand, StopReason, ToolCall, ToolError,
    ToolErrorCode, ToolResult, Usage,
};
use tidegate_runtime::new_id;
use tidegate_storage::{Ending, Finish, Finished, Lease, NewCall, NewEntry, NewPart, StoreError};

use crate::desk::RunDesk;
use crate::error::EngineError;
use crate::execute::{End, Work};
use crate::live::{Answer, RunEnd};
use crate::start::Core;

impl Core {
    /// FINISH: the log, the end and the reply in one commit. Answers the end and whether another run waits.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        work: &Work,
        lease: &Lease,
        end: End,
        desk: &RunDesk<'_>,
    ) -> Result<(RunEnd, bool), EngineError> {
        let calls = desk.remaining();
        let finish = self.finish_of(work, &end, calls.clone()).await?;
        let lanes = lanes_of(&finish.parts);
        let ends_started = finish.ending.ends_started();
        let wrote = i64::try_from(finish.entries.len()).unwrap_or(i64::MAX);
        let finished = self.persist(lease, finish).await?;
        // Only now: whatever fails or panics before, what was used is still there for the end that is written instead.
        desk.booked(&calls);
        self.unsealed.notify_one();
        self.mirroring.notify();
        for (lane, channel, account) in lanes {
            self.wake_lane(lane, &channel, &account);
        }
        self.announced(work, &finished).await;
        if ends_started && let Err(error) = self.end_descendants(work.run).await {
            tracing::warn!(%error, run = %work.run, "what the run started has ended and may work on for a moment");
        }
        let end = match end {
            End::Answered(answer) => {
                let begins = finished.head_seq == wrote;
                Ok(self.told(work, lease, *answer, finished.usage, begins).await)
            }
            End::Done { text, .. } => Ok(Self::done(work, lease, text)),
            End::Failed(error) | End::Aborted(error) => Err(error),
            End::Ended | End::Released => return Err(StoreError::StaleFence.into()),
        };
        Ok((end, finished.more))
    }

    /// What is written at the end.
    async fn finish_of(&self, work: &Work, end: &End, calls: Vec<NewCall>) -> Result<Finish, EngineError> {
        let now = self.clock.now_ms();
        let principal = work.principal.clone();
        let mut finish = match end {
            End::Answered(answer) => Finish {
                entries: answer.entries.clone(),
                parts: self.answer_parts(work, answer).await?,
                context_tokens: Some(answer.context_tokens).filter(|tokens| *tokens > 0),
                ..Finish::bare(Ending::Completed(answer.origin.clone()), principal, now)
            },
            End::Done { text, closes_session } => Finish {
                entries: self.logged(work, now)?,
                parts: self.reply_parts(work, &Ok(text.clone())).await?,
                closes_session: *closes_session,
                ..Finish::bare(Ending::Completed(of_command()), principal, now)
            },
            End::Failed(error) => Finish {
                parts: self.reply_parts(work, &Err(error.clone())).await?,
                ..Finish::bare(Ending::Failed(error.clone()), principal, now)
            },
            End::Aborted(error) => Finish::bare(Ending::Aborted(error.clone()), principal, now),
            End::Ended | End::Released => return Err(StoreError::StaleFence.into()),
        };
        let said = match end {
            End::Answered(answer) => Ok(answer.text.clone()),
            End::Done { text, .. } => Ok(text.clone()),
            End::Failed(error) | End::Aborted(error) => Err(error.clone()),
            End::Ended | End::Released => return Err(StoreError::StaleFence.into()),
        };
        finish.calls = calls;
        finish.announce = match self.announcement(work, &said, &finish.calls).await {
            Ok(announce) => announce.map(Box::new),
            Err(EngineError::Store(error)) => return Err(error.into()),
            // Whoever started it is not configured any more; what it did stands all the same.
            Err(error) => {
                tracing::warn!(%error, run = %work.run, "what came of a subagent cannot be announced");
                None
            }
        };
        Ok(finish)
    }

    /// The line that a turn without a model leaves in the log.
    fn logged(&self, work: &Work, now: i64) -> Result<Vec<NewEntry>, EngineError> {
        let Some(RunCommand::Say { text, logged: Some(logged) }) = &work.spec.command else {
            return Ok(Vec::new());
        };
        let message = match logged {
            Logged::Question => work.input.clone(),
            Logged::Answer => Message::Assistant {
                content: vec![Block::text(text)],
                origin: of_command(),
                usage: Usage::default(),
                stop_reason: StopReason::Injected,
                error_message: None,
                timestamp: now,
            },
        };
        Ok(vec![NewEntry { id: new_id(self.clock.as_ref())?, body: EntryBody::Message(message) }])
    }

    /// What whoever waits is told.
    async fn told(
        &self,
        work: &Work,
        lease: &Lease,
        answer: tidegate_agent::Answer,
        usage: Usage,
        begins: bool,
    ) -> Answer {
        let alias = lease.alias.clone().unwrap_or_else(|| lease.session.to_string());
        // A log that begins now may have had to do without its short name.
        let session_name = if begins && work.reply == ReplyTarget::Caller {
            self.session_name(lease.session).await.unwrap_or(alias)
        } else {
            alias
        };
        let tool_error = tool_error(&answer.calls, answer.limit.as_ref());
        let tidegate_agent::Answer { text, origin, calls, handed, stop_reason, .. } = answer;
        let (run, created_at) = (work.run, work.created_at);
        Answer { run, created_at, session_name, text, origin, usage, calls, tool_error, handed, stop_reason }
    }

    fn done(work: &Work, lease: &Lease, text: String) -> Answer {
        Answer {
            run: work.run,
            created_at: work.created_at,
            session_name: lease.alias.clone().unwrap_or_else(|| lease.session.to_string()),
            text,
            origin: of_command(),
            usage: Usage::default(),
            calls: Vec::new(),
            tool_error: None,
            handed: Vec::new(),
            stop_reason: StopReason::Stop,
        }
    }

    /// FINISH, however long the store needs: an answer that exists must not be lost to a full disk.
    async fn persist(&self, lease: &Lease, finish: Finish) -> Result<Finished, StoreError> {
        let mut pause = Duration::from_millis(50);
        loop {
            let error = match self.store.finish(lease, finish.clone()).await {
                Ok(finished) => return Ok(finished),
                Err(error) => error,
            };
            self.watch(&error);
            let worth_waiting = match &error {
                StoreError::Full(_) => self.may_get_room(),
                StoreError::Unavailable(_) => self.stays && !self.stopped.is_requested(),
                _ => false,
            };
            if !worth_waiting {
                return Err(error);
            }
            tracing::warn!(%error, run = %lease.run, "the run's end cannot be written yet");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }
}

/// Who "answered" a command.
pub(crate) fn of_command() -> Origin {
    let name = || "command".to_owned();
    Origin { api: name(), provider: name(), model: name(), profile_id: None, route: name(), stage: name() }
}

/// The first call that failed, else that there were too many.
pub(crate) fn tool_error(calls: &[(ToolCall, ToolResult)], limit: Option<&StepLimit>) -> Option<ToolError> {
    let failed = calls.iter().find_map(|(_, result)| result.error.clone());
    failed.or_else(|| {
        let StepLimit { steps, tool } = limit?;
        Some(ToolError {
            code: ToolErrorCode::ExecutionError,
            tool: tool.clone(),
            message: format!("tool call loop exceeded max steps ({steps})"),
            details: None,
        })
    })
}

type LaneName = (String, tidegate_protocol::ChannelName, String);

fn lanes_of(parts: &[NewPart]) -> Vec<LaneName> {
    let mut lanes: Vec<LaneName> = Vec::new();
    for part in parts {
        if !lanes.iter().any(|(lane, ..)| *lane == part.lane) {
            lanes.push((part.lane.clone(), part.channel.clone(), part.account_id.clone()));
        }
    }
    lanes
}
