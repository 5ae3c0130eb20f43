//! The one gate between a prepared call and a running one.

use std::sync::Arc;

use crate::approval::Grant;
use crate::call::Prepared;
use crate::exec::{AskFallback, Plan};
use crate::tools::{Circumstances, Decision, Pipeline, Verdict};

/// Lets calls through, or holds them. It is the only place where a [`Permitted`] comes from.
#[derive(Debug, Clone)]
pub struct Gate {
    pipeline: Arc<Pipeline>,
}

/// A call that may run. Nothing outside this module can make one: its fields are private and it comes from nowhere but
/// the [`Gate`]. It is not cloned: one yes, one run.
///
/// ```compile_fail,E0451
/// fn forge(prepared: tidegate_policy::Prepared, decision: tidegate_policy::tools::Decision) {
///     let _ = tidegate_policy::Permitted { prepared, decision };
/// }
/// ```
///
/// What it is made of can be had, and only looked at:
///
/// ```
/// fn look(permitted: &tidegate_policy::Permitted) -> &tidegate_policy::Prepared {
///     permitted.prepared()
/// }
/// ```
#[derive(Debug, PartialEq)]
pub struct Permitted {
    prepared: Prepared,
    decision: Decision,
}

/// A call that may not run, or not yet.
#[derive(Debug, Clone, PartialEq)]
pub enum Held {
    Denied(Decision),
    /// Somebody has to say yes to exactly this.
    Asks(Box<Prepared>, Decision),
}

/// The programs of a permitted call. A plan alone does not make one:
///
/// ```compile_fail,E0423
/// fn forge(plan: &tidegate_policy::exec::Plan) {
///     let _ = tidegate_policy::PermittedPlan(plan);
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct PermittedPlan<'a>(&'a Plan);

impl Gate {
    /// Many gates may share one pipeline.
    pub fn new(pipeline: impl Into<Arc<Pipeline>>) -> Self {
        Self { pipeline: pipeline.into() }
    }

    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Permits what the rules allow by themselves.
    pub fn permit(&self, prepared: Prepared, facts: &Circumstances<'_>) -> Result<Permitted, Held> {
        let decision = self.pipeline.decide(&prepared, facts);
        match decision.verdict {
            Verdict::Allow => Ok(Permitted { prepared, decision }),
            Verdict::Ask => Err(Held::Asks(Box::new(prepared), decision)),
            Verdict::Deny => Err(Held::Denied(decision)),
        }
    }

    /// Permits what somebody approved, if it is still exactly that and no rule has come to forbid it since.
    #[expect(clippy::needless_pass_by_value, reason = "a grant is good for one call")]
    pub fn permit_approved(
        &self,
        prepared: Prepared,
        grant: Grant,
        facts: &Circumstances<'_>,
    ) -> Result<Permitted, Decision> {
        let decision = self.pipeline.decide(&prepared, facts);
        if decision.verdict == Verdict::Deny {
            return Err(decision);
        }
        if grant.digest() != prepared.digest() {
            return Err(Decision::changed_since_approval());
        }
        Ok(Permitted { prepared, decision })
    }

    /// What becomes of a question that nobody answered in time: with [`AskFallback::Allowlist`], a command runs if the
    /// allowlist covers it and only the exec stage had asked. Everything else is denied.
    pub fn permit_unanswered(
        &self,
        prepared: Prepared,
        facts: &Circumstances<'_>,
    ) -> Result<Permitted, Decision> {
        let (prepared, decision) = match self.permit(prepared, facts) {
            Ok(permitted) => return Ok(permitted),
            Err(Held::Denied(decision)) => return Err(decision),
            Err(Held::Asks(prepared, decision)) => (*prepared, decision),
        };
        if self.pipeline.exec().fallback == AskFallback::Allowlist {
            // Without a plan nothing is decided differently, and it still asks.
            let fallback = self.pipeline.decide_by_allowlist(&prepared, facts);
            if fallback.verdict == Verdict::Allow {
                return Ok(Permitted { prepared, decision: fallback });
            }
        }
        Err(decision.unanswered())
    }
}

impl Permitted {
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Why it was let through.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    pub fn plan(&self) -> Option<PermittedPlan<'_>> {
        self.prepared.plan().map(PermittedPlan)
    }
}

impl<'a> PermittedPlan<'a> {
    /// What the operator wrote into the configuration to be started, such as a server of tools. Whoever wrote it there
    /// permitted it; nothing in it may come from a model, a page or a message.
    pub fn of_operator(plan: &'a Plan) -> Self {
        Self(plan)
    }

    pub fn plan(&self) -> &Plan {
        self.0
    }
}

#[cfg(test)]
mod tests;
