//! Diffs, for whoever approves a change and for the model that made it. The same change always gives the same text: it
//! is part of what is approved.

use similar::TextDiff;

use crate::truncate::head_bytes;

/// How many lines around a change are shown.
const CONTEXT: usize = 4;
/// Past this many different lines a diff says nothing and takes long.
const MAX_LINES: usize = 6000;
/// How much of a preview is shown. The arguments of the call are shown beside it, whole.
const PREVIEW_BYTES: usize = 64 * 1024;

/// How a file changes, as a unified diff. Absent content is a file that does not exist.
pub(super) fn unified(name: &str, old: Option<&[u8]>, new: Option<&[u8]>) -> String {
    let (old_name, new_name) = (side("a", name, old), side("b", name, new));
    let decode = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8(bytes.to_vec()));
    let (old, new) = match (decode(old).transpose(), decode(new).transpose()) {
        (Ok(old), Ok(new)) => (old.unwrap_or_default(), new.unwrap_or_default()),
        _ => return format!("--- {old_name}\n+++ {new_name}\nBinary files differ\n"),
    };
    if old == new {
        return String::new();
    }
    // Line ends are shown only where they differ.
    let (old, new) = if all_crlf(&old) && all_crlf(&new) {
        (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"))
    } else {
        (old, new)
    };
    let (before, after) = (distinct(&old, &new), distinct(&new, &old));
    if before + after > MAX_LINES {
        return format!("--- {old_name}\n+++ {new_name}\n{before} lines are replaced by {after} lines\n");
    }
    TextDiff::from_lines(&old, &new)
        .unified_diff()
        .context_radius(CONTEXT)
        .header(&old_name, &new_name)
        .to_string()
}

/// A preview of bounded size.
pub(super) fn preview(text: &str) -> String {
    let shown = head_bytes(text, PREVIEW_BYTES);
    if shown.len() == text.len() {
        return text.to_owned();
    }
    format!("{shown}\n… [{} more bytes]", text.len() - shown.len())
}

fn side(side: &str, name: &str, content: Option<&[u8]>) -> String {
    // A name must not write lines of the diff.
    let name: String = name
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect();
    if content.is_some() { format!("{side}/{name}") } else { "/dev/null".to_owned() }
}

fn all_crlf(text: &str) -> bool {
    text.matches('\n').count() == text.matches("\r\n").count()
}

/// How many lines are left without those that both begin and end with.
fn distinct(one: &str, other: &str) -> usize {
    let (one, other): (Vec<_>, Vec<_>) = (one.lines().collect(), other.lines().collect());
    let shared = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| {
        pairs.take_while(|(one, other)| one == other).count()
    };
    let head = shared(&mut one.iter().zip(&other));
    let tail = shared(&mut one.iter().rev().zip(other.iter().rev()));
    one.len().saturating_sub(head + tail)
}
