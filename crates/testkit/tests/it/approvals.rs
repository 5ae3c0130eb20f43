//! Orders of everything that can happen to a question: all short ones, and a sample of longer ones. After each step the
//! store is where a small model says, one answer won at most, one use was granted at most, and the audit trail tells
//! the same story.

use futures_util::future::join_all;
use tidegate_policy::Digest;
use tidegate_policy::approval::{Answer, Approval, GRACE_MS};
use tidegate_storage::{Cancelled, DecideApproval, DecidedApproval, OwnCalls, UsedApproval};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::{Backend, ScratchStore, with_store};

use crate::scene::audit_of;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Approve,
    /// By whoever asked, who may not.
    ApproveOwn,
    Deny,
    /// Time passes: to the end of the question, then to the end of its grace.
    Wait,
    /// The clock is looked at.
    Expire,
    Cancel,
    /// The process ends and another one opens the store.
    Restart,
    Use,
    UseForAnotherCall,
}

const STEPS: [Step; 9] = [
    Step::Approve,
    Step::ApproveOwn,
    Step::Deny,
    Step::Wait,
    Step::Expire,
    Step::Cancel,
    Step::Restart,
    Step::Use,
    Step::UseForAnotherCall,
];

/// What should be so. Written down without the state machine that it checks.
#[derive(Debug, Clone, Default)]
struct Model {
    /// The states it went through after `pending`.
    path: Vec<&'static str>,
    waited: usize,
    won: usize,
    granted: usize,
}

impl Model {
    fn state(&self) -> &'static str {
        self.path.last().copied().unwrap_or("pending")
    }

    fn is_late(&self) -> bool {
        matches!((self.state(), self.waited), ("pending", 1..) | ("approved", 2..))
    }

    fn play(&mut self, step: Step) {
        let next = match (step, self.state()) {
            (Step::Wait, _) => {
                self.waited += 1;
                None
            }
            (Step::Restart, _) => None,
            (Step::Cancel, state) => matches!(state, "pending" | "approved").then_some("cancelled"),
            (_, _) if self.is_late() => Some("expired"),
            (Step::Approve, "pending") => Some("approved"),
            (Step::Deny, "pending") => Some("denied"),
            (Step::Use, "approved") => Some("used"),
            _ => None,
        };
        self.won += usize::from(matches!(next, Some("approved" | "denied")));
        self.granted += usize::from(next == Some("used"));
        self.path.extend(next);
    }
}

/// One order, in a tenant of its own.
struct Case {
    steps: Vec<Step>,
    make: Requests,
    asked: Approval,
    model: Model,
    won: usize,
    granted: usize,
    before: Approval,
}

impl Case {
    async fn begin(store: &ScratchStore, number: usize, steps: Vec<Step>) -> Self {
        let make = Requests::new(&format!("case-{number}"), number as u64);
        let asked = make.approval(None);
        store.request_approval(asked.clone()).await.unwrap();
        let before = asked.clone();
        Self { steps, make, asked, model: Model::default(), won: 0, granted: 0, before }
    }

    fn now(&self) -> i64 {
        match self.model.waited {
            0 => self.asked.expires_at - 1,
            1 => self.asked.expires_at + GRACE_MS - 1,
            _ => self.asked.expires_at + GRACE_MS,
        }
    }

    async fn play(&mut self, store: &ScratchStore, place: usize) {
        let Some(step) = self.steps.get(place).copied() else { return };
        let (tenant, id, now) = (self.make.tenant(), self.asked.id, self.now());
        match step {
            Step::Approve => self.answer(store, Answer::AllowOnce, false).await,
            Step::ApproveOwn => self.answer(store, Answer::AllowOnce, true).await,
            Step::Deny => self.answer(store, Answer::Deny { reason: None }, false).await,
            Step::Expire => drop(store.expire_approvals(tenant, now, 9).await.unwrap()),
            Step::Cancel => {
                drop(store.cancel_approvals(tenant, Cancelled::One(id), now).await.unwrap());
            }
            Step::Use => self.use_for(store, &self.asked.digest.clone()).await,
            Step::UseForAnotherCall => self.use_for(store, &Digest::stored("another".to_owned())).await,
            Step::Wait | Step::Restart => {}
        }
        self.model.play(step);
        self.check(store, place).await;
    }

