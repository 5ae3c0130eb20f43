//! Which system calls programs in containers may make.
//!
//! Docker's own list refuses namespaces to those who have no capabilities. Podman's does not: a program could make a user
//! namespace, have every capability in it, and reach those parts of the kernel that nobody else does. So podman gets its
//! own list back without these.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

/// What no program in a sandbox needs.
const REFUSED: [&str; 26] = [
    "add_key",
    "bpf",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "kcmp",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "request_key",
    "setns",
    "umount",
    "umount2",
    "unshare",
    "userfaultfd",
];

/// The bits that ask for a namespace.
const NAMESPACES: u64 = 0x7E02_0000;

const NOT_PERMITTED: i32 = 1;

/// Makes a program believe in an older kernel, where it does the same with `clone`, whose bits can be looked at.
const UNKNOWN: i32 = 38;

/// Writes the list of an engine without what is refused here.
pub(super) fn write(theirs: &Path, ours: &Path) -> io::Result<()> {
    let list: Value = serde_json::from_slice(&fs::read(theirs)?)?;
    let list = narrowed(list).ok_or(io::ErrorKind::InvalidData)?;
    let new = ours.with_extension(format!("{}.new", std::process::id()));
    fs::write(&new, serde_json::to_vec(&list)?)?;
    fs::rename(new, ours)
}

/// Nothing if it is no list of what is allowed: then nothing can be taken from it.
fn narrowed(mut list: Value) -> Option<Value> {
    if list.get("defaultAction")?.as_str()? == "SCMP_ACT_ALLOW" {
        return None;
    }
    let rules = list.get_mut("syscalls")?.as_array_mut()?;
    let stays = |name: &Value| {
        name.as_str().is_some_and(|name| !REFUSED.contains(&name) && name != "clone" && name != "clone3")
    };
    for rule in rules.iter_mut() {
        rule.get_mut("names")?.as_array_mut()?.retain(stays);
    }
    rules.retain(|rule| rule["names"].as_array().is_some_and(|names| !names.is_empty()));
    rules
        .push(json!({ "names": REFUSED, "action": "SCMP_ACT_ERRNO", "errnoRet": NOT_PERMITTED, "args": [] }));
    rules.push(json!({ "names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": UNKNOWN, "args": [] }));
    let plain = json!({ "index": 0, "value": NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ" });
    rules.push(json!({ "names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [plain] }));
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_refused_stays_allowed() {
        let list = json!({
            "defaultAction": "SCMP_ACT_ERRNO",
            "syscalls": [
                { "names": ["read", "mount", "clone", "clone3", "unshare"], "action": "SCMP_ACT_ALLOW" },
                { "names": ["bpf"], "action": "SCMP_ACT_ERRNO" },
            ],
        });
        let rules = narrowed(list).unwrap();
        let rules = rules["syscalls"].as_array().unwrap();
        let of = |name: &str| -> Vec<&Value> {
            rules.iter().filter(|rule| rule["names"].as_array().unwrap().contains(&json!(name))).collect()
        };
        assert_eq!(of("read")[0]["action"], "SCMP_ACT_ALLOW");
        for name in ["mount", "unshare", "bpf", "clone3"] {
            assert_eq!((of(name).len(), &of(name)[0]["action"]), (1, &json!("SCMP_ACT_ERRNO")), "{name}");
        }
        assert_eq!((of("clone").len(), &of("clone")[0]["args"][0]["value"]), (1, &json!(0x7E02_0000)));
        assert_eq!(narrowed(json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [] })), None);
        assert_eq!(narrowed(json!([])), None);
    }
}
