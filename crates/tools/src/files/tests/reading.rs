//! What `read`, `fs.read_file` and `fs.list_dir` show.

use serde_json::json;
use tidegate_policy::{Subject, SubjectKind};
use tidegate_protocol::{Block, ToolErrorCode};

use super::super::fs_list_dir::ListDir;
use super::super::fs_read_file::ReadFile;
use super::super::read::Read;
use super::{Scene, text};

#[test]
fn a_file_is_shown_from_the_line_asked_for_and_says_how_to_read_on() {
    let scene = Scene::new();
    scene.file("five", "1\n2\n3\n4\n5\n");
    for (args, said) in [
        (json!({ "path": "five" }), "1\n2\n3\n4\n5\n"),
        (json!({ "path": "five", "limit": 2 }), "1\n2\n\n[Lines 1 to 2 of 5. Use offset=3 to read on.]"),
        (
            json!({ "path": "five", "offset": 3, "limit": 1 }),
            "3\n\n[Lines 3 to 3 of 5. Use offset=4 to read on.]",
        ),
        (json!({ "path": "five", "offset": 5 }), "5\n"),
        (json!({ "path": "five", "offset": 6 }), "offset 6 is not in five: it has 5 lines"),
        (json!({ "path": "five", "offset": 0 }), "offset 0 is not in five: it has 5 lines"),
        (json!({}), "missing required argument: path"),
        (json!({ "path": "five", "file_path": "six" }), "argument path was given twice"),
    ] {
        assert_eq!(scene.said::<Read>(&args), said, "{args}");
    }
}

#[test]
fn what_is_too_much_at_once_is_cut_and_said_so() {
    let scene = Scene::new();
    scene.file("many", "x\n".repeat(3000));
    scene.file("wide", format!("{}\n", "y".repeat(99)).repeat(1000));
    scene.file("long", format!("{}\nnext\n", "z".repeat(60_000)));
    let many = scene.call::<Read>(&json!({ "path": "many" })).unwrap();
    assert!(
        many.truncated && text(&many).ends_with("[Lines 1 to 2000 of 3000. Use offset=2001 to read on.]")
    );
    let wide = scene.call::<Read>(&json!({ "path": "wide" })).unwrap();
    assert!(wide.truncated && text(&wide).ends_with("[Lines 1 to 512 of 1000. Use offset=513 to read on.]"));
    let long = scene.call::<Read>(&json!({ "path": "long" })).unwrap();
    assert!(long.truncated && text(&long).starts_with(&"z".repeat(51_200)));
    assert!(text(&long).contains("Line 1 is longer than 50 KB") && text(&long).contains("offset=2"));
    let all = scene.call::<Read>(&json!({ "path": "many", "offset": 2001 })).unwrap();
    assert!(!all.truncated);
}

#[test]
fn what_is_special_about_a_text_is_said() {
    let scene = Scene::new();
    for (bytes, said) in [
        (&b""[..], "[The file is empty.]"),
        (b"\xEF\xBB\xBFa\r\nb\r\n", "a\nb\n\n[The file has a byte order mark and CRLF line ends.]"),
        (b"\xEF\xBB\xBFa", "a\n\n[The file has a byte order mark.]"),
        (b"a\xFFb\xFE\n", "a\u{FFFD}b\u{FFFD}\n\n[Not UTF-8 in 2 places, shown as \u{FFFD}.]"),
        (b"a\0b", "f is a binary file (3 bytes), not text"),
        (b"\xFF\xFEa\0b\0", "f is UTF-16 text: convert it to UTF-8 to read it"),
    ] {
        scene.file("f", bytes);
        assert_eq!(scene.said::<Read>(&json!({ "path": "f" })), said, "{bytes:?}");
    }
}

#[test]
fn images_are_known_by_their_content() {
    let scene = Scene::new();
    for (bytes, mime) in [
        (&b"\x89PNG\r\n\x1a\n123"[..], "image/png"),
        (b"\xFF\xD8\xFF\xE0123", "image/jpeg"),
        (b"GIF89a123", "image/gif"),
        (b"RIFF1234WEBP", "image/webp"),
    ] {
        scene.file("picture.txt", bytes);
        let output = scene.call::<Read>(&json!({ "path": "picture.txt" })).unwrap();
        let [Block::Text { .. }, Block::Image { data, mime_type }] = output.content.as_slice() else {
            panic!("{output:?}");
        };
        assert_eq!(mime_type, mime);
        assert_eq!(base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap(), bytes);
    }
    scene.file("not.png", "text");
    assert_eq!(scene.said::<Read>(&json!({ "path": "not.png" })), "text");
    scene.file("huge.png", [b"\x89PNG\r\n\x1a\n".to_vec(), vec![0; 6 << 20]].concat());
    assert!(scene.said::<Read>(&json!({ "path": "huge.png" })).contains("an image that is too large"));
}

