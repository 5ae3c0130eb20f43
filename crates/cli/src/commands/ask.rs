//! `ask`: one question, one durable answer.

mod check;
mod contract;
mod here;
mod inline;
mod joined;
mod later;
mod request;
mod show;

use std::process::ExitCode;

use tidegate_config::{Loaded, ProblemKind};
use tidegate_engine::{Answer, Engine, Home, Notice, Settings};
use tidegate_protocol::api::ApprovalView;
use tidegate_protocol::{RunId, RunSpec, RunState, Scope, SessionKey, TenantId};
use tidegate_runtime::{SystemClock, fault, new_id};
use tidegate_storage::{Library, RunLookup};
use tokio::sync::mpsc;

pub(super) use self::request::session_name;

use self::contract::{MARK, Style, contract, result};
use self::joined::Joined;
use self::later::Later;
use self::request::Request;
use self::show::Show;
use super::{auth, block_on};
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::Failure;
use crate::output::{complain, print_json};
use crate::reach::{Found, Held, Seeker};
use crate::store::open_existing;
use crate::toolbox::mention_bare;
use crate::{Outcome, texts};

/// A tool failed, and whoever asked wanted to know.
const TOOL_FAILED: u8 = 2;

#[expect(clippy::unnecessary_wraps, reason = "the shape of every command's entry")]
pub(super) fn run(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let json = parsed.has("json") || !app.output.terminal;
    match answer(app, command, parsed, json) {
        Ok(code) => Ok(code),
        Err(failure) => Ok(app.report(&failure, json)),
    }
}

fn answer(app: &App, command: &'static Command, parsed: &Parsed, json: bool) -> Outcome {
    let request = Request::read(command, parsed, !json && auth::ask::is_there())?;
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    // Keys without an effect are told when they are set and checked, not with every question.
    for warning in loaded.warnings.iter().filter(|warning| warning.kind != ProblemKind::Unused) {
        complain(&app.fill(texts::CONFIG_WARNING, &[("problem", warning)]));
    }
    let settings = Settings::new(&loaded);
    let scope = settings.scope(parsed.value("agent"))?;
    check::allowed_tools(app, command, &settings, request.tools.allow.as_deref())?;
    check::mention_command(app, &request.text);
    let key = SessionKey::named(scope.clone(), &request.session).to_string();
    mention_bare(app, &settings, &scope, &key);
    let wish = request.wish(parsed);
    let spec = request.refine(settings.asked_spec(&scope, &wish)?);
    let forbidden = settings.run_spec(&scope, &wish).err();
    request.check_profile(&spec.models[0])?;
    let style = Style { marked: app.env.get(MARK).is_some_and(Style::is_on), dry_run: spec.shadow };
    let question = Question { app, home: &home, loaded: &loaded, parsed, request: &request, scope, spec };
    let answered = block_on(async {
        let (sender, mut approvals) = mpsc::unbounded_channel();
        let mut show = Show::new(app, json, parsed.has("verbose"), sender);
        let (answer, held) = Box::pin(question.put(&mut show, &mut approvals)).await?;
        let later = match held {
            Some(held) if json => {
                held.let_go().await;
                None
            }
            Some(held) => Some(Later::new(&question, held, &answer).await),
            None => None,
        };
        fault::pause("cli.ask.before_print").await;
        if json {
            print_json(&contract(&request.session, &answer, &style))?;
        } else {
            let shown = show.answer(&answer, &result(&answer, &style));
            if style.dry_run {
                complain(app.say(texts::runs::DRY_RUN));
            }
            if let Some(later) = later {
                later.tell(&mut show).await;
            }
            shown?;
        }
        let failed = parsed.has("strict") && answer.tool_error.is_some();
        Ok(if failed { ExitCode::from(TOOL_FAILED) } else { ExitCode::SUCCESS })
    });
    // The run ended with it in English; the person reads it in their own language.
    match (answered, forbidden) {
        (Err(failure), Some(error)) if failure.code == error.code() => Err(error.into()),
        (answered, _) => answered,
    }
}

/// A question on its way to whoever answers it.
struct Question<'a> {
    app: &'a App,
    home: &'a Home,
    loaded: &'a Loaded,
    parsed: &'a Parsed,
    request: &'a Request,
    scope: Scope,
    spec: RunSpec,
}

impl Question<'_> {
    /// Puts it to the engine of this process or to the one that holds the home, and to the next holder when that one
    /// turns out to be closing.
    ///
    /// A home that was free is held until what was begun in it has ended.
    async fn put(
        &self,
        show: &mut Show,
        approvals: &mut mpsc::UnboundedReceiver<ApprovalView>,
    ) -> Result<(Answer, Option<Held>), Failure> {
        let &Self { app, home, loaded, parsed, request, ref scope, ref spec } = self;
        let patience =
            request.timeout.map_or(app.home_patience(), |timeout| timeout.min(app.home_patience()));
        let mut key = request_key()?;
        let mut seeker = Seeker::new(app, home, "ask", patience);
        let mut lost = None;
        loop {
            match seeker.seek().await? {
                Found::Free(lock) => {
                    let held = Held::start(app, home, loaded, lock).await?;
                    mention_interrupted(app, &held.engine);
                    if let Some(run) = lost.take()
                        && never_began(held.engine.library(), held.engine.tenant(), run).await
                    {
                        key = request_key()?;
                    }
                    let session = SessionKey::named(scope.clone(), &request.session);
                    // What was chosen for the conversation holds unless the words say otherwise.
                    let chosen = held.engine.asked_spec(&session, &request.wish(parsed)).await;
                    let spec = chosen.map_or_else(|_| spec.clone(), |spec| request.refine(spec));
                    let asked = here::asked(request, scope.clone(), spec, key);
                    let answered = Box::pin(here::ask(app, &held.engine, asked, show, approvals)).await;
                    tell_notices(app, &held.engine);
                    return match answered {
                        Ok(answer) => Ok((answer, Some(held))),
                        Err(failure) => {
                            held.let_go().await;
                            Err(failure)
                        }
                    };
                }
                Found::Held(client) => {
                    if let (Some(run), Some(store)) =
                        (lost.take(), open_existing(home, &loaded.config).await?)
                        && never_began(store.as_ref(), &scope.tenant, run).await
                    {
                        key = request_key()?;
                    }
                    let asked = request.for_holder(parsed, &key);
                    match joined::ask(app, &client, &asked, spec, seeker.left(), show, approvals).await {
                        Err(Joined::Closing) => {}
                        Err(Joined::Lost(run)) => lost = Some(run),
                        Err(Joined::Failed(failure)) => return Err(failure),
                        Ok(answer) => return Ok((answer, None)),
                    }
                }
            }
        }
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
