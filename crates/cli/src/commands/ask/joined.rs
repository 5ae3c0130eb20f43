//! A question put to the process that holds the home.

use std::time::Duration;

use tidegate_client::{Client, ClientError};
use tidegate_engine::Answer;
use tidegate_protocol::api::{ApprovalView, Ask, AskAnswer, AskEvent};
use tidegate_protocol::{ErrorCode, RunEventBody, RunId, RunSpec, StopReason};
use tidegate_runtime::Shutdown;
use tokio::sync::mpsc;

use super::inline::put_questions;
use super::show::Show;
use crate::app::{App, now_ms};
use crate::failure::{Failure, Message};
use crate::reach::answer_there;

/// Longer than the holder's own deadline for the run: it says why it gave up.
const GRACE: Duration = Duration::from_mins(1);

/// Why there is no answer.
pub(super) enum Joined {
    /// The holder takes nothing new; the same question may be put to the next one.
    Closing,
    /// The holder died after it had accepted this run.
    Lost(RunId),
    Failed(Failure),
}

impl From<ClientError> for Joined {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Nobody { .. } | ClientError::Closing { .. } => Self::Closing,
            ClientError::Lost { run } => Self::Lost(run),
            error if error.body().code == ErrorCode::Closing => Self::Closing,
            error => Self::Failed(error.into()),
        }
    }
}

pub(super) async fn ask(
    app: &App,
    client: &Client,
    asked: &Ask,
    spec: &RunSpec,
    patience: Duration,
    show: &mut Show,
    questions: &mut mpsc::UnboundedReceiver<ApprovalView>,
) -> Result<Answer, Joined> {
    let cancel = Shutdown::new();
    let answered = tokio::select! {
        answered = follow(client, asked, spec, patience, show) => answered,
        never = put_questions(app, &cancel, questions, async |id, said| answer_there(client, id, &said).await) => {
            match never {}
        }
        signal = cancel.on_signal() => {
            // Hanging up aborts the run.
            let mut failure = Failure::new(ErrorCode::Aborted, Message::plain("interrupted by a signal"));
            failure.exit = signal.ok().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            Err(Joined::Failed(failure))
        }
    };
    show.close();
    answered
}

async fn follow(
    client: &Client,
    asked: &Ask,
    spec: &RunSpec,
    patience: Duration,
    show: &mut Show,
) -> Result<Answer, Joined> {
    let (_, mut stream) = client.ask(asked, patience.max(Duration::from_secs(1)) + GRACE).await?;
    let usual = Duration::from_millis(spec.limits.deadline_ms).saturating_add(GRACE);
    let mut limit = usual;
    loop {
        let event = stream.next(limit).await?;
        limit = usual;
        match event {
            Some(AskEvent::Delta { text }) => show.event(&RunEventBody::TextDelta { text }),
            Some(AskEvent::Notice { notice }) => {
                limit = limit.saturating_add(waits_for_somebody(&notice));
                show.event(&notice);
            }
            Some(AskEvent::Restarted) => show.restart(),
            Some(AskEvent::Answer(answer)) => return Ok(read(answer)),
            // It was accepted and will not be run there; what became of it decides whether it is asked again.
            Some(AskEvent::Error { error }) if error.code == ErrorCode::Closing => {
                return Err(Joined::Lost(stream.run()));
            }
            Some(AskEvent::Error { error }) => return Err(Joined::Failed(Failure::of_body(&error))),
            Some(AskEvent::Accepted { .. }) => {}
            None => return Err(Joined::Closing),
        }
    }
}

/// How long a question may stay unanswered: the run's own time stands still meanwhile.
fn waits_for_somebody(notice: &RunEventBody) -> Duration {
    let RunEventBody::ApprovalAsked { approval, .. } = notice else { return Duration::ZERO };
    Duration::from_millis(u64::try_from(approval.expires_at - now_ms()).unwrap_or(0))
}

fn read(answer: AskAnswer) -> Answer {
    Answer {
        run: answer.run_id,
        created_at: answer.created_at,
        session_name: answer.session_name,
        text: answer.text,
        origin: answer.origin,
        usage: answer.usage,
        calls: answer.calls.into_iter().map(|line| (line.call, line.result)).collect(),
        tool_error: answer.tool_error,
        // Nobody who asks here brings tools.
        handed: Vec::new(),
        stop_reason: StopReason::Stop,
    }
}
