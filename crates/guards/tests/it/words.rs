//! What must not leave a machine inside the repository: absolute paths of a workplace and the names of package mirrors.

use std::fs;

use crate::workspace::{files, root};

/// Folders that exist on somebody's machine only. Written in two halves, so that this file has none of them.
const FOLDERS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
/// Package mirrors: whoever clones the repository fetches from the public registries.
const MIRRORS: [&str; 4] = [
    concat!("arti", "factory"),
    concat!("jf", "rog.io"),
    concat!("verd", "accio"),
    concat!("nexus-", "repository"),
];

/// Whether the folder stands there as an absolute path and not as a part of a longer one.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| {
            c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '/' | '}' | ')' | '>' | '*')
        })
    })
}

fn leaks(line: &str) -> Option<&'static str> {
    let folder = FOLDERS.into_iter().find(|folder| names_folder(line, folder));
    let lower = line.to_lowercase();
    folder.or_else(|| MIRRORS.into_iter().find(|mirror| lower.contains(mirror)))
}

#[test]
fn no_file_names_a_workplace() {
    let mut found = Vec::new();
    for file in files().into_iter().filter(|file| file != "Cargo.lock") {
        // What is not text has no lines to leak.
        let Ok(text) = fs::read_to_string(root().join(&file)) else { continue };
        for (number, line) in text.lines().enumerate() {
            found.extend(leaks(line).map(|word| format!("{file}:{}: {word}", number + 1)));
        }
    }
    assert!(
        found.is_empty(),
        "take these out; use a path from the repository's root, or a placeholder:\n  {}",
        found.join("\n  ")
    );
}

#[test]
fn a_folder_counts_only_as_an_absolute_path() {
    for folder in FOLDERS {
        assert!(names_folder(&format!("see {folder}notes"), folder));
        assert!(names_folder(&format!("home=\"{folder}x\""), folder));
        assert!(!names_folder(&format!("crates/agent{folder}x"), folder));
        assert!(!names_folder(&format!("<home>{folder}x"), folder));
    }
}
