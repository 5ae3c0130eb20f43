//! What `memory_append` writes, and where it does not.

use proptest::prelude::*;
use serde_json::json;
use tidegate_policy::{Subject, SubjectKind};
use tidegate_runtime::{Clock as _, SystemClock, Zone};

use super::super::memory_append::MemoryAppend;
use super::{Scene, text};

#[test]
fn notes_are_added_one_below_the_other() {
    let scene = Scene::new();
    let args = json!({ "text": "likes tea", "file": "people.md" });
    let prepared = scene.prepare::<MemoryAppend>(&args).unwrap();
    assert_eq!(prepared.subjects, [Subject::new(SubjectKind::Path, "memory/people.md")]);
    assert_eq!(prepared.preview.as_deref(), Some("- likes tea\n"));
    assert!(!scene.at("memory").exists(), "preparing changes nothing");
    let output = scene.run::<MemoryAppend>(&args, &prepared).unwrap();
    assert_eq!(text(&output), "Noted in memory/people.md.");
    // Somebody writes, without an end to the line, after the next call was prepared: theirs stays.
    let args = json!({ "text": " * moved to\r\n\n  Kiel \u{7} ", "file": "memory/people.md" });
    let prepared = scene.prepare::<MemoryAppend>(&args).unwrap();
    scene.file("memory/people.md", "- likes tea\n- and scones");
    scene.run::<MemoryAppend>(&args, &prepared).unwrap();
    assert_eq!(scene.content("memory/people.md"), "- likes tea\n- and scones\n- moved to\n    Kiel\n");
    let left: Vec<_> = std::fs::read_dir(scene.at("memory")).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file stays");
}

#[test]
fn a_note_without_a_file_is_one_of_today() {
    let scene = Scene::new();
    let day = || Zone::default().day(SystemClock.now_ms());
    let (before, output, after) =
        (day(), scene.call::<MemoryAppend>(&json!({ "text": "x" })).unwrap(), day());
    let path = output.data.unwrap()["path"].as_str().unwrap().to_owned();
    assert!([before, after].map(|day| format!("memory/{day}.md")).contains(&path), "{path}");
    assert_eq!(scene.content(&path), "- x\n");
}

#[test]
fn nothing_is_written_outside_the_notes() {
    let scene = Scene::new();
    scene.file("secret.md", "mine");
    for file in [
        "../secret.md",
        "memory/../secret.md",
        "/etc/x.md",
        "a/b.md",
        "a\\b.md",
        ".md",
        ".hidden.md",
        "~x.md",
        "x.txt",
        "x.md/",
        "memory/",
        "..",
        "x\0.md",
        "memory/memory/x.md",
    ] {
        let said = scene.said::<MemoryAppend>(&json!({ "text": "x", "file": file }));
        assert!(said.starts_with("file has to be the name of a .md file in memory/"), "{file}: {said}");
    }
    let long = format!("{}.md", "x".repeat(120));
    assert!(scene.said::<MemoryAppend>(&json!({ "text": "x", "file": long })).starts_with("file has to be"));
    scene.link("memory/link.md", "../secret.md");
    let said = scene.said::<MemoryAppend>(&json!({ "text": "x", "file": "link.md" }));
    assert_eq!(said, "memory/link.md is a link to secret.md: notes are kept in memory/ only");
    scene.link("memory/out.md", scene.outside("secret.txt"));
    let said = scene.said::<MemoryAppend>(&json!({ "text": "x", "file": "out.md" }));
    assert!(said.contains("outside the working folder"), "{said}");
    assert_eq!(scene.content("secret.md"), "mine");
    scene.is_intact();
}

#[test]
fn a_folder_that_is_a_link_is_no_place_for_notes() {
    let scene = Scene::new();
    scene.file("src/x.md", "mine");
    scene.link("memory", "src");
    let said = scene.said::<MemoryAppend>(&json!({ "text": "x", "file": "x.md" }));
    assert_eq!(said, "memory/x.md is a link to src/x.md: notes are kept in memory/ only");
    assert_eq!(scene.content("src/x.md"), "mine");
}

#[test]
fn notes_and_their_files_are_bounded() {
    let scene = Scene::new();
    let said = scene.said::<MemoryAppend>(&json!({ "text": "x".repeat(8_193) }));
    assert_eq!(said, "text has 8193 bytes, 8192 are the limit: shorten it");
    for blank in ["", " \n ", "- ", "\u{1b}"] {
        assert_eq!(scene.said::<MemoryAppend>(&json!({ "text": blank })), "text is empty: say what to note");
    }
    scene.file("memory/full.md", "x".repeat(1_048_570));
    let said = scene.said::<MemoryAppend>(&json!({ "text": "more words", "file": "full.md" }));
    assert_eq!(said, "memory/full.md is too large (1048584 > 1048576 bytes)");
    assert_eq!(scene.content("memory/full.md").len(), 1_048_570);
}

proptest! {
    #[test]
    fn whatever_is_noted_is_one_item_and_nothing_before_it_changes(
        before in "(- [a-z]{1,9}\n){0,4}", note in "[a-z\\-*#\n\r\t \u{1b}海]{0,60}[a-z]",
    ) {
        let scene = Scene::new();
        scene.file("memory/n.md", &before);
        scene.call::<MemoryAppend>(&json!({ "text": note, "file": "n.md" })).unwrap();
        let content = scene.content("memory/n.md");
        let added = content.strip_prefix(before.as_str()).unwrap();
        prop_assert!(added.starts_with("- ") && added.ends_with('\n'));
        prop_assert!(added.lines().skip(1).all(|line| line.starts_with("  ")));
    }
}