#[test]
fn a_file_past_the_hard_cap_is_refused_before_it_is_read() {
    let scene = Scene::new();
    scene.file("sparse", "");
    std::fs::File::options().write(true).open(scene.at("sparse")).unwrap().set_len(1 << 40).unwrap();
    let said = scene.said::<Read>(&json!({ "path": "sparse" }));
    assert_eq!(said, "sparse is too large (1099511627776 > 33554432 bytes)");
}

#[test]
fn a_call_names_the_file_it_will_open() {
    let scene = Scene::new();
    scene.file("docs/a.txt", "a");
    scene.link("short", "docs");
    let prepared = scene.prepare::<Read>(&json!({ "path": "./short/../docs/a.txt" })).unwrap();
    assert_eq!(prepared.subjects, [Subject::new(SubjectKind::Path, "docs/a.txt")]);
}

#[test]
fn fs_read_file_keeps_its_contract() {
    let scene = Scene::new();
    scene.file("six", "sechs\n");
    scene.file("raw", b"a\xFF");
    let output = scene.call::<ReadFile>(&json!({ "path": "six" })).unwrap();
    assert_eq!(output.content, [Block::text("sechs\n")]);
    let path = scene.at("six").display().to_string();
    assert_eq!(output.data, Some(json!({ "path": path, "size": 6, "maxBytes": 204_800 })));
    for (args, said) in [
        (json!({ "path": "six", "maxBytes": 2 }), "file size exceeds maxBytes (6 > 2)"),
        (json!({ "path": "." }), "target path is not a file"),
        (json!({ "path": "none" }), "none does not exist"),
    ] {
        let failure = scene.call::<ReadFile>(&args).unwrap_err();
        assert_eq!((failure.code, failure.message.as_str()), (ToolErrorCode::ExecutionError, said));
    }
    let raw = scene.call::<ReadFile>(&json!({ "path": "raw" })).unwrap();
    assert!(text(&raw).contains("not UTF-8") && raw.data.unwrap()["encoding"] == "not UTF-8");
}

#[test]
fn fs_list_dir_keeps_its_contract_and_calls_a_directory_one() {
    let scene = Scene::new();
    scene.file("a", "");
    scene.file("sub/b", "");
    scene.file("sub/deep/c", "");
    let path = |name: &str| scene.at(name).display().to_string();
    let child = |kind: &str, name: &str, at: &str| json!({ "type": kind, "name": name, "path": path(at) });
    let target = scene.path().display().to_string();
    let top = json!({
        "depth": 0,
        "path": target,
        "children": [child("file", "a", "a"), child("directory", "sub", "sub")],
    });
    let flat = scene.call::<ListDir>(&json!({ "path": "." })).unwrap();
    assert_eq!(text(&flat), format!("listed 2 paths under {target}"));
    assert_eq!(
        flat.data,
        Some(json!({ "target": target, "recursive": false, "maxDepth": 4, "nodes": [top] }))
    );
    let shallow = scene.call::<ListDir>(&json!({ "path": ".", "recursive": true, "maxDepth": 1 })).unwrap();
    assert_eq!(shallow.data.unwrap()["nodes"], json!([top]));
    let two = scene.call::<ListDir>(&json!({ "path": ".", "recursive": true, "maxDepth": 2 })).unwrap();
    let sub = json!({
        "depth": 1,
        "path": path("sub"),
        "children": [child("file", "b", "sub/b"), child("directory", "deep", "sub/deep")],
    });
    assert_eq!(two.data.unwrap()["nodes"], json!([top, sub]));
    for number in 0..2100 {
        scene.file(&format!("many/{number}"), "");
    }
    let many = scene.call::<ListDir>(&json!({ "path": "many" })).unwrap();
    assert!(many.truncated && text(&many).starts_with("listed 2000 paths"));
    assert_eq!(many.data.unwrap()["truncated"], true);
}
