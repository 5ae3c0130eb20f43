//! `approvals`: questions about calls of tools, their answers, and what was allowed for good.

mod allowlist;
mod answer;
mod list;
mod sheet;
mod show;
mod words_of;

use std::sync::Arc;

pub(super) use allowlist::{add, allowlist, remove};
pub(super) use answer::{approve, deny};
pub(super) use list::list;
pub(in crate::commands) use sheet::sheet;
pub(super) use show::show;
use tidegate_policy::approval::Approval;
use tidegate_protocol::{ErrorCode, TenantId};
use tidegate_storage::{ApprovalFilter, Store};

use crate::app::App;
use crate::failure::{Failure, With as _};
use crate::output::printable;
use crate::texts::tools as words;

/// How many of the newest are looked through for the beginning of an id.
const LOOKED_THROUGH: u32 = 1_000;

/// The question that is meant: by its id, or by a beginning that no other id has.
async fn find(
    app: &App,
    store: Option<Arc<dyn Store>>,
    tenant: &TenantId,
    wanted: &str,
) -> Result<Approval, Failure> {
    let Some(store) = store else { return Err(none(app, wanted)) };
    if let Ok(id) = wanted.parse() {
        return store.approval(tenant, id).await?.ok_or_else(|| none(app, wanted));
    }
    let filter = ApprovalFilter { limit: LOOKED_THROUGH, ..ApprovalFilter::default() };
    let all = store.approvals(tenant, filter).await?;
    let beginning = wanted.to_lowercase();
    let mut meant = all.into_iter().filter(|approval| approval.id.to_string().starts_with(&beginning));
    match (meant.next().filter(|_| !beginning.is_empty()), meant.next()) {
        (Some(approval), None) => Ok(approval),
        (None, _) => Err(none(app, wanted)),
        (Some(_), Some(_)) => {
            let message =
                words::AMBIGUOUS_APPROVAL.with(&[("id", &printable(wanted)), ("program", &app.program)]);
            Err(Failure::new(ErrorCode::InvalidValue, message))
        }
    }
}

fn none(app: &App, wanted: &str) -> Failure {
    let values: [(&str, &dyn std::fmt::Display); 2] = [("id", &printable(wanted)), ("program", &app.program)];
    Failure::new(ErrorCode::NotFound, words::NO_SUCH_APPROVAL.with(&values))
}
