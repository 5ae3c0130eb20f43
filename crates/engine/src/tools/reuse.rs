//! The same look, taken again a moment later: answered from memory.
//!
//! Only calls that look, at files that have not changed since, and with nothing done in between that may have changed
//! anything. A result that may be stale is never given out.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tidegate_policy::{Digest, Permitted, Prepared, SubjectKind};
use tidegate_protocol::{Block, Risk, ToolResult};
use tidegate_runtime::{Clock as _, SystemClock};

use super::invoke::Calling;
use crate::error::EngineError;

/// Results that are remembered of one session.
const RESULTS: usize = 64;
/// Sessions of which any are.
const SESSIONS: usize = 256;
/// Bytes of a result that is worth remembering.
const LARGEST: usize = 64 * 1024;

#[derive(Default)]
pub(crate) struct Reuse {
    sessions: Mutex<HashMap<String, Session>>,
}

#[derive(Default)]
struct Session {
    /// The oldest first.
    results: VecDeque<Known>,
    touched_at: i64,
}

struct Known {
    call: Digest,
    /// What was looked at, as it was then.
    seen: Stamp,
    result: ToolResult,
    at: i64,
}

/// Size and time of change of every file a call looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp(Vec<(u64, SystemTime)>);

impl Stamp {
    /// Absent for a call that does more than look, and where nobody can tell whether what it looks at has changed.
    fn of(prepared: &Prepared) -> Option<Self> {
        if prepared.risk() != Risk::Read || !prepared.is_idempotent() {
            return None;
        }
        let root = Path::new(&prepared.requester().root);
        let mut files = Vec::new();
        for subject in prepared.subjects() {
            if subject.kind != SubjectKind::Path {
                return None;
            }
            let file =
                std::fs::metadata(root.join(&subject.value)).ok().filter(std::fs::Metadata::is_file)?;
            files.push((file.len(), file.modified().ok()?));
        }
        Some(Self(files))
    }

    /// Whether a change could hide behind it: a file that was written this very moment may be written once more
    /// without looking any different.
    fn is_settled(&self) -> bool {
        const MOMENT: Duration = Duration::from_millis(50);
        // Files have the machine's own time.
        let now = machine_time();
        self.0.iter().all(|(_, modified)| now.duration_since(*modified).is_ok_and(|age| age > MOMENT))
    }
}

impl Reuse {
    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the call answered within that time, if that still holds.
    fn find(&self, prepared: &Prepared, seen: &Stamp, within: Duration, now: i64) -> Option<ToolResult> {
        let sessions = self.sessions();
        let session = sessions.get(&prepared.requester().session)?;
        let known = session.results.iter().rev().find(|known| known.call == *prepared.digest())?;
        let age = u64::try_from(now.saturating_sub(known.at)).ok()?;
        (known.seen == *seen && u128::from(age) < within.as_millis()).then(|| again(&known.result, age))
    }

    /// Remembers what a call answered.
    fn note(&self, prepared: &Prepared, seen: Stamp, result: &ToolResult, now: i64) {
        if !result.ok || result.text().len() > LARGEST || !is_plain(result) || !seen.is_settled() {
            return;
        }
        let mut sessions = self.sessions();
        let name = &prepared.requester().session;
        if !sessions.contains_key(name) && sessions.len() >= SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.touched_at);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                sessions.remove(&oldest);
            }
        }
        let session = sessions.entry(name.clone()).or_default();
        session.touched_at = now;
        session.results.retain(|known| known.call != *prepared.digest());
        if session.results.len() >= RESULTS {
            session.results.pop_front();
        }
        let (call, result) = (prepared.digest().clone(), result.clone());
        session.results.push_back(Known { call, seen, result, at: now });
    }

    /// Something may have changed, and nobody knows what.
    pub(super) fn forget(&self) {
        self.sessions().clear();
    }
}

impl Calling {
    /// What the same call answered a moment ago.
    pub(super) async fn known(&self, permitted: &Permitted) -> Result<Option<ToolResult>, EngineError> {
        let Some(within) = self.core.settings.reuse() else { return Ok(None) };
        let prepared = permitted.prepared();
        let Some(seen) = self.stamp(prepared) else { return Ok(None) };
        let found = self.core.reuse.find(prepared, &seen, within, self.core.clock.now_ms());
        if found.is_some() {
            self.record("tool.reused", self.about(permitted.decision())).await?;
        }
        Ok(found)
    }

    /// Runs the call, and remembers what it answered if nothing changed meanwhile.
    pub(super) async fn run_and_keep(
        &self,
        permitted: &Permitted,
        approval: Option<Value>,
    ) -> Result<ToolResult, EngineError> {
        let prepared = permitted.prepared();
        let before = self.stamp(prepared);
        let result = self.run(permitted, approval).await?;
        let after = self.stamp(prepared);
        if let Some(seen) = before.filter(|before| after.as_ref() == Some(before)) {
            self.core.reuse.note(prepared, seen, &result, self.core.clock.now_ms());
        }
        Ok(result)
    }

    fn stamp(&self, prepared: &Prepared) -> Option<Stamp> {
        let tool = self.registry.find(prepared.tool())?;
        if tool.spec().steady { Stamp::of(prepared) } else { None }
    }
}

fn machine_time() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(SystemClock.now_ms()).unwrap_or(0))
}

fn is_plain(result: &ToolResult) -> bool {
    result.content.iter().all(|block| matches!(block, Block::Text { .. }))
}

