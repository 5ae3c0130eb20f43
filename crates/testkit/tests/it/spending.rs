//! Generated sequences of verbs over budgets. Whatever the order, every row is what the model says, no hard line is
//! overrun while no run uses more than it reserved, and once all runs have ended nothing is reserved.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate_protocol::{Cost, RunId};
use tidegate_storage::{
    Accept, Admission, BudgetFilter, BudgetLine, Claim, Finish, Lease, Owner, Reservation, RunFilter,
};
use tidegate_testkit::requests::{Requests, channel_reply};
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::{Backend, ScratchStore};

use crate::scene::{HOUR, everything, restart};

const SESSIONS: usize = 3;
/// What the tenant, and each of its agents, may use.
const LIMITS: [u64; 3] = [100, 60, 60];

#[derive(Debug, Clone)]
enum Step {
    Accept { session: usize, agent: usize, claim: bool, channel: bool, asked: u64 },
    Claim { session: usize },
    Finish { session: usize, percent: u64 },
    Release { session: usize },
    Abort { run: usize },
    Meter { run: usize, percent: u64 },
    Restart,
    Delete { session: usize },
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let (session, percent, run) = (0..SESSIONS, 0..=100_u64, 0..64_usize);
    prop_oneof![
        6 => (session.clone(), 1..3_usize, any::<[bool; 2]>(), 0..50_u64).prop_map(
            |(session, agent, [claim, channel], asked)| Step::Accept { session, agent, claim, channel, asked }
        ),
        3 => session.clone().prop_map(|session| Step::Claim { session }),
        4 => (session.clone(), percent.clone()).prop_map(|(session, percent)| Step::Finish { session, percent }),
        1 => session.clone().prop_map(|session| Step::Release { session }),
        3 => run.clone().prop_map(|run| Step::Abort { run }),
        3 => (run, percent).prop_map(|(run, percent)| Step::Meter { run, percent }),
        1 => Just(Step::Restart),
        1 => session.prop_map(|session| Step::Delete { session }),
        1 => Just(Step::Sweep),
    ]
}

/// Where a run's reservation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Reserved,
    /// Ended from outside: its reservation counts as spent.
    Spent,
    Settled,
}

#[derive(Debug)]
struct Run {
    id: RunId,
    session: usize,
    agent: usize,
    channel: bool,
    began: bool,
    held: Held,
    amount: u64,
    deleted: bool,
}

struct World<'a> {
    store: &'a ScratchStore,
    make: Requests,
    owner: Owner,
    leases: [Option<Lease>; SESSIONS],
    runs: Vec<Run>,
    /// By line: spent, reserved, rejected.
    lines: [(u64, u64, u64); 3],
}

