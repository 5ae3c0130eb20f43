//! Follows one conversation: how it stands, then every change, for whoever writes it out.
//!
//! It listens first and reads the snapshot afterwards, so nothing falls between. What it has to tell waits in `ready`, and
//! it is asked for more only when that is empty: a reader that is too slow misses events on the bus and gets a new snapshot.
//! It owns no connection: `feed` writes server-sent events, `dialect::native::watch` frames of a socket.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_engine::{EngineEvent, Events, Follower, Missed, RunChange};
use tidegate_protocol::api::{Cursor, Delta, Done, Note, RunChanged, Snapshot, ToolNews, ToolPhase};
use tidegate_protocol::{RunEvent, RunEventBody, RunId, RunState, SessionId, SessionKey};

use crate::answer::Refusal;
use crate::api::snapshot::{self, Commanded, Written};
use crate::gate::Gate;

/// Characters of a tool's arguments and of its result that are told.
const GIST: usize = 300;
const TOOL_TEXT: usize = 4000;

/// What a reader of a conversation is told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told {
    Snapshot(Snapshot),
    Run(RunChanged),
    Delta(Delta),
    Tool(ToolNews),
    Note(Note),
    Done(Done),
}

pub(crate) struct Follow {
    gate: Gate,
    key: SessionKey,
    name: String,
    events: Events,
    /// The log that was shown.
    session: Option<SessionId>,
    /// The run that is being answered.
    tail: Option<Tail>,
    /// A run that has said its last word, and whose end the bus is about to tell.
    ending: Option<RunId>,
    /// Not yet taken. A few: nothing is added while any is left.
    ready: VecDeque<Told>,
}

/// Follows one run from where the snapshot left it.
struct Tail {
    run: RunId,
    follower: Follower,
    /// Attempt and number of the last piece of text that was read here.
    read: (u32, u64),
    /// The same for the last one the reader has.
    last: (u32, u64),
}

/// Something happened; [`Follow::hear`] makes of it what there is to tell.
pub(crate) enum Woken {
    Bus(Option<Result<EngineEvent, Missed>>),
    Run(Option<Arc<RunEvent>>),
}

impl Follow {
    /// Begins with a snapshot: whole, or what came after the reader's cursor.
    pub(crate) async fn open(
        gate: &Gate,
        key: SessionKey,
        name: String,
        cursor: Option<&Cursor>,
    ) -> Result<Self, Refusal> {
        let events = gate.engine().events();
        let gate = gate.clone();
        let mut follow =
            Self { gate, key, name, events, session: None, tail: None, ending: None, ready: VecDeque::new() };
        follow.begin(cursor).await?;
        Ok(follow)
    }

    /// What there is to tell.
    pub(crate) fn next(&mut self) -> Option<Told> {
        self.ready.pop_front()
    }

    /// Whether a run is being answered right now.
    pub(crate) fn is_answering(&self) -> bool {
        self.tail.is_some() || self.ending.is_some()
    }

    /// Waits until something happens. Nothing is lost when the wait is given up.
    pub(crate) async fn wait(&mut self) -> Woken {
        let Self { events, tail, .. } = self;
        tokio::select! {
            biased;
            // Before the bus: a run's text comes before its end.
            event = next_of(tail.as_mut()) => Woken::Run(event),
            event = events.next() => Woken::Bus(event),
        }
    }

    /// Makes of what happened what there is to tell. `false`: nothing more will come.
    pub(crate) async fn hear(&mut self, woken: Woken) -> bool {
        let outcome = match woken {
            Woken::Bus(None) => return false,
            Woken::Bus(Some(Err(Missed))) => self.begin(None).await,
            Woken::Bus(Some(Ok(EngineEvent::Run(change)))) if change.key == self.key => {
                self.change(change).await
            }
            Woken::Bus(Some(Ok(_))) => Ok(()),
            Woken::Run(Some(event)) => {
                self.progress(&event);
                Ok(())
            }
            Woken::Run(None) => {
                self.ending = self.tail.take().map(|tail| tail.run);
                Ok(())
            }
        };
        // The reader comes again and gets whatever there is then.
        outcome.inspect_err(|refusal| tracing::warn!(?refusal, "a conversation is followed no more")).is_ok()
    }

    /// Puts a fresh snapshot out; everything the reader derived before is void, but for the lines before its cursor.
    async fn begin(&mut self, cursor: Option<&Cursor>) -> Result<(), Refusal> {
        // What the bus holds is older than the snapshot that is read now.
        self.events = self.gate.engine().events();
        (self.tail, self.ending) = (None, None);
        let standing = snapshot::read(&self.gate, &self.key, &self.name, cursor).await?;
        let running = standing.snapshot.runs.iter().find(|run| run.state == RunState::Running);
        if let Some(run) = running {
            let seq = run.partial.as_ref().map_or(0, |partial| partial.seq);
            let last = (if seq == 0 { 0 } else { run.attempt }, seq);
            self.tail = self.follow(run.run_id, last).await;
        }
        self.session = standing.session;
        self.ready.push_back(Told::Snapshot(standing.snapshot));
        Ok(())
    }

