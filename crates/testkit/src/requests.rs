//! Requests with sensible defaults. The same tenant and seed give the same ids, times and texts, in every process:
//! a test can therefore say beforehand what a killed process must have stored.

use std::fmt::Debug;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::json;
use tidegate_policy::approval::{AllowMatch, AllowRule, Approval, CommandMatch, Question};
use tidegate_policy::{Preparation, Prepared, Principal, Requester, Subject, SubjectKind};
use tidegate_protocol::{
    Block, Compaction, Cost, EntryBody, ErrorBody, ErrorCode, FileTrail, Id, Inbound, InboundMessage,
    InboxId, Limits, Message, ModelRef, Origin, OutboundTarget, Peer, PeerKind, ReplyTarget, Risk, RunId,
    RunSpec, Scope, SessionId, SessionKey, StopReason, TenantId, ToolCall, ToolRunState, ToolSource, Usage,
};
use tidegate_storage::{
    Accept, BudgetLine, Ending, Finish, Fork, Idempotency, Ingest, Meter, NewCall, NewCompaction, NewEntry,
    NewPart, NewRun, NewSession, NewToolRun, Owner, Reservation, SessionChoice, StandingRow, Step,
    ToolOutcome,
};

/// When every sequence of requests begins: 2026-02-23T17:07:31Z.
pub const EPOCH: i64 = 1_771_866_451_000;

/// Builds requests of one tenant. Each one gets ids of its own and a time one second after the last.
#[derive(Debug)]
pub struct Requests {
    tenant: TenantId,
    seed: u64,
    drawn: AtomicU64,
    now: AtomicI64,
    /// Who accepts.
    owner: Mutex<Option<Owner>>,
}

/// Reads a name, key or id that the test wrote itself.
pub fn parse<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().expect("a name in a test is valid")
}

impl Requests {
    pub fn new(tenant: &str, seed: u64) -> Self {
        Self {
            tenant: parse(tenant),
            seed,
            drawn: AtomicU64::new(0),
            now: AtomicI64::new(EPOCH),
            owner: Mutex::default(),
        }
    }

    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    pub fn principal(&self) -> Principal {
        Principal::local_owner(self.tenant.clone())
    }

    /// The next number of the sequence (SplitMix64).
    pub fn draw(&self) -> u64 {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed) + 1;
        let mut mixed = self.seed.wrapping_add(drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn id<T: Id>(&self) -> T {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&self.draw().to_be_bytes());
        let unix_ms = u64::try_from(self.now.load(Ordering::Relaxed)).unwrap_or(0);
        T::from_parts(unix_ms, random)
    }

    /// The time of the next request.
    pub fn now(&self) -> i64 {
        self.now.fetch_add(1_000, Ordering::Relaxed) + 1_000
    }

    /// Moves the clock, back too.
    pub fn set_now(&self, now: i64) {
        self.now.store(now, Ordering::Relaxed);
    }

