//! The one gate between a prepared call and a running one.

use crate::approval::Grant;
use crate::call::Prepared;
use crate::exec::Plan;
use crate::tools::{Circumstances, Decision, Pipeline, Verdict};

/// Lets calls through, or holds them. It is the only place where a [`Permitted`] comes from.
#[derive(Debug, Clone)]
pub struct Gate {
    pipeline: Pipeline,
}

/// A call that may run. Nothing outside this module can make one.
#[derive(Debug, Clone, PartialEq)]
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

/// The programs of a permitted call.
#[derive(Debug, Clone, Copy)]
pub struct PermittedPlan<'a>(&'a Plan);

impl Gate {
    pub fn new(pipeline: Pipeline) -> Self {
        Self { pipeline }
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

impl PermittedPlan<'_> {
    pub fn plan(&self) -> &Plan {
        self.0
    }
}
