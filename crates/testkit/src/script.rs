//! Scripts: a small world, then one verb on it. The same script gives the same rows in every process, so a killed
//! process can be compared with one that was not.

mod agent;
mod approvals;

use tidegate_protocol::{InstanceId, JoinMode, OutboxId, SendOutcome, SessionKey, TenantId, ToolRunState};
use tidegate_storage::{
    Accept, Admission, Finish, Idempotency, Lease, MirrorPosition, NewSession, NextSend, Owner, Result,
    Sending, SessionChoice, Step, Store, StoreError, Sweep,
};

use crate::requests::Requests;

/// How long an owner may be silent: longer than any script takes.
pub const TTL: i64 = 3_600_000;

/// What the scripts' budgets allow in a day.
const ROOM: u64 = 500;

/// Takes the next part that may go out, whatever its lane.
pub async fn next_send(
    store: &dyn Store,
    tenant: &TenantId,
    owner: &Owner,
    now: i64,
) -> Result<Option<Sending>> {
    for lane in store.lanes(tenant, u32::MAX).await? {
        if let NextSend::Granted(sending) = store.claim_send(tenant, owner, &lane.name, TTL, now).await? {
            return Ok(Some(sending));
        }
    }
    Ok(None)
}

/// A verb whose commit a test interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Accept,
    Claim,
    Step,
    Compact,
    Absorb,
    NoteFlush,
    Finish,
    Abort,
    Fork,
    SetTitle,
    SetSessionSettings,
    DeleteSession,
    ClaimSend,
    SettleSend,
    Enlist,
    Heartbeat,
    Recover,
    NoteMirrored,
    Ingest,
    Release,
    RetrySend,
    DropSend,
    NoteTold,
    Sweep,
    Seal,
    Meter,
    NoteStanding,
    ClearStandings,
    RequestApproval,
    DecideApproval,
    UseApproval,
    CancelApprovals,
    ExpireApprovals,
    SaveAllowRule,
    RemoveAllowRule,
    TouchAllowRule,
    AuditTool,
    AuditEvent,
    KeepAnswer,
    /// Opening a store that is empty: the verb of the migrator.
    Migrate,
}

impl Verb {
    pub const ALL: &'static [Verb] = &[
        Verb::Accept,
        Verb::Claim,
        Verb::Step,
        Verb::Compact,
        Verb::Absorb,
        Verb::NoteFlush,
        Verb::Finish,
        Verb::Abort,
        Verb::Fork,
        Verb::SetTitle,
        Verb::SetSessionSettings,
        Verb::DeleteSession,
        Verb::ClaimSend,
        Verb::SettleSend,
        Verb::Enlist,
        Verb::Heartbeat,
        Verb::Recover,
        Verb::NoteMirrored,
        Verb::Ingest,
        Verb::Release,
        Verb::RetrySend,
        Verb::DropSend,
        Verb::NoteTold,
        Verb::Sweep,
        Verb::Seal,
        Verb::Meter,
        Verb::NoteStanding,
        Verb::ClearStandings,
        Verb::RequestApproval,
        Verb::DecideApproval,
        Verb::UseApproval,
        Verb::CancelApprovals,
        Verb::ExpireApprovals,
        Verb::SaveAllowRule,
        Verb::RemoveAllowRule,
        Verb::TouchAllowRule,
        Verb::AuditTool,
        Verb::AuditEvent,
        Verb::KeepAnswer,
        Verb::Migrate,
    ];

    /// The name in fault points: `storage.<verb>.before_commit`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Claim => "claim",
            Self::Step => "step",
            Self::Compact => "compact",
            Self::Absorb => "absorb",
            Self::NoteFlush => "note_flush",
            Self::Finish => "finish",
            Self::Abort => "abort",
            Self::Fork => "fork",
            Self::SetTitle => "set_title",
            Self::SetSessionSettings => "set_session_settings",
            Self::DeleteSession => "delete_session",
            Self::ClaimSend => "claim_send",
            Self::SettleSend => "settle_send",
            Self::Enlist => "enlist",
            Self::Heartbeat => "heartbeat",
            Self::Recover => "recover",
            Self::NoteMirrored => "note_mirrored",
            Self::Ingest => "ingest",
            Self::Release => "release",
            Self::RetrySend => "retry_send",
            Self::DropSend => "drop_send",
            Self::NoteTold => "note_told",
            Self::Sweep => "sweep",
            Self::Seal => "seal",
            Self::Meter => "meter",
            Self::NoteStanding => "note_standing",
            Self::KeepAnswer => "keep_answer",
            Self::ClearStandings => "clear_standings",
            Self::RequestApproval => "request_approval",
            Self::DecideApproval => "decide_approval",
            Self::UseApproval => "use_approval",
            Self::CancelApprovals => "cancel_approvals",
            Self::ExpireApprovals => "expire_approvals",
            Self::SaveAllowRule => "save_allow_rule",
            Self::RemoveAllowRule => "remove_allow_rule",
            Self::TouchAllowRule => "touch_allow_rule",
            Self::AuditTool => "audit_tool",
            Self::AuditEvent => "audit_event",
            Self::Migrate => "migrate",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|verb| verb.as_str() == text)
    }
}