    /// Names who accepts the requests made from now on.
    pub fn set_owner(&self, owner: Owner) {
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) = Some(owner);
    }

    /// Who accepts. Nobody that any store knows, until somebody was named.
    pub fn owner(&self) -> Option<Owner> {
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn scope(&self) -> Scope {
        Scope { tenant: self.tenant.clone(), workspace: parse("default"), agent: parse("main") }
    }

    pub fn key(&self, name: &str) -> SessionKey {
        SessionKey::named(self.scope(), name)
    }

    /// A request whose caller waits for the answer; not claimed, not fresh, without an idempotency key.
    pub fn accept(&self, key: &SessionKey) -> Accept {
        let now = self.now();
        Accept {
            principal: self.principal(),
            key: key.clone(),
            run: NewRun {
                id: self.id(),
                client_key: None,
                spec: spec(),
                input: Message::user(format!("question {}", self.draw()), now),
                reply: ReplyTarget::Caller,
                join: None,
                parent: None,
            },
            session: SessionChoice::Current,
            new_session: NewSession { id: self.id(), alias: None },
            inbound: None,
            idempotency: None,
            reservation: None,
            ephemeral: false,
            owner: self.owner().unwrap_or_else(nobody),
            claim: false,
            now,
        }
    }

    /// A request that came from a network and is answered there.
    pub fn accept_from_channel(&self, key: &SessionKey) -> Accept {
        let mut accept = self.accept(key);
        accept.run.reply = channel_reply();
        accept.inbound = Some(self.inbound("hello"));
        accept
    }

    pub fn inbound(&self, text: &str) -> (InboxId, Inbound) {
        let inbound = Inbound {
            tenant_id: self.tenant.clone(),
            workspace_id: parse("default"),
            channel: parse("slack"),
            account_id: "T1".to_owned(),
            peer: Peer { kind: PeerKind::Dm, id: "U1".to_owned() },
            sender_id: None,
            thread_id: None,
            message: InboundMessage {
                id: format!("m{}", self.draw()),
                text: text.to_owned(),
                attachments: Vec::new(),
            },
            timestamp: EPOCH,
        };
        (self.id(), inbound)
    }

    /// What a network delivered at once: each message is known by its number there.
    pub fn ingest(&self, key: &SessionKey, numbers: &[u32], cursor: Option<&str>) -> Ingest {
        let messages: Vec<Accept> = numbers
            .iter()
            .map(|number| {
                let text = format!("message {number}");
                let idempotency = Some(self.idempotency(&format!("slack T1 {number}"), &text));
                Accept { idempotency, ..self.accept_from_channel(key) }
            })
            .collect();
        let now = self.now();
        Ingest {
            tenant: self.tenant.clone(),
            owner: self.owner().unwrap_or_else(nobody),
            channel: parse("slack"),
            account_id: "T1".to_owned(),
            messages,
            cursor: cursor.map(str::to_owned),
            now,
        }
    }

    /// A caller's key that lives for an hour.
    pub fn idempotency(&self, key: &str, request: &str) -> Idempotency {
        Idempotency::new(key, request.as_bytes(), self.now.load(Ordering::Relaxed) + 3_600_000)
    }

    pub fn user(&self, text: &str) -> NewEntry {
        NewEntry { id: self.id(), body: EntryBody::Message(Message::user(text, EPOCH)) }
    }

    pub fn assistant(&self, text: &str) -> NewEntry {
        let message = Message::Assistant {
            content: vec![Block::text(text)],
            origin: origin(),
            usage: usage(),
            stop_reason: StopReason::Stop,
            error_message: None,
            timestamp: EPOCH,
        };
        NewEntry { id: self.id(), body: EntryBody::Message(message) }
    }

    pub fn part(&self, lane: &str, body: &str) -> NewPart {
        NewPart {
            id: self.id(),
            channel: parse("slack"),
            account_id: "T1".to_owned(),
            lane: lane.to_owned(),
            body: body.to_owned(),
        }
    }

    /// What a run may use of the tenant's and the agent's day: hard limits, in tokens and as many billionths.
    pub fn reservation(&self, asked: u64, limit: u64) -> Reservation {
        let line = |scope: String| BudgetLine {
            scope,
            period: "day:2026-02-23".to_owned(),
            max_tokens: Some(limit),
            max_cost: Some(Cost(limit)),
            hard: true,
        };
        let tenant = &self.tenant;
        let lines = vec![line(format!("tenant:{tenant}")), line(format!("agent:{tenant}:default:main"))];
        Reservation { tokens: asked, cost: Cost(asked), lines }
    }

    /// A call that used so many tokens, and cost as many billionths.
    pub fn call(&self, used: u64) -> NewCall {
        NewCall {
            id: self.id(),
            agent: parse("main"),
            session: Some(self.key("work")),
            purpose: "turn".to_owned(),
            provider: "offline".to_owned(),
            model: "echo".to_owned(),
            profile_id: Some("default".to_owned()),
            usage: Usage { input: used, cost: Cost(used), ..Usage::default() },
            estimated: false,
            outcome: "ok".to_owned(),
            started_at: self.now(),
            day: "2026-02-23".to_owned(),
        }
    }

    pub fn meter(&self, run: Option<RunId>, calls: Vec<NewCall>) -> Meter {
        Meter { run, calls, now: self.now() }
    }

    /// A credential that rests since its last failure.
    pub fn standing(&self, provider: &str, profile: &str) -> StandingRow {
        let now = self.now();
        StandingRow {
            provider: provider.to_owned(),
            profile_id: profile.to_owned(),
            errors: 2,
            reason: Some("rateLimit".to_owned()),
            cooldown_until: Some(now + 60_000),
            last_failure_at: Some(now),
            last_used_at: Some(now - 5_000),
            ..StandingRow::default()
        }
    }

    /// A question and its answer, without outgoing parts.
    pub fn completed(&self) -> Finish {
        let entries = vec![self.user("question"), self.assistant("answer")];
        Finish { entries, ..self.ending(Ending::Completed(origin())) }
    }

    pub fn failed(&self) -> Finish {
        self.ending(Ending::Failed(ErrorBody::new(ErrorCode::ModelUnavailable, "no model answers")))
    }

    /// An end that writes nothing to the log.
    pub fn ending(&self, ending: Ending) -> Finish {
        Finish {
            ending,
            entries: Vec::new(),
            calls: Vec::new(),
            parts: Vec::new(),
            announce: None,
            closes_session: false,
            context_tokens: None,
            principal: self.principal(),
            now: self.now(),
        }
    }

    /// A step that begins a tool, with the entries that lead to it.
    pub fn intent(&self, entries: Vec<NewEntry>) -> Step {
        let number = self.draw();
        let tool = NewToolRun {
            id: self.id(),
            call_id: format!("call-{number}"),
            tool_name: "fs.read".to_owned(),
            args: json!({"path": format!("notes/{number}.txt"), "lines": [1, 2.5, null, true], "deep": {"z": 1, "a": 2}}),
        };
        Step { entries, begun: vec![tool], now: self.now(), ..Step::default() }
    }

    /// A step that ends the tools that another one began.
    pub fn outcome(&self, intent: &Step, state: &ToolRunState, entries: Vec<NewEntry>) -> Step {
        let ended = intent.begun.iter().map(|tool| ToolOutcome {
            tool_run: tool.id,
            state: state.clone(),
            result: json!({"text": format!("read {}", self.draw())}),
        });
        Step { ended: ended.collect(), entries, now: self.now(), ..Step::default() }
    }

    /// A summary of everything before a line.
    pub fn compaction(&self, first_kept_seq: i64) -> NewCompaction {
        let compaction = Compaction {
            summary: format!("in short {}", self.draw()),
            first_kept_seq,
            tokens_before: 9_000,
            mechanical: false,
            files: FileTrail { read: vec!["notes.txt".to_owned()], modified: Vec::new() },
        };
        NewCompaction { id: self.id(), compaction, calls: Vec::new(), now: self.now() }
    }

    /// A fork of a log for a key.
    pub fn fork(&self, source: SessionId, after_seq: i64, key: &SessionKey) -> Fork {
        let new_session = NewSession { id: self.id(), alias: None };
        Fork { source, after_seq, key: key.clone(), new_session, now: self.now() }
    }
}

