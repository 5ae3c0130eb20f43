//! `approvals approve` and `approvals deny`.

use std::process::ExitCode;

use serde_json::json;
use tidegate_engine::Settings;
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::{AnswerApproval, ApprovalDecision};

use super::find;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::failure::{Failure, With as _};
use crate::output::{print_json, print_line};
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
        let id = find(app, store, &tenant, &parsed.arguments[0]).await?.id;
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
    }
    if answered.won {
        return Ok(ExitCode::SUCCESS);
    }
    let message = words::SETTLED_BEFORE.with(&[("id", &approval.id), ("state", &approval.state)]);
    Err(Failure::new(ErrorCode::InvalidValue, message))
}
