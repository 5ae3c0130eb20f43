//! A conversation on a real terminal: events in, effects out, until the person leaves.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tidegate_protocol::RunId;
use tidegate_runtime::{SystemClock, new_id, spawn_blocking};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::app::{Effect, Event, State, TurnId};
use super::export::{Export, export};
use super::history::History;
use super::host::{Back, Host, TRIES};
use super::keys::Decoder;
use super::opening::Opening;
use super::screen::Screen;
use super::terminal::{self, Raw};
use crate::app::now_ms;
use crate::failure::Failure;
use crate::output::complain;
use crate::signals::Signals;
use crate::texts::chat as words;

/// How long an escape waits for the rest of a sequence.
const ESCAPE: Duration = Duration::from_millis(40);
/// How long a paste waits for its end; a terminal that went away in between never sends it.
const PASTE: Duration = Duration::from_secs(5);
/// The exit code of a program that was told to quit.
const QUIT: u8 = 131;
/// Leaving that takes longer is worth a word.
const MOMENT: Duration = Duration::from_secs(1);
/// How often what moves is drawn.
const FRAME: Duration = Duration::from_millis(100);
pub(super) struct Session<'a> {
    pub(super) host: Host<'a>,
    pub(super) opening: Opening,
    /// The conversation's own key.
    pub(super) key: String,
    pub(super) state: State,
    pub(super) history: History,
    pub(super) export: Export,
    pub(super) back: mpsc::Receiver<Back>,
    pub(super) colour: bool,
}

/// What woke the loop.
enum Woken {
    Typed(Option<Vec<u8>>),
    Back(Box<Back>),
    /// An escape stayed alone.
    Lapsed,
    Exported(Result<String, String>),
    Resized,
    Tick,
    Signal(u8),
    /// Somebody wants the terminal for something else.
    Suspended,
    /// It is this program's turn again.
    Continued,
}

/// Signals of a shell that controls its jobs.
struct Job {
    stop: Signal,
    go_on: Signal,
}

impl Job {
    fn listen() -> io::Result<Self> {
        let kind = |signal: rustix::process::Signal| SignalKind::from_raw(signal.as_raw());
        Ok(Self {
            stop: signal(kind(rustix::process::Signal::TSTP))?,
            go_on: signal(kind(rustix::process::Signal::CONT))?,
        })
    }

    async fn next(&mut self) -> Woken {
        tokio::select! {
            _ = self.stop.recv() => Woken::Suspended,
            _ = self.go_on.recv() => Woken::Continued,
        }
    }
}

