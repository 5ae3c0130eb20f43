//! What recorded cases are compared with from outside. Not part of the crate's promises.

use std::io;
use std::path::Path;

use serde_json::Value;

use crate::env::Env;
use crate::path::{self, KeyPath};
use crate::{PathError, include, substitute};

/// A value with its `${VAR}` replaced, or the first problem's words.
pub fn substituted(value: &Value, env: &Env) -> Result<Value, String> {
    let (resolved, problems) = substitute::substitute(value, env);
    problems.into_iter().next().map_or(Ok(resolved), |problem| Err(problem.message))
}

/// A document with its includes in place, or the last problem's words: a file that cannot be read in has its details
/// first.
pub fn included(
    document: &Value,
    file: &Path,
    read: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Value, String> {
    let included = include::resolve(document, file, read);
    included.problems.into_iter().last().map_or(Ok(included.document), |problem| Err(problem.message))
}

pub fn get<'v>(root: &'v Value, path: &KeyPath) -> Option<&'v Value> {
    path::get(root, path)
}

/// Sets a value as an edit does.
///
/// # Errors
///
/// When something on the way is neither an object nor a list.
pub fn set(root: &mut Value, path: &KeyPath, value: Value) -> Result<(), PathError> {
    path::set(root, path, value)
}

/// Whether there was something to take out.
pub fn unset(root: &mut Value, path: &KeyPath) -> bool {
    path::unset(root, path)
}
