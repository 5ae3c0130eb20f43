//! What `ls`, `find` and `grep` find, and what they leave out.

use serde_json::{Value, json};

use super::super::find::Find;
use super::super::grep::Grep;
use super::super::ls::Ls;
use super::super::{FileWork as _, Held, parse};
use super::{CANARY, Scene, going, text};

fn scene() -> Scene {
    let scene = Scene::new();
    let state = scene.at("state");
    let scene = scene.forbid(state);
    scene.file("main.rs", "fn main() {\n    needle();\n}\n");
    scene.file("src/lib.rs", "// Needle\nmod a;\n");
    scene.file("src/deep/mod.ts", "needle\n");
    scene.file("state/main.rs", "needle in state\n");
    scene.file("target/out.rs", "needle in target\n");
    scene.file("keep.log", "needle kept\n");
    scene.file("drop.log", "needle dropped\n");
    scene.file(".gitignore", "target/\n*.log\n!keep.log\n");
    scene.file("src/.gitignore", "/deep/*.gen\n");
    scene.file("src/deep/x.gen", "needle generated\n");
    scene.file(".git/config", "needle in git\n");
    scene.file("binary", b"needle\0needle\n");
    scene.link("out", "../outside");
    scene.link("again", "src");
    scene
}

#[test]
fn ls_lists_names_with_what_they_are() {
    let scene = scene();
    scene.file("Zeta", "");
    let said = scene.said::<Ls>(&json!({}));
    assert_eq!(
        said,
        ".git/\n.gitignore\nagain -> src\nbinary\ndrop.log\nkeep.log\nmain.rs\nout -> ../outside\nsrc/\nstate/\ntarget/\nZeta"
    );
    let cut = scene.call::<Ls>(&json!({ "limit": 2 })).unwrap();
    assert!(cut.truncated);
    assert_eq!(text(&cut), ".git/\n.gitignore\n\n[2 of 12 entries are shown.]");
    std::fs::create_dir(scene.at("empty")).unwrap();
    assert_eq!(scene.said::<Ls>(&json!({ "path": "empty" })), "[The folder is empty.]");
    assert_eq!(scene.said::<Ls>(&json!({ "path": "main.rs" })), "main.rs is not a folder");
}

#[test]
fn find_follows_globs_and_gitignore_but_no_links() {
    let scene = scene();
    let find = |args: Value| scene.said::<Find>(&args);
    assert_eq!(find(json!({ "pattern": "*.rs" })), "main.rs\nsrc/lib.rs");
    assert_eq!(find(json!({ "pattern": "**/*.ts" })), "src/deep/mod.ts");
    assert_eq!(find(json!({ "pattern": "src/*" })), "src/.gitignore\nsrc/deep/\nsrc/lib.rs");
    assert_eq!(find(json!({ "pattern": "*.{ts,log}" })), "keep.log\nsrc/deep/mod.ts");
    assert_eq!(find(json!({ "pattern": "*.gen" })), "[Nothing matches.]");
    assert_eq!(find(json!({ "pattern": "*.gen", "path": "src" })), "[Nothing matches.]");
    assert_eq!(find(json!({ "pattern": "deep/*", "path": "src" })), "src/deep/mod.ts");
    assert_eq!(find(json!({ "pattern": "*.rs", "path": "again" })), "src/lib.rs");
    assert_eq!(find(json!({ "pattern": "out.rs", "path": "target" })), "target/out.rs");
    assert_eq!(find(json!({ "pattern": "secret*" })), "[Nothing matches.]");
    let cut = scene.call::<Find>(&json!({ "pattern": "*", "limit": 3 })).unwrap();
    assert!(cut.truncated && text(&cut).contains("Only the first 3 are shown"));
    assert!(find(json!({ "pattern": "a[" })).contains("is not a glob"));
    assert!(find(json!({ "pattern": "!a" })).contains("is not a glob"));
}

#[test]
fn grep_shows_lines_with_their_place() {
    let scene = scene();
    let grep = |args: Value| scene.said::<Grep>(&args);
    assert_eq!(
        grep(json!({ "pattern": "needle" })),
        "keep.log:1: needle kept\nmain.rs:2:     needle();\nsrc/deep/mod.ts:1: needle\n"
    );
    assert_eq!(
        grep(json!({ "pattern": "NEEDLE", "ignoreCase": true, "path": "src" })),
        "src/deep/mod.ts:1: needle\nsrc/lib.rs:1: // Needle\n"
    );
    assert_eq!(grep(json!({ "pattern": "needle()", "literal": true })), "main.rs:2:     needle();\n");
    assert_eq!(grep(json!({ "pattern": "^needle$", "glob": "*.ts" })), "src/deep/mod.ts:1: needle\n");
    assert_eq!(
        grep(json!({ "pattern": "needle", "path": "main.rs", "context": 1 })),
        "main.rs-1- fn main() {\nmain.rs:2:     needle();\nmain.rs-3- }\n"
    );
    assert_eq!(grep(json!({ "pattern": "nothing like it" })), "[Nothing matches.]");
    assert_eq!(grep(json!({ "pattern": CANARY, "literal": true })), "[Nothing matches.]");
    assert_eq!(grep(json!({ "pattern": "needle", "path": "binary" })), "binary is a binary file, not text");
    assert!(grep(json!({ "pattern": "(" })).contains("not a regular expression"));
    assert!(grep(json!({ "pattern": "(\\w{1000}){1000}" })).contains("not a regular expression"));
}

#[test]
fn context_of_matches_that_are_near_is_shown_once() {
    let scene = Scene::new();
    scene.file("f", "1\nx2\n3\nx4\n5\n6\n7\nx8\n");
    assert_eq!(
        scene.said::<Grep>(&json!({ "pattern": "x", "context": 1 })),
        "f-1- 1\nf:2: x2\nf-3- 3\nf:4: x4\nf-5- 5\nf-7- 7\nf:8: x8\n"
    );
}

#[test]
fn grep_keeps_its_limits() {
    let scene = Scene::new();
    scene.file("many", "hit\n".repeat(300));
    let many = scene.call::<Grep>(&json!({ "pattern": "hit" })).unwrap();
    assert!(many.truncated);
    assert_eq!(text(&many).matches("many:").count(), 100);
    assert!(text(&many).contains("Only the first 100 matches are shown"));
    let exact = scene.call::<Grep>(&json!({ "pattern": "hit", "limit": 300 })).unwrap();
    assert!(!exact.truncated);
    scene.file("wide", format!("hit{}\n", "é".repeat(600)));
    let wide = scene.call::<Grep>(&json!({ "pattern": "hit", "path": "wide" })).unwrap();
    assert!(wide.truncated && text(&wide).contains("… [cut]"));
    scene.file("huge", format!("hit {}\n", "w".repeat(400)).repeat(400));
    let huge = scene.call::<Grep>(&json!({ "pattern": "hit", "path": "huge", "limit": 400 })).unwrap();
    assert!(huge.truncated && text(&huge).len() < 52_000, "{}", text(&huge).len());
}

#[test]
fn looking_stops_when_nobody_waits() {
    let scene = scene();
    let args = json!({ "pattern": "x" });
    let prepared = scene.prepare::<Grep>(&args).unwrap();
    let stop = going();
    stop.0.cancel();
    let held = Held::new(&prepared.subjects, &prepared.conditions);
    let failure = Grep::run(&parse(&args).unwrap(), &scene.root(), &held, &stop).unwrap_err();
    assert_eq!(failure.message, "the call was stopped");
}
