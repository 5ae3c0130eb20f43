//! `approvals approve` and `approvals deny`.

use std::process::ExitCode;

use serde_json::json;
use tidegate_config::Loaded;
use tidegate_engine::{Home, Settings};
use tidegate_policy::approval::allow_rule_view;
use tidegate_protocol::api::{AllowRuleView, AnswerApproval, ApprovalDecision};
use tidegate_protocol::{ApprovalId, ErrorCode, TenantId};

use super::find;
use super::words_of::state;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::failure::{Failure, With as _};
use crate::output::{print_json, print_line, printable};
use crate::reach::reach;
use crate::store::open_existing;
use crate::texts::tools as words;
use crate::{Outcome, texts};

pub(in crate::commands) fn approve(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let prefix = prefix(command, parsed)?;
    if prefix.is_some() && !parsed.has("always") {
        let failure = Failure::new(ErrorCode::InvalidValue, words::PREFIX_WITHOUT_ALWAYS.with(&[]));
        return Err(failure.with_usage(command));
    }
    let decision =
        if parsed.has("always") { ApprovalDecision::AllowAlways } else { ApprovalDecision::AllowOnce };
    answer(app, parsed, &AnswerApproval { decision, reason: None, prefix })
}

/// How many words of a command are to be the same.
pub(super) fn prefix(command: &'static Command, parsed: &Parsed) -> Result<Option<u32>, Failure> {
    let Some(text) = parsed.value("prefix") else { return Ok(None) };
    let number = text.parse().map_err(|_| {
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("name", &"prefix"), ("position", &2), ("value", &text)];
        Failure::new(ErrorCode::InvalidValue, texts::INVALID_VALUE.with(&values)).with_usage(command)
    })?;
    Ok(Some(number))
}

pub(in crate::commands) fn deny(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let reason = parsed.value("reason").map(str::to_owned);
    answer(app, parsed, &AnswerApproval { decision: ApprovalDecision::Deny, reason, prefix: None })
}

fn answer(app: &App, parsed: &Parsed, answer: &AnswerApproval) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let tenant = Settings::new(&loaded).scope(None)?.tenant;
    let answered = block_on(async {
        let store = open_existing(&home, &loaded.config).await?;
        let approval = find(app, store, &tenant, &parsed.arguments[0]).await?;
        if answer.prefix.is_some() && approval.question.plan.is_none() {
            let message = words::PREFIX_WITHOUT_COMMAND.with(&[("tool", &printable(&approval.tool))]);
            return Err(Failure::new(ErrorCode::InvalidValue, message));
        }
        let id = approval.id;
        reach(app, &home, &loaded, "approvals", async |reach| reach.answer(id, answer).await).await
    })?;
    let approval = &answered.approval;
    if parsed.has("json") {
        print_json(&json!(answered))?;
    } else if answered.won {
        let text = match answer.decision {
            ApprovalDecision::AllowOnce => words::APPROVED,
            ApprovalDecision::AllowAlways => words::APPROVED_ALWAYS,
            ApprovalDecision::Deny => words::DENIED_CALL,
        };
        print_line(&app.fill(text, &[("tool", &approval.tool)]))?;
        if let Some(rule) = block_on(saved(&home, &loaded, &tenant, approval.id))? {
            let values: [(&str, &dyn std::fmt::Display); 3] =
                [("rule", &rule.rule), ("id", &rule.id), ("program", &app.program)];
            print_line(&app.fill(words::SAVED_RULE, &values))?;
        }
    }
    if answered.won {
        return Ok(ExitCode::SUCCESS);
    }
    let message =
        words::SETTLED_BEFORE.with(&[("id", &approval.id), ("state", &state(app, &approval.state))]);
    Err(Failure::new(ErrorCode::InvalidValue, message))
}

/// The rule that an answer saved, as it is from now on.
async fn saved(
    home: &Home,
    loaded: &Loaded,
    tenant: &TenantId,
    approval: ApprovalId,
) -> Result<Option<AllowRuleView>, Failure> {
    let Some(store) = open_existing(home, &loaded.config).await? else { return Ok(None) };
    let rules = store.allow_rules(tenant, None).await?;
    Ok(rules.iter().find(|rule| rule.approval == Some(approval)).map(allow_rule_view))
}
