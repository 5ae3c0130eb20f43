//! A store in a few lines of memory: what the verbs promise, without durability. It predicts every answer.

use std::collections::{BTreeMap, VecDeque};

use tidegate_protocol::{EntryId, OutboxId, RunId, RunState, SessionId, SessionKey};
use tidegate_storage::{Lease, OutboxState, Owner};

/// The number of an owner, session, run, lease or part in the order it appeared.
pub(crate) type Number = usize;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) key: SessionKey,
    /// Somebody accepted something for it.
    pub(crate) exists: bool,
    pub(crate) current: Option<SessionId>,
    /// The lease under way.
    pub(crate) holder: Option<Number>,
    pub(crate) queue: VecDeque<Number>,
    /// The highest fence seen.
    pub(crate) fence: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) session: Number,
    pub(crate) channel: bool,
    /// Who accepted it.
    pub(crate) acceptor: Owner,
    pub(crate) fresh: bool,
    pub(crate) new_session: SessionId,
    pub(crate) state: RunState,
    pub(crate) attempt: u32,
    pub(crate) log: Option<SessionId>,
    pub(crate) span: Option<(i64, i64)>,
    pub(crate) deleted: bool,
}

/// A lease that was granted once, with its owner's number.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) lease: Lease,
    pub(crate) session: Number,
    pub(crate) run: Number,
    pub(crate) owner: Number,
}

#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) id: OutboxId,
    pub(crate) run: Number,
    pub(crate) lane: String,
    pub(crate) state: OutboxState,
    pub(crate) attempt: u32,
    /// Who sends it, while it is being sent.
    pub(crate) owner: Option<Owner>,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) sessions: Vec<Session>,
    pub(crate) runs: Vec<Run>,
    pub(crate) granted: Vec<Granted>,
    /// Lines of every log: the entry and its run.
    pub(crate) logs: BTreeMap<SessionId, Vec<(EntryId, RunId)>>,
    /// In the order of commits.
    pub(crate) parts: Vec<Part>,
}

impl Model {
    pub(crate) fn new(keys: impl IntoIterator<Item = SessionKey>) -> Self {
        let session = |key| Session {
            key,
            exists: false,
            current: None,
            holder: None,
            queue: VecDeque::new(),
            fence: 0,
        };
        Self { sessions: keys.into_iter().map(session).collect(), ..Self::default() }
    }

    /// Runs that come before one that is accepted now.
    pub(crate) fn ahead(&self, session: Number) -> usize {
        let session = &self.sessions[session];
        session.queue.len() + usize::from(session.holder.is_some())
    }

    pub(crate) fn accept(&mut self, run: Run) -> Number {
        let number = self.runs.len();
        let session = &mut self.sessions[run.session];
        session.exists = true;
        session.queue.push_back(number);
        self.runs.push(run);
        number
    }

    /// Grants the oldest waiting run; the lease must be what the rules say, under a higher fence than any before.
    pub(crate) fn grant(&mut self, session: Number, owner: Number, lease: Lease) {
        let run = self.sessions[session].queue.pop_front().expect("granted, so one waited");
        let model = &mut self.runs[run];
        model.attempt += 1;
        model.state = RunState::Running;
        let current = self.sessions[session].current.filter(|_| !model.fresh);
        let log = current.unwrap_or(model.new_session);
        model.log = Some(log);
        assert_eq!(
            (lease.run, lease.attempt, lease.session),
            (model.id, model.attempt, log),
            "first in, first out"
        );
        assert!(lease.fence.0 > self.sessions[session].fence, "a fence only goes up");
        self.sessions[session].fence = lease.fence.0;
        self.sessions[session].holder = Some(self.granted.len());
        self.granted.push(Granted { lease, session, run, owner });
    }

    /// Whether the lease may still write.
    pub(crate) fn holds(&self, lease: Number) -> bool {
        self.sessions[self.granted[lease].session].holder == Some(lease)
    }

    /// Appends to the log of a lease's run.
    pub(crate) fn append(&mut self, lease: Number, entries: &[EntryId]) -> i64 {
        let Granted { lease, run, .. } = &self.granted[lease];
        let lines = self.logs.entry(lease.session).or_default();
        let before = i64::try_from(lines.len()).expect("short logs");
        lines.extend(entries.iter().map(|entry| (*entry, lease.run)));
        let head = i64::try_from(lines.len()).expect("short logs");
        if head > before {
            let first = self.runs[*run].span.map_or(before + 1, |(first, _)| first);
            self.runs[*run].span = Some((first, head));
        }
        if lines.is_empty() {
            self.logs.remove(&lease.session);
        }
        head
    }

    pub(crate) fn finish(&mut self, lease: Number, state: RunState) {
        let Granted { lease, session, run, .. } = &self.granted[lease];
        if state == RunState::Completed {
            self.sessions[*session].current = Some(lease.session);
        }
        self.sessions[*session].holder = None;
        self.runs[*run].state = state;
    }

