//! Whether a document is a config: all that is wrong with it, at once.
//!
//! Passes over the resolved document, neither of which stops at the first finding: [`walk`] holds it against
//! the schema key by key, [`rules`], [`tools`] and [`hosts`] check what holds between keys. The typed [`Config`] is read last, when
//! nothing is left to complain about. Pure: no file, no environment.

mod custom;
mod hooks;
mod hosts;
mod mcp;
mod rules;
mod services;
mod suggest;
mod tools;
mod unused;
mod view;
mod walk;

pub(crate) use suggest::for_path;
pub(crate) use unused::{is_unused, unused_keys};

use serde_json::Value;

use crate::problem::{Problem, ProblemKind};
use crate::schema::Config;
use crate::shape;
use view::View;

/// Every problem of a document. `source` is the document before `${VAR}` was replaced: messages quote it, so
/// that a value from the environment is never printed.
pub(crate) fn problems(resolved: &Value, source: &Value) -> Vec<Problem> {
    let view = View::new(resolved, source);
    let mut found = Vec::new();
    walk::check(shape::root(), &view, &mut found);
    rules::check(&view, &mut found);
    tools::check(&view, &mut found);
    hosts::check(&view, &mut found);
    mcp::check(&view, &mut found);
    services::check(&view, &mut found);
    hooks::check(&view, &mut found);
    found
}

/// The typed config of a document without problems.
pub(crate) fn typed(resolved: &Value) -> Result<Config, Problem> {
    serde_path_to_error::deserialize(resolved).map_err(|error| {
        let path = error.path().to_string();
        // The walker refuses what serde refuses; should they ever differ, this is still an error with its place.
        Problem::new(ProblemKind::Invalid, path.trim_start_matches('.'), error.inner().to_string())
    })
}
