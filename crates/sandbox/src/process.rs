//! Which process made something that may outlive it.

use std::fs;

/// This process, as the names of what it makes have it: its id, and when it was started.
pub(crate) fn ourselves() -> String {
    let pid = std::process::id();
    format!("{pid}-{}", started(pid).unwrap_or_default())
}

/// Whether the process that made something of this name, which ends with what [`ourselves`] said and a number, still
/// runs. A name of somebody else's making is left alone.
pub(crate) fn is_answered_for(name: &str) -> bool {
    let mut fields = name.rsplitn(4, '-');
    let (Some(_number), Some(start), Some(pid), Some(_place)) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return true;
    };
    let (Ok(pid), Ok(start)) = (pid.parse(), start.parse()) else { return true };
    start == 0 || started(pid) == Some(start)
}

/// When a process was started, in the kernel's own units; nothing if there is none.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&stat[end + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}
