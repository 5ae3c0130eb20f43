//! Finds programs on the real disk for the analysis in `policy`, and says whether anybody else could replace them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tidegate_policy::exec::{FileIdentity, Lookup, PlanPlace, Program};

use crate::place::Place;

/// Where the shell is looked for; never along a search path.
const SHELLS: [&str; 6] = [
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/run/current-system/sw/bin/bash",
    "/bin/sh",
    "/usr/bin/sh",
];

/// Where anybody may put files.
const TEMPORARY: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/private/tmp"];

/// The disk as commands of one call see it.
pub struct Disk {
    /// The search path of the base environment. A call that sets `PATH` does not change what its words mean here.
    search: Vec<PathBuf>,
    /// Folders whose programs are never trusted: the agent's own and temporary ones.
    untrusted: Vec<PathBuf>,
    /// Who we are.
    user: u32,
    /// Folders that were looked at already, in this call.
    folders: Mutex<HashMap<PathBuf, bool>>,
}

impl Disk {
    pub fn new(place: &Place) -> Self {
        Self::seen_from(&place.root, &place.env)
    }

    /// The same for programs that belong to no call: where they work, and their environment.
    pub fn seen_from(folder: &Path, env: &BTreeMap<String, String>) -> Self {
        let search = env.get("PATH").map(String::as_str).unwrap_or_default();
        let temporary = env.get("TMPDIR").map(PathBuf::from);
        Self::along(search, [folder.to_owned()].into_iter().chain(temporary))
    }

    /// The disk as somebody with this search path sees it. What lies in these folders is not trusted.
    fn along(search: &str, untrusted: impl IntoIterator<Item = PathBuf>) -> Self {
        // An empty or relative entry means the working folder: a program there is called with a slash or not at all.
        let search = search.split(':').map(PathBuf::from).filter(|entry| entry.is_absolute()).collect();
        let named = TEMPORARY.map(PathBuf::from).into_iter();
        let untrusted = named.chain([std::env::temp_dir()]).chain(untrusted);
        let untrusted = untrusted.map(|folder| fs::canonicalize(&folder).unwrap_or(folder)).collect();
        let user = rustix::process::geteuid().as_raw();
        Self { search, untrusted, user, folders: Mutex::default() }
    }

    fn program(&self, path: &Path) -> Option<Program> {
        let path = fs::canonicalize(path).ok()?;
        let metadata = fs::metadata(&path).ok()?;
        if !metadata.is_file() || rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_err() {
            return None;
        }
        Some(Program {
            trusted: self.is_trusted(&path, &metadata),
            identity: identity(&metadata),
            path: path.to_str()?.to_owned(),
        })
    }

    fn is_trusted(&self, path: &Path, metadata: &fs::Metadata) -> bool {
        let elsewhere = !self.untrusted.iter().any(|folder| path.starts_with(folder));
        let folders = || path.ancestors().skip(1).all(|folder| self.is_safe_folder(folder));
        elsewhere && self.is_safe(metadata) && folders()
    }

    fn is_safe_folder(&self, folder: &Path) -> bool {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(safe) = folders.get(folder) {
            return *safe;
        }
        let safe = fs::symlink_metadata(folder).is_ok_and(|metadata| self.is_safe(&metadata));
        folders.insert(folder.to_owned(), safe);
        safe
    }

    fn is_safe(&self, metadata: &fs::Metadata) -> bool {
        only_ours(metadata.uid(), metadata.gid(), metadata.mode(), self.user)
    }
}

impl Lookup for Disk {
    fn find(&self, word: &str, place: &PlanPlace) -> Option<Program> {
        if word.is_empty() || word.contains('\0') {
            return None;
        }
        if word.contains('/') {
            return self.program(&Path::new(&place.cwd).join(word));
        }
        self.search.iter().find_map(|folder| self.program(&folder.join(word)))
    }

    fn shell(&self) -> Option<Program> {
        SHELLS.iter().find_map(|path| self.program(Path::new(path)).filter(|shell| shell.trusted))
    }
}

