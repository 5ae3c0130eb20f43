//! Running a tool, and answering questions, wherever the home is held.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate_client::{Client, ClientError};
use tidegate_engine::{Answering, Engine, Invoke};
use tidegate_policy::Principal;
use tidegate_policy::approval::{allow_rule_view, view};
use tidegate_protocol::api::{
    AllowCommand, AllowRuleView, AnswerApproval, ApprovalAnswered, ApprovalDecision, ApprovalView, Asking,
    InvokeTool, ToolEvent,
};
use tidegate_protocol::{AllowRuleId, ApprovalId, ErrorCode, ToolCall, ToolResult, ToolSource};
use tidegate_runtime::Shutdown;
use tidegate_storage::DecidedApproval;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{CALL, Held, Reach};
use crate::app::App;
use crate::commands::question::Question;
use crate::failure::{Failure, Message, With as _};
use crate::output::{complain, printable};
use crate::texts::tools as words;

/// The session that calls without a conversation belong to.
const SESSION: &str = "cli";
/// Events that may wait.
const WAITING: usize = 64;
/// How long a holder may take to begin.
const BEGIN: Duration = Duration::from_secs(30);

impl Reach {
    /// Has a tool run, asking the person at the terminal where somebody has to approve it.
    pub(crate) async fn invoke(self, app: &App, asked: &InvokeTool) -> Result<ToolResult, Failure> {
        match self {
            Self::Running(client) => {
                let mut stream = client.invoke(asked, BEGIN).await?;
                let next = async || Ok(stream.next().await?);
                let answer = async |id, answer| answer_there(&client, id, &answer).await;
                tokio::select! {
                    followed = follow(app, asked.asking, next, answer) => followed,
                    // Hanging up ends the call.
                    interrupted = interrupted() => Err(interrupted),
                }
            }
            Self::Own(held) => {
                let result = invoke_here(app, &held, asked).await;
                held.let_go().await;
                result
            }
        }
    }

    pub(crate) async fn answer(
        self,
        id: ApprovalId,
        answer: &AnswerApproval,
    ) -> Result<ApprovalAnswered, Failure> {
        match self {
            Self::Running(client) => answer_there(&client, id, answer).await,
            Self::Own(held) => {
                let answered = answer_here(&held.engine, id, answer).await;
                held.let_go().await;
                answered
            }
        }
    }

    /// Saves a rule for a command that nobody was asked about yet.
    pub(crate) async fn allow_command(self, asked: &AllowCommand) -> Result<AllowRuleView, Failure> {
        match self {
            Self::Running(client) => Ok(client.post("/api/v1/allowlist", asked, CALL).await?),
            Self::Own(held) => {
                let allowed = allow_here(&held.engine, asked).await;
                held.let_go().await;
                allowed
            }
        }
    }

    /// Whether there was such a rule.
    pub(crate) async fn remove_allow_rule(self, id: AllowRuleId) -> Result<bool, Failure> {
        match self {
            Self::Running(client) => {
                match client.delete::<Value>(&format!("/api/v1/allowlist/{id}"), CALL).await {
                    Ok(_) => Ok(true),
                    Err(ClientError::Server { status: 404, .. }) => Ok(false),
                    Err(error) => Err(error.into()),
                }
            }
            Self::Own(held) => {
                let owner = Principal::local_owner(held.engine.tenant().clone());
                let removed = held.engine.remove_allow_rule(&owner, id).await;
                held.let_go().await;
                Ok(removed?)
            }
        }
    }
}

async fn allow_here(engine: &Engine, asked: &AllowCommand) -> Result<AllowRuleView, Failure> {
    let owner = Principal::local_owner(engine.tenant().clone());
    let scope = engine.settings().scope(asked.agent.as_deref())?;
    match engine.allow_command(&owner, &scope, &asked.command, asked.prefix).await? {
        Ok(rule) => Ok(allow_rule_view(&rule)),
        Err(why) => Err(Failure::new(ErrorCode::InvalidValue, Message::plain(why.to_string()))),
    }
}