    async fn follow(&self, run: RunId, last: (u32, u64)) -> Option<Tail> {
        let follower = self.gate.engine().follow(run).await.ok()?;
        Some(Tail { run, follower, read: (0, 0), last })
    }

    async fn change(&mut self, change: RunChange) -> Result<(), Refusal> {
        let (run_id, attempt) = (change.run, change.attempt);
        if change.state == RunState::Running && self.tail.as_ref().is_none_or(|tail| tail.run != run_id) {
            self.tail = self.follow(run_id, (0, 0)).await;
        }
        let ended = change.state.is_terminal();
        let changed = changed(change);
        if !ended {
            self.ready.push_back(Told::Run(changed));
            return Ok(());
        }
        self.ending.take_if(|ending| *ending == run_id);
        let heard = self.tail.take_if(|tail| tail.run == run_id).is_some_and(|tail| tail.last.1 > 0);
        let lines = snapshot::lines_of(&self.gate, run_id).await?;
        if lines.is_none() {
            match snapshot::commanded(&self.gate, run_id).await? {
                Some(Commanded::Reset) => return self.begin(None).await,
                // It was over before anybody could listen.
                Some(Commanded::Said(text)) if !heard => {
                    self.ready.push_back(Told::Delta(Delta { run_id, attempt, seq: 1, text }));
                }
                Some(Commanded::Said(_)) | None => {}
            }
        }
        if lines.as_ref().is_some_and(|(session, _)| self.session.is_some_and(|shown| shown != *session)) {
            // The conversation began anew: the reader's log is another one.
            return self.begin(None).await;
        }
        self.ready.push_back(Told::Run(changed));
        if let Some((session, Written { messages, summaries })) = lines {
            self.session = Some(session);
            self.ready.push_back(Told::Done(Done { run_id, session_id: session, messages, summaries }));
        }
        Ok(())
    }

    fn progress(&mut self, event: &RunEvent) {
        let Some(tail) = self.tail.as_mut() else { return };
        let RunEventBody::TextDelta { text } = &event.body else {
            self.ready.extend(told_of(event));
            return;
        };
        let before = if tail.read.0 == event.attempt { tail.read.1 } else { 0 };
        tail.read = (event.attempt, before + 1);
        if tail.read <= tail.last {
            return;
        }
        tail.last = tail.read;
        let (run_id, attempt, seq) = (event.run_id, event.attempt, tail.read.1);
        self.ready.push_back(Told::Delta(Delta { run_id, attempt, seq, text: text.clone() }));
    }
}

async fn next_of(tail: Option<&mut Tail>) -> Option<Arc<RunEvent>> {
    match tail {
        Some(tail) => tail.follower.next().await,
        None => std::future::pending().await,
    }
}

/// A change of a run as readers see it.
pub(crate) fn changed(change: RunChange) -> RunChanged {
    let RunChange { run: run_id, state, text, client_key: key, attempt, at, error, .. } = change;
    RunChanged { run_id, state, text, key, at, attempt, error }
}

/// What is told of a run under way besides its words. The bus tells its end, with everything that belongs to it.
fn told_of(event: &RunEvent) -> Option<Told> {
    let (run_id, attempt) = (event.run_id, event.attempt);
    let tool = |call_id: &str, phase| ToolNews {
        run_id,
        attempt,
        call_id: call_id.to_owned(),
        name: None,
        phase,
        gist: None,
        text: None,
        ok: None,
        duration_ms: None,
    };
    match &event.body {
        RunEventBody::ToolStarted { call_id, tool: name, args } => Some(Told::Tool(ToolNews {
            name: Some(name.clone()),
            gist: Some(cut(&args.to_string(), GIST)),
            ..tool(call_id, ToolPhase::Start)
        })),
        RunEventBody::ToolUpdate { call_id, text } => Some(Told::Tool(ToolNews {
            text: Some(cut(text, TOOL_TEXT)),
            ..tool(call_id, ToolPhase::Update)
        })),
        RunEventBody::ToolEnded { call_id, tool: name, ok, text, duration_ms, .. } => {
            Some(Told::Tool(ToolNews {
                name: Some(name.clone()),
                text: Some(cut(text, TOOL_TEXT)),
                ok: Some(*ok),
                duration_ms: Some(*duration_ms),
                ..tool(call_id, ToolPhase::Result)
            }))
        }
        note @ (RunEventBody::ApprovalAsked { .. }
        | RunEventBody::ApprovalSettled { .. }
        | RunEventBody::Steered { .. }
        | RunEventBody::CompactionStarted { .. }
        | RunEventBody::CompactionEnded { .. }
        | RunEventBody::Usage { .. }
        | RunEventBody::ModelSwitched { .. }
        | RunEventBody::OverBudget { .. }) => Some(Told::Note(Note { run_id, attempt, note: note.clone() })),
        RunEventBody::Started
        | RunEventBody::TextDelta { .. }
        | RunEventBody::ThinkingDelta { .. }
        | RunEventBody::Completed { .. }
        | RunEventBody::Failed { .. } => None,
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