    async fn answer(&mut self, store: &ScratchStore, answer: Answer, own: bool) {
        let by = if own { self.make.principal() } else { self.make.approver() };
        let (id, now) = (self.asked.id, self.now());
        let decide = DecideApproval { id, by, answer, own: OwnCalls::MayNotApprove, now };
        let decided = store.decide_approval(decide).await.unwrap();
        self.won += usize::from(matches!(decided, DecidedApproval::Won(_)));
    }

    async fn use_for(&mut self, store: &ScratchStore, digest: &Digest) {
        let used = store.use_approval(self.make.tenant(), self.asked.id, digest, self.now()).await.unwrap();
        if let UsedApproval::Granted(grant) = used {
            assert_eq!(grant.digest(), &self.asked.digest, "{:?}", self.steps);
            self.granted += 1;
        }
    }

    async fn check(&mut self, store: &ScratchStore, place: usize) {
        let played = &self.steps[..=place];
        let stored = store.approval(self.make.tenant(), self.asked.id).await.unwrap().unwrap();
        assert_eq!(stored.state.as_str(), self.model.state(), "{played:?}");
        assert_eq!((self.won, self.granted), (self.model.won, self.model.granted), "{played:?}");
        assert!(self.won <= 1 && self.granted <= 1, "{played:?}");
        if self.granted == 1 {
            let answered = stored.answered.as_ref().expect("nothing is used without an answer");
            assert_eq!(answered.by, self.make.approver().actor(), "{played:?}");
            assert!(self.model.path.contains(&"approved"), "{played:?}");
        }
        if !matches!(self.before.state.as_str(), "pending" | "approved") {
            assert_eq!(stored, self.before, "what is settled stays: {played:?}");
        }
        self.before = stored;
        let mut told = audit_of(store, &self.make, &self.asked.id.to_string()).await;
        told.reverse();
        let told: Vec<_> = told.iter().map(|row| row.action.as_str()).collect();
        let mut expected = vec!["tool.approval.requested".to_owned()];
        expected.extend(self.model.path.iter().map(|state| format!("tool.approval.{state}")));
        assert_eq!(told, expected, "{played:?}");
    }
}

/// Plays all orders side by side, step by step, so that one restart serves all of them.
async fn play(store: &mut ScratchStore, orders: Vec<Vec<Step>>) {
    const AT_ONCE: usize = 128;
    let mut cases = Vec::new();
    for orders in orders.into_iter().enumerate().collect::<Vec<_>>().chunks(AT_ONCE) {
        let begun = orders.iter().map(|(number, steps)| Case::begin(store, *number, steps.clone()));
        cases.extend(join_all(begun).await);
    }
    let longest = cases.iter().map(|case| case.steps.len()).max().unwrap_or(0);
    for place in 0..longest {
        if cases.iter().any(|case| case.steps.get(place) == Some(&Step::Restart)) {
            store.close().await;
            store.open().await;
        }
        for cases in cases.chunks_mut(AT_ONCE) {
            join_all(cases.iter_mut().map(|case| case.play(store, place))).await;
        }
    }
}

/// All orders of this length; the shorter ones are their beginnings.
fn all_orders(length: u32) -> Vec<Vec<Step>> {
    (0..STEPS.len().pow(length))
        .map(|number| (0..length).map(|place| STEPS[number / STEPS.len().pow(place) % STEPS.len()]).collect())
        .collect()
}

fn sampled_orders(count: usize, length: usize) -> Vec<Vec<Step>> {
    let make = Requests::new("orders", 19);
    let step = |_| STEPS[usize::try_from(make.draw() % STEPS.len() as u64).unwrap()];
    (0..count).map(|_| (0..length).map(step).collect()).collect()
}

mod sqlite {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_short_order_keeps_its_promises() {
        with_store(Backend::Sqlite, 2, async |store| play(store, all_orders(4)).await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn long_orders_keep_their_promises() {
        with_store(Backend::Sqlite, 2, async |store| play(store, sampled_orders(500, 10)).await).await;
    }
}

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_order_of_two_keeps_its_promises() {
        with_store(Backend::Postgres, 8, async |store| play(store, all_orders(2)).await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn long_orders_keep_their_promises() {
        with_store(Backend::Postgres, 8, async |store| play(store, sampled_orders(150, 8)).await).await;
    }
}
