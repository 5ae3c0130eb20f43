//! Generated sequences of verbs by two owners over three sessions. Whatever the order, every answer is the one that
//! the model gives, fences only go up, positions have no gap, and an end stays an end.

mod steps;

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::test_runner::{Config, TestRunner};
use tidegate_protocol::{JoinMode, RunState, SendOutcome, ToolRunState, Usage};
use tidegate_storage::{
    AbortOutcome, Absorb, Accept, Accepted, Admission, Claim, ContextLimits, Decided, Finish, Finished,
    Forked, NextSend, OutboxState, Owner, RunFilter, Sending, SessionChoice, Step as RunStep, StoreError,
};
use tidegate_testkit::requests::{Requests, at_once, channel_reply};
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::{Backend, ScratchStore};

use self::steps::{Asked, SESSIONS, Step, step};
use crate::model::{Line, Log, Model, Number, Part, Run};
use crate::scene::HOUR;

/// The last one for `usize::MAX`, else the number modulo what there is.
fn pick(number: usize, count: usize) -> Option<usize> {
    let last = count.checked_sub(1)?;
    Some(if number == usize::MAX { last } else { number % count })
}

struct World<'a> {
    store: &'a ScratchStore,
    make: Requests,
    model: Model,
    owners: Vec<Owner>,
    /// Tools without a result, with their lease.
    open_tools: Vec<(Number, RunStep)>,
    sendings: Vec<Sending>,
    /// What an idempotency key stands for: the session asked for, and the run.
    keys: [Option<(usize, Number)>; 3],
}

