//! Patches, from text to files.

use serde_json::{Value, json};

use super::super::tests::{Scene, going, text};
use super::{ApplyPatch, changes, commit, parse};

fn patch(body: &str) -> Value {
    json!({ "input": format!("*** Begin Patch\n{body}\n*** End Patch") })
}

/// The text after an update, or why there is none.
fn updated(old: &str, pieces: &str) -> String {
    let scene = Scene::new();
    scene.file("f", old);
    match scene.call::<ApplyPatch>(&patch(&format!("*** Update File: f\n{pieces}"))) {
        Ok(_) => scene.content("f"),
        Err(failure) => failure.message,
    }
}

#[test]
fn a_patch_adds_deletes_updates_and_moves() {
    let scene = Scene::new();
    scene.file("old.txt", "bye\n");
    scene.file("a.txt", "one\ntwo\nthree\n");
    scene.file("b.txt", "b\n");
    let args = patch(
        "*** Add File: new/n.txt\n+hello\n+\n+world\n*** Delete File: old.txt\n*** Update File: a.txt\n@@ one\n-two\n+2\n\
         *** Update File: b.txt\n*** Move to: moved/b.txt\n@@\n-b\n+B",
    );
    let prepared = scene.prepare::<ApplyPatch>(&args).unwrap();
    let subjects: Vec<_> = prepared.subjects.iter().map(|subject| subject.value.as_str()).collect();
    assert_eq!(subjects, ["new/n.txt", "old.txt", "a.txt", "b.txt", "moved/b.txt"]);
    assert_eq!(prepared.conditions.len(), 5);
    let preview = prepared.preview.clone().unwrap();
    for line in ["+++ b/new/n.txt", "--- a/old.txt\n+++ /dev/null", "-two\n+2", "+++ b/moved/b.txt"] {
        assert!(preview.contains(line), "{line} in {preview}");
    }
    assert!(!scene.at("new").exists() && scene.at("old.txt").exists(), "preparing changes nothing");
    let output = scene.run::<ApplyPatch>(&args, &prepared).unwrap();
    assert!(
        text(&output).starts_with("Changed:\nA new/n.txt\nD old.txt\nM a.txt\nD b.txt\nA moved/b.txt\n"),
        "{}",
        text(&output)
    );
    assert_eq!(scene.content("new/n.txt"), "hello\n\nworld\n");
    assert_eq!(scene.content("a.txt"), "one\n2\nthree\n");
    assert_eq!(scene.content("moved/b.txt"), "B\n");
    assert!(!scene.at("old.txt").exists() && !scene.at("b.txt").exists());
}

