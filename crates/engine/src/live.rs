//! Runs that somebody in this process can watch: their events so far, and how they ended.
//!
//! A run's events are kept while it is under way, so that whoever comes late reads them from the beginning and a slow
//! reader holds nobody up. After the end only those who watched already still hold them; the log has the rest.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidegate_protocol::{ErrorBody, Origin, RunEvent, RunEventBody, RunId, SessionKey, Usage};
use tokio::sync::watch;

/// What came of a run. It is durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub run: RunId,
    pub created_at: i64,
    /// The log's name where a person sees it.
    pub session_name: String,
    pub text: String,
    pub origin: Origin,
    pub usage: Usage,
}

pub(crate) type RunEnd = Result<Answer, ErrorBody>;

/// What a run under way has said so far. Provisional.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    pub attempt: u32,
    /// Of the last event in `text`.
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
    events: Vec<Arc<RunEvent>>,
    attempt: u32,
    end: Option<RunEnd>,
}

/// One run. Whoever executes it publishes, any number of followers read.
pub(crate) struct Live {
    /// Set for runs that were accepted here.
    key: OnceLock<SessionKey>,
    progress: Mutex<Progress>,
    /// Counts changes; carries nothing, so that a slow reader costs nothing.
    changed: watch::Sender<u64>,
    cancel: watch::Sender<Option<Cancel>>,
}

impl Live {
    fn new() -> Self {
        Self {
            key: OnceLock::new(),
            progress: Mutex::default(),
            changed: watch::Sender::new(0),
            cancel: watch::Sender::new(None),
        }
    }

    fn with<T>(&self, read: impl FnOnce(&mut Progress) -> T) -> T {
        read(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that the run was accepted here, in this session.
    pub(crate) fn accepted_in(&self, key: &SessionKey) {
        let _ = self.key.set(key.clone());
    }

    /// Begins an attempt: what the one before said no longer holds.
    pub(crate) fn begin(&self, attempt: u32) {
        self.with(|progress| progress.attempt = attempt);
    }

    pub(crate) fn publish(&self, run_id: RunId, body: RunEventBody) {
        self.with(|progress| {
            let attempt = progress.attempt;
            let last = progress.events.last().filter(|last| last.attempt == attempt);
            let seq = last.map_or(0, |last| last.seq) + 1;
            progress.events.push(Arc::new(RunEvent { run_id, attempt, seq, body }));
        });
        self.changed.send_modify(|count| *count += 1);
    }

    /// Says how it ended. The first one to say so is right.
    pub(crate) fn end(&self, run: RunId, end: RunEnd) {
        let first = self.with(|progress| {
            let first = progress.end.is_none();
            if first {
                progress.end = Some(end.clone());
            }
            first
        });
        if first {
            self.publish(
                run,
                match end {
                    Ok(answer) => RunEventBody::Completed { text: answer.text },
                    Err(error) => RunEventBody::Failed { error },
                },
            );
        }
    }

    pub(crate) fn is_started(&self) -> bool {
        self.with(|progress| !progress.events.is_empty())
    }

    pub(crate) fn cancel(&self, cancel: Cancel) {
        self.cancel.send_replace(Some(cancel));
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
            if progress.end.is_some() || progress.attempt == 0 {
                return None;
            }
            let mut partial = Partial { attempt: progress.attempt, seq: 0, text: String::new() };
            for event in progress.events.iter().filter(|event| event.attempt == progress.attempt) {
                partial.seq = event.seq;
                if let RunEventBody::TextDelta { text } = &event.body {
                    partial.text.push_str(text);
                }
            }
            Some(partial)
        })
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

    /// Ends a run for everybody who watches it, and forgets it.
    pub(crate) fn end(&self, run: RunId, end: RunEnd) {
        if let Some(live) = self.with(|runs| runs.remove(&run)) {
            live.end(run, end);
        }
    }

    /// Forgets a run that nobody executes here.
    pub(crate) fn forget(&self, run: RunId) {
        self.with(|runs| runs.remove(&run));
    }

    /// Sessions in which somebody here waits for a run.
    pub(crate) fn sessions(&self) -> HashSet<SessionKey> {
        self.with(|runs| runs.values().filter_map(|live| live.key.get().cloned()).collect())
    }

    pub(crate) fn all(&self) -> Vec<(RunId, Arc<Live>)> {
        self.with(|runs| runs.iter().map(|(run, live)| (*run, Arc::clone(live))).collect())
    }
}

/// Reads one run's events.
pub(crate) struct Reader {
    live: Arc<Live>,
    changed: watch::Receiver<u64>,
    next: usize,
}

impl Reader {
    pub(crate) fn new(live: Arc<Live>) -> Self {
        let changed = live.changed.subscribe();
        Self { live, changed, next: 0 }
    }

    /// The next event that is there already.
    pub(crate) fn take(&mut self) -> Option<Arc<RunEvent>> {
        let event = self.live.with(|progress| progress.events.get(self.next).cloned())?;
        self.next += 1;
        Some(event)
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
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{ErrorCode, Id as _};

    use super::*;

    fn delta(text: &str) -> RunEventBody {
        RunEventBody::TextDelta { text: text.to_owned() }
    }

    #[test]
    fn whoever_comes_late_reads_everything_once_and_in_order() {
        let (runs, run) = (LiveRuns::default(), RunId::from_parts(1, [0; 10]));
        let live = runs.open(run);
        live.begin(2);
        live.publish(run, RunEventBody::Started);
        live.publish(run, delta("a"));
        let mut late = Reader::new(runs.open(run));
        runs.end(run, Err(ErrorBody::new(ErrorCode::Aborted, "no")));
        let read: Vec<_> =
            std::iter::from_fn(|| late.take()).map(|event| (event.attempt, event.seq)).collect();
        assert_eq!(read, [(2, 1), (2, 2), (2, 3)]);
        assert!(runs.get(run).is_none());
    }

    #[test]
    fn a_new_attempt_begins_its_text_and_its_count_anew() {
        let (live, run) = (Live::new(), RunId::from_parts(1, [0; 10]));
        live.begin(1);
        live.publish(run, delta("old"));
        live.begin(2);
        live.publish(run, delta("n"));
        live.publish(run, delta("ew"));
        assert_eq!(live.partial(), Some(Partial { attempt: 2, seq: 2, text: "new".to_owned() }));
    }

    #[test]
    fn the_first_end_is_the_end() {
        let (live, run) = (Live::new(), RunId::from_parts(1, [0; 10]));
        let error = |code| Err(ErrorBody::new(code, ""));
        live.end(run, error(ErrorCode::Aborted));
        live.end(run, error(ErrorCode::Internal));
        assert_eq!(live.with(|progress| progress.end.clone()), Some(error(ErrorCode::Aborted)));
        assert_eq!(live.with(|progress| progress.events.len()), 1);
    }
}