impl World<'_> {
    fn scope(&self, line: usize) -> String {
        match line {
            0 => format!("tenant:{}", self.make.tenant()),
            agent => format!("agent:{}:default:a{agent}", self.make.tenant()),
        }
    }

    fn reservation(&self, agent: usize, asked: u64) -> Reservation {
        let line = |line: usize| BudgetLine {
            scope: self.scope(line),
            period: "day:2026-02-23".to_owned(),
            max_tokens: Some(LIMITS[line]),
            max_cost: Some(Cost(LIMITS[line])),
            hard: true,
        };
        // In no particular order: the store has its own.
        let lines =
            if asked.is_multiple_of(2) { vec![line(0), line(agent)] } else { vec![line(agent), line(0)] };
        Reservation { tokens: asked, cost: Cost(asked), lines }
    }

    async fn play(&mut self, step: Step) {
        match step {
            Step::Accept { session, agent, claim, channel, asked } => {
                self.accept(session, agent, [claim, channel], asked).await;
            }
            Step::Claim { session } => self.claim(session).await,
            Step::Finish { session, percent } => self.finish(session, percent).await,
            Step::Release { session } => {
                let Some(lease) = self.leases[session].take() else { return };
                self.store.release(&lease, self.make.now()).await.unwrap();
                let run = self.number(lease.run);
                if !self.runs[run].channel {
                    self.end_outside(run);
                }
            }
            Step::Abort { run } => self.abort(run).await,
            Step::Meter { run, percent } => self.meter(run, percent).await,
            Step::Restart => self.restart().await,
            Step::Delete { session } => self.delete(session).await,
            Step::Sweep => {
                let tenant = self.make.tenant();
                self.store.sweep(tenant, everything(self.make.now())).await.unwrap();
            }
        }
    }

    fn number(&self, id: RunId) -> usize {
        self.runs.iter().position(|run| run.id == id).expect("the test accepted it")
    }

    /// Changes the tenant's line and the run's agent's.
    fn count(&mut self, run: usize, change: impl Fn(&mut (u64, u64, u64))) {
        for line in [0, self.runs[run].agent] {
            change(&mut self.lines[line]);
        }
    }

    fn end_outside(&mut self, run: usize) {
        let (amount, began) = (self.runs[run].amount, self.runs[run].began);
        if self.runs[run].held != Held::Reserved {
            return;
        }
        self.runs[run].held = if began { Held::Spent } else { Held::Settled };
        self.count(run, |line| {
            line.1 -= amount;
            line.0 += if began { amount } else { 0 };
        });
    }

    async fn accept(&mut self, session: usize, agent: usize, [claim, channel]: [bool; 2], asked: u64) {
        let mut accept = Accept {
            owner: self.owner,
            claim,
            reservation: Some(self.reservation(agent, asked)),
            ..self.make.accept(&self.make.key(&format!("s{session}")))
        };
        if channel {
            accept.run.reply = channel_reply();
        }
        let id = accept.run.id;
        let accepted = self.store.accept(accept).await.unwrap();
        let full: Vec<usize> = [0, agent]
            .into_iter()
            .filter(|line| self.lines[*line].0 + self.lines[*line].1 + asked > LIMITS[*line])
            .collect();
        let held = if full.is_empty() { Held::Reserved } else { Held::Settled };
        self.runs.push(Run {
            id,
            session,
            agent,
            channel,
            began: false,
            held,
            amount: asked,
            deleted: false,
        });
        if full.is_empty() {
            self.count(self.runs.len() - 1, |line| line.1 += asked);
        }
        for line in &full {
            self.lines[*line].2 += 1;
        }
        if let Admission::Claimed(lease) = accepted.admission {
            assert_eq!(lease.refusal.is_some(), !full.is_empty());
            self.granted(session, lease);
        }
    }

    fn granted(&mut self, session: usize, lease: Lease) {
        let run = self.number(lease.run);
        self.runs[run].began = true;
        assert!(self.leases[session].replace(lease).is_none(), "one run a session");
    }

    async fn claim(&mut self, session: usize) {
        let key = self.make.key(&format!("s{session}"));
        let claim = self.store.claim(&key, &self.owner, HOUR, self.make.now()).await.unwrap();
        if let Claim::Granted(lease) = claim {
            self.granted(session, lease);
        }
    }

    async fn finish(&mut self, session: usize, percent: u64) {
        let Some(lease) = self.leases[session].take() else { return };
        let run = self.number(lease.run);
        let (amount, held) = (self.runs[run].amount, self.runs[run].held);
        let used = if held == Held::Reserved { amount * percent / 100 } else { 0 };
        let calls = vec![self.make.call(used)];
        self.store.finish(&lease, Finish { calls, ..self.make.completed() }).await.unwrap();
        if held == Held::Reserved {
            self.runs[run].held = Held::Settled;
            self.count(run, |line| {
                line.1 -= amount;
                line.0 += used;
            });
        }
    }

    async fn abort(&mut self, run: usize) {
        let Some(run) = run.checked_rem(self.runs.len()) else { return };
        let id = self.runs[run].id;
        self.store.abort(&self.make.principal(), id, self.make.now()).await.unwrap();
        let lease = &mut self.leases[self.runs[run].session];
        lease.take_if(|lease| lease.run == id);
        self.end_outside(run);
    }

    async fn meter(&mut self, run: usize, percent: u64) {
        let Some(run) = run.checked_rem(self.runs.len()) else { return };
        let Run { id, amount, held, deleted, .. } = self.runs[run];
        let used = if held == Held::Settled || deleted { 0 } else { amount * percent / 100 };
        let meter = self.make.meter(Some(id), vec![self.make.call(used)]);
        self.store.meter(self.make.tenant(), meter).await.unwrap();
        match held {
            Held::Reserved => {
                self.runs[run].amount -= used;
                self.count(run, |line| {
                    line.1 -= used;
                    line.0 += used;
                });
            }
            Held::Spent if !deleted => {
                self.runs[run].held = Held::Settled;
                self.count(run, |line| line.0 = line.0 - amount + used);
            }
            Held::Spent | Held::Settled => {}
        }
    }

    /// Runs that are open and whose callers are gone end; the others wait.
    async fn restart(&mut self) {
        let open = self.open().await;
        (self.owner, _) = restart(self.store, &self.make, self.owner).await;
        self.leases = Default::default();
        for run in open {
            if !self.runs[run].channel {
                self.end_outside(run);
            }
        }
    }

    async fn open(&self) -> Vec<usize> {
        let filter = RunFilter { limit: ALL, ..RunFilter::default() };
        let rows = self.store.runs(self.make.tenant(), filter).await.unwrap();
        rows.iter().filter(|row| !row.state.is_terminal()).map(|row| self.number(row.id)).collect()
    }

    async fn delete(&mut self, session: usize) {
        let key = self.make.key(&format!("s{session}"));
        if self.store.delete_session(&self.make.principal(), &key, self.make.now()).await.is_ok() {
            for run in self.runs.iter_mut().filter(|run| run.session == session) {
                run.deleted = true;
            }
        }
    }

    async fn check(&self) {
        let filter = BudgetFilter { limit: ALL, ..BudgetFilter::default() };
        let rows = self.store.budgets(self.make.tenant(), filter).await.unwrap();
        let found: BTreeMap<_, _> =
            rows.into_iter().map(|row| (row.key.scope, (row.used, row.rejected))).collect();
        for (number, expected) in self.lines.iter().enumerate() {
            let (used, rejected) = found.get(&self.scope(number)).copied().unwrap_or_default();
            let tokens = (used.tokens_spent, used.tokens_reserved, rejected);
            let cost = (used.cost_spent.0, used.cost_reserved.0, rejected);
            assert_eq!((tokens, cost), (*expected, *expected), "line {number}");
            assert!(expected.0 + expected.1 <= LIMITS[number], "line {number} is overrun: {expected:?}");
        }
    }

    async fn end_everything(&mut self) {
        for run in self.open().await {
            self.abort(run).await;
        }
        self.check().await;
        assert!(self.lines.iter().all(|line| line.1 == 0), "{:?}", self.lines);
    }
}

fn budgets_agree_with_the_model(backend: Backend, cases: u32) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let Some(mut store) = ScratchStore::place(backend) else { return };
    runtime.block_on(store.open());
    let config = Config { cases, max_shrink_iters: 200, failure_persistence: None, ..Config::default() };
    let case = AtomicU64::new(1);
    let outcome = TestRunner::new(config).run(&proptest::collection::vec(step(), 1..40), |steps| {
        let number = case.fetch_add(1, Ordering::Relaxed);
        let make = Requests::new(&format!("case-{number}"), number);
        runtime.block_on(async {
            let owner = crate::scene::enlist(&store, &make).await;
            let (leases, runs, lines) = (Default::default(), Vec::new(), [(0, 0, 0); 3]);
            let mut world = World { store: &store, make, owner, leases, runs, lines };
            for step in steps {
                world.play(step).await;
                world.check().await;
            }
            world.end_everything().await;
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
    fn budgets_agree_with_the_model() {
        super::budgets_agree_with_the_model(tidegate_testkit::stores::Backend::Sqlite, 96);
    }
}

mod postgres {
    #[test]
    fn budgets_agree_with_the_model() {
        super::budgets_agree_with_the_model(tidegate_testkit::stores::Backend::Postgres, 12);
    }
}