/// Whether nobody but the system and this user can change something with this owner and mode. The group of the system may
/// write: who is in it has the machine.
fn only_ours(owner: u32, group: u32, mode: u32, user: u32) -> bool {
    let group_may = mode & 0o020 != 0 && group != 0;
    let all_may = mode & 0o002 != 0;
    (owner == 0 || owner == user) && !group_may && !all_may
}

fn identity(metadata: &fs::Metadata) -> FileIdentity {
    FileIdentity {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::exec::stage::place;

    fn executable(path: &Path) {
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn here(cwd: &Path) -> PlanPlace {
        let cwd = cwd.to_str().unwrap().to_owned();
        PlanPlace { cwd, env: BTreeMap::new(), added_env: BTreeMap::new() }
    }

    #[test]
    fn only_the_system_and_ourselves_are_trusted() {
        let table = [
            (0, 0, 0o755, true),
            (1000, 1000, 0o755, true),
            (1000, 1000, 0o775, false),
            (0, 0, 0o775, true),
            (0, 50, 0o775, false),
            (0, 0, 0o777, false),
            (0, 0, 0o1777, false),
            (1001, 1001, 0o755, false),
            (1001, 0, 0o700, false),
        ];
        for (owner, group, mode, expected) in table {
            assert_eq!(only_ours(owner, group, mode, 1000), expected, "{owner} {group} {mode:o}");
        }
    }

    #[test]
    fn a_bare_name_is_found_along_absolute_entries_only() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("bin")).unwrap();
        executable(&root.join("bin/tool"));
        executable(&root.join("local"));
        fs::write(root.join("bin/plain"), "").unwrap();
        fs::create_dir(root.join("bin/folder")).unwrap();
        let mut place = place(&root);
        place.env.insert("PATH".into(), format!(":.:bin:{}", root.join("bin").display()));
        let disk = Disk::new(&place);

        let found = disk.find("tool", &here(&root)).unwrap();
        assert_eq!(found.path, root.join("bin/tool").to_str().unwrap());
        for word in ["local", "plain", "folder", "missing", "", "a\0b", ".."] {
            assert_eq!(disk.find(word, &here(&root)), None, "{word:?}");
        }
        assert!(disk.find("./local", &here(&root)).is_some());
        assert!(disk.find("../local", &here(&root.join("bin"))).is_some());
    }

    #[test]
    fn a_link_is_the_program_it_leads_to() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        executable(&root.join("real"));
        symlink("real", root.join("ls")).unwrap();
        let disk = Disk::new(&place(&root));
        let found = disk.find("./ls", &here(&root)).unwrap();
        assert_eq!(found.path, root.join("real").to_str().unwrap());
        assert_eq!(found.identity.inode, fs::metadata(root.join("real")).unwrap().ino());
    }

    #[test]
    fn what_lies_in_the_workspace_or_a_temporary_folder_is_never_trusted() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        executable(&root.join("ls"));
        let disk = Disk::new(&place(&root));
        assert!(!disk.find("./ls", &here(&root)).unwrap().trusted);
        // Nor when the workspace is somewhere else: it is a temporary folder still.
        let disk = Disk::new(&place(Path::new("/nowhere")));
        assert!(!disk.find("./ls", &here(&root)).unwrap().trusted);
    }

    #[test]
    fn the_shell_is_the_systems() {
        let disk = Disk::new(&place(Path::new("/nowhere")));
        let shell = disk.shell().unwrap();
        assert!(shell.trusted && shell.path.starts_with('/'), "{shell:?}");
    }

    #[test]
    fn a_program_that_changes_has_another_identity() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        executable(&root.join("tool"));
        let disk = Disk::new(&place(&root));
        let before = disk.find("./tool", &here(&root)).unwrap().identity;
        executable(&root.join("new"));
        fs::rename(root.join("new"), root.join("tool")).unwrap();
        assert_ne!(disk.find("./tool", &here(&root)).unwrap().identity, before);
    }
}
