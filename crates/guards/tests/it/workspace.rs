//! What the other modules read: the repository's files and what cargo says about its packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}

/// What a cargo command prints. Offline and locked: a guard looks at what was built, it never changes it.
pub(crate) fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(arguments)
        .args(["--offline", "--locked"])
        .output()
        .expect("cargo can be started");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {} failed:\n{complaint}", arguments.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// The workspace's packages and their declared dependencies.
pub(crate) fn members() -> Vec<Value> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    let mut metadata: Value = serde_json::from_str(&metadata).unwrap();
    serde_json::from_value(metadata["packages"].take()).unwrap()
}

/// The resolved graph for this machine. Packages of other systems were never downloaded, so they are left out.
pub(crate) fn resolved() -> Value {
    let version =
        Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-vV").output();
    let version = String::from_utf8(version.expect("rustc can be started").stdout).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--filter-platform", host])).unwrap()
}

/// Every file of the repository that git knows or would take, as a path from the root. In a tree without git: every
/// file outside the folders that builds write.
pub(crate) fn files() -> Vec<String> {
    let root = root();
    let listed = Command::new("git")
        .current_dir(&root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .ok()
        .filter(|output| output.status.success());
    let mut files: Vec<String> = match listed {
        Some(output) => String::from_utf8(output.stdout).unwrap().split('\0').map(str::to_owned).collect(),
        None => walk(&root).iter().map(|path| relative(&root, path)).collect(),
    };
    // Git also lists a file that was removed and not yet committed.
    files.retain(|file| root.join(file).is_file());
    files.sort();
    assert!(!files.is_empty(), "no files found in {}", root.display());
    files
}

/// The Rust files of the crates: everything below `src` and `tests`.
pub(crate) fn rust_files() -> Vec<String> {
    let is_rust = |file: &String| Path::new(file).extension().is_some_and(|extension| extension == "rs");
    files().into_iter().filter(is_rust).collect()
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/")
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    const WRITTEN_BY_BUILDS: [&str; 4] = [".git", "target", "node_modules", ".tools"];
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_symlink() || WRITTEN_BY_BUILDS.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            found.extend(walk(&path));
        } else {
            found.push(path);
        }
    }
    found
}
