//! The folder a command starts in: inside the root, not in our own state, and still the same one when it starts.
//!
//! It is found and found again through [`Root`], by handle, so that no link leads out. The sandbox then enters it by its
//! real name and follows no link either.

use std::os::unix::fs::MetadataExt as _;

use tidegate_policy::{Permitted, SubjectKind};

use crate::place::Place;
use crate::root::{End, Found, PathError, Root};
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
    let named = named.filter(|named| !named.is_empty()).unwrap_or(".");
    let root = Root::open(&place.root, &place.forbidden)?;
    let found = root.find(named).and_then(|found| Folder::of(&root, &found));
    found.map_err(|error| {
        let message = format!("workdir: {error}");
        match error {
            PathError::Form(_) | PathError::Nul | PathError::TooLong(_) => ToolFailure::arguments(message),
            _ => ToolFailure::execution(message),
        }
    })
}

/// The condition that binds a call to the folder it was prepared in.
const CONDITION: &str = "workdir";

impl Folder {
    fn of(root: &Root, found: &Found<'_>) -> Result<Self, PathError> {
        let relative = found.name()?;
        match found.end {
            End::Folder => {}
            End::File(_) => return Err(PathError::NotAFolder(relative)),
            End::Missing { .. } => return Err(PathError::Missing(relative)),
        }
        let metadata = found.folder().metadata().map_err(|error| PathError::io(&relative, &error))?;
        let path = root.real(&relative)?;
        Ok(Self { path, identity: format!("{}:{}", metadata.dev(), metadata.ino()), relative })
    }

    /// What has to be so when the call runs, for [`check`].
    pub(crate) fn condition(&self) -> (String, String) {
        (CONDITION.to_owned(), self.identity.clone())
    }
}

/// Refuses a call whose folder is no longer the one it was prepared in.
pub(crate) async fn check(permitted: &Permitted, place: &Place) -> Result<(), ToolFailure> {
    let prepared = permitted.prepared();
    let expected = || {
        let path = prepared.plan()?.cwd().to_owned();
        let relative = prepared.subjects().iter().find(|subject| subject.kind == SubjectKind::Path)?;
        let (_, identity) = prepared.conditions().iter().find(|(name, _)| name == CONDITION)?;
        Some(Folder { path, relative: relative.value.clone(), identity: identity.clone() })
    };
    let changed = || ToolFailure::execution("the working folder is no longer the one that was permitted");
    let (expected, place) = (expected().ok_or_else(changed)?, place.clone());
    let looking = tidegate_runtime::spawn_blocking("check folder", move || Ok(is_still(&place, &expected)?));
    let still = looking.join().await.map_err(|end| ToolFailure::execution(end.to_string()))?;
    still.and_then(|still: bool| if still { Ok(()) } else { Err(changed()) })
}

/// Whether a folder is the one that was found.
fn is_still(place: &Place, found: &Folder) -> Result<bool, PathError> {
    let root = Root::open(&place.root, &place.forbidden)?;
    let now = root.exactly(&found.relative).and_then(|now| Folder::of(&root, &now));
    Ok(now.is_ok_and(|now| now == *found))
}

#[cfg(test)]
mod tests {
    use std::fs;
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
        let place = place(&root);
        let found = find(&place, Some("sub")).unwrap();
        assert_eq!(found.path, root.join("sub").to_str().unwrap());
        assert_eq!(is_still(&place, &found), Ok(true));
        fs::rename(root.join("sub"), root.join("old")).unwrap();
        assert_eq!(is_still(&place, &found), Ok(false));
        symlink(root.join("old"), root.join("sub")).unwrap();
        assert_eq!(is_still(&place, &found), Ok(false));
        fs::remove_file(root.join("sub")).unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        assert_eq!(is_still(&place, &found), Ok(false));
        // A call that was permitted for another root is not one for this.
        let elsewhere = Place { root: root.join("old"), ..place.clone() };
        assert_eq!(is_still(&elsewhere, &Folder { relative: ".".into(), ..found }), Ok(false));
    }
}
