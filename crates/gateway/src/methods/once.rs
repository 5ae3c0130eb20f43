//! Calls that carry a key and are no runs: the same key again is answered what it was answered before, for a day.
//!
//! Two calls with one key wait for each other here; what was answered is in the store, so it outlives the process. A call
//! that fails has done nothing, so its key is free again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use super::{Caller, Method};
use crate::body;
use crate::ws::frame::{WireError, to_json};

type Turn = Arc<tokio::sync::Mutex<()>>;

/// The keys whose calls are under way.
#[derive(Default)]
pub(crate) struct Once {
    under_way: Mutex<HashMap<String, Turn>>,
}

/// Nobody else with the key is under way while this is held.
struct Held<'a> {
    once: &'a Once,
    name: String,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Once {
    fn under_way<T>(&self, work: impl FnOnce(&mut HashMap<String, Turn>) -> T) -> T {
        work(&mut self.under_way.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for the call before it, which ends by its own deadline.
    async fn turn(&self, name: String) -> Held<'_> {
        let turn = self.under_way(|turns| Arc::clone(turns.entry(name.clone()).or_default()));
        let guard = turn.lock_owned().await;
        Held { once: self, name, guard: Some(guard) }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.guard = None;
        self.once.under_way(|turns| {
            // The map's own is the last one: nobody waits.
            if turns.get(&self.name).is_some_and(|turn| Arc::strong_count(turn) == 1) {
                turns.remove(&self.name);
            }
        });
    }
}

/// The largest answer that is kept. Of a larger one is kept that the call was made.
const LARGEST_KEPT: usize = 64 * 1024;
const TOO_LARGE: &str = r#"{"ok":true,"note":"the call was made; its answer was too large to keep"}"#;

/// Makes a call unless it was made before.
pub(super) async fn once(
    method: &Method,
    caller: &Caller,
    params: &Value,
    call: impl Future<Output = Result<String, WireError>>,
) -> Result<String, WireError> {
    let key = params["idempotencyKey"].as_str().unwrap_or_default();
    body::check_key(key)?;
    let gate = &caller.gate;
    // No key of a run begins so: theirs have no control characters.
    let name = format!("\u{1}{}:{}:{key}", method.dialect.as_str(), method.name);
    let request = to_json(&sorted(params));
    let held = gate.shared.hub.once.turn(name).await;
    let engine = gate.engine();
    let known = engine.answered(&held.name, request.as_bytes(), gate.shared.now()).await?;
    if let Some(answer) = known {
        return Ok(answer);
    }
    let answer = call.await?;
    let answer_kept = if answer.len() > LARGEST_KEPT { TOO_LARGE.to_owned() } else { answer.clone() };
    let kept = engine.keep_answer(&held.name, request.as_bytes(), answer_kept, gate.shared.now()).await;
    if let Err(error) = kept {
        // It is done, and whoever asked is told so.
        tracing::warn!(%error, method = method.name, "what a key was answered could not be kept");
    }
    Ok(answer)
}

/// The same value in one order of its fields: what is the same request does not depend on how it was written.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut pairs: Vec<_> = fields.iter().collect();
            pairs.sort_by_key(|(name, _)| *name);
            pairs.into_iter().map(|(name, value)| (name.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_fields_makes_no_other_request() {
        let one = json!({ "b": [{ "y": 1, "x": 2 }], "a": null });
        let other = json!({ "a": null, "b": [{ "x": 2, "y": 1 }] });
        assert_eq!(to_json(&sorted(&one)), to_json(&sorted(&other)));
        assert_ne!(
            to_json(&sorted(&one)),
            to_json(&sorted(&json!({ "b": [{ "y": 1, "x": 3 }], "a": null })))
        );
    }

    #[tokio::test]
    async fn a_key_is_forgotten_when_nobody_holds_or_wants_it() {
        let once = Once::default();
        let first = once.turn("a".into()).await;
        let other = once.turn("b".into()).await;
        assert_eq!(once.under_way(|turns| turns.len()), 2);
        drop((first, other));
        assert_eq!(once.under_way(|turns| turns.len()), 0);
    }
}