/// What a verb answered, in words; whoever plays a script is told after each commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    pub verb: Verb,
    pub answer: String,
}

/// One verb in one tenant. Two tenants with the same seed hold the same rows, apart from the names of the tenant and
/// of the instance that wrote them.
#[derive(Debug)]
pub struct Script {
    pub verb: Verb,
    pub seed: u64,
    pub instance: InstanceId,
    requests: Requests,
}

/// What stands before the verb: a conversation, a run with a tool under way, one waiting to join it, one waiting in an
/// idle session, a session without open runs, a part that is being sent, a question of the run under way and a saved
/// rule.
#[derive(Debug)]
pub struct World {
    pub owner: Owner,
    pub under_way: Lease,
    tool: Step,
    side: SessionKey,
    ended: SessionKey,
    mirrored: Lease,
    sending: Sending,
    /// The part behind it.
    waiting_part: OutboxId,
    asked: approvals::Asked,
}

impl Script {
    pub fn new(tenant: &str, verb: Verb, seed: u64) -> Self {
        // The tenant's name makes the instance: recovery looks at all tenants of one.
        let salt =
            tenant.bytes().fold(seed, |salt, byte| salt.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let instance = Requests::new(tenant, salt).id();
        Self { verb, seed, instance, requests: Requests::new(tenant, seed) }
    }

    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Builds the world, telling `ack` about each commit.
    pub async fn prepare(&self, store: &dyn Store, ack: &mut (dyn FnMut(Ack) + Send)) -> Result<World> {
        let make = &self.requests;
        let mut tell =
            |verb: Verb, answer: &dyn std::fmt::Debug| ack(Ack { verb, answer: format!("{answer:?}") });
        let (work, side, ended) = (make.key("work"), make.key("side"), make.key("ended"));

        let owner = store.enlist(self.instance, make.now()).await?;
        tell(Verb::Enlist, &owner);
        make.set_owner(owner);

        let first = Accept {
            claim: true,
            idempotency: Some(make.idempotency("first", "first")),
            new_session: NewSession { id: make.id(), alias: Some(format!("lc-{}", self.seed)) },
            reservation: Some(make.reservation(50, ROOM)),
            ..make.accept_from_channel(&work)
        };
        let mirrored = claimed(store, first, &mut tell).await?;
        let tool = make.intent(vec![make.user("first"), make.assistant("let me look")]);
        store.step(&mirrored, tool.clone()).await?;
        tell(Verb::Step, &());
        let outcome = make.outcome(&tool, &ToolRunState::Succeeded, vec![make.user("result")]);
        store.step(&mirrored, outcome).await?;
        tell(Verb::Step, &());
        let parts =
            vec![make.part("slack:U1", "one"), make.part("slack:U1", "two"), make.part("slack:U2", "copy")];
        let waiting_part = parts[1].id;
        let calls = vec![make.call(30)];
        let answer = store.finish(&mirrored, Finish { calls, parts, ..make.completed() }).await?;
        tell(Verb::Finish, &answer);

        let reservation = Some(make.reservation(50, ROOM));
        let second = Accept { claim: true, reservation, ..make.accept_from_channel(&work) };
        let under_way = claimed(store, second, &mut tell).await?;
        let tool = make.intent(vec![make.user("second")]);
        store.step(&under_way, tool.clone()).await?;
        tell(Verb::Step, &());
        let mut joining = make.accept(&work);
        joining.run.join = Some(JoinMode::Steer);
        for waiting in [joining, make.accept_from_channel(&side)] {
            let reservation = Some(make.reservation(40, ROOM));
            tell(Verb::Accept, &store.accept(Accept { reservation, ..waiting }).await?);
        }

        let short = claimed(store, Accept { claim: true, ..make.accept(&ended) }, &mut tell).await?;
        let answer = store.finish(&short, make.completed()).await?;
        tell(Verb::Finish, &answer);

        let sending = store.claim_send(make.tenant(), &owner, "slack:U1", TTL, make.now()).await?;
        tell(Verb::ClaimSend, &sending);
        let NextSend::Granted(sending) = sending else {
            return Err(StoreError::Internal(format!("a part waits, and yet: {sending:?}")));
        };

        let asked = approvals::prepare(self.verb, store, make, under_way.run, &mut tell).await?;
        let mut owner = owner;
        match self.verb {
            Verb::Recover => {
                // What was claimed so far belongs to a dead incarnation now.
                owner = store.enlist(self.instance, make.now()).await?;
                tell(Verb::Enlist, &owner);
            }
            Verb::RetrySend | Verb::NoteTold => {
                let outcome = SendOutcome::Rejected { reason: "not allowed".to_owned() };
                tell(Verb::SettleSend, &store.settle_send(&sending, outcome, make.now()).await?);
            }
            Verb::Sweep => {
                let passing = Accept {
                    claim: true,
                    ephemeral: true,
                    idempotency: Some(make.idempotency("passing", "passing")),
                    ..make.accept(&make.key("passing"))
                };
                let passing = claimed(store, passing, &mut tell).await?;
                tell(Verb::Finish, &store.finish(&passing, make.completed()).await?);
            }
            Verb::Abort => agent::start_others(store, make, under_way.run, &mut tell).await?,
            Verb::DeleteSession => {
                // Somebody else still reads its beginning.
                let fork = make.fork(short.session, 1, &make.key("heir"));
                tell(Verb::Fork, &store.fork(&make.principal(), fork).await?);
            }
            Verb::Meter => {
                tell(Verb::Abort, &store.abort(&make.principal(), under_way.run, make.now()).await?);
            }
            Verb::ClearStandings => {
                for profile in ["one", "two"] {
                    store.note_standing(make.tenant(), make.standing("offline", profile)).await?;
                    tell(Verb::NoteStanding, &());
                }
            }
            _ => {}
        }
        Ok(World { owner, under_way, tool, side, ended, mirrored, sending, waiting_part, asked })
    }

    /// Plays the verb on the world.
    pub async fn perform(
        &self,
        store: &dyn Store,
        world: &World,
        ack: &mut (dyn FnMut(Ack) + Send),
    ) -> Result<()> {
        let make = &self.requests;
        let World { owner, under_way: lease, .. } = world;
        let odd = self.seed % 2 == 1;
        let answer: Box<dyn std::fmt::Debug + Send> = match self.verb {
            Verb::Accept => {
                // Behind another run, or claimed in the same commit.
                let key = if odd { world.side.clone() } else { make.key("new") };
                let accept = Accept {
                    claim: true,
                    session: SessionChoice::Fresh,
                    idempotency: Some(make.idempotency("last", "last")),
                    // There is room for it, or there is not.
                    reservation: Some(make.reservation(if self.seed == 2 { ROOM } else { 20 }, ROOM)),
                    ..make.accept_from_channel(&key)
                };
                Box::new(store.accept(accept).await?)
            }
            Verb::Claim => Box::new(store.claim(&world.side, owner, 60_000, make.now()).await?),
            Verb::Finish => Box::new(store.finish(lease, agent::finish(make, self.seed, &world.side)).await?),
            Verb::Abort => Box::new(store.abort(&make.principal(), lease.run, make.now()).await?),
            Verb::DeleteSession => {
                Box::new(store.delete_session(&make.principal(), &world.ended, make.now()).await?)
            }
            Verb::ClaimSend => {
                Box::new(store.claim_send(make.tenant(), owner, "slack:U2", TTL, make.now()).await?)
            }
            Verb::SettleSend => {
                let now = make.now();
                let outcome = match self.seed % 4 {
                    0 => SendOutcome::Sent { id: "remote-1".to_owned() },
                    1 => SendOutcome::NotSent { retry_at: now + 5_000, reason: "slow down".to_owned() },
                    2 => SendOutcome::Rejected { reason: "not allowed".to_owned() },
                    _ => SendOutcome::Unknown { reason: "connection lost".to_owned() },
                };
                Box::new(store.settle_send(&world.sending, outcome, now).await?)
            }
            Verb::Enlist => Box::new(store.enlist(self.instance, make.now()).await?),
            Verb::Heartbeat => Box::new(store.heartbeat(owner, make.now()).await?),
            Verb::Recover => Box::new(store.recover(owner, make.now()).await?),
            Verb::NoteMirrored => {
                let position = MirrorPosition { seq: 2, bytes: 512, checksum: -512 };
                Box::new(store.note_mirrored(make.tenant(), world.mirrored.session, position).await?)
            }
            Verb::Ingest => {
                // The second message came twice.
                let ingest = make.ingest(&world.side, &[1, 2, 2], Some("cursor-2"));
                Box::new(store.ingest(ingest).await?)
            }
            Verb::Release => Box::new(store.release(lease, make.now()).await?),
            Verb::RetrySend => {
                Box::new(store.retry_send(&make.principal(), world.sending.id, make.now()).await?)
            }
            Verb::DropSend => {
                Box::new(store.drop_send(&make.principal(), world.waiting_part, make.now()).await?)
            }
            Verb::NoteTold => {
                Box::new(store.note_told(make.tenant(), &[world.sending.id], make.now()).await?)
            }
            Verb::Sweep => {
                // Late enough for everything that may go.
                let now = make.now() + 2 * TTL;
                let sweep = Sweep {
                    now,
                    settled_before: now,
                    untold_before: i64::MIN,
                    pending_before: now,
                    ephemeral_before: now,
                    calls_before: now,
                    limit: 100,
                };
                Box::new(store.sweep(make.tenant(), sweep).await?)
            }
            Verb::Seal => Box::new(store.seal(make.tenant(), 2, make.now()).await?),
            Verb::Meter => {
                let meter = make.meter(Some(lease.run), vec![make.call(7), make.call(8)]);
                Box::new(store.meter(make.tenant(), meter).await?)
            }
            Verb::KeepAnswer => {
                let (key, now) = (Idempotency::new("key", b"request", i64::MAX), make.now());
                Box::new(store.keep_answer(make.tenant(), key, "answer".to_owned(), now).await?)
            }
            Verb::NoteStanding => {
                Box::new(store.note_standing(make.tenant(), make.standing("offline", "one")).await?)
            }
            Verb::ClearStandings => {
                let profile = odd.then_some("one");
                Box::new(store.clear_standings(make.tenant(), "offline", profile).await?)
            }
            // Done by opening the store.
            Verb::Migrate => Box::new(()),
            Verb::Step
            | Verb::Compact
            | Verb::Absorb
            | Verb::NoteFlush
            | Verb::Fork
            | Verb::SetTitle
            | Verb::SetSessionSettings => agent::perform(self.verb, store, make, self.seed, world).await?,
            about_approvals => {
                approvals::perform(about_approvals, store, make, self.seed, &world.asked).await?
            }
        };
        ack(Ack { verb: self.verb, answer: format!("{answer:?}") });
        Ok(())
    }
}

async fn claimed(
    store: &dyn Store,
    accept: Accept,
    tell: &mut (dyn FnMut(Verb, &dyn std::fmt::Debug) + Send),
) -> Result<Lease> {
    let accepted = store.accept(accept).await?;
    tell(Verb::Accept, &accepted);
    match accepted.admission {
        Admission::Claimed(lease) => Ok(lease),
        other => Err(StoreError::Internal(format!("the session was idle, and yet: {other:?}"))),
    }
}