impl World<'_> {
    async fn play(&mut self, step: Step) {
        match step {
            Step::Accept(asked) => self.accept(asked).await,
            Step::Absorb { lease, mode } => self.absorb(lease, mode).await,
            Step::Compact { lease, keeps } => self.compact(lease, keeps).await,
            Step::Fork { session, log, after } => self.fork(session, log, after).await,
            Step::Claim { session, owner } => self.claim(session, owner).await,
            Step::TakeOver { session, owner } => self.take_over(session, owner).await,
            Step::Intend { lease } => self.intend(lease).await,
            Step::Result { lease, next } => self.result(lease, next).await,
            Step::Finish { lease, completed, lines, parts } => {
                self.finish(lease, completed, lines, parts).await;
            }
            Step::Abort { run } => self.abort(run).await,
            Step::Restart { owner } => self.restart(owner).await,
            Step::Release { lease } => self.release(lease).await,
            Step::ClaimSend { owner, lane } => self.claim_send(owner, lane).await,
            Step::Settle { sending, outcome } => self.settle(sending, outcome).await,
            Step::Retry { part } => self.retry(part).await,
            Step::Drop { part } => self.give_up(part).await,
            Step::Delete { session } => self.delete(session).await,
        }
    }

    async fn accept(&mut self, asked: Asked) {
        let Asked { session, owner, claim, channel, fresh, key, join, parent } = asked;
        let parent = parent.and_then(|parent| pick(parent, self.model.runs.len()));
        // What a key stands for after its session was deleted is nobody's promise.
        let key = key
            .map(usize::from)
            .filter(|key| !self.keys[*key].is_some_and(|(_, run)| self.model.runs[run].deleted));
        let mut accept = Accept {
            owner: self.owners[owner],
            claim,
            session: if fresh { SessionChoice::Fresh } else { SessionChoice::Current },
            idempotency: key
                .map(|key| self.make.idempotency(&format!("key {key}"), &format!("to {session}"))),
            ..self.make.accept(&self.model.sessions[session].key.clone())
        };
        if channel {
            accept.run.reply = channel_reply();
        }
        accept.run.join = join;
        accept.run.parent = parent.map(|parent| self.model.runs[parent].id);
        let answer = self.store.accept(accept.clone()).await;
        if let Some((asked, run)) = key.and_then(|key| self.keys[key]) {
            let replayed = Accepted { run: self.model.runs[run].id, admission: Admission::Replayed };
            let expected = if asked == session { Ok(replayed) } else { Err(StoreError::IdempotencyConflict) };
            assert_eq!(answer, expected);
            return;
        }
        if parent.is_some_and(|parent| {
            self.model.runs[parent].deleted || self.model.runs[parent].state.is_terminal()
        }) {
            assert_eq!(answer, Err(StoreError::StaleFence));
            return;
        }
        let ahead = self.model.ahead(session);
        let run = self.model.accept(Run {
            id: accept.run.id,
            session,
            channel,
            acceptor: accept.owner,
            fresh,
            new_session: accept.new_session.id,
            state: RunState::Queued,
            attempt: 0,
            log: None,
            join,
            parent,
            grants: 0,
            span: None,
            deleted: false,
        });
        if let Some(key) = key {
            self.keys[key] = Some((session, run));
        }
        let answer = answer.unwrap();
        assert_eq!(answer.run, accept.run.id);
        match answer.admission {
            Admission::Claimed(lease) if claim && ahead == 0 => self.model.grant(session, owner, lease),
            Admission::Queued { ahead: told } => {
                assert_eq!(usize::try_from(told).unwrap(), ahead);
                assert!(ahead > 0 || !claim, "an idle session is claimed when that is wanted");
            }
            other => panic!("{ahead} come before, and yet: {other:?}"),
        }
    }

    async fn claim(&mut self, session: usize, owner: usize) {
        let key = &self.model.sessions[session].key;
        let answer = self.store.claim(key, &self.owners[owner], 24 * HOUR, self.make.now()).await.unwrap();
        let owners = self.owners.clone();
        self.claimed(session, owner, answer, |acceptor| !owners.contains(acceptor));
    }

    async fn take_over(&mut self, session: usize, owner: usize) {
        let holder = self.model.sessions[session].holder.map(|lease| self.model.granted[lease].owner);
        if holder == Some(owner) {
            return;
        }
        // Any database clock shows that this went by.
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        let key = &self.model.sessions[session].key;
        let answer = self.store.claim(key, &self.owners[owner], 0, self.make.now()).await.unwrap();
        if let Some((run, _)) = self.model.settle(session) {
            self.forget_tools(run);
        }
        // Everybody but the claimant is silent.
        self.claimed(session, owner, answer, |_| true);
    }

    fn claimed(&mut self, session: usize, owner: usize, answer: Claim, is_void: impl Fn(&Owner) -> bool) {
        let holder = self.model.sessions[session].holder;
        let holder = match holder {
            Some(lease) => Some(self.model.granted[lease].lease.run),
            None => self.model.pass_over(session, self.owners[owner], is_void),
        };
        let model = &self.model.sessions[session];
        match answer {
            Claim::Granted(lease) if holder.is_none() => self.model.grant(session, owner, lease),
            Claim::Busy { run } => assert_eq!(Some(run), holder),
            Claim::Nothing => assert!(holder.is_none() && model.queue.is_empty(), "{model:?}"),
            Claim::Granted(lease) => panic!("{lease:?} was granted while {model:?}"),
        }
    }

    async fn intend(&mut self, lease: usize) {
        let Some(lease) = pick(lease, self.model.granted.len()) else { return };
        let intent = self.make.intent(vec![self.make.user("question")]);
        let answer = self.store.step(&self.model.granted[lease].lease, intent.clone()).await;
        if self.model.holds(lease) {
            answer.unwrap();
            self.model.append(lease, &[intent.entries[0].id]);
            self.open_tools.push((lease, intent));
        } else {
            assert_eq!(answer, Err(StoreError::StaleFence));
        }
    }

    async fn result(&mut self, lease: usize, next: bool) {
        let Some(lease) = pick(lease, self.model.granted.len()) else { return };
        let open = self.open_tools.iter().position(|(of, _)| *of == lease);
        let holds = self.model.holds(lease);
        let intent = match open {
            Some(open) => self.open_tools[open].1.clone(),
            None if holds => return,
            None => self.make.intent(vec![]),
        };
        let outcome = self.make.outcome(&intent, &ToolRunState::Succeeded, vec![self.make.user("result")]);
        let next = next.then(|| self.make.intent(vec![self.make.assistant("next")]));
        let step = match &next {
            Some(next) => at_once(outcome.clone(), next.clone()),
            None => outcome.clone(),
        };
        let answer = self.store.step(&self.model.granted[lease].lease, step).await;
        if !holds {
            assert_eq!(answer, Err(StoreError::StaleFence));
            return;
        }
        answer.unwrap();
        self.open_tools.retain(|(_, open)| open.begun[0].id != intent.begun[0].id);
        self.model.append(lease, &[outcome.entries[0].id]);
        if let Some(next) = next {
            self.model.append(lease, &[next.entries[0].id]);
            self.open_tools.push((lease, next));
        }
    }

    async fn finish(&mut self, lease: usize, completed: bool, lines: usize, parts: usize) {
        let Some(lease) = pick(lease, self.model.granted.len()) else { return };
        let (session, run) = (self.model.granted[lease].session, self.model.granted[lease].run);
        let mut finish = if completed { self.make.completed() } else { self.make.failed() };
        if !completed {
            finish.entries = (0..lines).map(|_| self.make.user("question")).collect();
        }
        if self.model.runs[run].channel {
            finish.parts =
                (0..parts).map(|_| self.make.part(&format!("lane {}", session % 2), "part")).collect();
        }
        let answer = self.store.finish(&self.model.granted[lease].lease, finish.clone()).await;
        if !self.model.holds(lease) {
            assert_eq!(answer, Err(StoreError::StaleFence));
            return;
        }
        let entries: Vec<_> = finish.entries.iter().map(|entry| entry.id).collect();
        let head_seq = self.model.append(lease, &entries);
        self.model.finish(lease, finish.ending.state());
        let more = !self.model.sessions[session].queue.is_empty();
        assert_eq!(answer, Ok(Finished { head_seq, more, usage: Usage::default(), announced: None }));
        self.add_parts(run, finish);
    }

    fn add_parts(&mut self, run: Number, finish: Finish) {
        self.model.parts.extend(finish.parts.into_iter().map(|part| Part {
            id: part.id,
            run,
            lane: part.lane,
            state: OutboxState::Pending,
            attempt: 0,
            owner: None,
        }));
    }

    async fn abort(&mut self, run: usize) {
        let Some(run) = pick(run, self.model.runs.len()) else { return };
        let before = self.model.runs[run].clone();
        let answer = self.store.abort(&self.make.principal(), before.id, self.make.now()).await.unwrap();
        let expected = if before.deleted {
            AbortOutcome::NotFound
        } else if before.state.is_terminal() {
            AbortOutcome::AlreadyEnded(before.state)
        } else {
            for run in std::iter::once(run).chain(self.model.descendants(run)) {
                self.model.abort(run);
                self.forget_tools(run);
            }
            AbortOutcome::Aborted
        };
        assert_eq!(answer, expected);
    }

    async fn absorb(&mut self, lease: usize, mode: JoinMode) {
        let Some(lease) = pick(lease, self.model.granted.len()) else { return };
        let answer =
            self.store.absorb(&self.model.granted[lease].lease, Absorb::quietly(mode, self.make.now())).await;
        if !self.model.holds(lease) {
            assert_eq!(answer, Err(StoreError::StaleFence));
            return;
        }
        let absorbed = answer.unwrap();
        let joined = self.model.absorb(lease, mode);
        let expected: Vec<_> = joined.iter().map(|run| self.model.runs[*run].id).collect();
        assert_eq!(absorbed.iter().map(|joined| joined.run).collect::<Vec<_>>(), expected);
        let lines: Vec<_> = absorbed.iter().map(|joined| joined.entry().id).collect();
        self.model.append(lease, &lines);
    }

    async fn compact(&mut self, lease: usize, keeps: i64) {
        let Some(lease) = pick(lease, self.model.granted.len()) else { return };
        let compaction = self.make.compaction(keeps);
        let answer = self.store.compact(&self.model.granted[lease].lease, compaction.clone()).await;
        if !self.model.holds(lease) {
            assert_eq!(answer, Err(StoreError::StaleFence));
            return;
        }
        match self.model.compact(lease, compaction.id, keeps) {
            Some(head) => assert_eq!(answer, Ok(head)),
            None => assert!(matches!(answer, Err(StoreError::NotFound(_))), "{answer:?}"),
        }
    }

    async fn fork(&mut self, session: usize, log: usize, after: usize) {
        let Some(log) = pick(log, self.model.logs.len()) else { return };
        let (source, lines) =
            self.model.logs.iter().nth(log).map(|(id, log)| (*id, log.lines.len())).unwrap();
        let fork = self.make.fork(source, i64::try_from(after).unwrap(), &self.model.sessions[session].key);
        let answer = self.store.fork(&self.make.principal(), fork.clone()).await;
        let id = fork.new_session.id;
        if self.model.ahead(session) > 0 {
            assert_eq!(answer, Err(StoreError::SessionBusy));
        } else if after > lines {
            assert!(matches!(answer, Err(StoreError::NotFound(_))), "{answer:?}");
        } else {
            assert_eq!(answer, Ok(Forked { session: id, before: self.model.sessions[session].current }));
            self.model.fork(source, after, session, id);
        }
    }

    /// The owner's process dies and starts again.
    async fn restart(&mut self, owner: usize) {
        let before = self.owners[owner];
        let after = self.store.enlist(before.instance, self.make.now()).await.unwrap();
        assert_eq!(after, Owner { incarnation: before.incarnation + 1, ..before });
        self.owners[owner] = after;
        let recovered = self.store.recover(&after, self.make.now()).await.unwrap();
        let mut expected = Vec::new();
        for session in 0..SESSIONS {
            let held = self.model.sessions[session].holder.map(|lease| self.model.granted[lease].owner);
            if held == Some(owner)
                && let Some((run, state)) = self.model.settle(session)
            {
                expected.push((self.model.runs[run].id, self.model.sessions[session].key.clone(), state));
                self.forget_tools(run);
            }
        }
        for session in 0..SESSIONS {
            let died = |acceptor: &Owner| acceptor.instance == after.instance && *acceptor != after;
            for run in self.model.abandon(session, died) {
                let key = self.model.sessions[session].key.clone();
                expected.push((self.model.runs[run].id, key, RunState::Interrupted));
            }
        }
        let mut settled: Vec<_> =
            recovered.runs.into_iter().map(|run| (run.run, run.key, run.state)).collect();
        settled.sort_by_key(|(run, ..)| *run);
        expected.sort_by_key(|(run, ..)| *run);
        assert_eq!(settled, expected);
    }

    async fn release(&mut self, lease: usize) {
        let Some(lease) = pick(lease, self.model.granted.len()) else { return };
        let answer = self.store.release(&self.model.granted[lease].lease, self.make.now()).await;
        if !self.model.holds(lease) {
            assert_eq!(answer, Err(StoreError::StaleFence));
            return;
        }
        let run = self.model.granted[lease].run;
        assert_eq!(answer, Ok(self.model.release(lease)));
        self.forget_tools(run);
    }

    async fn claim_send(&mut self, owner: usize, lane: usize) {
        let lane = format!("lane {lane}");
        let claimant = self.owners[owner];
        let now = self.make.now();
        let answer =
            self.store.claim_send(self.make.tenant(), &claimant, &lane, 24 * HOUR, now).await.unwrap();
        let (sending, waiting) = self.model.lane(&lane);
        let doubtful = sending.is_some();
        let part = match (sending, waiting) {
            (Some(part), _) if self.owners.contains(&self.model.parts[part].owner.unwrap()) => {
                assert_eq!(answer, NextSend::Busy);
                return;
            }
            (Some(part), _) | (None, Some(part)) => part,
            (None, None) => {
                assert_eq!(answer, NextSend::Empty);
                return;
            }
        };
        let NextSend::Granted(sending) = answer else { panic!("a part waits, and yet: {answer:?}") };
        let part = &mut self.model.parts[part];
        part.state = OutboxState::Sending;
        part.attempt += 1;
        part.owner = Some(claimant);
        let told = (sending.id, sending.attempt, sending.owner, sending.doubtful);
        assert_eq!(told, (part.id, part.attempt, claimant, doubtful));
        self.sendings.push(sending);
    }

    async fn retry(&mut self, part: usize) {
        let Some(part) = pick(part, self.model.parts.len()) else { return };
        let (id, state) = (self.model.parts[part].id, self.model.parts[part].state.clone());
        let answer = self.store.retry_send(&self.make.principal(), id, self.make.now()).await.unwrap();
        let expected = match state {
            OutboxState::Unknown | OutboxState::Dead | OutboxState::Dropped => {
                Decided::Done { parts: self.model.retry(part) }
            }
            state => Decided::Refused(state),
        };
        assert_eq!(answer, expected);
    }

    async fn give_up(&mut self, part: usize) {
        let Some(part) = pick(part, self.model.parts.len()) else { return };
        let (id, state) = (self.model.parts[part].id, self.model.parts[part].state.clone());
        let answer = self.store.drop_send(&self.make.principal(), id, self.make.now()).await.unwrap();
        let expected = match state {
            OutboxState::Pending | OutboxState::Unknown | OutboxState::Dead => {
                Decided::Done { parts: self.model.lose(part, OutboxState::Dropped) }
            }
            state => Decided::Refused(state),
        };
        assert_eq!(answer, expected);
    }

    async fn settle(&mut self, sending: usize, outcome: u8) {
        let Some(sending) = pick(sending, self.sendings.len()) else { return };
        let sending = self.sendings[sending].clone();
        let reason = "because".to_owned();
        let outcome = match outcome {
            0 => SendOutcome::Sent { id: "remote".to_owned() },
            1 => SendOutcome::NotSent { retry_at: 0, reason },
            2 => SendOutcome::Rejected { reason },
            _ => SendOutcome::Unknown { reason },
        };
        let answer = self.store.settle_send(&sending, outcome.clone(), self.make.now()).await;
        let valid = self.model.parts.iter().position(|part| {
            part.id == sending.id && part.owner == Some(sending.owner) && part.attempt == sending.attempt
        });
        let Some(part) = valid else {
            assert_eq!(answer, Err(StoreError::StaleFence));
            return;
        };
        let state = OutboxState::after(&outcome);
        assert_eq!(answer.as_ref(), Ok(&state));
        if matches!(state, OutboxState::Dead | OutboxState::Unknown) {
            self.model.lose(part, state);
        } else {
            self.model.parts[part].state = state;
            self.model.parts[part].owner = None;
        }
    }

    async fn delete(&mut self, session: usize) {
        let model = &self.model.sessions[session];
        let (exists, busy) = (model.exists, self.model.ahead(session) > 0);
        let principal = self.make.principal();
        match self.store.delete_session(&principal, &model.key, self.make.now()).await {
            Ok(mut names) => {
                assert!(exists && !busy, "{:?}", self.model.sessions[session]);
                names.sort();
                assert_eq!(names, self.model.delete(session));
            }
            Err(StoreError::SessionBusy) => assert!(exists && busy),
            Err(StoreError::NotFound(_)) => assert!(!exists),
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Tools of a run that ended or was taken away have no open intent any more.
    fn forget_tools(&mut self, run: Number) {
        let granted = &self.model.granted;
        self.open_tools.retain(|(lease, _)| granted[*lease].run != run);
    }

    /// Every read agrees with the model.
    async fn check(&self) {
        let (store, tenant) = (self.store, self.make.tenant());
        let runs = store.runs(tenant, RunFilter { limit: ALL, ..RunFilter::default() }).await.unwrap();
        let mut found: Vec<_> =
            runs.into_iter().map(|run| (run.id, run.state, run.attempt, run.session, run.entries)).collect();
        found.sort_by_key(|(run, ..)| *run);
        let live = self.model.runs.iter().filter(|run| !run.deleted);
        let mut expected: Vec<_> =
            live.map(|run| (run.id, run.state.clone(), run.attempt, run.log, run.span)).collect();
        expected.sort_by_key(|(run, ..)| *run);
        assert_eq!(found, expected);
    }

    async fn check_whole(&self) {
        let (store, tenant) = (self.store, self.make.tenant());
        for session in &self.model.sessions {
            let found = store.session(&session.key).await.unwrap();
            assert_eq!(found.map(|row| (row.id, row.current)), session.current.map(|log| (log, true)));
        }
        for (id, log) in &self.model.logs {
            let found = store.entries(tenant, *id, 0, ALL).await.unwrap();
            let found: Vec<_> =
                found.iter().map(|line| (line.seq, line.id, line.parent_id, line.run_id)).collect();
            let mut parent = None;
            let line = |(seq, line): (i64, &Line)| (seq, line.id, parent.replace(line.id), line.run);
            assert_eq!(found, (1..).zip(&log.lines).map(line).collect::<Vec<_>>());
        }
        for lease in self.model.sessions.iter().filter_map(|session| session.holder) {
            let lease = &self.model.granted[lease].lease;
            let limits = ContextLimits { entries: ALL, ..ContextLimits::NONE };
            let found = store.context(lease, limits).await.unwrap();
            let shown: Vec<_> = found.entries.iter().map(|line| line.id).collect();
            let log = self.model.logs.get(&lease.session);
            assert_eq!(shown, log.map(Log::shown).unwrap_or_default());
            assert_eq!(found.summary.map(|line| line.id), log.and_then(Log::summary));
        }
        for (number, run) in self.model.runs.iter().enumerate() {
            let found = store.outbox_of(tenant, run.id).await.unwrap();
            let found: Vec<_> = found.into_iter().map(|part| (part.id, part.state, part.attempt)).collect();
            let parts = self.model.parts.iter().filter(|part| part.run == number);
            assert_eq!(
                found,
                parts.map(|part| (part.id, part.state.clone(), part.attempt)).collect::<Vec<_>>()
            );
        }
    }
}

fn sequences_agree_with_the_model(backend: Backend, cases: u32) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let Some(mut store) = ScratchStore::place(backend) else { return };
    runtime.block_on(store.open());
    let config = Config { cases, max_shrink_iters: 200, failure_persistence: None, ..Config::default() };
    // Each case has a tenant and instances of its own.
    let case = AtomicU64::new(1);
    let outcome = TestRunner::new(config).run(&proptest::collection::vec(step(), 1..40), |steps| {
        let number = case.fetch_add(1, Ordering::Relaxed);
        let make = Requests::new(&format!("case-{number}"), number);
        runtime.block_on(async {
            let mut owners = Vec::new();
            for _ in 0..2 {
                owners.push(crate::scene::enlist(&store, &make).await);
            }
            let model = Model::new((0..SESSIONS).map(|session| make.key(&format!("s{session}"))));
            let (open_tools, sendings, keys) = (Vec::new(), Vec::new(), [None; 3]);
            let mut world = World { store: &store, make, model, owners, open_tools, sendings, keys };
            for step in steps {
                world.play(step).await;
                world.check().await;
            }
            world.check_whole().await;
        });
        Ok(())
    });
    runtime.block_on(store.remove());
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

mod sqlite {
    #[test]
    fn sequences_agree_with_the_model() {
        super::sequences_agree_with_the_model(tidegate_testkit::stores::Backend::Sqlite, 64);
    }
}

mod postgres {
    #[test]
    fn sequences_agree_with_the_model() {
        super::sequences_agree_with_the_model(tidegate_testkit::stores::Backend::Postgres, 8);
    }
}
