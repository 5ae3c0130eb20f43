//! The verbs of durable state. Each is one transaction; there is no CRUD and no transaction handle out here.
//!
//! Two crates implement them, `storage-sqlite` and `storage-postgres`; one conformance suite in `testkit` holds both
//! to the same promises. The traits are small and named after who calls them: the engine accepts, claims and finishes
//! runs, the run itself only sees its [`Journal`].

mod accept;
mod approval;
mod audit;
mod budget;
mod error;
mod finish;
mod inbox;
mod instance;
mod join;
mod journal;
mod keys;
mod lease;
mod ledger;
mod library;
mod mirror;
mod outbox;
mod session;
mod standing;
mod sweep;
mod version;

pub use accept::{
    Accept, Accepted, Admission, Claim, Idempotency, NewRun, NewSession, SessionChoice, Waiting,
};
pub use approval::{
    ApprovalFilter, Approvals, AuditEvent, AuditNote, Cancelled, DecideApproval, DecidedApproval, Deciding,
    ToolRecord, UsedApproval, use_stored,
};
pub use audit::{AuditContent, AuditTrail, Break, Seal, SealedRow, check, new_salt};
pub use budget::{
    AfterMeter, Booking, BudgetChange, BudgetChanges, BudgetFilter, BudgetKey, BudgetRow, MeteredRun,
    Reserved, Settled, countable, first_that_fits, forgotten_periods,
};
pub use error::{Result, StoreError};
pub use finish::{AbortOutcome, Ending, Finish, Finished, Runs};
pub use inbox::{Inbox, Ingest};
pub use instance::{Instances, Recovered, SettledRun, after_crash};
pub use join::{JoinHost, Joiner};
pub use journal::{
    Absorb, Absorbed, Context, ContextLimits, ContextReader, Journal, MOST_ABSORBED, NewCompaction, NewEntry,
    NewToolRun, PICTURE_BYTES, Step, ToolOutcome,
};
pub use keys::Keys;
pub use lease::{Fence, Lease, Owner};
pub use ledger::{Ledger, Meter, NewCall, UsageFilter, UsageGroup, UsageRow};
pub use library::{
    AuditRow, Library, OutboxFilter, OutboxRow, RunFilter, RunLookup, RunRow, SessionFilter, SessionRow,
    StoreStatus, ToolRunRow,
};
pub use mirror::{Mirror, MirrorPosition, MirrorTask};
pub use outbox::{Decided, Lane, NewPart, NextSend, Outbox, OutboxState, Sending};
pub use session::{Fork, Forked, Search, Sessions, title_of};
pub use standing::{StandingRow, Standings};
pub use sweep::{Sweep, Sweeper, Swept};
pub use version::{MIN_READER, MIN_WRITER, Migration, SCHEMA, SchemaFit, StoredVersion, judge};

/// Approvals, whose verbs take and answer them.
pub use tidegate_policy::approval::{
    AllowMatch, AllowRule, Answered, Approval, ApprovalState, GRACE_MS as APPROVAL_GRACE_MS, OwnCalls,
    Question,
};
/// Whose deed a write is, and what it may use; the verbs take and answer them, so they come with them.
pub use tidegate_policy::{
    BudgetExcess, BudgetLine, BudgetMeasure, BudgetRefusal, BudgetUse, Digest, Principal, Reservation,
};

/// How often a run or a send may take the process down with it before it is given up.
pub const POISON_CRASHES: u32 = 3;

/// Everything a backend offers.
pub trait Store:
    Instances
    + Inbox
    + Runs
    + Journal
    + Outbox
    + Mirror
    + Library
    + Sweeper
    + AuditTrail
    + Ledger
    + Standings
    + Approvals
    + Sessions
    + Keys
{
}

impl<T> Store for T where
    T: Instances
        + Inbox
        + Runs
        + Journal
        + Outbox
        + Mirror
        + Library
        + Sweeper
        + AuditTrail
        + Ledger
        + Standings
        + Approvals
        + Sessions
        + Keys
{
}
