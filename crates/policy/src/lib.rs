//! Who may do what. Pure: decisions from facts that were loaded elsewhere, no I/O and no clock.
//!
//! It holds the principal, which models may be used and how budgets are judged; roles, tool rules and approvals join it
//! with the code that needs them.

mod budget;
mod models;
mod principal;

pub use budget::{
    BudgetExcess, BudgetLine, BudgetMeasure, BudgetRefusal, BudgetUse, BudgetVerdict, Reservation,
};
pub use models::{ModelPolicies, ModelPolicy, ModelVerdict};
pub use principal::Principal;
