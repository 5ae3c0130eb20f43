//! Which models may be used, and how much one run may cost and one call may take.
//!
//! A policy is a stack of stages (tenant, agent): each can only narrow what the ones before it left. Without a policy
//! everything that is configured is allowed.

use std::time::Duration;

use tidegate_protocol::{Cost, ModelRef};

/// One stage's rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelPolicy {
    /// Only these; all when absent.
    pub allowed_providers: Option<Vec<String>>,
    /// Only these, written `provider/model` with `*` for anything; all when absent.
    pub allowed_models: Option<Vec<String>>,
    /// Never these, whatever is allowed elsewhere; written the same way.
    pub denied_models: Vec<String>,
    pub max_cost_per_run: Option<Cost>,
    /// For one model call.
    pub timeout: Option<Duration>,
}

/// The stages with their names, the widest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelPolicies(pub Vec<(String, ModelPolicy)>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelVerdict {
    Allowed,
    /// The stage that refused, and its rule in words.
    Denied {
        stage: String,
        rule: String,
    },
}

impl ModelPolicies {
    /// The first stage that refuses decides; none can allow what another one refuses.
    pub fn judge(&self, model: &ModelRef) -> ModelVerdict {
        let denied = self.0.iter().find_map(|(stage, policy)| Some((stage, policy.denies(model)?)));
        match denied {
            Some((stage, rule)) => ModelVerdict::Denied { stage: stage.clone(), rule },
            None => ModelVerdict::Allowed,
        }
    }

    /// What one run may cost: the smallest of the stages' limits.
    pub fn max_cost_per_run(&self) -> Option<Cost> {
        self.0.iter().filter_map(|(_, policy)| policy.max_cost_per_run).min()
    }

    /// How long one model call may take: the smallest of the stages' limits.
    pub fn timeout(&self) -> Option<Duration> {
        self.0.iter().filter_map(|(_, policy)| policy.timeout).min()
    }
}

impl ModelPolicy {
    /// The rule that refuses the model.
    fn denies(&self, model: &ModelRef) -> Option<String> {
        let name = model.to_string();
        if let Some(pattern) = self.denied_models.iter().find(|pattern| matches(pattern, &name)) {
            return Some(format!("{name} is denied by {pattern}"));
        }
        let outside = |allowed: &Option<Vec<String>>, fits: &dyn Fn(&str) -> bool| {
            allowed.as_ref().is_some_and(|allowed| !allowed.iter().any(|one| fits(one)))
        };
        if outside(&self.allowed_providers, &|provider| provider.eq_ignore_ascii_case(&model.provider)) {
            return Some(format!("the provider {} is not among the allowed ones", model.provider));
        }
        if outside(&self.allowed_models, &|pattern| matches(pattern, &name)) {
            return Some(format!("{name} is not among the allowed models"));
        }
        None
    }
}

