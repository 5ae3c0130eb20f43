//! `approvals allowlist`: what was allowed for good.

use std::process::ExitCode;

use serde_json::json;
use tidegate_engine::Settings;
use tidegate_policy::approval::allow_rule_view;
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::{AllowCommand, AllowRuleView};
use tidegate_runtime::iso_timestamp;

use super::answer::prefix;
use crate::Outcome;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::commands::sessions::titles;
use crate::commands::tools::fitted;
use crate::failure::{Failure, With as _};
use crate::output::{print, print_json, print_line, printable};
use crate::reach::reach;
use crate::store::open_existing;
use crate::texts::tools as words;

fn rules(app: &App, parsed: &Parsed) -> Result<Vec<AllowRuleView>, Failure> {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let settings = Settings::new(&loaded);
    let tenant = settings.scope(None)?.tenant;
    let scope = parsed.value("agent").map(|agent| settings.reading_scope(Some(agent))).transpose()?;
    block_on(async {
        let Some(store) = open_existing(&home, &loaded.config).await? else { return Ok(Vec::new()) };
        Ok(store.allow_rules(&tenant, scope.as_ref()).await?.iter().map(allow_rule_view).collect())
    })
}

/// A time to the minute; programs get the whole of it.
fn minute(unix_ms: i64) -> String {
    iso_timestamp(unix_ms).replace('T', " ").chars().take("2026-01-01 00:00".len()).chain(['Z']).collect()
}

pub(in crate::commands) fn allowlist(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let rules = rules(app, parsed)?;
    if parsed.has("json") {
        print_json(&json!({ "rules": rules }))?;
    } else if rules.is_empty() {
        print_line(&app.fill(words::NO_RULES, &[("program", &app.program)]))?;
    } else {
        let mut lines = vec![titles(app, words::RULE_TITLES)];
        lines.extend(rules.into_iter().map(|rule| {
            let used = rule.last_used_at.map_or_else(|| app.say(words::NEVER_USED).to_owned(), minute);
            vec![rule.id.to_string(), rule.agent, rule.tool, used, rule.rule]
        }));
        print(&fitted(app, &lines))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(in crate::commands) fn add(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let asked = AllowCommand {
        command: parsed.arguments[0].clone(),
        agent: parsed.value("agent").map(str::to_owned),
        prefix: prefix(command, parsed)?,
    };
    let rule = block_on(async {
        reach(app, &home, &loaded, "approvals", async |reach| reach.allow_command(&asked).await).await
    })?;
    if parsed.has("json") {
        print_json(&json!(rule))?;
    } else {
        let values: [(&str, &dyn std::fmt::Display); 2] = [("id", &rule.id), ("rule", &rule.rule)];
        print_line(&app.fill(words::RULE_ADDED, &values))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(in crate::commands) fn remove(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let wanted = parsed.arguments[0].to_lowercase();
    let none = || {
        let values: [(&str, &dyn std::fmt::Display); 2] =
            [("id", &printable(&wanted)), ("program", &app.program)];
        Failure::new(ErrorCode::NotFound, words::NO_SUCH_RULE.with(&values))
    };
    let rules = rules(app, parsed)?;
    let mut meant = rules.iter().filter(|rule| rule.id.to_string().starts_with(&wanted));
    let rule = match (meant.next().filter(|_| !wanted.is_empty()), meant.next()) {
        (Some(rule), None) => rule,
        (None, _) => return Err(none()),
        (Some(_), Some(_)) => {
            let message = words::AMBIGUOUS_RULE.with(&[("id", &printable(&wanted))]);
            return Err(Failure::new(ErrorCode::InvalidValue, message));
        }
    };
    let id = rule.id;
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let removed = block_on(async {
        reach(app, &home, &loaded, "approvals", async |reach| reach.remove_allow_rule(id).await).await
    })?;
    if !removed {
        return Err(none());
    }
    if parsed.has("json") {
        print_json(&json!({ "removed": id }))?;
    } else {
        print_line(&app.fill(words::RULE_REMOVED, &[("rule", &rule.rule), ("tool", &rule.tool)]))?;
    }
    Ok(ExitCode::SUCCESS)
}
