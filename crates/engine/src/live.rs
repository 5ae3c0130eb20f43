//! Runs that somebody in this process can watch: their events so far, and how they ended.
//!
//! What a run told is kept while it is under way, so that whoever comes late reads it from the beginning and a slow
//! reader holds nobody up. After the end only those who watched already still hold it; the log has the rest.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use tidegate_agent::text::spoken;
use tidegate_protocol::{
    ErrorBody, JoinMode, Lane, Origin, RunEvent, RunEventBody, RunId, SessionKey, StopReason, ToolCall,
    ToolError, ToolResult, Usage,
};
use tokio::sync::watch;

use crate::pace::Pace;
use crate::told::Told;

/// What came of a run. It is durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub run: RunId,
    pub created_at: i64,
    /// The log's name where a person sees it.
    pub session_name: String,
    /// Empty when the agent chose to say nothing.
    pub text: String,
    pub origin: Origin,
    pub usage: Usage,
    /// The tools that were called, and what came of them.
    pub calls: Vec<(ToolCall, ToolResult)>,
    /// The first thing that went wrong with them.
    pub tool_error: Option<ToolError>,
    /// Calls that whoever asked has to run.
    pub handed: Vec<ToolCall>,
    /// Why the model stopped.
    pub stop_reason: StopReason,
}

pub(crate) type RunEnd = Result<Answer, ErrorBody>;

/// What a run under way has said so far. Provisional.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    pub attempt: u32,
    /// Of how many pieces `text` is.
    pub seq: u64,
    pub text: String,
}

/// Why a run is to stop before its own end.
#[derive(Debug, Clone)]
pub(crate) enum Cancel {
    /// Write its end with this error.
    Abort(ErrorBody),
    /// Its end is written already, by somebody else.
    Ended,
    /// Give it back: the process ends.
    Release,
}

#[derive(Default)]
struct Progress {
    told: Told,
    end: Option<RunEnd>,
    /// It goes on in another process, or in this one after a restart: nothing more is told here.
    given_back: bool,
}

/// One run. Whoever executes it publishes, any number of followers read.
pub(crate) struct Live {
    /// Set for runs that were accepted here: where, and whether a caller waits for it here.
    accepted: OnceLock<(SessionKey, bool)>,
    /// Somebody wrote to its session since, to be read by this run.
    joined: AtomicU8,
    /// The session, once it is under way here.
    working_in: OnceLock<SessionKey>,
    /// Of the attempt under way, for tools that wait for somebody.
    pace: Mutex<Weak<Pace>>,
    progress: Mutex<Progress>,
    /// Counts changes; carries nothing, so that a slow reader costs nothing.
    changed: watch::Sender<u64>,
    cancel: watch::Sender<Option<Cancel>>,
}

impl Live {
    fn new() -> Self {
        Self {
            accepted: OnceLock::new(),
            joined: AtomicU8::new(0),
            working_in: OnceLock::new(),
            pace: Mutex::default(),
            progress: Mutex::default(),
            changed: watch::Sender::new(0),
            cancel: watch::Sender::new(None),
        }
    }

