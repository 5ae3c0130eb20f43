//! `audit`: who did what, and whether the record of it is whole.

use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_engine::Settings;
use tidegate_protocol::{ErrorCode, TenantId};
use tidegate_runtime::iso_timestamp;
use tidegate_storage::{AuditRow, Break, Seal, Store, check};

use super::block_on;
use super::sessions::{limit, titles};
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, With as _};
use crate::output::{complain, print, print_json, print_line, printable, table};
use crate::store::open_existing;
use crate::{Outcome, texts};

/// Seals read at once.
const PAGE: u32 = 500;
/// Breaks that are told; one is enough to know, a few help to find where.
const TOLD: usize = 20;

pub(super) fn list(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let tenant = Settings::new(&loaded).scope(None)?.tenant;
    let limit = limit(command, parsed)?;
    let rows = block_on(async {
        let Some(store) = open_existing(&home, &loaded.config).await? else { return Ok(Vec::new()) };
        Ok(store.audit(&tenant, limit).await?)
    })?;
    if parsed.has("json") {
        print_json(&json!({ "audit": rows.iter().map(row_json).collect::<Vec<_>>() }))?;
    } else if rows.is_empty() {
        print_line(app.say(texts::NO_AUDIT))?;
    } else {
        let mut lines = vec![titles(app, texts::AUDIT_TITLES)];
        lines.extend(rows.iter().map(|row| {
            vec![
                iso_timestamp(row.created_at),
                printable(&row.actor),
                row.action.clone(),
                printable(&format!("{} {}", row.resource_type, row.resource_id)),
            ]
        }));
        print(&table(&lines))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row_json(row: &AuditRow) -> Value {
    json!({
        "id": row.id, "actor": row.actor, "action": row.action, "resourceType": row.resource_type,
        "resourceId": row.resource_id, "metadata": row.metadata, "createdAt": iso_timestamp(row.created_at),
    })
}

/// What a walk over the whole chain found.
#[derive(Default)]
struct Verdict {
    seals: u64,
    rows: u64,
    unsealed: u64,
    breaks: Vec<Break>,
    head: Option<Seal>,
}

pub(super) fn verify(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let tenant = Settings::new(&loaded).scope(None)?.tenant;
    let verdict = block_on(async {
        match open_existing(&home, &loaded.config).await? {
            Some(store) => walk(store.as_ref(), &tenant).await,
            None => Ok(Verdict::default()),
        }
    })?;
    let whole = verdict.breaks.is_empty();
    if parsed.has("json") {
        print_json(&json!({
            "whole": whole, "seals": verdict.seals, "rows": verdict.rows, "unsealed": verdict.unsealed,
            "head": verdict.head.as_ref().map(|seal| json!({ "number": seal.number, "chain": seal.chain })),
            "breaks": verdict.breaks.iter().take(TOLD).map(describe).collect::<Vec<_>>(),
        }))?;
    } else if whole {
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("rows", &verdict.rows), ("seals", &verdict.seals), ("unsealed", &verdict.unsealed)];
        print_line(&app.fill(texts::AUDIT_WHOLE, &values))?;
        if let Some(seal) = &verdict.head {
            print_line(&app.fill(texts::AUDIT_HEAD, &[("number", &seal.number), ("chain", &seal.chain)]))?;
        }
    }
    if whole {
        return Ok(ExitCode::SUCCESS);
    }
    for broken in verdict.breaks.iter().take(TOLD) {
        complain(&printable(&describe(broken)));
    }
    let message = texts::AUDIT_BROKEN.with(&[("count", &verdict.breaks.len())]);
    if parsed.has("json") {
        // The object above is the answer.
        return Ok(ExitCode::from(1));
    }
    Err(Failure::new(ErrorCode::AuditBroken, message))
}

async fn walk(store: &dyn Store, tenant: &TenantId) -> Result<Verdict, Failure> {
    let mut verdict = Verdict::default();
    let mut before: Option<Seal> = None;
    loop {
        let after = before.as_ref().map_or(0, |seal| seal.number);
        // Read before the seals: whatever is sealed while we look has its seal by then.
        let covered = !store.sealed_rows(tenant, after + 1).await?.is_empty();
        let page = store.seals(tenant, after, PAGE).await?;
        for seal in &page {
            let rows = store.sealed_rows(tenant, seal.number).await?;
            verdict.breaks.extend(check(before.as_ref(), seal, &rows));
            verdict.seals += 1;
            verdict.rows += rows.len() as u64;
            before = Some(seal.clone());
        }
        if page.is_empty() {
            if covered {
                verdict.breaks.push(Break::MissingSeal { number: after + 1 });
            }
            break;
        }
    }
    verdict.unsealed = store.unsealed(tenant).await?;
    verdict.head = before;
    Ok(verdict)
}

fn describe(broken: &Break) -> String {
    match broken {
        Break::MissingSeal { number } => format!("seal {number} is missing"),
        Break::Chain { number } => format!("seal {number} does not follow from what it covers"),
        Break::Rows { number, noted, found } => {
            format!("seal {number} covers {noted} rows, {found} are there")
        }
        Break::Content { number, row } => format!("row {row} of seal {number} is not what was sealed"),
    }
}