impl Session<'_> {
    /// Until the person leaves. The terminal is as it was afterwards, whatever happened.
    pub(super) async fn run(mut self) -> Result<ExitCode, Failure> {
        let raw = Raw::enter()?;
        let outcome = self.until_left(&raw).await;
        drop(raw);
        let mut signals = Signals::listen()?;
        let note = self.host.say(words::WAITS_TO_LEAVE);
        let leaving = self.host.let_go();
        tokio::pin!(leaving);
        tokio::select! {
            () = &mut leaving => return outcome,
            () = tokio::time::sleep(MOMENT) => complain(note),
        }
        // What is under way then is found interrupted by whoever takes the home next.
        tokio::select! {
            () = leaving => outcome,
            code = signals.next() => Ok(ExitCode::from(code)),
        }
    }

    async fn until_left(&mut self, raw: &Raw) -> Result<ExitCode, Failure> {
        let (columns, rows) = terminal::size();
        let mut screen = Screen::new(columns, rows, self.colour);
        let mut decoder = Decoder::default();
        let mut keyboard = terminal::keyboard()?;
        let mut signals = Signals::listen()?;
        let mut quit = signal(SignalKind::quit())?;
        let mut job = Job::listen()?;
        let mut resized = signal(SignalKind::window_change())?;
        let (exported, mut exports) = mpsc::channel(4);
        let mut tries: Vec<TurnId> = Vec::new();
        let mut typed_at = Instant::now();
        loop {
            self.draw(&mut screen)?;
            let woken = tokio::select! {
                biased;
                code = signals.next() => Woken::Signal(code),
                _ = quit.recv() => Woken::Signal(QUIT),
                turn = job.next() => turn,
                typed = keyboard.recv() => Woken::Typed(typed),
                Some(back) = self.back.recv() => Woken::Back(Box::new(back)),
                Some(told) = exports.recv() => Woken::Exported(told),
                _ = resized.recv() => Woken::Resized,
                () = tokio::time::sleep(ESCAPE), if decoder.is_waiting() => Woken::Lapsed,
                () = tokio::time::sleep_until(typed_at + PASTE), if decoder.is_pasting() => Woken::Lapsed,
                () = tokio::time::sleep(FRAME), if self.state.is_moving() => Woken::Tick,
            };
            let events: Vec<Event> = match woken {
                Woken::Signal(code) => return Ok(self.left(&mut screen, ExitCode::from(code))),
                Woken::Typed(None) => return Ok(self.left(&mut screen, ExitCode::from(129))),
                Woken::Typed(Some(bytes)) => {
                    typed_at = Instant::now();
                    decoder.feed(&bytes).into_iter().map(Event::Key).collect()
                }
                Woken::Lapsed => decoder.lapse().into_iter().map(Event::Key).collect(),
                Woken::Back(back) => self.came_back(*back, &mut tries).await?,
                Woken::Exported(told) => vec![Event::Exported(told)],
                Woken::Resized => {
                    let (columns, rows) = terminal::size();
                    terminal::write(&screen.resize(columns, rows))?;
                    vec![Event::Resized(columns)]
                }
                Woken::Tick => vec![Event::Tick],
                Woken::Suspended => {
                    self.suspend(raw, &mut screen, &mut job).await?;
                    Vec::new()
                }
                Woken::Continued => {
                    self.resume(raw, &mut screen)?;
                    Vec::new()
                }
            };
            for event in events {
                for effect in self.state.update(event, now_ms()) {
                    match effect {
                        Effect::Leave => return Ok(self.left(&mut screen, ExitCode::SUCCESS)),
                        Effect::Suspend => self.suspend(raw, &mut screen, &mut job).await?,
                        effect => self.perform(effect, &exported)?,
                    }
                }
            }
        }
    }

    /// Everything that is there at once, so that a fast answer is drawn in few steps.
    async fn came_back(&mut self, first: Back, tries: &mut Vec<TurnId>) -> Result<Vec<Event>, Failure> {
        let mut events = Vec::new();
        let mut next = Some(first);
        while let Some(back) = next {
            match back {
                Back::Told(turn, event) => events.push(Event::Told(turn, event)),
                Back::Broken(turn, error) => events.push(Event::Broken(turn, error)),
                Back::Decided(approval, decided) => events.push(Event::Decided(approval, decided)),
                Back::Elsewhere { ended, at_work } => events.push(Event::Elsewhere(ended, at_work)),
                Back::Stopped(stopped) => events.push(Event::Stopped(stopped)),
                Back::NotTaken(turn, ask) => {
                    tries.push(turn);
                    if tries.iter().filter(|tried| **tried == turn).count() >= TRIES {
                        events.push(Event::Broken(turn, self.host.gone()));
                    } else {
                        // Whoever held the home has gone: the next holder may be this process.
                        self.host.seek().await?;
                        self.host.ask(turn, *ask);
                    }
                }
            }
            next = self.back.try_recv().ok();
        }
        Ok(events)
    }

    fn perform(
        &mut self,
        effect: Effect,
        exported: &mpsc::Sender<Result<String, String>>,
    ) -> Result<(), Failure> {
        match effect {
            Effect::Ask { turn, text, join } => {
                let ask = self.opening.message(text, request_key()?, join);
                self.host.ask(turn, ask);
            }
            Effect::Chose(choice) => self.opening.overruled(&choice),
            Effect::Abort(run) => self.host.abort(run),
            Effect::StopHelpers(runs) => self.host.stop_helpers(self.key.clone(), runs),
            Effect::Answer(approval, answer) => self.host.answer(approval, answer),
            // What cannot be kept is still known to this terminal.
            Effect::Remember(text) => {
                if let Err(error) = self.history.append(&text) {
                    tracing::debug!(%error, "the history cannot be written");
                }
            }
            Effect::Export(file) => {
                let (wanted, exported) = (self.export.to(file.as_deref().map(Path::new)), exported.clone());
                let language = self.host.language();
                spawn_blocking("chat.export", move || {
                    let _ = exported.blocking_send(export(language, &wanted));
                });
            }
            Effect::Bell => terminal::write("\x07")?,
            Effect::Leave | Effect::Suspend => {}
        }
        Ok(())
    }

    fn draw(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        let finished = self.state.take_finished();
        let view = self.state.view();
        Ok(terminal::write(&screen.draw(&finished, &view.rows, view.cursor))?)
    }

    /// Stops as other programs do, and goes on when it is continued.
    async fn suspend(&mut self, raw: &Raw, screen: &mut Screen, job: &mut Job) -> Result<(), Failure> {
        if terminal::can_be_continued() {
            self.hide(screen);
            raw.suspend()?;
            job.go_on.recv().await;
            self.resume(raw, screen)?;
        }
        Ok(())
    }

    /// Whatever was on the terminal meanwhile: it is drawn anew from here on.
    fn resume(&mut self, raw: &Raw, screen: &mut Screen) -> Result<(), Failure> {
        raw.resume()?;
        let (columns, rows) = terminal::size();
        *screen = Screen::new(columns, rows, self.colour);
        self.state.update(Event::Resized(columns), now_ms());
        Ok(terminal::write("\r")?)
    }

    /// What is finished stays; the region goes.
    fn left(&mut self, screen: &mut Screen, code: ExitCode) -> ExitCode {
        self.state.close();
        self.hide(screen);
        code
    }

    fn hide(&mut self, screen: &mut Screen) {
        let finished = self.state.take_finished();
        // A terminal that went away shows nothing any more.
        let _ = terminal::write(&screen.draw(&finished, &[], (0, 0)));
    }
}

/// The same for every try of a message.
pub(super) fn request_key() -> Result<String, Failure> {
    let id: RunId = new_id(&SystemClock).map_err(tidegate_engine::EngineError::from)?;
    Ok(format!("chat-{id}"))
}