/// One commit for a result and what comes after it.
pub fn at_once(outcome: Step, next: Step) -> Step {
    let entries = [outcome.entries, next.entries].concat();
    Step { ended: outcome.ended, entries, ..next }
}

/// How long a question of [`Requests::approval`] may be answered.
pub const ASKED_FOR_MS: i64 = 300_000;

/// Calls that ask, and what is saved about them.
impl Requests {
    /// A call that touches a file, made by the tenant's owner.
    pub fn call_of_tool(&self, path: &str) -> Prepared {
        let requester = Requester {
            scope: self.scope(),
            session: self.key("work").to_string(),
            actor: self.principal().actor().to_owned(),
            root: "/work".to_owned(),
        };
        let id = format!("call-{}", self.draw());
        let args = json!({ "path": path, "text": "nul \0 and \u{202e}" });
        let call = ToolCall { id, name: "write".to_owned(), args, source: ToolSource::Model };
        let subjects = vec![Subject::new(SubjectKind::Path, path)];
        let preparation = Preparation { subjects, ..Preparation::default() };
        Prepared::new(call, requester, Risk::Write, false, preparation)
    }

    /// A question about a call, pending for five minutes.
    pub fn approval(&self, run: Option<RunId>) -> Approval {
        let call = self.call_of_tool(&format!("notes/{}.txt", self.draw()));
        let now = self.now();
        let question = Question {
            root: "/srv/work".to_owned(),
            tool: call.tool().to_owned(),
            args: call.args().clone(),
            plan: None,
            subjects: call.subjects().to_vec(),
            preview: Some("+ a line\n".to_owned()),
            reason: "tools.write asks".to_owned(),
            rule: AllowMatch::of(&call),
        };
        Approval::ask(self.id(), run, &call, question, now, now + ASKED_FOR_MS)
    }