#[test]
fn pieces_find_their_place() {
    for (old, pieces, new) in [
        ("a\nb\na\nb\n", "@@\n a\n-b\n+B", "a\nB\na\nb\n"),
        ("def x\n  p\ndef y\n  p\n", "@@ def y\n-  p\n+  q", "def x\n  p\ndef y\n  q\n"),
        (
            "class A\ndef x\n p\nclass B\ndef x\n p\n",
            "@@ class B\n@@ def x\n- p\n+ q",
            "class A\ndef x\n p\nclass B\ndef x\n q\n",
        ),
        ("a\nb\na\nb\n", "@@\n-b\n+c\n*** End of File", "a\nb\na\nc\n"),
        ("a\nb\nc\n", "@@\n-a\n+A\n@@\n-c\n+C", "A\nb\nC\n"),
        // The first piece needs no mark.
        ("a\n", "-a\n+b", "b\n"),
        // Nothing but new lines: at the end, or after the line that is named.
        ("a\nb\n", "@@\n+c", "a\nb\nc\n"),
        ("a\nb\n", "@@ a\n+c", "a\nc\nb\n"),
        ("", "@@\n+c", "c\n"),
        // Looser and looser, but what is kept is kept as it is.
        ("  a  \nb\t\n", "@@\n   a\n-b\n+c", "  a  \nc\n"),
        ("\ta\nb\n", "@@\n a\n-b\n+c", "\ta\nc\n"),
        (
            "say \u{201C}x\u{201D} \u{2013} y\nb\n",
            "@@\n say \"x\" - y\n-b\n+c",
            "say \u{201C}x\u{201D} \u{2013} y\nc\n",
        ),
        // An exact place later is better than a loose one before.
        (" x\nx\n", "@@\n-x\n+y", " x\ny\n"),
        // Line ends, the mark and a missing end stay.
        ("\u{FEFF}a\r\nb\r\n", "@@\n a\n-b\n+c\n+d", "\u{FEFF}a\r\nc\r\nd\r\n"),
        ("a\nb", "@@\n-b\n+c", "a\nc"),
        ("a\nb", "@@\n b\n+c", "a\nb\nc"),
        ("a\n\nb\n", "@@\n a\n\n-b\n+c", "a\n\nc\n"),
        ("a\nb\n", "@@\n-a\n+c\n", "c\nb\n"),
        ("a\n", "@@\n-a", ""),
    ] {
        assert_eq!(updated(old, pieces), new, "{old:?} {pieces:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_lines_that_were_looked_for() {
    for (old, pieces, why) in [
        ("a\n", "@@\n-b\n+c", "f: piece 1 does not fit"),
        ("a\nb\n", "@@\n-b\n+c\n@@\n-a\n+c", "f: piece 2 does not fit"),
        ("a\n", "@@ none\n-a\n+c", "f: piece 1 does not fit"),
        ("a\nb\n", "@@\n-a\n+c\n*** End of File", "f: piece 1 does not fit"),
        ("a\n", "@@\n-a\n+a", "the patch changes nothing"),
        ("a\n", "@@\n a", "the patch changes nothing"),
    ] {
        let said = updated(old, pieces);
        assert!(said.starts_with(why), "{pieces:?}: {said}");
    }
}

#[test]
fn a_patch_in_a_here_document_is_unwrapped() {
    let body = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch";
    for input in [
        body.to_owned(),
        format!("\n{body}\n\n"),
        format!("<<EOF\n{body}\nEOF"),
        format!("<<'EOF'\n{body}\nEOF\n"),
        format!("<<\"PATCH\"\n{body}\nPATCH"),
        format!("apply_patch <<'EOF'\n{body}\nEOF"),
        body.replace('\n', "\r\n"),
    ] {
        assert_eq!(parse::parse(&input), parse::parse(body), "{input:?}");
    }
}

#[test]
fn what_is_no_patch_is_refused_with_the_line() {
    for (input, why) in [
        ("", "line 1 of the patch: a patch begins with *** Begin Patch"),
        ("rm -rf / <<EOF\n*** Begin Patch\n*** Delete File: a\n*** End Patch\nEOF", "a patch begins with"),
        ("*** Begin Patch\n*** End Patch", "line 2 of the patch: the patch is empty"),
        ("*** Begin Patch\n*** Delete File: a", "line 2 of the patch: the patch was cut off"),
        (
            "*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
            "line 3 of the patch: every line of a new file begins with +",
        ),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "the update of a changes nothing"),
        ("*** Begin Patch\n*** Update File: a\n@@\n*** End Patch", "this @@ has no lines"),
        (
            "*** Begin Patch\n*** Update File: a\n@@\nx\n*** End Patch",
            "line 4 of the patch: a line of a piece begins with",
        ),
        ("*** Begin Patch\n*** Rename File: a\n*** End Patch", "line 2 of the patch: expected"),
        ("*** Begin Patch\n*** Delete File: a\n*** End Patch\nmore", "something follows"),
    ] {
        let said = parse::parse(input).unwrap_err().to_string();
        assert!(said.contains(why), "{input:?}: {said}");
    }
}

#[test]
fn one_part_that_cannot_be_done_leaves_everything_as_it_was() {
    let scene = Scene::new();
    scene.file("a", "a\n");
    scene.file("b", "b\n");
    for bad in [
        "*** Update File: b\n@@\n-none\n+x",
        "*** Add File: b\n+x",
        "*** Delete File: none",
        "*** Update File: none\n@@\n-x\n+y",
        "*** Update File: b\n*** Move to: a",
        "*** Add File: ../out\n+x",
        "*** Add File: a/below\n+x",
    ] {
        let args = patch(&format!("*** Update File: a\n@@\n-a\n+A\n*** Add File: new/c\n+c\n{bad}"));
        assert!(scene.call::<ApplyPatch>(&args).is_err(), "{bad}");
        assert_eq!((scene.content("a"), scene.content("b")), ("a\n".into(), "b\n".into()), "{bad}");
        assert!(!scene.at("new").exists(), "{bad}");
    }
    scene.is_intact();
}

#[test]
fn what_was_put_in_place_is_put_back_when_the_rest_cannot_be() {
    let scene = Scene::new();
    for name in ["a", "b", "gone"] {
        scene.file(name, format!("{name}\n"));
    }
    let hunks = parse::parse(
        "*** Begin Patch\n*** Update File: a\n@@\n-a\n+A\n*** Add File: c\n+c\n*** Update File: b\n@@\n-b\n+B\n\
         *** Delete File: gone\n*** End Patch",
    )
    .unwrap();
    let root = scene.root();
    for touched in ["b", "gone"] {
        let planned = changes(&hunks, |_, path| Ok(root.find(path)?)).unwrap();
        scene.file(touched, "somebody else\n");
        let failure = commit(planned, &going()).unwrap_err();
        assert!(failure.message.contains("was changed by somebody else"), "{}", failure.message);
        assert_eq!((scene.content("a"), scene.content(touched)), ("a\n".into(), "somebody else\n".into()));
        assert!(!scene.at("c").exists());
        assert_eq!(std::fs::read_dir(scene.path()).unwrap().count(), 3, "no temporary file stays");
        scene.file(touched, format!("{touched}\n"));
    }
}

#[test]
fn a_file_may_be_named_more_than_once() {
    let scene = Scene::new();
    scene.file("a", "1\n2\n");
    scene.link("same", "a");
    scene
        .call::<ApplyPatch>(&patch(
            "*** Update File: a\n@@\n-1\n+one\n*** Update File: same\n@@\n-2\n+two\n*** Add File: t\n+t\n\
             *** Delete File: t",
        ))
        .unwrap();
    assert_eq!(scene.content("a"), "one\ntwo\n");
    assert!(!scene.at("t").exists());
}

#[test]
fn a_patch_does_not_run_on_files_that_changed_since_it_was_shown() {
    let scene = Scene::new();
    scene.file("a", "1\nother\n");
    let args = patch("*** Update File: a\n@@\n-1\n+one");
    let prepared = scene.prepare::<ApplyPatch>(&args).unwrap();
    scene.file("a", "1\nchanged\n");
    let failure = scene.run::<ApplyPatch>(&args, &prepared).unwrap_err();
    assert!(failure.message.contains("was changed by somebody else"), "{}", failure.message);
    assert_eq!(scene.content("a"), "1\nchanged\n");
}

#[test]
fn a_moved_program_stays_one() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new();
    scene.file("run", "#!/bin/sh\n");
    std::fs::set_permissions(scene.at("run"), std::fs::Permissions::from_mode(0o755)).unwrap();
    scene.call::<ApplyPatch>(&patch("*** Update File: run\n*** Move to: bin/run")).unwrap();
    assert_eq!(std::fs::metadata(scene.at("bin/run")).unwrap().permissions().mode() & 0o777, 0o755);
}
