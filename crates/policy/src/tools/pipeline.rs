//! The pipeline: all stages together, read once, and the decision about one call.

use std::borrow::Cow;
use std::collections::HashMap;

use tidegate_protocol::{AllowRuleId, Risk};

use super::condition::View;
use super::names::{self, BUILT_IN, Known, WEB, normalise};
use super::rule::RuleProblem;
use super::stage::{Base, CheckedStage, Named, Stage, Warning};
use super::{Circumstances, Decision, StageKind, StageSaid, Trust, Verdict};
use crate::approval::{AllowMatch, AllowRule};
use crate::call::{Prepared, Subject, SubjectKind};
use crate::exec::{Ask, ExecPolicy, Plan, destructive, judge};

/// What a pipeline is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolPolicy {
    pub base: Base,
    /// In any order; they are looked at in the order of their kinds.
    pub stages: Vec<Stage>,
    pub exec: ExecPolicy,
    /// What becomes of calls that start programs or change things elsewhere, where the exec stage does not decide.
    pub high_risk: Verdict,
    /// The tools there are besides those that are built in: from the configuration and from MCP servers.
    pub plugins: Vec<String>,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self {
            base: Base::default(),
            stages: Vec::new(),
            exec: ExecPolicy::default(),
            high_risk: Verdict::Ask,
            plugins: Vec::new(),
        }
    }
}

/// The stages in force for one agent in one session. What they say about each tool by its name is worked out when it is
/// built. The default one knows no tools and denies everything.
#[derive(Debug, Clone)]
pub struct Pipeline {
    stages: Vec<CheckedStage>,
    tools: HashMap<String, ToolStages>,
    exec: ExecPolicy,
    high_risk: Verdict,
    warnings: Vec<Warning>,
}

/// What is known about one tool.
#[derive(Debug, Clone)]
struct ToolStages {
    /// What each stage says by its name.
    named: Vec<Named>,
    /// For each stage, which of its rules are about this tool.
    rules: Vec<Vec<usize>>,
    web: bool,
    built_in: bool,
}

impl Default for Pipeline {
    fn default() -> Self {
        Self {
            stages: Vec::new(),
            tools: HashMap::new(),
            exec: ExecPolicy::default(),
            high_risk: Verdict::Ask,
            warnings: Vec::new(),
        }
    }
}

impl Pipeline {
    /// Reads a policy and tries the examples of its rules.
    pub fn new(policy: &ToolPolicy) -> Result<Self, RuleProblem> {
        let mut stages = vec![CheckedStage::base(&policy.base)];
        for stage in &policy.stages {
            stages.push(CheckedStage::new(stage)?);
        }
        stages.sort_by_key(|stage| stage.kind);
        let plugins: Vec<Cow<'_, str>> = policy.plugins.iter().map(|name| normalise(name)).collect();
        let known = known(&plugins);
        let warnings = stages.iter().flat_map(|stage| stage.warnings(&known)).collect();
        let tools =
            known.iter().map(|tool| (tool.name.to_owned(), ToolStages::new(&stages, *tool))).collect();
        Ok(Self { stages, tools, exec: policy.exec.clone(), high_risk: policy.high_risk, warnings })
    }

    /// Lists that do not do what whoever wrote them may think.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    pub fn exec(&self) -> &ExecPolicy {
        &self.exec
    }

    /// Those of some tools that a model is shown: not those that every call of would be denied for their name.
    pub fn tools<'a>(&self, names: impl IntoIterator<Item = &'a str>, trust: Trust) -> Vec<&'a str> {
        names.into_iter().filter(|name| self.shows(name, trust)).collect()
    }

    fn shows(&self, name: &str, trust: Trust) -> bool {
        self.tools.get(normalise(name).as_ref()).is_some_and(|tool| {
            tool.named.iter().all(|named| named.verdict != Verdict::Deny)
                && !(tool.web && trust == Trust::Sensitive)
        })
    }

    pub fn decide(&self, prepared: &Prepared, facts: &Circumstances<'_>) -> Decision {
        self.decide_with(&self.exec, prepared, facts)
    }

    /// What would be decided if commands asked only for what the allowlist does not cover. For questions that nobody
    /// answered: those of any other stage remain questions.
    pub(crate) fn decide_by_allowlist(&self, prepared: &Prepared, facts: &Circumstances<'_>) -> Decision {
        let exec = ExecPolicy { ask: Ask::OnMiss, confined: true, ..self.exec.clone() };
        self.decide_with(&exec, prepared, facts)
    }

    fn decide_with(&self, exec: &ExecPolicy, prepared: &Prepared, facts: &Circumstances<'_>) -> Decision {
        if let Some(found) = prepared.plan().and_then(destructive) {
            return Decision::denied(StageKind::Shipped, found.rule, found.reason);
        }
        let Some(tool) = self.tools.get(normalise(prepared.tool()).as_ref()) else {
            return Decision::denied(StageKind::Shipped, "unknown tool", "nobody knows this tool");
        };
        let mut hearing = Hearing::new();
        let call = View::of(prepared);
        for ((stage, named), rules) in self.stages.iter().zip(&tool.named).zip(&tool.rules) {
            hearing.stage(stage, named, rules, &call);
        }
        // Another tool is no way round what is said about the web: an image can be an address.
        if tool.built_in && !tool.web && reaches_out(prepared) {
            let fetching = self.tools.get(FETCH).map(|tool| tool.named.as_slice()).unwrap_or_default();
            for (stage, named) in self.stages.iter().zip(fetching) {
                hearing.fetching(stage.kind, named);
            }
        }
        if facts.trust == Trust::Sensitive && (tool.web || reaches_out(prepared)) {
            let reason = "this session is sensitive, and the tool reaches the network";
            hearing.hear(StageKind::Trust, Verdict::Deny, "sensitive session", reason);
        }
        match prepared.plan() {
            Some(plan) => hearing.commands(plan, exec, &saved_for(prepared, facts.allowed)),
            None if prepared.risk() == Risk::Execute => hearing.risk(self.high_risk),
            None => {}
        }
        hearing.close(prepared, facts.allowed)
    }
}