    /// A saved rule for one command of the tenant's agent.
    pub fn allow_rule(&self, program: &str) -> AllowRule {
        let command = CommandMatch { program: program.to_owned(), args: vec!["log".to_owned()], open: true };
        AllowRule {
            id: self.id(),
            scope: self.scope(),
            tool: "exec".to_owned(),
            matches: AllowMatch::Commands(vec![command]),
            created_by: self.principal().actor().to_owned(),
            approval: None,
            created_at: self.now(),
            last_used_at: None,
        }
    }

    /// Somebody of the tenant who asked for nothing.
    pub fn approver(&self) -> Principal {
        Principal::of_run(self.tenant.clone(), "slack:T1:U2".to_owned())
    }
}

/// An owner that no store knows.
pub fn nobody() -> Owner {
    Owner { instance: Id::from_parts(0, [0; 10]), incarnation: 0 }
}

pub fn spec() -> RunSpec {
    RunSpec::new(
        "r1",
        vec![ModelRef { provider: "offline".to_owned(), model: "echo".to_owned() }],
        Limits::new(60_000, 12),
    )
}

pub fn origin() -> Origin {
    Origin {
        api: "offline".to_owned(),
        provider: "offline".to_owned(),
        model: "echo".to_owned(),
        profile_id: Some("default".to_owned()),
        route: "echo".to_owned(),
        stage: "adapter.stub.echo".to_owned(),
    }
}

pub fn usage() -> Usage {
    Usage { input: 11, output: 7, cache_read: 5, cache_write: 3, cost: Cost(42) }
}

pub fn channel_reply() -> ReplyTarget {
    ReplyTarget::Channel {
        channel: parse("slack"),
        account_id: "T1".to_owned(),
        target: OutboundTarget { peer_id: "U1".to_owned(), thread_id: None },
        in_reply_to: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_requests() {
        let (one, two) = (Requests::new("local", 7), Requests::new("local", 7));
        for _ in 0..3 {
            let key = one.key("work");
            assert_eq!(format!("{:?}", one.accept(&key)), format!("{:?}", two.accept(&key)));
            assert_eq!(format!("{:?}", one.completed()), format!("{:?}", two.completed()));
        }
        let other = Requests::new("local", 8);
        assert_ne!(one.id::<InboxId>(), other.id::<InboxId>());
    }

    #[test]
    fn no_two_requests_share_an_id_or_a_time() {
        let make = Requests::new("local", 1);
        let (one, two) = (make.accept(&make.key("work")), make.accept(&make.key("work")));
        assert_ne!(one.run.id, two.run.id);
        assert_ne!(one.new_session.id, two.new_session.id);
        assert!(one.now < two.now);
    }
}
