//! `ask`: one question, one durable answer.

mod joined;

use std::io::Read as _;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_config::ProblemKind;
use tidegate_engine::{Answer, Engine, Notice, Settings, Wish};
use tidegate_policy::Principal;
use tidegate_protocol::api::Ask;
use tidegate_protocol::{
    ErrorCode, Id as _, ReplyTarget, RunEventBody, RunId, RunSpec, RunState, Scope, SessionKey, TenantId,
    ThinkingLevel,
};
use tidegate_runtime::catalogue::Language;
use tidegate_runtime::{Shutdown, SystemClock, fault, iso_timestamp, new_id};
use tidegate_storage::{Library, RunLookup, SessionChoice};

use self::joined::Joined;
use super::block_on;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, Message, With as _};
use crate::output::{complain, print, print_json, print_line, printable};
use crate::reach::{Found, Held, Seeker};
use crate::store::open_existing;
use crate::{Outcome, texts};

/// Most bytes of input.
const MOST_INPUT: usize = 1 << 20;
/// Most bytes of a session's name.
const MOST_SESSION_NAME: usize = 256;
/// How long a run may wait for its turn in the session.
const PATIENCE: Duration = Duration::from_secs(10);

#[expect(clippy::unnecessary_wraps, reason = "the shape of every command's entry")]
pub(super) fn run(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let json = parsed.has("json") || !app.output.terminal;
    match answer(app, command, parsed, json) {
        Ok(code) => Ok(code),
        Err(failure) => Ok(app.report(&failure, json)),
    }
}

fn answer(app: &App, command: &'static Command, parsed: &Parsed, json: bool) -> Outcome {
    let request = Request::read(command, parsed)?;
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    // Keys without an effect are told when they are set and checked, not with every question.
    for warning in loaded.warnings.iter().filter(|warning| warning.kind != ProblemKind::Unused) {
        complain(&app.fill(texts::CONFIG_WARNING, &[("problem", warning)]));
    }
    let settings = Settings::new(&loaded);
    let scope = settings.scope(parsed.value("agent"))?;
    let wish = Wish {
        provider: parsed.value("provider"),
        model: parsed.value("model"),
        profile: request.profile.as_deref(),
        timeout: request.timeout,
        thinking: request.thinking,
    };
    let spec = settings.asked_spec(&scope, &wish)?;
    let forbidden = settings.run_spec(&scope, &wish).err();
    request.check_profile(&spec.models[0])?;
    let answered = block_on(async {
        let patience =
            request.timeout.map_or(app.home_patience(), |timeout| timeout.min(app.home_patience()));
        let mut key = request_key()?;
        let mut seeker = Seeker::new(app, &home, "ask", patience);
        let mut lost = None;
        let (answer, streamed) = loop {
            let found = seeker.seek().await?;
            match found {
                Found::Free(lock) => {
                    let held = Held::start(app, &home, &loaded, lock).await?;
                    mention_interrupted(app, &held.engine);
                    if let Some(run) = lost.take()
                        && never_began(held.engine.library(), held.engine.tenant(), run).await
                    {
                        key = request_key()?;
                    }
                    let outcome = ask_here(app, &held.engine, &request, scope, spec, key, json).await;
                    tell_notices(app, &held.engine);
                    held.let_go().await;
                    break outcome?;
                }
                Found::Held(client) => {
                    if let (Some(run), Some(store)) =
                        (lost.take(), open_existing(&home, &loaded.config).await?)
                        && never_began(store.as_ref(), &scope.tenant, run).await
                    {
                        key = request_key()?;
                    }
                    let asked = request.for_holder(parsed, &key);
                    match joined::ask(app, &client, &asked, &spec, seeker.left(), json).await {
                        Err(Joined::Closing) => {}
                        Err(Joined::Lost(run)) => lost = Some(run),
                        Err(Joined::Failed(failure)) => return Err(failure),
                        Ok(answered) => break answered,
                    }
                }
            }
        };
        fault::pause("cli.ask.before_print").await;
        if json {
            print_json(&contract(&request.session, &answer))?;
        } else if !streamed {
            print_line(&printable(&answer.text))?;
        }
        Ok(ExitCode::SUCCESS)
    });
    // The run ended with it in English; the person reads it in their own language.
    match (answered, forbidden) {
        (Err(failure), Some(error)) if failure.code == error.code() => Err(error.into()),
        (answered, _) => answered,
    }
}

/// Whether a run whose process died had not begun: then asking again repeats nothing.
async fn never_began(library: &dyn Library, tenant: &TenantId, run: RunId) -> bool {
    let row = library.run(tenant, &RunLookup::Id(run)).await;
    let ended = |state: &RunState| matches!(state, RunState::Interrupted | RunState::Aborted);
    matches!(row, Ok(Some(row)) if ended(&row.state) && row.started_at.is_none())
}