/// The result, saying that it is not a new one.
fn again(result: &ToolResult, age_ms: u64) -> ToolResult {
    let mut result = result.clone();
    let mut data = match result.data.take() {
        Some(Value::Object(data)) => data,
        Some(other) => Map::from_iter([("data".to_owned(), other)]),
        None => Map::new(),
    };
    data.insert("reused".to_owned(), json!(true));
    data.insert("ageMs".to_owned(), json!(age_ms));
    result.data = Some(Value::Object(data));
    result.meta.duration_ms = 0;
    result
}

#[cfg(test)]
mod tests {
    use tidegate_policy::{Preparation, Requester, Subject};
    use tidegate_protocol::{Scope, ToolCall, ToolMeta, ToolSource};

    use super::*;

    const WITHIN: Duration = Duration::from_secs(30);

    fn prepared(root: &Path, session: &str, subjects: Vec<Subject>, risk: Risk) -> Prepared {
        let call = ToolCall {
            id: "c".to_owned(),
            name: "read".to_owned(),
            args: json!({}),
            source: ToolSource::Model,
        };
        let requester = Requester {
            scope: Scope::personal("main".parse().unwrap()),
            session: session.to_owned(),
            actor: "a".to_owned(),
            root: root.to_string_lossy().into_owned(),
        };
        Prepared::new(call, requester, risk, true, Preparation { subjects, ..Preparation::default() })
    }

    fn result(text: &str) -> ToolResult {
        ToolResult {
            ok: true,
            content: vec![Block::text(text)],
            data: None,
            error: None,
            meta: ToolMeta { tool: "read".to_owned(), duration_ms: 3, truncated: false },
        }
    }

    fn file(name: &str) -> Vec<Subject> {
        vec![Subject::new(SubjectKind::Path, name)]
    }

    /// A file that was written a while ago.
    fn write(root: &Path, name: &str, text: &str, seconds_ago: u64) {
        let path = root.join(name);
        std::fs::write(&path, text).unwrap();
        let time = machine_time() - Duration::from_secs(seconds_ago);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn the_same_look_is_answered_again_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.txt", "one", 10);
        let (reuse, call) = (Reuse::default(), prepared(folder.path(), "s", file("a.txt"), Risk::Read));
        let seen = Stamp::of(&call).unwrap();
        reuse.note(&call, seen.clone(), &result("one"), 1_000);
        let found = reuse.find(&call, &seen, WITHIN, 2_500).unwrap();
        assert_eq!(
            (found.text(), found.data),
            ("one".to_owned(), Some(json!({"reused": true, "ageMs": 1_500})))
        );
        assert_eq!(reuse.find(&call, &seen, WITHIN, 31_000), None, "too old");
        let other = prepared(folder.path(), "t", file("a.txt"), Risk::Read);
        assert_eq!(reuse.find(&other, &seen, WITHIN, 2_500), None, "another session");
        reuse.forget();
        assert_eq!(reuse.find(&call, &seen, WITHIN, 2_500), None, "something was changed");
    }

    #[test]
    fn a_file_that_changed_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.txt", "one", 10);
        let (reuse, call) = (Reuse::default(), prepared(folder.path(), "s", file("a.txt"), Risk::Read));
        reuse.note(&call, Stamp::of(&call).unwrap(), &result("one"), 1_000);
        write(folder.path(), "a.txt", "two", 5);
        assert_eq!(reuse.find(&call, &Stamp::of(&call).unwrap(), WITHIN, 1_001), None);
        // Written this very moment: it may be written again without looking any different.
        std::fs::write(folder.path().join("a.txt"), "new").unwrap();
        let seen = Stamp(vec![(3, machine_time())]);
        reuse.note(&call, seen.clone(), &result("new"), 1_002);
        assert_eq!(reuse.find(&call, &seen, WITHIN, 1_003), None);
    }

    #[test]
    fn what_nobody_can_watch_is_never_reused() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.txt", "one", 10);
        let at = folder.path();
        let tree = vec![Subject::new(SubjectKind::Tree, ".")];
        let host = vec![Subject::new(SubjectKind::Host, "example.com")];
        for call in [
            prepared(at, "s", tree, Risk::Read),
            prepared(at, "s", host, Risk::Read),
            prepared(at, "s", file("."), Risk::Read),
            prepared(at, "s", file("missing.txt"), Risk::Read),
            prepared(at, "s", file("a.txt"), Risk::Write),
        ] {
            assert_eq!(Stamp::of(&call), None, "{call:?}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let reuse = Reuse::default();
        for at in 0..SESSIONS + 10 {
            let call = prepared(folder.path(), &format!("s{at}"), Vec::new(), Risk::Read);
            reuse.note(&call, Stamp(Vec::new()), &result("x"), i64::try_from(at).unwrap());
        }
        let long = "x".repeat(LARGEST + 1);
        for at in 0..RESULTS + 10 {
            write(folder.path(), &format!("{at}"), "x", 10);
            let call = prepared(folder.path(), "s265", file(&format!("{at}")), Risk::Read);
            reuse.note(&call, Stamp::of(&call).unwrap(), &result("x"), 1_000);
            reuse.note(&call, Stamp::of(&call).unwrap(), &result(&long), 1_000);
        }
        let sessions = reuse.sessions();
        assert_eq!((sessions.len(), sessions["s265"].results.len()), (SESSIONS, RESULTS));
        assert!(!sessions.contains_key("s0"));
    }
}