/// Whether what is asked leaves the machine, whatever risk the tool was given.
fn reaches_out(prepared: &Prepared) -> bool {
    let elsewhere = |subject: &Subject| matches!(subject.kind, SubjectKind::Host | SubjectKind::Url);
    prepared.risk() == Risk::Network || prepared.subjects().iter().any(elsewhere)
}

/// Every tool there is. A plugin does not take the name of one that is built in.
fn known<'a>(plugins: &'a [Cow<'a, str>]) -> Vec<Known<'a>> {
    let built_in = BUILT_IN.into_iter().map(|name| Known { name, built_in: true });
    let plugins = plugins.iter().map(|name| Known { name: name.as_ref(), built_in: false });
    built_in.chain(plugins.filter(|tool| !BUILT_IN.contains(&tool.name))).collect()
}

impl ToolStages {
    fn new(stages: &[CheckedStage], tool: Known<'_>) -> Self {
        let rules = stages.iter().map(|stage| {
            let rules = stage.rules.iter().enumerate();
            rules.filter(|(_, rule)| rule.tool.covers(tool)).map(|(index, _)| index).collect()
        });
        Self {
            named: stages.iter().map(|stage| stage.named(tool)).collect(),
            rules: rules.collect(),
            web: WEB.contains(&tool.name) || tool.name == names::BROWSER,
            built_in: tool.built_in,
        }
    }
}

/// What every tool that reaches the web is held to.
const FETCH: &str = "web_fetch";

/// Room for what all kinds of stages say, so that a decision allocates its trail once.
const USUAL_TRAIL: usize = 12;

/// What was said about a call so far.
struct Hearing<'a> {
    trail: Vec<StageSaid>,
    /// The first of the strictest. When all allow it, the exec stage if it was asked, which knows more than a name.
    deciding: Option<Said<'a>>,
    asked: Asked,
    /// Whether the exec stage could save its question.
    exec_can_be_saved: bool,
    /// The saved rule that covered a command.
    covered_by: Option<AllowRuleId>,
}

struct Said<'a> {
    stage: StageKind,
    verdict: Verdict,
    rule: Cow<'a, str>,
    reason: Cow<'a, str>,
}

/// Who put a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Asked {
    /// A mode or the tool's risk.
    by_name: bool,
    by_rule: bool,
    by_exec: bool,
}

impl<'a> Hearing<'a> {
    fn new() -> Self {
        Self {
            trail: Vec::with_capacity(USUAL_TRAIL),
            deciding: None,
            asked: Asked::default(),
            exec_can_be_saved: false,
            covered_by: None,
        }
    }

    fn stage(&mut self, stage: &'a CheckedStage, named: &'a Named, rules: &[usize], call: &View<'_>) {
        self.asked.by_name |= named.verdict == Verdict::Ask;
        let (mut verdict, mut rule, mut reason) = (named.verdict, &named.rule, named.reason.as_str());
        for checked in rules.iter().map(|index| &stage.rules[*index]) {
            let Some(said) = checked.says(call) else { continue };
            self.asked.by_rule |= said.verdict == Verdict::Ask;
            if said.verdict > verdict {
                (verdict, rule, reason) = (said.verdict, &checked.at, said.reason);
            }
        }
        self.hear(stage.kind, verdict, rule.as_str(), reason);
    }

