//! Rules of the configuration, as policy reads them.

use serde_json::Value;
use tidegate_config::schema::{self, ArgumentValue, RuleExample, RuleWhen, ToolRule};
use tidegate_policy::tools::{Conditions, Example, Examples, Rule, RuleMode};

pub(super) fn rules(said: &[ToolRule]) -> Vec<Rule> {
    said.iter().map(rule).collect()
}

fn rule(said: &ToolRule) -> Rule {
    Rule {
        name: said.name.clone(),
        tool: said.tool.clone(),
        when: conditions(&said.when),
        unless: said.unless.as_ref().map(conditions),
        mode: match said.mode {
            schema::RuleMode::Deny => RuleMode::Deny,
            schema::RuleMode::ApprovalRequired => RuleMode::ApprovalRequired,
        },
        reason: said.reason.clone().unwrap_or_default(),
        examples: Examples {
            matches: said.examples.matches.iter().map(example).collect(),
            misses: said.examples.misses.iter().map(example).collect(),
        },
    }
}

fn conditions(said: &RuleWhen) -> Conditions {
    let value = |value: &ArgumentValue| match value {
        ArgumentValue::Text(text) => Value::from(text.as_str()),
        ArgumentValue::Number(number) => Value::from(*number),
        ArgumentValue::Truth(truth) => Value::from(*truth),
    };
    Conditions {
        path: said.path.clone(),
        host: said.host.clone(),
        url: said.url.clone(),
        method: said.method.clone(),
        command: said.command.iter().map(|command| words(command)).collect(),
        args: said
            .args
            .iter()
            .map(|(name, values)| (name.clone(), values.iter().map(value).collect()))
            .collect(),
    }
}

fn example(said: &RuleExample) -> Example {
    let one = |text: &Option<String>| text.iter().cloned().collect();
    Example {
        tool: said.tool.clone(),
        path: one(&said.path),
        host: one(&said.host),
        url: one(&said.url),
        method: one(&said.method),
        command: said.command.iter().map(|command| words(command)).collect(),
        args: said.args.clone(),
    }
}

fn words(command: &str) -> Vec<String> {
    command.split_whitespace().map(str::to_owned).collect()
}
