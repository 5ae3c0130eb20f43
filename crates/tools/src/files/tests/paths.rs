//! Where paths lead. One table for every form a path can take; what leads out is refused by every tool alike.

use serde_json::json;

use super::super::edit::Edit;
use super::super::fs_list_dir::ListDir;
use super::super::fs_read_file::ReadFile;
use super::super::grep::Grep;
use super::super::ls::Ls;
use super::super::patch::ApplyPatch;
use super::super::read::Read;
use super::super::write::Write;
use super::{CANARY, Scene};
use crate::root::Root;

/// What becomes of a path.
enum Leads {
    /// To this file, which says its own name.
    File(&'static str),
    Folder(&'static str),
    /// To a file that could be made.
    New(&'static str),
    /// Refused with these words, by every tool.
    Nowhere(&'static str),
    /// It has a name, but nothing there can be read or replaced, for this reason.
    Closed(&'static str),
}

use Leads::{Closed, File, Folder, New, Nowhere};

const OUTSIDE: &str = "is outside the working folder";
const FORM: &str = "is not a path that is understood here";
const OFF_LIMITS: &str = "is off limits";
const SPECIAL: &str = "neither a regular file nor a folder";

fn scene() -> Scene {
    let scene = Scene::new();
    let state = scene.at("state");
    let scene = scene.forbid(state).forbid(std::path::PathBuf::from("/nowhere/at/all"));
    let unborn = scene.at("unborn");
    let scene = scene.forbid(unborn);
    for name in
        ["a.txt", "docs/b.txt", "docs/deep/c.txt", "state/keys.txt", "CON", "~tilde", "x:y", "sp ace", "..."]
    {
        scene.file(name, name);
    }
    scene.file("caf\u{e9}", "caf\u{e9}");
    scene.file("back\\slash", "back\\slash");
    scene.link("to-file", "a.txt");
    scene.link("to-folder", "docs");
    scene.link("to-folder-slash", "docs/");
    scene.link("to-absolute", scene.at("docs/b.txt"));
    scene.link("to-root", scene.path());
    scene.link("to-dot", ".");
    scene.link("docs/up", "..");
    scene.link("docs/up-file", "../a.txt");
    scene.link("out", "../outside");
    scene.link("out-file", "../outside/secret.txt");
    scene.link("out-absolute", scene.outside("secret.txt"));
    scene.link("out-and-back", "../root/a.txt");
    scene.link("docs/out-deep", "../../outside/secret.txt");
    scene.link("via-out", "out/secret.txt");
    scene.link("to-slash", "/");
    scene.link("magic", "/proc/self/root");
    scene.link("magic-cwd", "/proc/self/cwd");
    scene.link("dangling", "docs/none.txt");
    scene.link("dangling-deep", "none/none.txt");
    scene.link("dangling-out", "../outside/none.txt");
    scene.link("loop", "loop");
    scene.link("loop-a", "loop-b");
    scene.link("loop-b", "loop-a");
    scene.link("to-state", "state");
    scene.link("to-state-file", "docs/../state/keys.txt");
    scene.link("to-unborn", "unborn/x");
    scene.link("chain-0", "a.txt");
    for number in 1..=45 {
        scene.link(&format!("chain-{number}"), format!("chain-{}", number - 1));
    }
    let made = std::process::Command::new("mkfifo").arg(scene.at("fifo")).status().unwrap();
    assert!(made.success());
    scene.link("to-fifo", "fifo");
    drop(std::os::unix::net::UnixListener::bind(scene.at("socket")).unwrap());
    scene
}

fn table() -> Vec<(String, Leads)> {
    let long_name = "n".repeat(256);
    let long_path = "d/".repeat(2100);
    let deep = format!("{}x", "d/".repeat(101));
    let mut rows: Vec<(&str, Leads)> = vec![
        ("a.txt", File("a.txt")),
        ("./a.txt", File("a.txt")),
        ("././/a.txt", File("a.txt")),
        ("docs/b.txt", File("docs/b.txt")),
        ("docs//b.txt", File("docs/b.txt")),
        ("docs/./deep/c.txt", File("docs/deep/c.txt")),
        ("docs/../a.txt", File("a.txt")),
        ("docs/deep/../../a.txt", File("a.txt")),
        ("CON", File("CON")),
        ("...", File("...")),
        ("sp ace", File("sp ace")),
        ("./~tilde", File("~tilde")),
        ("./x:y", File("x:y")),
        ("back\\slash", File("back\\slash")),
        ("caf\u{e9}", File("caf\u{e9}")),
        // Another spelling is another name, as the file system has it.
        ("cafe\u{301}", New("cafe\u{301}")),
        ("A.TXT", New("A.TXT")),
        ("%2e%2e/a.txt", New("%2e%2e/a.txt")),
        ("..\\a.txt", New("..\\a.txt")),
        ("new/deep/er.txt", New("new/deep/er.txt")),
        ("new/./er.txt", New("new/er.txt")),
        (".", Folder(".")),
        ("./", Folder(".")),
        ("docs", Folder("docs")),
        ("docs/", Folder("docs")),
        ("docs//", Folder("docs")),
        ("docs/..", Folder(".")),
        ("docs/deep/..", Folder("docs")),
        ("to-file", File("a.txt")),
        ("to-folder", Folder("docs")),
        ("to-folder/", Folder("docs")),
        ("to-folder-slash", Folder("docs")),
        ("to-folder/b.txt", File("docs/b.txt")),
        // Up from where a link leads, not from where it is.
        ("to-folder/../a.txt", File("a.txt")),
        ("to-absolute", File("docs/b.txt")),
        ("to-root/a.txt", File("a.txt")),
        ("to-dot/to-dot/a.txt", File("a.txt")),
        ("docs/up/a.txt", File("a.txt")),
        ("docs/up-file", File("a.txt")),
        ("dangling", New("docs/none.txt")),
        ("dangling-deep", New("none/none.txt")),
        ("chain-39", File("a.txt")),
        ("", Nowhere("the path is empty")),
        ("a\0.txt", Nowhere("NUL")),
        ("..", Nowhere(OUTSIDE)),
        ("../", Nowhere(OUTSIDE)),
        ("../outside/secret.txt", Nowhere(OUTSIDE)),
        ("docs/../../outside/secret.txt", Nowhere(OUTSIDE)),
        ("./.././root/a.txt", Nowhere(OUTSIDE)),
        ("docs/up/../outside/secret.txt", Nowhere(OUTSIDE)),
        ("/", Nowhere(OUTSIDE)),
        ("/etc/passwd", Nowhere(OUTSIDE)),
        ("/proc/self/root/etc/passwd", Nowhere(OUTSIDE)),
        ("/proc/self/environ", Nowhere(OUTSIDE)),
        ("/dev/zero", Nowhere(OUTSIDE)),
        ("/../etc/passwd", Nowhere(OUTSIDE)),
        ("~", Nowhere(FORM)),
        ("~/a.txt", Nowhere(FORM)),
        ("~root/a.txt", Nowhere(FORM)),
        ("file:///etc/passwd", Nowhere(FORM)),
        ("FILE:/etc/passwd", Nowhere(FORM)),
        ("file://localhost/etc/passwd", Nowhere(FORM)),
        ("https://example.org/a", Nowhere(FORM)),
        ("\\\\server\\share\\a", Nowhere(FORM)),
        ("\\\\?\\C:\\a", Nowhere(FORM)),
        ("//server/share/a", Nowhere(FORM)),
        ("C:\\Windows\\win.ini", Nowhere(FORM)),
        ("c:/Windows/win.ini", Nowhere(FORM)),
        ("C:a", Nowhere(FORM)),
        ("out", Nowhere(OUTSIDE)),
        ("out/secret.txt", Nowhere(OUTSIDE)),
        ("out/new.txt", Nowhere(OUTSIDE)),
        ("out-file", Nowhere(OUTSIDE)),
        ("out-absolute", Nowhere(OUTSIDE)),
        ("out-and-back", Nowhere(OUTSIDE)),
        ("docs/out-deep", Nowhere(OUTSIDE)),
        ("via-out", Nowhere(OUTSIDE)),
        ("to-slash/etc/passwd", Nowhere(OUTSIDE)),
        ("magic/etc/passwd", Nowhere(OUTSIDE)),
        ("magic-cwd/Cargo.toml", Nowhere(OUTSIDE)),
        ("dangling-out", Nowhere(OUTSIDE)),
        ("loop", Nowhere("too many symbolic links")),
        ("loop-a", Nowhere("too many symbolic links")),
        ("chain-45", Nowhere("too many symbolic links")),
        ("state", Nowhere(OFF_LIMITS)),
        ("state/", Nowhere(OFF_LIMITS)),
        ("state/keys.txt", Nowhere(OFF_LIMITS)),
        ("state/new.txt", Nowhere(OFF_LIMITS)),
        ("state/..", Nowhere(OFF_LIMITS)),
        ("docs/../state/keys.txt", Nowhere(OFF_LIMITS)),
        ("to-state", Nowhere(OFF_LIMITS)),
        ("to-state/keys.txt", Nowhere(OFF_LIMITS)),
        ("to-state-file", Nowhere(OFF_LIMITS)),
        ("to-root/state/keys.txt", Nowhere(OFF_LIMITS)),
        ("unborn", Nowhere(OFF_LIMITS)),
        ("unborn/x", Nowhere(OFF_LIMITS)),
        ("to-unborn", Nowhere(OFF_LIMITS)),
        ("a.txt/", Nowhere("is not a folder")),
        ("a.txt/.", Nowhere("is not a folder")),
        ("a.txt/..", Nowhere("is not a folder")),
        ("a.txt/b", Nowhere("is not a folder")),
        ("none/../a.txt", Nowhere("does not exist")),
        ("fifo", Closed(SPECIAL)),
        ("to-fifo", Closed(SPECIAL)),
        ("socket", Closed(SPECIAL)),
    ];
    rows.push((&long_name, Nowhere("too long")));
    rows.push((&long_path, Nowhere("too long")));
    rows.push((&deep, Nowhere("too long")));
    rows.into_iter().map(|(path, leads)| (path.to_owned(), leads)).collect()
}

/// Asks every tool that takes a path.
fn refusals(scene: &Scene, path: &str) -> Vec<String> {
    let patch = |what: &str| json!({ "input": format!("*** Begin Patch\n*** {what}\n*** End Patch") });
    let mut said = vec![
        scene.said::<Read>(&json!({ "path": path })),
        scene.said::<Read>(&json!({ "file_path": path })),
        scene.said::<Write>(&json!({ "path": path, "content": "x" })),
        scene.said::<Edit>(&json!({ "path": path, "oldText": "a", "newText": "b" })),
        scene.said::<Ls>(&json!({ "path": path })),
        scene.said::<Grep>(&json!({ "path": path, "pattern": "." })),
        scene.said::<ListDir>(&json!({ "path": path, "recursive": true })),
        scene.said::<ReadFile>(&json!({ "path": path })),
    ];
    // A patch is text: white space at the end of a path is lost, and an empty one is another error.
    if !path.is_empty() {
        said.push(scene.said::<ApplyPatch>(&patch(&format!("Delete File: {path}"))));
        said.push(scene.said::<ApplyPatch>(&patch(&format!("Add File: {path}\n+x"))));
        said.push(scene.said::<ApplyPatch>(&patch(&format!("Update File: a.txt\n*** Move to: {path}"))));
    }
    said
}

#[test]
fn every_form_of_a_path_leads_inside_or_nowhere() {
    let rows = table();
    assert!(rows.len() >= 100, "{} rows", rows.len());
    for (path, leads) in rows {
        let scene = scene();
        let named = scene.root().normalise(&path).map_err(|error| error.to_string());
        let read = || scene.said::<Read>(&json!({ "path": path }));
        let listed = || scene.call::<Ls>(&json!({ "path": path }));
        match leads {
            File(name) => {
                assert_eq!(named.as_deref(), Ok(name), "{path:?}");
                assert_eq!(read(), name, "{path:?}");
                assert!(listed().is_err(), "{path:?}");
                scene.call::<Write>(&json!({ "path": path, "content": "new" })).unwrap();
                assert_eq!(scene.content(name), "new", "{path:?}");
                scene.call::<Edit>(&json!({ "path": path, "oldText": "new", "newText": "newer" })).unwrap();
                assert_eq!(scene.content(name), "newer", "{path:?}");
            }
            Folder(name) => {
                assert_eq!(named.as_deref(), Ok(name), "{path:?}");
                assert!(listed().is_ok(), "{path:?}");
                assert!(read().ends_with("is a folder, not a file"), "{path:?}: {}", read());
                let written = scene.said::<Write>(&json!({ "path": path, "content": "x" }));
                assert!(written.ends_with("is a folder, not a file"), "{path:?}: {written}");
            }
            New(name) => {
                assert_eq!(named.as_deref(), Ok(name), "{path:?}");
                assert!(read().ends_with("does not exist"), "{path:?}: {}", read());
                scene.call::<Write>(&json!({ "path": path, "content": "new" })).unwrap();
                assert_eq!(scene.content(name), "new", "{path:?}");
            }
            Closed(why) => {
                assert!(named.is_ok(), "{path:?}");
                assert!(read().contains(why), "{path:?}: {}", read());
                let written = scene.said::<Write>(&json!({ "path": path, "content": "x" }));
                assert!(written.contains(why), "{path:?}: {written}");
                assert!(listed().is_err(), "{path:?}");
            }
            Nowhere(why) => {
                assert!(named.as_ref().is_err_and(|error| error.contains(why)), "{path:?}: {named:?}");
                for said in refusals(&scene, &path) {
                    assert!(said.contains(why), "{path:?}: {said}");
                }
                assert_eq!(scene.content("a.txt"), "a.txt", "{path:?}");
            }
        }
        assert_eq!(std::fs::read_to_string(scene.at("state/keys.txt")).unwrap(), "state/keys.txt");
        assert!(!scene.at("unborn").exists(), "{path:?}");
        scene.is_intact();
    }
}

#[test]
fn absolute_paths_are_understood_inside_the_root() {
    let scene = scene();
    let alias = scene.outside("").with_file_name("alias");
    std::os::unix::fs::symlink(scene.path(), &alias).unwrap();
    let real = Root::open(&scene.path(), &[]).unwrap();
    let by_alias = Root::open(&alias, &[]).unwrap();
    for (root, base) in [(&real, scene.path()), (&by_alias, alias.clone()), (&by_alias, scene.path())] {
        let base = base.display();
        assert_eq!(root.normalise(&format!("{base}")).unwrap(), ".");
        assert_eq!(root.normalise(&format!("{base}/docs/b.txt")).unwrap(), "docs/b.txt");
        assert_eq!(root.normalise(&format!("{base}//docs/./b.txt")).unwrap(), "docs/b.txt");
        for out in
            ["/..", "/../outside/secret.txt", "/../root/a.txt", "/docs/../../outside", "-other", "x/a.txt"]
        {
            let path = format!("{base}{out}");
            assert!(root.normalise(&path).is_err(), "{path}");
        }
    }
}

#[test]
fn a_root_inside_our_state_is_worked_in_but_never_left() {
    let scene = Scene::new();
    let base = scene.path().parent().unwrap().to_owned();
    std::fs::write(base.join("keys.txt"), CANARY).unwrap();
    let scene = scene.forbid(base.clone()).forbid(scene_state(&base));
    scene.file("docs/a.txt", "mine");
    scene.link("up", base.join("keys.txt"));
    assert_eq!(scene.said::<Read>(&json!({ "path": "docs/a.txt" })), "mine");
    scene.call::<Write>(&json!({ "path": "docs/b.txt", "content": "x" })).unwrap();
    for path in ["../keys.txt", "up", "sub/x"] {
        let said = scene.said::<Read>(&json!({ "path": path }));
        assert!(said.contains("outside") || said.contains("off limits"), "{path}: {said}");
    }
}

/// Another forbidden folder, inside the root.
fn scene_state(base: &std::path::Path) -> std::path::PathBuf {
    base.join("root/sub")
}

#[cfg(target_os = "linux")]
#[test]
fn the_files_of_processes_are_off_limits_also_when_the_root_is_everything() {
    let root = Root::open(std::path::Path::new("/"), &[]).unwrap();
    for path in ["/proc", "proc/self/environ", "/proc/self/root/etc/passwd", "proc/1/cwd"] {
        let refused = root.normalise(path).unwrap_err().to_string();
        assert!(refused.contains(OFF_LIMITS), "{path}: {refused}");
    }
    assert!(Root::open(std::path::Path::new("/proc/self"), &[]).is_err());
    assert_eq!(root.normalise("/dev/zero").unwrap(), "dev/zero");
    let refused = root.find("/dev/zero").unwrap().read(10).unwrap_err().to_string();
    assert!(refused.contains(SPECIAL), "{refused}");
}

#[test]
fn a_forbidden_folder_is_known_by_any_name() {
    let scene = scene();
    // The same folder under another name, as after a rename while the handle of the rules is older.
    let root = scene.root();
    std::fs::rename(scene.at("state"), scene.at("renamed")).unwrap();
    assert!(root.normalise("renamed/keys.txt").unwrap_err().to_string().contains(OFF_LIMITS));
    // And a file that is itself forbidden.
    let root = Root::open(&scene.path(), &[scene.at("a.txt")]).unwrap();
    assert!(
        root.find("a.txt").and_then(|found| found.read(10)).unwrap_err().to_string().contains(OFF_LIMITS)
    );
}

#[test]
fn a_hard_link_is_replaced_and_what_it_shared_is_not_written() {
    let scene = scene();
    std::fs::hard_link(scene.outside("secret.txt"), scene.at("shared")).unwrap();
    scene.call::<Write>(&json!({ "path": "shared", "content": "mine" })).unwrap();
    assert_eq!(scene.content("shared"), "mine");
    scene.is_intact();
}
