//! The files that tools touched.

use std::collections::HashSet;

use serde_json::Value;
use tidegate_protocol::{Block, FileTrail, Message};

use super::words::one_line;
use crate::context::Line;

/// Files of each kind, and characters of a name.
const FILES: usize = 100;
const NAME: usize = 300;

/// How a line of a patch names a file.
const PATCHED: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// The files that these lines touched, and those known before. The newest count when there are too many.
pub(super) fn trail(lines: &[Line], before: &FileTrail) -> FileTrail {
    let failed: HashSet<&str> = lines.iter().filter_map(|line| failed_call(&line.message)).collect();
    let (mut read, mut modified) = (Vec::new(), Vec::new());
    let blocks = lines.iter().rev().flat_map(|line| line.message.content().iter().rev());
    for block in blocks {
        let Block::ToolCall { id, name, arguments, .. } = block else { continue };
        if failed.contains(id.as_str()) {
            continue;
        }
        match name.trim().to_lowercase().as_str() {
            "read" | "file.read" | "fs.read_file" => read.extend(path(arguments)),
            "write" | "file.write" | "edit" | "file.edit" => modified.extend(path(arguments)),
            "apply_patch" | "apply-patch" => modified.extend(patched(arguments)),
            _ => {}
        }
    }
    let modified = bounded(modified.into_iter().chain(before.modified.iter().cloned()));
    let read = read.into_iter().chain(before.read.iter().cloned());
    let read = bounded(read.filter(|name| modified.binary_search(name).is_err()));
    FileTrail { read, modified }
}

fn failed_call(message: &Message) -> Option<&str> {
    match message {
        Message::ToolResult { tool_call_id, is_error: true, .. } => Some(tool_call_id),
        _ => None,
    }
}

fn path(arguments: &Value) -> Option<String> {
    let path = arguments.get("path").or_else(|| arguments.get("file_path"))?.as_str()?;
    Some(one_line(path, NAME)).filter(|name| !name.is_empty())
}

fn patched(arguments: &Value) -> Vec<String> {
    let patch = arguments.get("input").and_then(Value::as_str).unwrap_or_default();
    let names = patch.lines().filter_map(|line| PATCHED.iter().find_map(|mark| line.strip_prefix(mark)));
    names.map(|name| one_line(name, NAME)).filter(|name| !name.is_empty()).collect()
}

/// The first so many different ones, sorted.
fn bounded(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut kept: Vec<String> = names.filter(|name| seen.insert(name.clone())).take(FILES).collect();
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::tests::{calling, failing_call, log};

    #[test]
    fn what_was_changed_does_not_count_as_read() {
        let patch = r#"{"input": "*** Begin Patch\n*** Update File: src/b.rs\n*** Move to: src/c.rs\n*** End Patch"}"#;
        let lines = log(vec![
            calling("1", "read", r#"{"path": "z.md"}"#),
            calling("2", "Read", r#"{"file_path": "a.md"}"#),
            calling("3", "edit", r#"{"path": "a.md"}"#),
            calling("4", "apply_patch", patch),
            calling("5", "write", r#"{"path": "gone.md"}"#),
            failing_call("5", "write", "disk full"),
            calling("6", "read", r#""not an object""#),
        ]);
        let before =
            FileTrail { read: vec!["old.md".into(), "src/b.rs".into()], modified: vec!["new.md".into()] };
        let words = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            trail(&lines, &before),
            FileTrail {
                read: words(&["old.md", "z.md"]),
                modified: words(&["a.md", "new.md", "src/b.rs", "src/c.rs"])
            }
        );
    }

    #[test]
    fn the_newest_hundred_are_carried_on() {
        let calls = (0..150).map(|n| calling("c", "read", &format!(r#"{{"path": "f{n:03}"}}"#)));
        let found =
            trail(&log(calls.collect()), &FileTrail { read: vec!["older".into()], ..FileTrail::default() });
        assert_eq!(
            (found.read.len(), found.read[0].as_str(), found.read[99].as_str()),
            (100, "f050", "f149")
        );
    }
}
