//! What holds for every path and every change.

use proptest::prelude::*;
use serde_json::json;

use super::super::diff::unified;
use super::super::edit::Edit;
use super::super::patch::ApplyPatch;
use super::{CANARY, Scene, text};
use crate::root::{End, Root};

fn scene() -> Scene {
    let scene = Scene::new();
    for name in ["a", "b/a", "b/c/a"] {
        scene.file(name, name);
    }
    scene.link("l", "b/c");
    scene.link("b/l", "..");
    scene.link("b/c/l", "../../l/a");
    scene.link("o", "../outside");
    scene.link("b/o", "../../outside/secret.txt");
    scene.link("r", scene.path());
    scene
}

/// What somebody who opens a path sees.
fn seen(root: &Root, found: Result<crate::root::Found<'_>, crate::root::PathError>) -> String {
    let Ok(found) = found else { return "refused".to_owned() };
    assert!(found.name().is_ok_and(|name| root.exactly(&name).is_ok()));
    match &found.end {
        End::File(_) => String::from_utf8(found.read(100).unwrap().bytes).unwrap(),
        End::Folder => format!("{:?}", found.open_folder().unwrap().entries().unwrap()),
        End::Missing { names, .. } => format!("{names:?} missing"),
    }
}

fn paths() -> impl Strategy<Value = String> {
    let step =
        prop::sample::select(vec!["a", "b", "c", "l", "o", "r", "..", ".", "", "new", "secret.txt", "~"]);
    let steps = prop::collection::vec(step, 1..9).prop_map(|steps| steps.join("/"));
    prop_oneof![4 => steps, 1 => ".*", 1 => "[/.~:\\\\a-c]{0,12}"]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn a_normalised_path_never_leaves_and_is_the_same_place(path in paths(), absolute in any::<bool>()) {
        let scene = scene();
        let root = scene.root();
        let path = if absolute { format!("{}/{path}", scene.path().display()) } else { path };
        let by_path = seen(&root, root.find(&path));
        prop_assert!(!by_path.contains(CANARY));
        match root.normalise(&path) {
            Err(_) => prop_assert_eq!(by_path, "refused"),
            Ok(name) => {
                prop_assert!(!name.starts_with('/') && !name.is_empty());
                prop_assert!(name == "." || name.split('/').all(|step| !["", ".", ".."].contains(&step)));
                prop_assert_eq!(by_path, seen(&root, root.exactly(&name)));
                let real = std::fs::canonicalize(scene.at(&name));
                prop_assert!(real.is_ok_and(|real| real == scene.at(&name).components().collect::<std::path::PathBuf>()) || !scene.at(&name).exists());
            }
        }
    }
}

proptest! {
    // Each of these waits for the disk.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(80) })]

    #[test]
    fn the_diff_of_an_edit_applied_to_the_old_text_is_the_new_text(
        lines in prop::collection::vec("[ab]{0,2}", 1..30), at in any::<prop::sample::Index>(), new in "[ab\n]{0,6}",
    ) {
        let scene = Scene::new();
        let mut lines = lines;
        let at = at.index(lines.len());
        lines[at] = "OLD".to_owned();
        let old = lines.join("\n");
        scene.file("f", &old);
        let output = scene.call::<Edit>(&json!({ "path": "f", "oldText": "OLD", "newText": new })).unwrap();
        let new = old.replace("OLD", &new);
        prop_assert_eq!(scene.content("f"), new.clone());
        let said = text(&output);
        let diff = said.strip_prefix("Edited f.\n").unwrap();
        prop_assert_eq!(patched(&old, diff), new);
    }

    #[test]
    fn a_patch_made_of_two_texts_turns_one_into_the_other(
        old in prop::collection::vec("[a-c]{1,2}", 0..20), new in prop::collection::vec("[a-c]{1,2}", 0..20),
        crlf in any::<bool>(), mark in any::<bool>(),
    ) {
        prop_assume!(old != new);
        let end = if crlf { "\r\n" } else { "\n" };
        let whole = |lines: &[String]| {
            let body: String = lines.iter().flat_map(|line| [line.as_str(), end]).collect();
            format!("{}{body}", if mark { "\u{FEFF}" } else { "" })
        };
        // Every line of both, so that it fits in one place only.
        let piece: Vec<String> = old.iter().map(|line| format!("-{line}"))
            .chain(new.iter().map(|line| format!("+{line}"))).collect();
        let input = format!("*** Begin Patch\n*** Update File: f\n@@\n{}\n*** End Patch", piece.join("\n"));
        let scene = Scene::new();
        scene.file("f", whole(&old));
        scene.call::<ApplyPatch>(&json!({ "input": input })).unwrap();
        // An empty file has no line end to keep.
        let expected = if old.is_empty() { whole(&new).replace("\r\n", "\n") } else { whole(&new) };
        prop_assert_eq!(scene.content("f"), expected);
    }

    #[test]
    fn a_diff_says_nothing_only_when_nothing_changes(old in "[ab\r\n]{0,12}", new in "[ab\r\n]{0,12}") {
        let diff = unified("f", Some(old.as_bytes()), Some(new.as_bytes()));
        prop_assert_eq!(diff.is_empty(), old == new);
    }
}

/// Applies a unified diff, strictly.
fn patched(old: &str, diff: &str) -> String {
    let old: Vec<_> = old.split_inclusive('\n').collect();
    let (mut at, mut new) = (0, String::new());
    let mut lines = diff.split_inclusive('\n').skip(2).peekable();
    while let Some(line) = lines.next() {
        if let Some(header) = line.strip_prefix("@@ -") {
            let range = header.split(' ').next().unwrap();
            let mut numbers = range.split(',').map(|number| number.parse::<usize>().unwrap());
            let (start, count) = (numbers.next().unwrap(), numbers.next().unwrap_or(1));
            let start = if count == 0 { start } else { start - 1 };
            new.extend(old[at..start].iter().copied());
            at = start;
            continue;
        }
        let (sign, rest) = line.split_at(1);
        let without_end = lines.next_if(|next| next.starts_with('\\')).is_some();
        let rest = if without_end { rest.strip_suffix('\n').unwrap() } else { rest };
        if sign != "+" {
            assert_eq!(old[at], rest);
            at += 1;
        }
        if sign != "-" {
            new.push_str(rest);
        }
    }
    new.extend(old[at..].iter().copied());
    new
}
