//! Who may do what. Pure: decisions from facts that were loaded elsewhere, no I/O and no clock.
//!
//! A tool call goes three steps, each with its own type. It is [`Prepared`]: the tool said exactly what it would do.
//! It is [`Permitted`]: the [`Gate`] let it through, by rule or with somebody's [`Grant`]; nothing else can build that
//! type. Then it runs, and what runs is what was permitted: the plan inside is the only thing a [`Runner`] takes.

pub mod approval;
mod budget;
mod call;
mod confinement;
mod digest;
mod egress;
pub mod exec;
mod gate;
pub mod inert;
mod models;
mod principal;
mod runner;
pub mod tools;

pub use budget::{
    BudgetExcess, BudgetLine, BudgetMeasure, BudgetRefusal, BudgetUse, BudgetVerdict, Reservation,
};
pub use call::{Preparation, Prepared, Requester, Subject, SubjectKind};
pub use confinement::{Access, Besides, Confinement, Confiner, Limits, Network, Only, Profile};
pub use digest::Digest;
pub use egress::{BadHostPattern, HostLevel, HostPattern, HostRefusal, HostRules};
pub use gate::{Gate, Held, Permitted, PermittedPlan};
pub use models::{ModelPolicies, ModelPolicy, ModelVerdict};
pub use principal::Principal;
pub use runner::{Exit, PtySize, Refusal, Refused, Resource, RunError, Runner, Running, Sink, Start, Stream};
