//! Somebody swaps folders and files with links to outside while tools work: nothing outside is read or written.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::super::edit::Edit;
use super::super::find::Find;
use super::super::grep::Grep;
use super::super::ls::Ls;
use super::super::read::Read;
use super::super::write::Write;
use super::{CANARY, Scene};

/// How often the two names are exchanged at least.
const SWAPS: usize = 5000;
const ROUNDS: usize = 150;

/// Ends the exchanging also when the work fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Exchanges two names until the work is done; how often the work went well and how often it was refused.
fn while_swapping(one: &PathBuf, other: &PathBuf, work: impl Fn(usize) -> Vec<bool>) -> (usize, usize) {
    let (swaps, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _done = Done(&done);
        let (mut well, mut refused, mut round) = (0, 0, 0);
        while round < ROUNDS || swaps.load(Ordering::Relaxed) < SWAPS {
            for ok in work(round) {
                if ok { well += 1 } else { refused += 1 }
            }
            round += 1;
        }
        (well, refused)
    })
}

#[test]
fn a_folder_swapped_with_a_link_to_outside_lets_nothing_out() {
    let scene = Scene::new();
    scene.file("dir/secret.txt", "inside");
    scene.link("evil", "../outside");
    let (well, refused) = while_swapping(&scene.at("dir"), &scene.at("evil"), |round| {
        let answers = [
            scene.call::<Read>(&json!({ "path": "dir/secret.txt" })),
            scene.call::<Ls>(&json!({ "path": "dir" })),
            scene.call::<Grep>(&json!({ "path": ".", "pattern": "canary" })),
            scene.call::<Find>(&json!({ "path": "dir", "pattern": "*" })),
            scene.call::<Write>(&json!({ "path": format!("dir/new-{}.txt", round % 10), "content": "x" })),
            scene.call::<Write>(&json!({ "path": format!("dir/deep-{round}/new.txt"), "content": "x" })),
            scene.call::<Edit>(&json!({ "path": "dir/secret.txt", "oldText": "canary", "newText": "cat" })),
        ];
        assert!(!format!("{answers:?}").contains(CANARY));
        answers.iter().map(Result::is_ok).collect()
    });
    assert!(well > 0 && refused > 0, "{well} went well, {refused} were refused");
    scene.is_intact();
}

#[test]
fn a_file_swapped_with_a_link_to_outside_lets_nothing_out() {
    let scene = Scene::new();
    scene.file("file.txt", "inside");
    scene.link("evil", "../outside/secret.txt");
    let (well, refused) = while_swapping(&scene.at("file.txt"), &scene.at("evil"), |round| {
        let answers = [
            scene.call::<Read>(&json!({ "path": "file.txt" })),
            scene.call::<Grep>(&json!({ "path": "file.txt", "pattern": "canary" })),
            scene.call::<Read>(&json!({ "path": "evil" })),
            scene.call::<Edit>(&json!({ "path": "file.txt", "oldText": "canary", "newText": "cat" })),
        ];
        assert!(!format!("{answers:?}").contains(CANARY), "{round}");
        answers.iter().map(Result::is_ok).collect()
    });
    assert!(well > 0 && refused > 0, "{well} went well, {refused} were refused");
    scene.is_intact();
}

#[test]
fn a_file_swapped_between_looking_and_opening_is_not_followed() {
    let scene = Scene::new();
    scene.file("file.txt", "inside");
    scene.link("evil", "../outside/secret.txt");
    let root = scene.root();
    let (well, refused) = while_swapping(&scene.at("file.txt"), &scene.at("evil"), |_| {
        // The shortest way between the look and the opening, so that the swap falls into it often.
        let read = || root.exactly("file.txt").and_then(|found| found.read(100));
        let tries = (0..200).map(|_| read().inspect(|content| assert_eq!(content.bytes, b"inside")).is_ok());
        tries.collect()
    });
    assert!(well > 0 && refused > 0, "{well} went well, {refused} were refused");
}

#[test]
fn a_link_that_appears_after_the_call_was_prepared_stops_it() {
    let scene = Scene::new();
    scene.file("a.txt", "one");
    scene.file("private/b.txt", "two");
    let args = json!({ "path": "a.txt" });
    let prepared = scene.prepare::<Read>(&args).unwrap();
    std::fs::remove_file(scene.at("a.txt")).unwrap();
    scene.link("a.txt", "private/b.txt");
    let refused = scene.run::<Read>(&args, &prepared).unwrap_err();
    assert!(refused.message.contains("was changed by somebody else"), "{}", refused.message);
    // Also in the middle of a path.
    scene.file("dir/b.txt", "one");
    let args = json!({ "path": "dir/b.txt", "content": "x" });
    let prepared = scene.prepare::<Write>(&args).unwrap();
    std::fs::rename(scene.at("dir"), scene.at("moved")).unwrap();
    scene.link("dir", "private");
    assert!(scene.run::<Write>(&args, &prepared).is_err());
    assert_eq!(scene.content("private/b.txt"), "two");
}

#[test]
fn a_link_that_led_elsewhere_when_it_was_asked_about_is_not_asked_again() {
    let scene = Scene::new();
    scene.file("public.txt", "public");
    scene.file("private.txt", "private");
    scene.link("link", "public.txt");
    let args = json!({ "path": "link" });
    let prepared = scene.prepare::<Read>(&args).unwrap();
    std::fs::remove_file(scene.at("link")).unwrap();
    scene.link("link", "private.txt");
    let output = scene.run::<Read>(&args, &prepared).unwrap();
    assert_eq!(super::text(&output), "public");
}
