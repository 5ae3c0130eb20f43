//! The terminal a person talks in: inline, in the normal scrollback.
//!
//! What is finished is printed once and never touched again. Only a small region at the bottom is drawn anew: the end of
//! an answer that is still coming, what is under way, a question, and the line that is typed. The state and everything
//! that is shown of it are pure; the terminal, the connection and the file of what was typed are at the edge.

mod app;
mod card;
mod choice;
mod editor;
mod elsewhere;
mod export;
mod history;
mod host;
mod keys;
mod line;
mod markdown;
mod opening;
mod past;
mod plain;
mod question;
mod screen;
mod session;
mod terminal;
mod wrap;

use std::io::IsTerminal as _;

use tidegate_config::Loaded;
use tidegate_engine::{Home, Settings, session_key};
use tidegate_protocol::Verbose;
use tokio::sync::mpsc;

pub(crate) use self::choice::{Models, nearest_command};
pub(crate) use self::elsewhere::{Elsewhere, LOOK, Watch};
pub(crate) use self::opening::Opening;

use self::app::{Facts, State, completions};
use self::editor::Choice;
use self::export::Export;
use self::history::History;
use self::host::Host;
use self::past::Past;
use self::plain::Plain;
use self::session::Session;
use crate::Outcome;
use crate::app::{App, now_ms};
use crate::commands::VERSION;
use crate::store::open_existing;

/// What may wait for being shown; whoever tells more waits.
const BACK: usize = 256;
/// What was typed before.
const HISTORY: &str = "chat_history";

/// The models that may be asked.
pub(crate) struct Known {
    /// What can be completed, each with what it is.
    pub(crate) names: Vec<(String, String)>,
    pub(crate) models: Models,
    /// Further words that begin a conversation anew.
    pub(crate) triggers: Vec<String>,
}

/// A conversation, until it is left: with a person at a terminal, else with whatever writes lines.
pub(crate) async fn converse(
    app: &App,
    home: &Home,
    loaded: &Loaded,
    opening: Opening,
    model: String,
    known: Known,
) -> Outcome {
    let scope = Settings::new(loaded).scope(opening.agent.as_deref())?;
    let key = session_key(&scope.tenant, || Ok(scope.clone()), &opening.session)?;
    let (told, back) = mpsc::channel(BACK);
    let host = Host::find(app, home, loaded, told).await?;
    let export = Export {
        home: home.root().to_owned(),
        session: opening.session.clone(),
        agent: opening.agent.clone(),
        file: std::path::PathBuf::new(),
    };
    if opening.json || !app.output.terminal || !std::io::stdin().is_terminal() {
        return Plain { app, host, opening, back, export, models: known.models, triggers: known.triggers }
            .run()
            .await;
    }
    // Whoever cannot read what others do there still talks.
    let store = open_existing(home, &loaded.config).await.ok().flatten();
    let (mut verbose, mut past) = (None, None);
    if let Some(store) = store {
        verbose = store.session_settings(&key).await.unwrap_or_default().verbose;
        if !opening.fresh {
            past = Past::read(store.as_ref(), &key).await.unwrap_or_default();
        }
        host.watch(Watch::new(store, key.clone(), now_ms()));
    }
    let facts = Facts {
        language: app.language(),
        program: app.program.clone(),
        version: VERSION.to_owned(),
        session: opening.session.clone(),
        model,
        triggers: known.triggers,
        // Whoever sits at a terminal sees what is done, unless they said otherwise.
        verbose: verbose.unwrap_or(Verbose::On),
        past,
    };
    let history = History::at(home.root().join(HISTORY));
    let names = known.names.into_iter().map(|(word, about)| Choice { word, about }).collect();
    let completions = completions(app.language(), names);
    let (columns, _) = terminal::size();
    let state = State::new(facts, known.models, history.load(), completions, columns, now_ms());
    let colour = app.output.colour;
    Box::pin(Session { host, opening, key: key.to_string(), state, history, export, back, colour }.run())
        .await
}