    fn with<T>(&self, read: impl FnOnce(&mut Progress) -> T) -> T {
        read(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that the run was accepted here, in this session.
    pub(crate) fn accepted_in(&self, key: &SessionKey, caller_waits: bool) {
        let _ = self.accepted.set((key.clone(), caller_waits));
    }

    /// Whether a caller waits for it here.
    pub(crate) fn has_caller(&self) -> bool {
        self.accepted.get().is_some_and(|(_, caller)| *caller)
    }

    fn is_ours(&self) -> bool {
        self.accepted.get().is_some() || self.with(|progress| progress.told.attempt() > 0)
    }

    /// Begins an attempt: what the one before said no longer holds.
    pub(crate) fn begin(&self, key: &SessionKey, attempt: u32) {
        let _ = self.working_in.set(key.clone());
        self.with(|progress| progress.told.begin(attempt));
    }

    /// Notes the time and the place of the attempt under way.
    pub(crate) fn goes_at(&self, pace: &Arc<Pace>) {
        *self.pace.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(pace);
    }

    pub(crate) fn pace(&self) -> Option<Arc<Pace>> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    pub(crate) fn publish(&self, run_id: RunId, body: RunEventBody) {
        self.with(|progress| progress.told.push(run_id, body));
        self.changed.send_modify(|count| *count += 1);
    }

    /// Says how it ended. The first one to say so is right.
    pub(crate) fn end(&self, run: RunId, mut end: RunEnd) {
        if let Ok(answer) = &mut end {
            answer.text = spoken(&answer.text).to_owned();
        }
        self.with(|progress| {
            if progress.end.is_some() {
                return;
            }
            // Together: whoever sees the end has all events before it.
            progress.told.push(
                run,
                match &end {
                    Ok(answer) => RunEventBody::Completed { text: answer.text.clone() },
                    Err(error) => RunEventBody::Failed { error: error.clone() },
                },
            );
            progress.end = Some(end);
        });
        self.changed.send_modify(|count| *count += 1);
    }

    /// Nothing more is told here, and it has no end yet.
    fn give_back(&self) {
        self.with(|progress| progress.given_back = true);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Somebody wrote for it to read. It may find that out late, never wrongly.
    fn join(&self, mode: JoinMode) {
        self.joined.fetch_or(bit(mode), Ordering::AcqRel);
    }

    pub(crate) fn is_joined(&self, mode: JoinMode) -> bool {
        let wanted = match mode {
            JoinMode::Steer => bit(JoinMode::Steer),
            JoinMode::Note => bit(JoinMode::Steer) | bit(JoinMode::Note),
            // When it would stop it reads everything.
            JoinMode::FollowUp => u8::MAX,
        };
        self.joined.load(Ordering::Acquire) & wanted != 0
    }

    pub(crate) fn catches_up(&self) {
        self.joined.store(0, Ordering::Release);
    }

    /// The runs whose messages this one has read.
    fn took_in(&self) -> Vec<RunId> {
        self.with(|progress| progress.told.took_in().to_vec())
    }

    pub(crate) fn is_started(&self) -> bool {
        self.with(|progress| !progress.told.is_empty())
    }

    pub(crate) fn cancel(&self, cancel: Cancel) {
        self.cancel.send_replace(Some(cancel));
    }

    /// Whether the run is to be given back: what it has under way goes on with the next process, or is known to be cut.
    pub(crate) fn is_released(&self) -> bool {
        matches!(*self.cancel.borrow(), Some(Cancel::Release))
    }

    /// Returns once somebody asked the run to stop.
    pub(crate) async fn cancelled(&self) -> Cancel {
        let mut asked = self.cancel.subscribe();
        let asked = asked.wait_for(Option::is_some).await.ok().and_then(|asked| asked.clone());
        // The sender lives as long as this does.
        asked.unwrap_or(Cancel::Release)
    }

    pub(crate) fn partial(&self) -> Option<Partial> {
        self.with(|progress| {
            let attempt = progress.told.attempt();
            if progress.end.is_some() || attempt == 0 {
                return None;
            }
            let (text, seq) = progress.told.text();
            Some(Partial { attempt, seq, text })
        })
    }
}

fn bit(mode: JoinMode) -> u8 {
    match mode {
        JoinMode::Steer => 1,
        JoinMode::FollowUp => 2,
        JoinMode::Note => 4,
    }
}

/// The runs that are watched or under way in this process.
#[derive(Default)]
pub(crate) struct LiveRuns {
    runs: Mutex<HashMap<RunId, Arc<Live>>>,
}

impl LiveRuns {
    fn with<T>(&self, change: impl FnOnce(&mut HashMap<RunId, Arc<Live>>) -> T) -> T {
        change(&mut self.runs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The run, made if it is new here.
    pub(crate) fn open(&self, run: RunId) -> Arc<Live> {
        self.with(|runs| Arc::clone(runs.entry(run).or_insert_with(|| Arc::new(Live::new()))))
    }

    pub(crate) fn get(&self, run: RunId) -> Option<Arc<Live>> {
        self.with(|runs| runs.get(&run).cloned())
    }

    /// Ends a run for everybody who watches it, and forgets it. Those whose messages it took in end with it.
    pub(crate) fn end(&self, run: RunId, end: RunEnd) {
        let Some(live) = self.with(|runs| runs.remove(&run)) else { return };
        for joined in live.took_in() {
            if let Some(live) = self.with(|runs| runs.remove(&joined)) {
                live.end(joined, end.clone());
            }
        }
        live.end(run, end);
    }

    /// Lets everybody go who watches a run that goes on elsewhere.
    pub(crate) fn give_back(&self, run: RunId) {
        if let Some(live) = self.with(|runs| runs.remove(&run)) {
            live.give_back();
        }
    }

    /// Forgets a run that is another process's once its last reader here goes.
    fn leave(&self, run: RunId, live: &Arc<Live>) {
        self.with(|runs| {
            // The map's and the leaving reader's own.
            let last = Arc::strong_count(live) <= 2;
            if last && !live.is_ours() && runs.get(&run).is_some_and(|known| Arc::ptr_eq(known, live)) {
                runs.remove(&run);
            }
        });
    }

    /// Tells the run under way in a session that somebody wrote for it to read.
    pub(crate) fn join(&self, key: &SessionKey, mode: JoinMode) {
        self.with(|runs| {
            runs.values().filter(|live| live.working_in.get() == Some(key)).for_each(|live| live.join(mode));
        });
    }

    /// The run under way in a session here.
    pub(crate) fn working_in(&self, key: &SessionKey) -> Option<RunId> {
        self.with(|runs| {
            runs.iter().find(|(_, live)| live.working_in.get() == Some(key)).map(|(run, _)| *run)
        })
    }

    /// The conversations whose runs hold a place in this lane.
    pub(crate) fn holding(&self, lane: Lane) -> Vec<String> {
        let holds = |live: &&Arc<Live>| live.pace().is_some_and(|pace| pace.holds() == Some(lane));
        self.with(|runs| {
            runs.values()
                .filter(holds)
                .filter_map(|live| live.working_in.get())
                .map(SessionKey::label)
                .collect()
        })
    }

    /// Whether a caller waits here for a run that has not ended.
    pub(crate) fn has_callers(&self) -> bool {
        self.with(|runs| runs.values().any(|live| live.has_caller()))
    }

    /// How many runs are under way for callers who wait here.
    pub(crate) fn answering(&self) -> usize {
        self.with(|runs| runs.values().filter(|live| live.has_caller() && live.is_started()).count())
    }

    /// Forgets a run that nobody executes here.
    pub(crate) fn forget(&self, run: RunId) {
        self.with(|runs| runs.remove(&run));
    }

    /// Sessions in which somebody here waits for a run.
    pub(crate) fn sessions(&self) -> HashSet<SessionKey> {
        self.with(|runs| {
            runs.values().filter_map(|live| live.accepted.get()).map(|(key, _)| key.clone()).collect()
        })
    }

    pub(crate) fn all(&self) -> Vec<(RunId, Arc<Live>)> {
        self.with(|runs| runs.iter().map(|(run, live)| (*run, Arc::clone(live))).collect())
    }
}

/// What a reader finds.
pub(crate) enum Read {
    Event(Arc<RunEvent>),
    NotYet,
    End,
}

/// Reads one run's events.
pub(crate) struct Reader {
    live: Arc<Live>,
    changed: watch::Receiver<u64>,
    /// The place of what is read next.
    next: u64,
}

impl Reader {
    pub(crate) fn new(live: Arc<Live>) -> Self {
        let changed = live.changed.subscribe();
        Self { live, changed, next: 0 }
    }

    /// What there is to read now.
    pub(crate) fn read(&mut self) -> Read {
        let (found, is_over) = self
            .live
            .with(|progress| (progress.told.from(self.next), progress.end.is_some() || progress.given_back));
        match found {
            Some((next, event)) => {
                self.next = next;
                Read::Event(event)
            }
            None if is_over => Read::End,
            None => Read::NotYet,
        }
    }

    pub(crate) fn end(&self) -> Option<RunEnd> {
        self.live.with(|progress| progress.end.clone())
    }

    pub(crate) async fn changed(&mut self) {
        // The sender is in `live`, which this holds.
        let _ = self.changed.changed().await;
    }

    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The last thing a reader does.
    pub(crate) fn leave(&self, runs: &LiveRuns, run: RunId) {
        runs.leave(run, &self.live);
    }
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{ErrorCode, Id as _};

    use super::*;

    fn key() -> SessionKey {
        SessionKey::named(tidegate_protocol::Scope::personal("main".parse().unwrap()), "main")
    }

    fn delta(text: &str) -> RunEventBody {
        RunEventBody::TextDelta { text: text.to_owned() }
    }

    #[test]
    fn whoever_comes_late_reads_everything_once_and_in_order() {
        let (runs, run) = (LiveRuns::default(), RunId::from_parts(1, [0; 10]));
        let live = runs.open(run);
        live.begin(&key(), 2);
        live.publish(run, RunEventBody::Started);
        live.publish(run, delta("a"));
        let mut late = Reader::new(runs.open(run));
        runs.end(run, Err(ErrorBody::new(ErrorCode::Aborted, "no")));
        let mut next = || match late.read() {
            Read::Event(event) => Some((event.attempt, event.seq)),
            Read::NotYet | Read::End => None,
        };
        let read: Vec<_> = std::iter::from_fn(&mut next).collect();
        assert_eq!(read, [(2, 1), (2, 2), (2, 3)]);
        assert!(runs.get(run).is_none());
    }

    #[test]
    fn a_new_attempt_begins_its_text_and_its_count_anew() {
        let (live, run) = (Live::new(), RunId::from_parts(1, [0; 10]));
        live.begin(&key(), 1);
        live.publish(run, delta("old"));
        live.begin(&key(), 2);
        live.publish(run, delta("n"));
        live.publish(run, delta("ew"));
        assert_eq!(live.partial(), Some(Partial { attempt: 2, seq: 2, text: "new".to_owned() }));
    }

    #[test]
    fn a_message_that_was_taken_in_ends_with_the_run_that_read_it() {
        let runs = LiveRuns::default();
        let (run, joined) = (RunId::from_parts(1, [0; 10]), RunId::from_parts(2, [0; 10]));
        runs.open(joined).accepted_in(&key(), true);
        let live = runs.open(run);
        live.begin(&key(), 1);
        live.publish(run, RunEventBody::Steered { run_id: joined, text: String::new() });
        runs.end(run, Err(ErrorBody::new(ErrorCode::Aborted, "no")));
        assert!(runs.get(joined).is_none(), "nobody waits for it any more");
        assert!(!runs.has_callers());
    }

    #[test]
    fn a_run_that_is_given_back_lets_its_readers_go_without_an_end() {
        let (runs, run) = (LiveRuns::default(), RunId::from_parts(1, [0; 10]));
        let live = runs.open(run);
        live.begin(&key(), 1);
        live.publish(run, delta("half"));
        let mut reader = Reader::new(live);
        runs.give_back(run);
        assert!(matches!(reader.read(), Read::Event(_)), "what was told is read");
        assert!(matches!(reader.read(), Read::End) && reader.end().is_none());
    }

    #[test]
    fn the_first_end_is_the_end() {
        let (live, run) = (Live::new(), RunId::from_parts(1, [0; 10]));
        let error = |code| Err(ErrorBody::new(code, ""));
        live.end(run, error(ErrorCode::Aborted));
        live.end(run, error(ErrorCode::Internal));
        assert_eq!(live.with(|progress| progress.end.clone()), Some(error(ErrorCode::Aborted)));
        let mut reader = Reader::new(Arc::new(live));
        assert!(matches!(reader.read(), Read::Event(_)) && matches!(reader.read(), Read::End));
    }
}
