//! The files of a workspace, read when they change.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

/// Names and texts of the files that are there.
fn there(workspaces: &Workspaces, folder: &TempDir) -> Vec<(String, String)> {
    let files = workspaces.bootstrap(folder.path(), &[]);
    files.into_iter().filter_map(|file| Some((file.name, file.text?))).collect()
}

fn text(workspaces: &Workspaces, folder: &TempDir, name: &str) -> Option<String> {
    let files = workspaces.bootstrap(folder.path(), &[]);
    files.into_iter().find(|file| file.name == name)?.text
}

#[test]
fn files_come_in_their_order_and_missing_ones_without_a_text() {
    let folder = folder(&[("MEMORY.md", b"m"), ("SOUL.md", b"s"), ("AGENTS.md", b"a"), ("other.md", b"o")]);
    let files = Workspaces::default().bootstrap(folder.path(), &[]);
    let found: Vec<_> = files.iter().map(|file| (file.name.as_str(), file.text.as_deref())).collect();
    assert_eq!(
        found,
        [
            ("AGENTS.md", Some("a")),
            ("SOUL.md", Some("s")),
            ("TOOLS.md", None),
            ("IDENTITY.md", None),
            ("USER.md", None),
            ("HEARTBEAT.md", None),
            ("BOOTSTRAP.md", None),
            ("MEMORY.md", Some("m")),
        ]
    );
}

#[test]
fn a_folder_that_is_not_there_has_no_files_and_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("nobody");
    assert!(Workspaces::default().bootstrap(&missing, &[]).iter().all(|file| file.text.is_none()));
    assert!(!missing.exists());
}

#[test]
fn no_link_leads_out_of_the_folder() {
    let outside = folder(&[("secret", b"hush")]);
    let folder = folder(&[("notes.md", b"inside")]);
    symlink(outside.path().join("secret"), folder.path().join("AGENTS.md")).unwrap();
    symlink("notes.md", folder.path().join("SOUL.md")).unwrap();
    let found = there(&Workspaces::default(), &folder);
    assert_eq!(found, [("SOUL.md".to_owned(), "inside".to_owned())]);
}

#[test]
fn what_is_forbidden_is_not_read_by_any_name() {
    let folder = folder(&[]);
    let state = folder.path().join("state");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("keys"), "hush").unwrap();
    symlink("state/keys", folder.path().join("USER.md")).unwrap();
    assert_eq!(text(&Workspaces::default(), &folder, "USER.md").as_deref(), Some("hush"));
    let files = Workspaces::default().bootstrap(folder.path(), &[state]);
    assert!(files.iter().all(|file| file.text.is_none()));
}

#[test]
fn a_large_file_is_read_up_to_64_kilobytes_and_ends_with_a_whole_character() {
    let folder = folder(&[("AGENTS.md", "中".repeat(30_000).as_bytes())]);
    let read = text(&Workspaces::default(), &folder, "AGENTS.md").unwrap();
    assert_eq!(read, "中".repeat(65_536 / 3) + GOES_ON);
}

#[test]
fn a_file_that_is_no_text_is_shown_as_far_as_it_is() {
    let folder = folder(&[("AGENTS.md", b"a\xffb"), ("USER.md", "潮".as_bytes())]);
    let found = there(&Workspaces::default(), &folder);
    assert_eq!(found[0].1, "a\u{fffd}b");
    assert_eq!(found[1].1, "潮");
}

#[test]
fn a_file_is_read_again_only_when_it_changed() {
    let folder = folder(&[("AGENTS.md", b"one")]);
    let workspaces = Workspaces::default();
    assert_eq!(text(&workspaces, &folder, "AGENTS.md").as_deref(), Some("one"));
    // What is remembered is shown as long as the stamp is the same.
    for known in workspaces.read.lock().unwrap().get_mut(folder.path()).unwrap() {
        known.file.text = known.file.text.take().map(|_| "remembered".to_owned());
    }
    assert_eq!(text(&workspaces, &folder, "AGENTS.md").as_deref(), Some("remembered"));
    // A new file under the old name has another stamp, also with the same size and time.
    fs::write(folder.path().join("new"), "two").unwrap();
    fs::rename(folder.path().join("new"), folder.path().join("AGENTS.md")).unwrap();
    assert_eq!(text(&workspaces, &folder, "AGENTS.md").as_deref(), Some("two"));
    fs::remove_file(folder.path().join("AGENTS.md")).unwrap();
    assert_eq!(text(&workspaces, &folder, "AGENTS.md"), None);
}

#[test]
fn what_is_remembered_is_bounded() {
    let workspaces = Workspaces::default();
    for number in 0..=FOLDERS {
        workspaces.bootstrap(Path::new(&format!("/nowhere/{number}")), &[]);
    }
    assert_eq!(workspaces.read.lock().unwrap().len(), 1);
}