/// Whether a pattern fits a whole name. `*` stands for any text, also for none; upper and lower case are the same,
/// because providers take a name in either.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_ascii_lowercase(), name.to_ascii_lowercase());
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(head) else { return false };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The earliest place for each piece leaves the most for those behind it.
    for piece in middle.split('*') {
        let Some(at) = left.find(piece) else { return false };
        left = &left[at + piece.len()..];
    }
    left.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn model(provider: &str, model: &str) -> ModelRef {
        ModelRef { provider: provider.to_owned(), model: model.to_owned() }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn stage(policy: ModelPolicy) -> ModelPolicies {
        ModelPolicies(vec![("tenant".to_owned(), policy)])
    }

    #[test]
    fn without_a_policy_everything_configured_is_allowed() {
        assert_eq!(ModelPolicies::default().judge(&model("any", "thing")), ModelVerdict::Allowed);
        let empty = stage(ModelPolicy::default());
        assert_eq!(empty.judge(&model("any", "thing")), ModelVerdict::Allowed);
        assert_eq!((empty.max_cost_per_run(), empty.timeout()), (None, None));
    }

    #[test]
    fn a_denial_wins_over_what_is_allowed_and_names_its_rule() {
        let policies = stage(ModelPolicy {
            allowed_models: Some(names(&["openai/*"])),
            denied_models: names(&["openai/*-pro"]),
            ..ModelPolicy::default()
        });
        assert_eq!(policies.judge(&model("openai", "gpt-5")), ModelVerdict::Allowed);
        assert_eq!(
            policies.judge(&model("openai", "GPT-5-Pro")),
            ModelVerdict::Denied {
                stage: "tenant".to_owned(),
                rule: "openai/GPT-5-Pro is denied by openai/*-pro".to_owned()
            }
        );
    }

    #[test]
    fn an_empty_list_allows_nothing() {
        for policy in [
            ModelPolicy { allowed_models: Some(Vec::new()), ..ModelPolicy::default() },
            ModelPolicy { allowed_providers: Some(Vec::new()), ..ModelPolicy::default() },
        ] {
            assert_ne!(stage(policy).judge(&model("a", "b")), ModelVerdict::Allowed);
        }
    }

    #[test]
    fn a_later_stage_cannot_bring_back_what_an_earlier_one_took() {
        let mut policies =
            stage(ModelPolicy { allowed_providers: Some(names(&["anthropic"])), ..ModelPolicy::default() });
        let generous = ModelPolicy { allowed_models: Some(names(&["*"])), ..ModelPolicy::default() };
        policies.0.push(("agent".to_owned(), generous));
        let ModelVerdict::Denied { stage, .. } = policies.judge(&model("openai", "gpt-5")) else {
            panic!("the tenant allows one provider")
        };
        assert_eq!(stage, "tenant");
    }

    #[test]
    fn the_smallest_limit_of_all_stages_counts() {
        let limits = |cost, seconds| ModelPolicy {
            max_cost_per_run: Some(Cost(cost)),
            timeout: Some(Duration::from_secs(seconds)),
            ..ModelPolicy::default()
        };
        let policies =
            ModelPolicies(vec![("tenant".to_owned(), limits(5, 60)), ("agent".to_owned(), limits(9, 30))]);
        assert_eq!(policies.max_cost_per_run(), Some(Cost(5)));
        assert_eq!(policies.timeout(), Some(Duration::from_secs(30)));
    }

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name, fits) in [
            ("a/b", "a/b", true),
            ("a/b", "a/bc", false),
            ("*", "a/b", true),
            ("a/*", "b/a/x", false),
            ("a/*", "a/", true),
            ("*/x", "a/b/x", true),
            ("a/*x*y", "a/1x2xy", true),
            ("a/*x*y", "a/1x2", false),
            ("ab*bc", "abc", false),
            ("**", "", true),
            ("a*b*b", "ab", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    fn policy() -> impl Strategy<Value = ModelPolicy> {
        let list = || proptest::collection::vec("(\\*|[ab])/(\\*|[ab]|[ab]\\*)", 0..3);
        let providers = proptest::collection::vec("[ab]", 0..3);
        let cost = proptest::option::of(0_u64..9);
        let seconds = proptest::option::of(1_u64..9);
        (proptest::option::of(providers), proptest::option::of(list()), list(), cost, seconds).prop_map(
            |(allowed_providers, allowed_models, denied_models, cost, seconds)| ModelPolicy {
                allowed_providers,
                allowed_models,
                denied_models,
                max_cost_per_run: cost.map(Cost),
                timeout: seconds.map(Duration::from_secs),
            },
        )
    }

    fn no_wider<T: Ord>(after: Option<T>, before: Option<T>) -> bool {
        match (after, before) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(after), Some(before)) => after <= before,
        }
    }

    proptest! {
        #[test]
        fn adding_a_stage_never_widens(
            stages in proptest::collection::vec(policy(), 0..3),
            added in policy(),
            at in 0_usize..4,
            provider in "[ab]",
            name in "[ab]{1,2}",
        ) {
            let named = |stages: &[ModelPolicy]| {
                ModelPolicies(stages.iter().map(|policy| ("stage".to_owned(), policy.clone())).collect())
            };
            let before = named(&stages);
            let mut more = stages.clone();
            more.insert(at.min(stages.len()), added);
            let after = named(&more);
            let model = model(&provider, &name);
            if after.judge(&model) == ModelVerdict::Allowed {
                prop_assert_eq!(before.judge(&model), ModelVerdict::Allowed);
            }
            prop_assert!(no_wider(after.max_cost_per_run(), before.max_cost_per_run()));
            prop_assert!(no_wider(after.timeout(), before.timeout()));
        }
    }
}