async fn invoke_here(app: &App, held: &Held, asked: &InvokeTool) -> Result<ToolResult, Failure> {
    let engine = &held.engine;
    let invoke = Invoke {
        principal: Principal::local_owner(engine.tenant().clone()),
        scope: engine.settings().scope(asked.agent.as_deref())?,
        session: SESSION.to_owned(),
        run: None,
        call: ToolCall {
            id: asked.call_id.clone(),
            name: asked.name.clone(),
            args: asked.args.clone(),
            source: ToolSource::Cli,
        },
        root: asked.root.as_ref().map(PathBuf::from),
        model: None,
        subagent: false,
        asking: asked.asking,
        allow: None,
        also: Vec::new(),
    };
    let (sender, mut receiver) = mpsc::channel(WAITING);
    let cancel = CancellationToken::new();
    let work = async {
        let told = sender.clone();
        let tell = Arc::new(move |event| drop(told.try_send(event)));
        let last = match Box::pin(engine.invoke(invoke, &cancel, tell)).await {
            Ok(result) => ToolEvent::Result { result },
            Err(error) => ToolEvent::Error { error: error.body() },
        };
        // Whoever follows is there until this came.
        let _ = sender.send(last).await;
    };
    let next = async || {
        receiver.recv().await.ok_or_else(|| {
            Failure::new(ErrorCode::Internal, Message::plain("the tool ended without a result"))
        })
    };
    let followed = follow(app, asked.asking, next, async |id, answer| answer_here(engine, id, &answer).await);
    let both = async { tokio::join!(work, followed).1 };
    tokio::pin!(both);
    tokio::select! {
        followed = &mut both => followed,
        interrupted = interrupted() => {
            // It ends what it started, and is put on record.
            cancel.cancel();
            let _ = both.await;
            Err(interrupted)
        }
    }
}

/// Returns when the person, or the system, wants an end.
async fn interrupted() -> Failure {
    let signal = Shutdown::new().on_signal().await;
    let mut failure = Failure::new(ErrorCode::Aborted, Message::plain("interrupted by a signal"));
    failure.exit = signal.ok().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    failure
}

/// Waits for the result. A question is put to the person meanwhile; somebody else may be faster.
async fn follow(
    app: &App,
    asking: Asking,
    mut next: impl AsyncFnMut() -> Result<ToolEvent, Failure>,
    answer: impl AsyncFn(ApprovalId, AnswerApproval) -> Result<ApprovalAnswered, Failure>,
) -> Result<ToolResult, Failure> {
    let mut asked: Option<Asked> = None;
    loop {
        let event = tokio::select! {
            event = next() => event?,
            Some((id, said)) = typed(&mut asked) => {
                asked = None;
                answer(id, said).await?;
                continue;
            }
        };
        match event {
            ToolEvent::Approval { approval } if asking == Asking::Caller => {
                asked = Some(ask(app, &approval));
            }
            ToolEvent::Approval { approval } => {
                let values: [(&str, &dyn std::fmt::Display); 2] =
                    [("id", &approval.id), ("program", &app.program)];
                complain(&app.fill(words::WAITS_FOR_ANSWER, &values));
            }
            // For whoever watches; the result has it once more, whole.
            ToolEvent::Update { text } if app.output.terminal => complain(printable(&text).trim_end()),
            ToolEvent::Update { .. } => {}
            ToolEvent::Result { result } => return Ok(result),
            ToolEvent::Error { error } => return Err(Failure::of_body(&error)),
        }
    }
}

/// A question that the person reads.
type Asked = (ApprovalId, Pin<Box<dyn Future<Output = AnswerApproval>>>);

fn ask(app: &App, approval: &ApprovalView) -> Asked {
    (approval.id, Box::pin(Question::new(app, approval).put()))
}

/// What the person said, once they did.
async fn typed(asked: &mut Option<Asked>) -> Option<(ApprovalId, AnswerApproval)> {
    let (id, said) = asked.as_mut()?;
    Some((*id, said.await))
}

pub(crate) async fn answer_there(
    client: &Client,
    id: ApprovalId,
    answer: &AnswerApproval,
) -> Result<ApprovalAnswered, Failure> {
    Ok(client.post(&format!("/api/v1/approvals/{id}"), answer, CALL).await?)
}

pub(crate) async fn answer_here(
    engine: &Engine,
    id: ApprovalId,
    answer: &AnswerApproval,
) -> Result<ApprovalAnswered, Failure> {
    let owner = Principal::local_owner(engine.tenant().clone());
    let answering = match answer.decision {
        ApprovalDecision::AllowOnce => Answering::AllowOnce,
        ApprovalDecision::AllowAlways => Answering::AllowAlways { prefix: answer.prefix },
        ApprovalDecision::Deny => Answering::Deny { reason: answer.reason.clone() },
    };
    match engine.answer(&owner, id, answering).await? {
        DecidedApproval::Won(approval) => Ok(ApprovalAnswered { won: true, approval: view(&approval) }),
        DecidedApproval::Settled(approval) => Ok(ApprovalAnswered { won: false, approval: view(&approval) }),
        DecidedApproval::Own => Err(Failure::new(ErrorCode::Forbidden, words::OWN_CALL.with(&[]))),
        DecidedApproval::CannotBeSaved => {
            Err(Failure::new(ErrorCode::InvalidValue, words::CANNOT_BE_SAVED.with(&[])))
        }
        DecidedApproval::NotFound => {
            Err(Failure::new(ErrorCode::NotFound, words::GONE_APPROVAL.with(&[("id", &id)])))
        }
    }
}
