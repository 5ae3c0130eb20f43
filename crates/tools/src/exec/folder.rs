//! The folder a command starts in: inside the root, not in our own state, and still the same one when it starts.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tidegate_policy::Permitted;
use tidegate_policy::exec::Plan;

use crate::place::Place;
use crate::tool::ToolFailure;

/// A folder as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    /// Absolute, without symbolic links.
    pub(crate) path: String,
    /// From the root; `.` for the root itself.
    pub(crate) relative: String,
    /// Which folder it is.
    identity: String,
}

/// The folder of a call: the root, or what the call named inside it.
pub(crate) fn find(place: &Place, named: Option<&str>) -> Result<Folder, ToolFailure> {
    let root = fs::canonicalize(&place.root).map_err(|error| {
        ToolFailure::execution(format!("the root {} cannot be entered: {error}", place.root.display()))
    })?;
    let named = named.unwrap_or(".");
    if named.contains('\0') || named.starts_with('~') {
        return Err(ToolFailure::arguments(format!("workdir: {named:?} is not a folder of the workspace")));
    }
    let path = fs::canonicalize(root.join(if named.is_empty() { "." } else { named }))
        .map_err(|error| ToolFailure::execution(format!("workdir {named:?} cannot be entered: {error}")))?;
    if !path.starts_with(&root) || is_forbidden(&path, &root, &place.forbidden) {
        return Err(ToolFailure::execution(format!("workdir {named:?} lies outside the workspace")));
    }
    if !path.is_dir() {
        return Err(ToolFailure::execution(format!("workdir {named:?} is not a folder")));
    }
    let relative = path.strip_prefix(&root).ok().filter(|rest| !rest.as_os_str().is_empty());
    let relative = relative.unwrap_or(Path::new(".")).to_str().map(str::to_owned);
    let (Some(text), Some(relative), Some(identity)) = (path.to_str(), relative, identity(&path)) else {
        return Err(ToolFailure::execution(format!("workdir {named:?} has a name that is not text")));
    };
    Ok(Folder { path: text.to_owned(), relative, identity })
}

/// The condition that binds a call to the folder it was prepared in.
const CONDITION: &str = "workdir";

impl Folder {
    /// What has to be so when the call runs, for [`check`].
    pub(crate) fn condition(&self) -> (String, String) {
        (CONDITION.to_owned(), self.identity.clone())
    }
}

/// Refuses a call whose folder is no longer the one it was prepared in.
pub(crate) fn check(permitted: &Permitted) -> Result<(), ToolFailure> {
    let prepared = permitted.prepared();
    let cwd = prepared.plan().map(Plan::cwd).unwrap_or_default();
    let same = |(name, found): &(String, String)| name == CONDITION && is_still(cwd, found);
    if prepared.conditions().iter().any(same) {
        return Ok(());
    }
    Err(ToolFailure::execution("the working folder is no longer the one that was permitted"))
}

/// Whether the folder at this path is the one that was found.
fn is_still(path: &str, found: &str) -> bool {
    let path = Path::new(path);
    fs::canonicalize(path).is_ok_and(|real| real == path) && identity(path).as_deref() == Some(found)
}

fn identity(path: &Path) -> Option<String> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some(format!("{}:{}", metadata.dev(), metadata.ino()))
}

/// Our state may surround the root, but nothing below the root may be part of it.
fn is_forbidden(path: &Path, root: &Path, forbidden: &[PathBuf]) -> bool {
    forbidden.iter().any(|folder| {
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
        path.starts_with(&folder) && !root.starts_with(&folder)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::exec::stage::place;

    #[test]
    fn a_command_starts_inside_the_root_only() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let root = home.join("root");
        for folder in ["root/sub", "root/state/keys", "outside"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        fs::write(root.join("file"), "").unwrap();
        symlink(home.join("outside"), root.join("leak")).unwrap();
        symlink("sub", root.join("link")).unwrap();
        let place = Place { forbidden: vec![root.join("state")], ..place(&root) };

        let relative = |named| find(&place, named).map(|folder| folder.relative).map_err(|_| ());
        let absolute = root.join("sub");
        for (named, expected) in [
            (None, Ok(".")),
            (Some(""), Ok(".")),
            (Some("."), Ok(".")),
            (Some("sub"), Ok("sub")),
            (Some("sub/../sub/."), Ok("sub")),
            (Some("link"), Ok("sub")),
            (absolute.to_str(), Ok("sub")),
            (Some(".."), Err(())),
            (Some("sub/../.."), Err(())),
            (Some("/"), Err(())),
            (Some("/proc/self/cwd"), Err(())),
            (Some("leak"), Err(())),
            (Some("state"), Err(())),
            (Some("state/keys"), Err(())),
            (Some("file"), Err(())),
            (Some("missing"), Err(())),
            (Some("~"), Err(())),
            (Some("a\0b"), Err(())),
        ] {
            assert_eq!(relative(named).as_deref(), expected.as_deref(), "{named:?}");
        }
    }

    #[test]
    fn a_root_inside_our_state_is_a_root_all_the_same() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("state/agents/main");
        fs::create_dir_all(&root).unwrap();
        let place = Place { forbidden: vec![home.path().join("state")], ..place(&root) };
        assert_eq!(find(&place, None).unwrap().relative, ".");
    }

    #[test]
    fn a_folder_that_was_exchanged_is_another_one() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        let found = find(&place(&root), Some("sub")).unwrap();
        assert!(is_still(&found.path, &found.identity));
        fs::rename(root.join("sub"), root.join("old")).unwrap();
        assert!(!is_still(&found.path, &found.identity));
        symlink(root.join("old"), root.join("sub")).unwrap();
        assert!(!is_still(&found.path, &found.identity));
    }
}
