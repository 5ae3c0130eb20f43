//! What a run reserves of the budgets it belongs to.

use tidegate_config::schema::Budget;
use tidegate_policy::{BudgetLine, Reservation};
use tidegate_protocol::{AgentId, Cost, Limits, RunSpec, Scope, Usage};

use super::Settings;

/// Tokens an answer may have at most under a budget, when the configuration does not say: some models would write four
/// times as many, and that much would have to be reserved for each run.
const MOST_OUTPUT: u32 = 32_000;
/// An answer shorter than this is none.
const SHORTEST_OUTPUT: u32 = 256;

impl Settings {
    /// What a run asks of its budgets: the dearest model of its chain, the input as it may be counted, and the longest
    /// answer it may get. Nothing when no budget applies.
    pub fn reservation(&self, scope: &Scope, spec: &RunSpec, input: u64, now: i64) -> Option<Reservation> {
        let lines = self.budget_lines(scope, now);
        if lines.is_empty() {
            return None;
        }
        let (tokens, mut cost) = self.dearest(spec, input);
        if let Some(most) = spec.limits.max_cost {
            cost = cost.min(most);
        }
        Some(Reservation { tokens, cost, lines })
    }

    /// The most tokens and the most money a run may use.
    fn dearest(&self, spec: &RunSpec, input: u64) -> (u64, Cost) {
        let (mut tokens, mut cost) = (0, Cost(0));
        for model in &spec.models {
            let Some(info) = self.catalogue.model(model) else { continue };
            let thinking = spec.thinking.unwrap_or_default();
            let output = u64::from(info.longest_answer(spec.limits.max_tokens, thinking));
            tokens = tokens.max(input.saturating_add(output));
            let price = info.price.unwrap_or_default();
            // Cached input may cost more than plain input the first time.
            let dearest = Usage { input, output, ..Usage::default() };
            let written = Usage { cache_write: input, output, ..Usage::default() };
            cost = cost.max(price.of(&dearest)).max(price.of(&written));
        }
        (tokens, cost)
    }

    /// Limits under which a run fits what is left, if that is enough for its input and a short answer.
    pub fn shortened(
        &self,
        spec: &RunSpec,
        input: u64,
        tokens: Option<u64>,
        cost: Option<Cost>,
    ) -> Option<Limits> {
        let mut limits = spec.limits;
        if let Some(left) = tokens {
            let output = left.checked_sub(input).filter(|output| *output >= u64::from(SHORTEST_OUTPUT))?;
            let output = u32::try_from(output).unwrap_or(u32::MAX);
            limits.max_tokens = Some(limits.max_tokens.map_or(output, |most| most.min(output)));
        }
        if let Some(left) = cost {
            let shortest =
                RunSpec { limits: Limits { max_tokens: Some(SHORTEST_OUTPUT), ..limits }, ..spec.clone() };
            if self.dearest(&shortest, input).1 > left {
                return None;
            }
            limits.max_cost = Some(limits.max_cost.map_or(left, |most| most.min(left)));
        }
        Some(limits)
    }

    /// The limits of the tenant, the workspace and the agent, for today and this month.
    pub fn budget_lines(&self, scope: &Scope, now: i64) -> Vec<BudgetLine> {
        let budgets = &self.config.budgets;
        let (tenant, workspace, agent) = (&scope.tenant, &scope.workspace, &scope.agent);
        let scopes = [
            (format!("tenant:{tenant}"), Some(&budgets.tenant)),
            (format!("workspace:{tenant}:{workspace}"), Some(&budgets.workspace)),
            (format!("agent:{tenant}:{workspace}:{agent}"), budgets.agents.get(agent.as_str())),
        ];
        let day = self.zone.day(now);
        let month = day.get(..7).unwrap_or(&day).to_owned();
        let mut lines = Vec::new();
        for (scope, budget) in scopes {
            let Some(budget) = budget else { continue };
            let periods = [
                (format!("day:{day}"), budget.daily_tokens, budget.daily_usd),
                (format!("month:{month}"), budget.monthly_tokens, budget.monthly_usd),
            ];
            for (period, tokens, usd) in periods {
                if tokens.is_some() || usd.is_some() {
                    lines.push(BudgetLine {
                        scope: scope.clone(),
                        period,
                        max_tokens: tokens.map(u64::from),
                        max_cost: usd.map(Cost::from_usd),
                        hard: budget.hard_limit,
                    });
                }
            }
        }
        lines
    }

    /// Tokens an answer of the agent may have: what the configuration says, and with a budget never without a limit.
    pub(super) fn max_tokens(&self, scope: &Scope) -> Option<u32> {
        let said = self.config.agents.defaults.max_tokens;
        said.or_else(|| (!self.budget_lines(scope, 0).is_empty()).then_some(MOST_OUTPUT))
    }

    /// Whether a limit in dollars applies to the agent that must not be exceeded.
    pub(super) fn has_hard_money(&self, agent: &AgentId) -> bool {
        let budgets = &self.config.budgets;
        let hard = |budget: &Budget| {
            budget.hard_limit && (budget.daily_usd.is_some() || budget.monthly_usd.is_some())
        };
        hard(&budgets.tenant)
            || hard(&budgets.workspace)
            || budgets.agents.get(agent.as_str()).is_some_and(hard)
    }
}
