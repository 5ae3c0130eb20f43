//! What of the machine's own file system a sandbox shows: the system's programs, and what everybody may read.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Access as RustixAccess, AtFlags};

/// Folders with programs and what they need. Nobody's data lies there.
const PROGRAMS: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"];

/// How many levels of `/etc` are looked at; what is deeper is not shown at all if its folder is not open to everybody.
const DEPTH: usize = 6;

/// How long what was found in `/etc` is taken for true.
const FRESH: Duration = Duration::from_secs(10);

/// Settings of the system, some of which are secrets.
pub(super) const SETTINGS: &str = "/etc";

/// A folder of the system, or the link that stands in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shown {
    Folder(PathBuf),
    Link { at: PathBuf, to: PathBuf },
}

/// The folders with programs that are there.
pub(super) fn programs() -> Vec<Shown> {
    let shown = PROGRAMS.iter().map(PathBuf::from).filter_map(|path| match fs::read_link(&path) {
        Ok(to) => Some(Shown::Link { at: path, to }),
        Err(_) => path.is_dir().then_some(Shown::Folder(path)),
    });
    shown.collect()
}

/// Whether a path lies where programs of the system are.
pub(super) fn is_shown(path: &Path) -> bool {
    PROGRAMS.iter().chain([&SETTINGS]).any(|folder| path.starts_with(folder))
}

/// How the settings of the system are shown.
#[derive(Debug)]
pub(super) struct Settings {
    /// What has to be covered where all of them are shown.
    pub(super) secrets: Vec<PathBuf>,
    /// What can be shown where nothing can be covered.
    pub(super) open: Vec<PathBuf>,
    read: Instant,
}

/// The settings as they are, or were a moment ago: to look at a thousand files takes as long as all the rest of a start.
pub(super) fn settings() -> Arc<Settings> {
    static KNOWN: Mutex<Option<Arc<Settings>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(settings) = known.as_ref().filter(|settings| settings.read.elapsed() < FRESH) {
        return Arc::clone(settings);
    }
    let folder = Path::new(SETTINGS);
    let secrets = secrets(folder);
    let open = without(folder, &secrets);
    let settings = Arc::new(Settings { secrets, open, read: Instant::now() });
    *known = Some(Arc::clone(&settings));
    settings
}

/// What in a folder of settings not everybody on the machine may read, and the gateway may: programs in a sandbox are not
/// to have its rights there.
fn secrets(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    look(folder, DEPTH, &mut found);
    found.retain(|path| is_ours_to_read(path));
    found
}

/// Whether the gateway could look at it, or into it.
fn is_ours_to_read(path: &Path) -> bool {
    let may = |access| rustix::fs::accessat(rustix::fs::CWD, path, access, AtFlags::EACCESS).is_ok();
    may(RustixAccess::READ_OK) || (path.is_dir() && may(RustixAccess::EXEC_OK))
}

fn look(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        found.push(folder.to_owned());
        return;
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_symlink() {
            continue;
        }
        let open = entry.metadata().is_ok_and(|data| is_open(&data));
        if !open || (kind.is_dir() && depth == 0) || !(kind.is_dir() || kind.is_file()) {
            found.push(entry.path());
        } else if kind.is_dir() {
            look(&entry.path(), depth - 1, found);
        }
    }
}

/// Whether everybody may read it.
fn is_open(data: &fs::Metadata) -> bool {
    let mode = data.permissions().mode();
    if data.is_dir() { mode & 0o5 == 0o5 } else { mode & 0o4 == 0o4 }
}

/// What of a folder can be shown without any of its secrets: whole folders where there are none, else what is in them.
fn without(folder: &Path, secrets: &[PathBuf]) -> Vec<PathBuf> {
    if secrets.iter().any(|secret| secret == folder) {
        return Vec::new();
    }
    if !secrets.iter().any(|secret| secret.starts_with(folder)) {
        return vec![folder.to_owned()];
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.flat_map(|entry| without(&entry.path(), secrets)).collect()
}

/// The file that says which name servers there are, if it lies outside of what is shown anyway.
pub(super) fn name_servers() -> Option<PathBuf> {
    let file = fs::canonicalize("/etc/resolv.conf").ok()?;
    (!is_shown(&file)).then_some(file)
}

/// Whether only the administrator can have put this program there.
pub(super) fn belongs_to_the_system(program: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let program = program.canonicalize()?;
    for part in program.ancestors() {
        let data = fs::metadata(part)?;
        if data.uid() != 0
            || (data.permissions().mode() & 0o022 != 0 && data.permissions().mode() & 0o1000 == 0)
        {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, name: &str, mode: u32) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_not_everybody_may_read_is_a_secret_and_the_rest_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        for (name, mode) in [
            ("hosts", 0o644),
            ("shadow", 0o640),
            ("ssl/certs/a", 0o644),
            ("ssl/private/key", 0o644),
            ("deep/er/key", 0o600),
            ("deep/er/open", 0o644),
        ] {
            put(base, name, mode);
        }
        fs::set_permissions(base.join("ssl/private"), fs::Permissions::from_mode(0o710)).unwrap();
        let names = |paths: Vec<PathBuf>| {
            let mut names: Vec<_> = paths
                .iter()
                .map(|path| path.strip_prefix(base).unwrap().to_str().unwrap().to_owned())
                .collect();
            names.sort();
            names
        };
        let secrets = secrets(base);
        assert_eq!(names(secrets.clone()), ["deep/er/key", "shadow", "ssl/private"]);
        assert_eq!(names(without(base, &secrets)), ["deep/er/open", "hosts", "ssl/certs"]);
        assert_eq!(without(base, &[]), [base]);
    }
}