    /// Ends a run from outside, if it has not ended.
    pub(crate) fn abort(&mut self, run: Number) {
        let session = &mut self.sessions[self.runs[run].session];
        session.queue.retain(|waiting| *waiting != run);
        if session.holder.is_some_and(|lease| self.granted[lease].run == run) {
            session.holder = None;
        }
        self.runs[run].state = RunState::Aborted;
    }

    /// Takes a session from an owner that is void. Answers the run and what became of it.
    pub(crate) fn settle(&mut self, session: Number) -> Option<(Number, RunState)> {
        let lease = self.sessions[session].holder.take()?;
        let run = self.granted[lease].run;
        let model = &mut self.runs[run];
        model.state = if model.channel { RunState::Queued } else { RunState::Interrupted };
        if model.state == RunState::Queued {
            self.sessions[session].queue.push_front(run);
        }
        Some((run, model.state.clone()))
    }

    /// Its holder gives a run back: it waits again where it was, as if it had not been tried.
    pub(crate) fn release(&mut self, lease: Number) -> RunState {
        let (session, run) = (self.granted[lease].session, self.granted[lease].run);
        self.sessions[session].holder = None;
        let model = &mut self.runs[run];
        model.state = if model.channel { RunState::Queued } else { RunState::Interrupted };
        if model.channel {
            model.attempt -= 1;
            self.sessions[session].queue.push_front(run);
        }
        model.state.clone()
    }

    /// Ends the waiting runs of callers that are gone at the head of the queue. Answers the one that blocks it, because
    /// its caller lives elsewhere.
    pub(crate) fn pass_over(
        &mut self,
        session: Number,
        claimant: Owner,
        is_void: impl Fn(&Owner) -> bool,
    ) -> Option<RunId> {
        while let Some(&run) = self.sessions[session].queue.front() {
            let model = &mut self.runs[run];
            if model.channel || model.acceptor == claimant {
                return None;
            }
            if !is_void(&model.acceptor) {
                return Some(model.id);
            }
            model.state = RunState::Interrupted;
            self.sessions[session].queue.pop_front();
        }
        None
    }

    /// Ends the waiting runs of a process that died with their callers.
    pub(crate) fn abandon(&mut self, session: Number, is_dead: impl Fn(&Owner) -> bool) -> Vec<Number> {
        let runs = &mut self.runs;
        let mut ended = Vec::new();
        self.sessions[session].queue.retain(|&run| {
            let model = &mut runs[run];
            let gone = !model.channel && is_dead(&model.acceptor);
            if gone {
                model.state = RunState::Interrupted;
                ended.push(run);
            }
            !gone
        });
        ended
    }

    /// The part of a lane that is being sent, and the first one that waits.
    pub(crate) fn lane(&self, lane: &str) -> (Option<Number>, Option<Number>) {
        let find =
            |state: OutboxState| self.parts.iter().position(|part| part.lane == lane && part.state == state);
        (find(OutboxState::Sending), find(OutboxState::Pending))
    }

    /// The part leaves the queue in this state, and the later ones of its reply that wait are dropped. Answers how
    /// many changed.
    pub(crate) fn lose(&mut self, part: Number, state: OutboxState) -> u32 {
        let run = self.parts[part].run;
        self.parts[part].state = state;
        self.parts[part].owner = None;
        let rest = self.parts[part + 1..].iter_mut();
        let rest = rest.filter(|other| other.run == run && other.state == OutboxState::Pending);
        rest.fold(1, |changed, other| {
            other.state = OutboxState::Dropped;
            changed + 1
        })
    }

    /// The part and the later ones of its reply that were dropped wait as if they had never been tried.
    pub(crate) fn retry(&mut self, part: Number) -> u32 {
        let run = self.parts[part].run;
        let mut changed = 0;
        for (number, other) in self.parts.iter_mut().enumerate().skip(part) {
            if number == part || (other.run == run && other.state == OutboxState::Dropped) {
                (other.state, other.attempt) = (OutboxState::Pending, 0);
                changed += 1;
            }
        }
        changed
    }

    /// Removes a session with everything in it and answers the names of its logs.
    pub(crate) fn delete(&mut self, session: Number) -> Vec<String> {
        let mut names = Vec::new();
        for run in self.runs.iter_mut().filter(|run| run.session == session && !run.deleted) {
            run.deleted = true;
            if let Some(log) = run.log.filter(|log| self.logs.remove(log).is_some()) {
                names.push(log.to_string());
            }
        }
        self.parts.retain(|part| !self.runs[part.run].deleted);
        let session = &mut self.sessions[session];
        (session.exists, session.current, session.fence) = (false, None, 0);
        names.sort();
        names
    }
}
