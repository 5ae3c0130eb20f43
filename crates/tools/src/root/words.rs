//! Paths as text: which forms are understood, and the steps they are made of. Nothing here touches a file.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use super::Root;
use super::error::{PathError, shown};

/// The limits of every system we know.
const PATH_BYTES: usize = 4096;
const NAME_BYTES: usize = 255;

/// The steps of a path that somebody wrote, from the root.
pub(super) fn steps(root: &Root, path: &str) -> Result<VecDeque<OsString>, PathError> {
    if path.is_empty() {
        return Err(PathError::Empty);
    }
    if path.contains('\0') {
        return Err(PathError::Nul);
    }
    if path.len() > PATH_BYTES || path.split('/').any(|name| name.len() > NAME_BYTES) {
        return Err(PathError::TooLong(shown(path)));
    }
    if is_foreign(path) {
        return Err(PathError::Form(shown(path)));
    }
    if path.starts_with('/') {
        return inside(root, path.as_bytes()).ok_or_else(|| PathError::Outside(shown(path)));
    }
    Ok(split(path.as_bytes()))
}

/// The steps of a link's text, and whether they begin at the root. Nothing when it leads out.
pub(super) fn link_steps(root: &Root, text: &[u8]) -> Option<(VecDeque<OsString>, bool)> {
    if text.starts_with(b"/") {
        return Some((inside(root, text)?, true));
    }
    Some((split(text), false))
}

/// A home folder, an address, a share or a drive: forms that mean something else elsewhere. A file that is really
/// called so can be named with `./` before it.
fn is_foreign(path: &str) -> bool {
    let bytes = path.as_bytes();
    let drive = bytes.len() > 1 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
    let scheme = path.split_once(':').is_some_and(|(scheme, rest)| {
        let address = rest.starts_with("//") || scheme.eq_ignore_ascii_case("file");
        address && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    path.starts_with('~') || path.starts_with("\\\\") || path.starts_with("//") || drive || scheme
}

/// What is left of an absolute path after the root's own path. `..` counts as a name here: it is never resolved by
/// text, so a path that goes up before it comes to the root is outside.
fn inside(root: &Root, path: &[u8]) -> Option<VecDeque<OsString>> {
    [root.given.as_path(), root.real.as_path()].into_iter().find_map(|base| after(base, path))
}

fn after(base: &Path, path: &[u8]) -> Option<VecDeque<OsString>> {
    let mut steps = split(path);
    for name in split(base.as_os_str().as_bytes()) {
        if is_nothing(&name) {
            continue;
        }
        while steps.front().is_some_and(|step| is_nothing(step)) {
            steps.pop_front();
        }
        if steps.pop_front()? != name {
            return None;
        }
    }
    Some(steps)
}

/// Empty steps stay: one at the end says that a folder is meant.
fn split(path: &[u8]) -> VecDeque<OsString> {
    path.split(|byte| *byte == b'/').map(|name| OsString::from_vec(name.to_vec())).collect()
}

pub(super) fn is_nothing(step: &OsStr) -> bool {
    step.is_empty() || step == "."
}