/// The same for every try of this question: a holder that died after it accepted must not be asked twice.
fn request_key() -> Result<String, Failure> {
    let id: RunId = new_id(&SystemClock).map_err(tidegate_engine::EngineError::from)?;
    Ok(format!("ask-{id}"))
}

/// Asks the engine of this process. Answers also whether the text was shown already.
async fn ask_here(
    app: &App,
    engine: &Engine,
    request: &Request,
    scope: Scope,
    spec: RunSpec,
    key: String,
    json: bool,
) -> Result<(Answer, bool), Failure> {
    let cancel = Shutdown::new();
    let asked = tidegate_engine::Request {
        principal: Principal::local_owner(scope.tenant.clone()),
        key: SessionKey::named(scope, &request.session),
        session: request.choice,
        ephemeral: false,
        text: request.text.clone(),
        client_key: None,
        idempotency: Some(key),
        spec,
        reply: ReplyTarget::Caller,
        patience: Some(PATIENCE),
    };
    let (mut streamed, language) = (false, app.language());
    let mut emit = |event: &RunEventBody| {
        match event {
            RunEventBody::TextDelta { text } if !json => {
                streamed = true;
                // The answer is durable in any case; a terminal that went away is not this run's business.
                let _ = print(&printable(text));
            }
            event => tell(language, event),
        }
    };
    let answered = with_signals(&cancel, engine.ask(asked, &cancel, &mut emit)).await;
    if streamed {
        print_line("")?;
    }
    Ok((answered?, streamed))
}

/// What a person should know besides the answer: that somebody else answered, that money runs out.
fn tell(language: Language, event: &RunEventBody) {
    match event {
        RunEventBody::ModelSwitched { from, profile_id, message, .. } => {
            let credential = profile_id.as_ref().map(|id| format!(" ({id})")).unwrap_or_default();
            let values: [(&str, &dyn std::fmt::Display); 3] =
                [("model", from), ("credential", &credential), ("message", &printable(message))];
            complain(&texts::MODEL_SWITCHED.fill(language, &values));
        }
        RunEventBody::OverBudget { message } => {
            complain(&texts::OVER_BUDGET.fill(language, &[("message", message)]));
        }
        _ => {}
    }
}

/// Runs to the end; a signal asks it to end early, and then decides the exit code.
async fn with_signals(
    cancel: &Shutdown,
    run: impl Future<Output = Result<Answer, tidegate_engine::EngineError>>,
) -> Result<Answer, Failure> {
    let mut run = std::pin::pin!(run);
    let mut signal = None;
    let answered = tokio::select! {
        answered = &mut run => answered,
        code = cancel.on_signal() => {
            signal = code.ok();
            run.await
        }
    };
    answered.map_err(|error| {
        let mut failure = Failure::from(error);
        if let Some(code) = signal.filter(|_| failure.code == ErrorCode::Aborted) {
            failure.exit = u8::try_from(code).unwrap_or(1);
        }
        failure
    })
}

fn tell_notices(app: &App, engine: &Engine) {
    for notice in engine.take_notices() {
        complain(&match notice {
            Notice::TranscriptRebuilt { file, kept } => {
                app.fill(texts::TRANSCRIPT_REBUILT, &[("file", &file.display()), ("kept", &kept.display())])
            }
            Notice::TranscriptLags { file, cause } => {
                app.fill(texts::TRANSCRIPT_LAGS, &[("file", &file.display()), ("cause", &cause)])
            }
        });
    }
}

fn mention_interrupted(app: &App, engine: &Engine) {
    let interrupted = engine.recovered().runs.iter().filter(|run| run.state == RunState::Interrupted).count();
    if interrupted > 0 {
        complain(&app.fill(texts::INTERRUPTED_RUNS, &[("count", &interrupted), ("program", &app.program)]));
    }
}

/// The contract's object, its keys in the contract's order.
fn contract(session: &str, answer: &Answer) -> Value {
    let mut object = json!({
        "success": true,
        "requestId": answer.run.alias(),
        "createdAt": iso_timestamp(answer.created_at),
        "route": answer.origin.route,
        "stage": answer.origin.stage,
        "result": answer.text,
    });
    if answer.origin.provider != tidegate_models::OFFLINE {
        object["provider"] = json!(answer.origin.provider);
        object["profileId"] = json!(answer.origin.profile_id);
    }
    for (key, value) in [
        ("sessionKey", json!(session)),
        ("sessionId", json!(answer.session_name)),
        ("memoryEnabled", json!(false)),
        ("memoryUpdated", json!(false)),
        ("toolCalls", json!([])),
        ("toolResults", json!([])),
        ("sessionContextUpdated", json!(false)),
    ] {
        object[key] = value;
    }
    object
}

