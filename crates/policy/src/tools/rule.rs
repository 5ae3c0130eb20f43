//! Argument rules: a stage narrows what a tool may be used for, by what a call touches, starts or says.
//!
//! A rule never loosens anything. It applies when `when` holds and `unless` does not; both are read so that a doubt falls
//! on the strict side: for `when` it is enough that one of the things a call touches fits, for `unless` all of them must.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::condition::{Holds, Tests, View};
use super::names::{Known, NamePattern};
use super::{Verdict, example};

/// One rule of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    pub name: String,
    /// Name, glob or group.
    pub tool: String,
    /// Without conditions it is about every call of the tool.
    #[serde(default)]
    pub when: Conditions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<Conditions>,
    pub mode: RuleMode,
    /// Told to the model and to whoever approves.
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub examples: Examples,
}

/// What a rule does to a call. There is no rule that allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleMode {
    Deny,
    ApprovalRequired,
}

/// What a call is like. All kinds that are listed must hold; within one, any entry will do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Conditions {
    /// Relative to the root; `*` within a name, `**` across folders.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub url: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub method: Vec<String>,
    /// Words a command begins with, such as `["git", "push"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<Vec<String>>,
    /// Arguments as the call wrote them: name to values, text with `*`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Vec<Value>>,
}

/// Calls a rule must and must not be about, tried when it is loaded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Examples {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<Example>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub misses: Vec<Example>,
}

/// A call in few words.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Example {
    /// One that the rule is about when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub url: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub method: Vec<String>,
    /// Each a program's words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<Vec<String>>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub args: serde_json::Map<String, Value>,
}

/// Why a rule is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleProblem {
    #[error("{rule}: it is not about examples.matches[{example}], which says that it is")]
    Misses { rule: String, example: usize },
    #[error("{rule}: it is about examples.misses[{example}], which says that it is not")]
    Matches { rule: String, example: usize },
    #[error("{rule}: `{condition}` has an entry without text")]
    Empty { rule: String, condition: &'static str },
    #[error("{rule}: `unless` has no conditions, so the rule would never apply")]
    NeverApplies { rule: String },
}

/// A rule that was read and whose examples hold.
#[derive(Debug, Clone)]
pub(super) struct CheckedRule {
    /// As a person finds it: `tools.rules[no-push]`.
    pub(super) at: String,
    pub(super) tool: NamePattern,
    /// The tool as it was written.
    pub(super) written: String,
    mode: Verdict,
    reason: String,
    when: Tests,
    unless: Option<Tests>,
}

/// What a rule says about a call it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RuleSaid<'a> {
    pub(super) verdict: Verdict,
    pub(super) reason: &'a str,
}

const NOT_UNDERSTOOD: &str =
    "it was not understood, or it starts what its arguments say: a rule about commands may be about it";

impl CheckedRule {
    pub(super) fn new(source: &str, rule: &Rule) -> Result<Self, RuleProblem> {
        let at = format!("{source}.rules[{}]", rule.name);
        let tests = |conditions: &Conditions| {
            Tests::new(conditions).map_err(|condition| RuleProblem::Empty { rule: at.clone(), condition })
        };
        let (when, unless) = (tests(&rule.when)?, rule.unless.as_ref().map(tests).transpose()?);
        if rule.unless.as_ref().is_some_and(|unless| *unless == Conditions::default()) {
            return Err(RuleProblem::NeverApplies { rule: at });
        }
        let mode = match rule.mode {
            RuleMode::Deny => Verdict::Deny,
            RuleMode::ApprovalRequired => Verdict::Ask,
        };
        let reason = if rule.reason.is_empty() { format!("{at} is about it") } else { rule.reason.clone() };
        let (tool, written) = (NamePattern::new(&rule.tool), rule.tool.clone());
        let checked = Self { at, tool, written, mode, reason, when, unless };
        checked.check(&rule.examples)?;
        Ok(checked)
    }

    fn check(&self, examples: &Examples) -> Result<(), RuleProblem> {
        let rule = || self.at.clone();
        if let Some(example) = examples.matches.iter().position(|example| !self.is_about(example)) {
            return Err(RuleProblem::Misses { rule: rule(), example });
        }
        if let Some(example) = examples.misses.iter().position(|example| self.is_about(example)) {
            return Err(RuleProblem::Matches { rule: rule(), example });
        }
        Ok(())
    }

    fn is_about(&self, example: &Example) -> bool {
        let named = example.tool.as_ref().is_none_or(|tool| {
            let name = super::names::normalise(tool);
            self.tool.covers(Known { built_in: super::BUILT_IN.contains(&name.as_ref()), name: &name })
        });
        named && self.says(&example::Owned::new(example).view()).is_some()
    }

    /// What it says about a call of its tool; nothing when it is not about it.
    pub(super) fn says(&self, call: &View<'_>) -> Option<RuleSaid<'_>> {
        let holds = self.when.hold_for_any(call);
        if holds == Holds::No || self.unless.as_ref().is_some_and(|unless| unless.hold_for_all(call)) {
            return None;
        }
        Some(match holds {
            Holds::Unclear => RuleSaid { verdict: Verdict::Ask, reason: NOT_UNDERSTOOD },
            _ => RuleSaid { verdict: self.mode, reason: &self.reason },
        })
    }
}