    fn risk(&mut self, high_risk: Verdict) {
        self.asked.by_name |= high_risk == Verdict::Ask;
        let reason = "it starts programs or changes things elsewhere";
        self.hear(StageKind::Risk, high_risk, "tools.highRisk", reason);
    }

    fn commands(&mut self, plan: &Plan, policy: &ExecPolicy, allowed: &[AllowRule]) {
        let said = judge(plan, policy, allowed);
        self.asked.by_exec = said.verdict == Verdict::Ask;
        self.exec_can_be_saved = said.can_be_saved;
        if said.verdict == Verdict::Allow {
            self.covered_by = said.covered.into_iter().flatten().next();
        }
        self.hear(StageKind::Exec, said.verdict, said.rule, said.reason);
    }

    /// What a stage says about fetching, for a call of another tool that fetches.
    fn fetching(&mut self, stage: StageKind, named: &'a Named) {
        if named.verdict == Verdict::Allow {
            return;
        }
        self.asked.by_name |= named.verdict == Verdict::Ask;
        let reason = format!("it fetches from the network, and about `{FETCH}`: {}", named.reason);
        self.hear(stage, named.verdict, named.rule.as_str(), reason);
    }

    fn hear(
        &mut self,
        stage: StageKind,
        verdict: Verdict,
        rule: impl Into<Cow<'a, str>>,
        reason: impl Into<Cow<'a, str>>,
    ) {
        let said = Said { stage, verdict, rule: rule.into(), reason: reason.into() };
        self.trail.push(StageSaid { stage, verdict, rule: said.rule.clone().into_owned() });
        let decides = self.deciding.as_ref().is_none_or(|deciding| verdict > deciding.verdict);
        if decides || stage == StageKind::Exec && self.verdict() == Verdict::Allow {
            self.deciding = Some(said);
        }
    }

    fn verdict(&self) -> Verdict {
        self.deciding.as_ref().map_or(Verdict::Deny, |said| said.verdict)
    }

    fn close(mut self, prepared: &Prepared, allowed: &[AllowRule]) -> Decision {
        let can_be_named = prepared.can_be_named();
        let only_named = self.asked == Asked { by_name: true, ..Asked::default() };
        let only_exec = self.asked == Asked { by_exec: true, ..Asked::default() };
        let asks = self.verdict() == Verdict::Ask;
        let mut allowed_by = self.covered_by;
        if asks
            && only_named
            && can_be_named
            && let Some(rule) = saved_yes(prepared, allowed)
        {
            let name = format!("approvals.allowlist[{}]", rule.id);
            self.deciding = None;
            self.hear(StageKind::Saved, Verdict::Allow, name, "somebody said yes to exactly this for good");
            allowed_by = Some(rule.id);
        }
        let verdict = self.verdict();
        let asks = verdict == Verdict::Ask;
        let saveable = only_named && can_be_named || only_exec && self.exec_can_be_saved;
        let Some(said) = self.deciding else {
            return Decision::denied(StageKind::Shipped, "default", "no stage grants this tool");
        };
        Decision {
            verdict,
            stage: said.stage,
            rule: said.rule.into_owned(),
            reason: said.reason.into_owned(),
            can_be_saved: asks && saveable,
            allowed_by: allowed_by.filter(|_| verdict == Verdict::Allow),
            trail: self.trail,
        }
    }
}

/// The saved rules of this agent for this tool.
fn saved_for<'a>(prepared: &Prepared, allowed: &'a [AllowRule]) -> Cow<'a, [AllowRule]> {
    if allowed.iter().all(|rule| is_for(rule, prepared)) {
        return Cow::Borrowed(allowed);
    }
    Cow::Owned(allowed.iter().filter(|rule| is_for(rule, prepared)).cloned().collect())
}

fn is_for(rule: &AllowRule, prepared: &Prepared) -> bool {
    rule.scope == prepared.requester().scope && normalise(&rule.tool) == normalise(prepared.tool())
}

/// The saved rule for a call that touches exactly what this one touches.
fn saved_yes<'a>(prepared: &Prepared, allowed: &'a [AllowRule]) -> Option<&'a AllowRule> {
    allowed.iter().filter(|rule| is_for(rule, prepared)).find(|rule| match &rule.matches {
        AllowMatch::Subjects(subjects) => same_set(subjects, prepared.subjects()),
        AllowMatch::Commands(_) => false,
    })
}

fn same_set(left: &[Subject], right: &[Subject]) -> bool {
    left.iter().all(|subject| right.contains(subject)) && right.iter().all(|subject| left.contains(subject))
}