/// What the words ask for, checked before anything is opened.
struct Request {
    text: String,
    session: String,
    choice: SessionChoice,
    timeout: Option<Duration>,
    profile: Option<String>,
    thinking: Option<ThinkingLevel>,
}

impl Request {
    fn read(command: &'static Command, parsed: &Parsed) -> Result<Self, Failure> {
        let invalid = |message: Message| Failure::new(ErrorCode::InvalidValue, message).with_usage(command);
        if parsed.switch("memory") == Some(true) {
            return Err(Failure::new(ErrorCode::Unavailable, texts::NO_MEMORY_YET.with(&[])));
        }
        if let Some(steps) = parsed.value("tool-max-steps")
            && !steps.parse::<u32>().is_ok_and(|steps| steps >= 1)
        {
            return Err(invalid(texts::INVALID_VALUE.with(&[
                ("name", &"tool-max-steps"),
                ("position", &1),
                ("value", &steps),
            ])));
        }
        let timeout = match parsed.value("timeout") {
            None => None,
            Some(text) => match text.parse::<f64>() {
                Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Some(Duration::from_secs_f64(seconds)),
                _ => return Err(invalid(texts::INVALID_TIMEOUT.with(&[("value", &text)]))),
            },
        };
        let thinking = match parsed.value("thinking") {
            None => None,
            Some(text) => Some(
                tidegate_models::parse_level(text)
                    .ok_or_else(|| invalid(texts::INVALID_THINKING.with(&[("value", &text)])))?,
            ),
        };
        let session = parsed.value("session").unwrap_or("main").to_owned();
        if session.trim().is_empty() {
            let message = texts::MISSING_VALUE.with(&[("name", &"session")]);
            return Err(Failure::new(ErrorCode::MissingValue, message).with_usage(command));
        }
        if session.len() > MOST_SESSION_NAME {
            return Err(invalid(texts::INVALID_SESSION.with(&[("most", &MOST_SESSION_NAME)])));
        }
        Ok(Self {
            text: input(command, parsed)?,
            session,
            choice: if parsed.has("new-session") { SessionChoice::Fresh } else { SessionChoice::Current },
            timeout,
            profile: parsed.value("profile").map(str::to_owned),
            thinking,
        })
    }

    /// The question as the process that holds the home takes it.
    fn for_holder(&self, parsed: &Parsed, key: &str) -> Ask {
        Ask {
            text: self.text.clone(),
            session: self.session.clone(),
            agent: parsed.value("agent").map(str::to_owned),
            new_session: self.choice == SessionChoice::Fresh,
            provider: parsed.value("provider").map(str::to_owned),
            model: parsed.value("model").map(str::to_owned),
            profile: self.profile.clone(),
            thinking: self.thinking,
            timeout_ms: self.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            key: key.to_owned(),
        }
    }

    fn check_profile(&self, model: &tidegate_protocol::ModelRef) -> Result<(), Failure> {
        if self.profile.is_some() && model.provider == tidegate_models::OFFLINE {
            return Err(Failure::new(ErrorCode::InvalidValue, texts::NO_OFFLINE_PROFILE.with(&[])));
        }
        Ok(())
    }
}

/// The plain words joined by a space, then standard input if it was asked for.
fn input(command: &'static Command, parsed: &Parsed) -> Result<String, Failure> {
    let mut text = parsed.arguments.join(" ").trim().to_owned();
    if parsed.has("stdin") {
        let more = standard_input()?;
        if !text.is_empty() && !more.trim().is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(more.trim());
    }
    if text.is_empty() {
        let failure = Failure::new(ErrorCode::AskInputRequired, texts::ASK_INPUT_REQUIRED.with(&[]));
        return Err(failure.with_usage(command));
    }
    if text.len() > MOST_INPUT {
        return Err(too_large());
    }
    Ok(text)
}

fn standard_input() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(MOST_INPUT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MOST_INPUT {
        return Err(too_large());
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(ErrorCode::InvalidValue, texts::STDIN_NOT_UTF8.with(&[])))?;
    // No database keeps this character in a text.
    Ok(text.replace('\0', "\u{fffd}"))
}

fn too_large() -> Failure {
    Failure::new(ErrorCode::InvalidValue, texts::ASK_INPUT_TOO_LARGE.with(&[("most", &MOST_INPUT)]))
}
