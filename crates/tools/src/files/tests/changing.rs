//! What `write` and `edit` do to files, and what they refuse.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use tidegate_policy::{Subject, SubjectKind};

use super::super::edit::Edit;
use super::super::write::Write;
use super::super::{FileWork as _, Held, Stop, parse};
use super::{Scene, text};

fn mode(scene: &Scene, name: &str) -> u32 {
    std::fs::metadata(scene.at(name)).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_new_file_is_shown_before_it_is_written_with_the_folders_on_its_way() {
    let scene = Scene::new();
    let args = json!({ "path": "a/b/c.txt", "content": "hello\n" });
    let prepared = scene.prepare::<Write>(&args).unwrap();
    assert_eq!(prepared.subjects, [Subject::new(SubjectKind::Path, "a/b/c.txt")]);
    assert_eq!(prepared.preview.as_deref(), Some("hello\n"));
    assert_eq!(prepared.conditions, [("sha256 a/b/c.txt".to_owned(), "absent".to_owned())]);
    assert!(!scene.at("a").exists(), "preparing changes nothing");
    let output = scene.run::<Write>(&args, &prepared).unwrap();
    assert_eq!(text(&output), "Made a/b/c.txt: 6 bytes.");
    assert_eq!(scene.content("a/b/c.txt"), "hello\n");
    // Nobody gets more than the mask of the process leaves.
    assert_eq!((mode(&scene, "a/b/c.txt") & !0o644, mode(&scene, "a/b") & !0o755), (0, 0));
    let left: Vec<_> = std::fs::read_dir(scene.at("a/b")).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file stays");
}

#[test]
fn what_is_replaced_is_shown_as_a_diff_and_keeps_its_rights() {
    let scene = Scene::new();
    scene.file("run.sh", "one\ntwo\n");
    std::fs::set_permissions(scene.at("run.sh"), std::fs::Permissions::from_mode(0o4750)).unwrap();
    let args = json!({ "file_path": "run.sh", "content": "one\n2\n" });
    let prepared = scene.prepare::<Write>(&args).unwrap();
    let diff = "--- a/run.sh\n+++ b/run.sh\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
    assert_eq!(prepared.preview.as_deref(), Some(diff));
    scene.run::<Write>(&args, &prepared).unwrap();
    assert_eq!(scene.content("run.sh"), "one\n2\n");
    assert_eq!(mode(&scene, "run.sh"), 0o750);
}

#[test]
fn a_file_that_changed_since_it_was_shown_is_left_alone() {
    let scene = Scene::new();
    scene.file("a", "one");
    let write = json!({ "path": "a", "content": "two" });
    let edit = json!({ "path": "a", "oldText": "one", "newText": "two" });
    let written = scene.prepare::<Write>(&write).unwrap();
    let edited = scene.prepare::<Edit>(&edit).unwrap();
    let made = scene.prepare::<Write>(&json!({ "path": "b", "content": "two" })).unwrap();
    scene.file("a", "one more");
    scene.file("b", "somebody was faster");
    for failure in [
        scene.run::<Write>(&write, &written).unwrap_err(),
        scene.run::<Edit>(&edit, &edited).unwrap_err(),
        scene.run::<Write>(&json!({ "path": "b", "content": "two" }), &made).unwrap_err(),
    ] {
        assert!(failure.message.contains("was changed by somebody else"), "{}", failure.message);
    }
    assert_eq!((scene.content("a"), scene.content("b")), ("one more".into(), "somebody was faster".into()));
    // The same content written again is the same file to whoever approved it.
    scene.file("a", "one");
    scene.run::<Edit>(&edit, &edited).unwrap();
    assert_eq!(scene.content("a"), "two");
}

#[test]
fn a_file_that_changes_between_the_check_and_the_end_is_left_alone() {
    let scene = Scene::new();
    scene.file("a", "one");
    let root = scene.root();
    let found = root.find("a").unwrap();
    let was = found.was(100).unwrap();
    let staged = found.stage(b"two", &was, was.mode()).unwrap();
    scene.file("a", "six");
    assert!(staged.put().unwrap_err().to_string().contains("was changed"));
    let absent = root.find("b").unwrap();
    let staged = absent.stage(b"two", &absent.was(100).unwrap(), None).unwrap();
    scene.link("b", "a");
    assert!(staged.put().unwrap_err().to_string().contains("was changed"));
    assert_eq!(scene.content("a"), "six");
    assert_eq!(std::fs::read_dir(scene.path()).unwrap().count(), 2, "no temporary file stays");
}

#[test]
fn a_call_that_was_stopped_changes_nothing() {
    let scene = Scene::new();
    scene.file("a", "one");
    let args = json!({ "path": "a", "content": "two" });
    let prepared = scene.prepare::<Write>(&args).unwrap();
    let held = Held::new(&prepared.subjects, &prepared.conditions);
    let stop = Stop(tokio_util::sync::CancellationToken::new());
    stop.0.cancel();
    let failure = Write::run(&parse(&args).unwrap(), &scene.root(), &held, &stop).unwrap_err();
    assert_eq!(failure.message, "the call was stopped");
    assert_eq!(scene.content("a"), "one");
    assert_eq!(std::fs::read_dir(scene.path()).unwrap().count(), 1, "no temporary file stays");
}

#[test]
fn an_edit_shows_its_diff_before_and_after() {
    let scene = Scene::new();
    let lines: Vec<String> = (1..=12).map(|number| format!("line {number}\n")).collect();
    scene.file("a.txt", lines.concat());
    let args = json!({ "path": "a.txt", "old_string": "line 6", "newText": "LINE 6" });
    let prepared = scene.prepare::<Edit>(&args).unwrap();
    let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -2,9 +2,9 @@\n line 2\n line 3\n line 4\n line 5\n-line 6\n+LINE 6\n line 7\n \
                line 8\n line 9\n line 10\n";
    assert_eq!(prepared.preview.as_deref(), Some(diff));
    let output = scene.run::<Edit>(&args, &prepared).unwrap();
    assert_eq!(text(&output), format!("Edited a.txt.\n{diff}"));
    assert_eq!(output.data, Some(json!({ "path": "a.txt", "diff": diff })));
    assert_eq!(scene.content("a.txt"), lines.concat().replace("line 6", "LINE 6"));
}

#[test]
fn an_edit_says_why_it_cannot_be_made() {
    let scene = Scene::new();
    scene.file("a", "x\ny\nx\n");
    scene.file("raw", b"x\xFF");
    let edit = |path: &str, old: &str, new: &str| {
        scene.said::<Edit>(&json!({ "path": path, "oldText": old, "newText": new }))
    };
    assert_eq!(
        edit("a", "x", "z"),
        "a: oldText is in the file 2 times (lines 1, 3): give more of the lines around it"
    );
    assert_eq!(
        edit("a", "q", "z"),
        "a: oldText is not in the file: read it again and copy the text as it is"
    );
    assert_eq!(edit("a", "y", "y"), "a: newText is what is there already: nothing would change");
    assert_eq!(edit("none", "y", "z"), "none does not exist");
    assert_eq!(edit("raw", "x", "z"), "raw is not UTF-8 text: it cannot be edited");
    assert_eq!(scene.said::<Edit>(&json!({ "path": "a" })), "missing required argument: oldText");
}

#[test]
fn a_preview_is_bounded() {
    let scene = Scene::new();
    let content = "a long line of text\n".repeat(10_000);
    let prepared = scene.prepare::<Write>(&json!({ "path": "new", "content": content })).unwrap();
    let preview = prepared.preview.unwrap();
    assert!(preview.len() < 66_000 && preview.ends_with("… [134464 more bytes]"), "{}", preview.len());
    scene.file("old", "another line\n".repeat(10_000));
    let prepared = scene.prepare::<Write>(&json!({ "path": "old", "content": content })).unwrap();
    assert!(prepared.preview.unwrap().contains("10000 lines are replaced by 10000 lines"));
}

#[test]
fn a_change_of_nothing_but_line_ends_is_not_hidden() {
    let scene = Scene::new();
    scene.file("a", "one\ntwo\n");
    let prepared = scene.prepare::<Write>(&json!({ "path": "a", "content": "one\r\ntwo\r\n" })).unwrap();
    assert!(prepared.preview.unwrap().contains("-one\n"));
}
