//! A question put to the process that holds the home.

use std::time::Duration;

use tidegate_client::{Client, ClientError};
use tidegate_engine::Answer;
use tidegate_protocol::api::{Ask, AskEvent};
use tidegate_protocol::{ErrorCode, RunId, RunSpec};
use tidegate_runtime::Shutdown;

use super::tell;
use crate::app::App;
use crate::failure::{Failure, Message};
use crate::output::{print, print_line, printable};

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

/// Asks, showing the text as it comes. Answers also whether it was shown already.
pub(super) async fn ask(
    app: &App,
    client: &Client,
    asked: &Ask,
    spec: &RunSpec,
    patience: Duration,
    json: bool,
) -> Result<(Answer, bool), Joined> {
    let cancel = Shutdown::new();
    let mut streamed = false;
    let answered = tokio::select! {
        answered = follow(app, client, asked, spec, patience, json, &mut streamed) => answered,
        signal = cancel.on_signal() => {
            // Hanging up aborts the run.
            let mut failure = Failure::new(ErrorCode::Aborted, Message::plain("interrupted by a signal"));
            failure.exit = signal.ok().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            Err(Joined::Failed(failure))
        }
    };
    if streamed {
        let _ = print_line("");
    }
    Ok((answered?, streamed))
}

async fn follow(
    app: &App,
    client: &Client,
    asked: &Ask,
    spec: &RunSpec,
    patience: Duration,
    json: bool,
    streamed: &mut bool,
) -> Result<Answer, Joined> {
    let (_, mut stream) = client.ask(asked, patience.max(Duration::from_secs(1)) + GRACE).await?;
    let limit = Duration::from_millis(spec.limits.deadline_ms).saturating_add(GRACE);
    loop {
        match stream.next(limit).await? {
            Some(AskEvent::Delta { text }) if !json => {
                *streamed = true;
                let _ = print(&printable(&text));
            }
            Some(AskEvent::Notice { notice }) => tell(app.language(), &notice),
            Some(AskEvent::Restarted) if *streamed => {
                // What was shown does not count any more.
                let _ = print_line("");
            }
            Some(AskEvent::Answer(answer)) => {
                return Ok(Answer {
                    run: answer.run_id,
                    created_at: answer.created_at,
                    session_name: answer.session_name,
                    text: answer.text,
                    origin: answer.origin,
                    usage: answer.usage,
                });
            }
            // It was accepted and will not be run there; what became of it decides whether it is asked again.
            Some(AskEvent::Error { error }) if error.code == ErrorCode::Closing => {
                return Err(Joined::Lost(stream.run()));
            }
            Some(AskEvent::Error { error }) => return Err(Joined::Failed(Failure::of_body(&error))),
            Some(_) => {}
            None => return Err(Joined::Closing),
        }
    }
}
