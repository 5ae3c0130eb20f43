//! A store in a few lines of memory: what the verbs promise, without durability. It predicts every answer.

use std::collections::{BTreeMap, VecDeque};

use tidegate_protocol::{EntryId, JoinMode, OutboxId, RunId, RunState, SessionId, SessionKey};
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
    pub(crate) join: Option<JoinMode>,
    /// The run that started it.
    pub(crate) parent: Option<Number>,
    /// How often it was granted, also when that did not count as an attempt.
    pub(crate) grants: u32,
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

/// A log: whose it is, and all its lines, also those that the store keeps in another log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) session: Number,
    pub(crate) lines: Vec<Line>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) id: EntryId,
    pub(crate) run: RunId,
    /// The first line that is kept, if this is a summary.
    pub(crate) keeps: Option<i64>,
}

impl Log {
    /// The last line that is not shown any more.
    pub(crate) fn floor(&self) -> i64 {
        self.lines.iter().rev().find_map(|line| line.keeps).map_or(0, |kept| kept - 1)
    }

    /// The lines that are shown.
    pub(crate) fn shown(&self) -> Vec<EntryId> {
        let hidden = usize::try_from(self.floor()).expect("short logs");
        let shown = self.lines.iter().skip(hidden).filter(|line| line.keeps.is_none());
        shown.map(|line| line.id).collect()
    }

    /// The newest summary.
    pub(crate) fn summary(&self) -> Option<EntryId> {
        self.lines.iter().rev().find(|line| line.keeps.is_some()).map(|line| line.id)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) sessions: Vec<Session>,
    pub(crate) runs: Vec<Run>,
    pub(crate) granted: Vec<Granted>,
    pub(crate) logs: BTreeMap<SessionId, Log>,
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
        model.grants += 1;
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
        let run = self.granted[lease].lease.run;
        self.append_lines(lease, entries.iter().map(|id| Line { id: *id, run, keeps: None }).collect())
    }

    /// Appends a summary that keeps the lines from one on. `None` when that is refused.
    pub(crate) fn compact(&mut self, lease: Number, id: EntryId, keeps: i64) -> Option<i64> {
        let Granted { lease: granted, .. } = &self.granted[lease];
        let (floor, head) =
            self.logs.get(&granted.session).map_or((0, 0), |log| (log.floor(), log.lines.len()));
        let head = i64::try_from(head).expect("short logs");
        if keeps <= floor || keeps > head + 1 {
            return None;
        }
        let line = Line { id, run: granted.run, keeps: Some(keeps) };
        Some(self.append_lines(lease, vec![line]))
    }

    fn append_lines(&mut self, lease: Number, new: Vec<Line>) -> i64 {
        let Granted { lease, run, session, .. } = &self.granted[lease];
        let known = self.logs.get(&lease.session).map_or(0, |log| log.lines.len());
        let before = i64::try_from(known).expect("short logs");
        if new.is_empty() {
            return before;
        }
        let log = self.logs.entry(lease.session).or_insert(Log { session: *session, lines: Vec::new() });
        log.lines.extend(new);
        let head = i64::try_from(log.lines.len()).expect("short logs");
        let first = self.runs[*run].span.map_or(before + 1, |(first, _)| first);
        self.runs[*run].span = Some((first, head));
        head
    }

    /// Takes in what waits to join, in order.
    pub(crate) fn absorb(&mut self, lease: Number, mode: JoinMode) -> Vec<Number> {
        let (session, owner) = (self.granted[lease].session, self.granted[lease].lease.owner);
        // All networks are one here; a caller's answer reaches none.
        let reaches_network = self.runs[self.granted[lease].run].channel;
        let mut joined = Vec::new();
        while let Some(&run) = self.sessions[session].queue.front() {
            let model = &mut self.runs[run];
            let wants = match mode {
                JoinMode::Steer => model.join == Some(JoinMode::Steer),
                JoinMode::Note => matches!(model.join, Some(JoinMode::Steer | JoinMode::Note)),
                JoinMode::FollowUp => model.join.is_some(),
            };
            let is_reached = !model.channel || reaches_network;
            if !wants
                || !is_reached
                || model.fresh
                || model.grants > 0
                || (!model.channel && model.acceptor != owner)
            {
                break;
            }
            model.state = RunState::Joined;
            self.sessions[session].queue.pop_front();
            joined.push(run);
        }
        joined
    }

    /// A log that has the lines of another one, as the current one of a session.
    pub(crate) fn fork(&mut self, source: SessionId, after: usize, session: Number, id: SessionId) {
        let lines = self.logs[&source].lines[..after].to_vec();
        self.logs.insert(id, Log { session, lines });
        self.sessions[session].current = Some(id);
        self.sessions[session].exists = true;
    }

    /// The runs that a run started, and those they started, that have not ended.
    pub(crate) fn descendants(&self, run: Number) -> Vec<Number> {
        let mut tree = vec![run];
        let mut next = 0;
        while let Some(&parent) = tree.get(next) {
            let children =
                self.runs.iter().enumerate().filter(|(_, run)| run.parent == Some(parent) && !run.deleted);
            tree.extend(children.map(|(number, _)| number));
            next += 1;
        }
        tree.into_iter().skip(1).filter(|run| !self.runs[*run].state.is_terminal()).collect()
    }

    pub(crate) fn finish(&mut self, lease: Number, state: RunState) {
        let Granted { lease, session, run, .. } = &self.granted[lease];
        // A log begins with its first line; without one there is none to move to.
        if state == RunState::Completed && self.logs.contains_key(&lease.session) {
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
        for run in self.runs.iter_mut().filter(|run| run.session == session) {
            run.deleted = true;
        }
        let logs = self.logs.extract_if(.., |_, log| log.session == session);
        let mut names: Vec<String> = logs.map(|(id, _)| id.to_string()).collect();
        self.parts.retain(|part| !self.runs[part.run].deleted);
        let session = &mut self.sessions[session];
        (session.exists, session.current, session.fence) = (false, None, 0);
        names.sort();
        names
    }
}
