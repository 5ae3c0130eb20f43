//! Transcript files: what they look like, and what becomes of one that was torn, edited or replaced.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::home::{Home, names};
use crate::log::{Log, is_iso_time};

#[test]
fn a_transcript_is_a_header_and_a_line_a_message() {
    let home = Home::new();
    let answer = home.ask("你好");
    let id = answer["sessionId"].as_str().unwrap();
    let file = fs::read_to_string(home.transcript(id)).unwrap();
    let lines: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    let workspace = home.root().join("agents/main/workspace");
    assert_eq!(
        lines[0],
        json!({ "type": "session", "version": 3, "id": id, "timestamp": lines[0]["timestamp"], "cwd": workspace })
    );
    assert!(is_iso_time(lines[0]["timestamp"].as_str().unwrap()));
    let [user, assistant] = &lines[1..] else { panic!("two messages") };
    assert_eq!((&user["type"], &user["parentId"]), (&json!("message"), &Value::Null));
    assert_eq!(user["id"].as_str().unwrap().len(), 8);
    assert_eq!(assistant["parentId"], user["id"]);
    assert_eq!(user["message"]["content"], json!([{ "type": "text", "text": "你好" }]));
    assert_eq!(
        (&user["message"]["role"], &assistant["message"]["role"]),
        (&json!("user"), &json!("assistant"))
    );
    assert_eq!(assistant["message"]["content"][0]["text"], answer["result"]);
    assert_eq!(
        (&assistant["message"]["route"], &assistant["message"]["stage"]),
        (&json!("echo"), &json!("adapter.stub.echo"))
    );
}

#[test]
fn a_new_line_is_appended_and_what_is_there_stays() {
    let home = Home::new();
    let id = home.ask("one")["sessionId"].as_str().unwrap().to_owned();
    let first = fs::read(home.transcript(&id)).unwrap();
    home.ask("two");
    assert!(fs::read(home.transcript(&id)).unwrap().starts_with(&first));
    assert_eq!(names(&home.transcripts()), [format!("{id}.jsonl")]);
}

/// A way to spoil a file: its name, and what it makes of the bytes.
type Spoil = (&'static str, fn(&[u8]) -> Vec<u8>);

const SPOILS: &[Spoil] = &[
    ("cut to nothing", |_| Vec::new()),
    ("cut inside the header", |bytes| bytes[..20].to_vec()),
    ("cut behind the header", |bytes| bytes[..=header_end(bytes)].to_vec()),
    ("cut inside the first message", |bytes| bytes[..header_end(bytes) + 50].to_vec()),
    ("cut by one byte", |bytes| bytes[..bytes.len() - 1].to_vec()),
    ("cut in the middle of a character", |bytes| bytes[..bytes.len() - 80].to_vec()),
    ("garbage behind the end", |bytes| [bytes, b"\x00\xff{\"half\":"].concat()),
    ("another line behind the end", |bytes| [bytes, b"{\"type\":\"message\"}\n"].concat()),
    ("a blank line behind the end", |bytes| [bytes, b"\n"].concat()),
    ("replaced by garbage", |bytes| vec![b'x'; bytes.len() + 100]),
    ("replaced by shorter garbage", |_| b"garbage".to_vec()),
    ("replaced by an older form", |_| b"{\"type\":\"message\",\"message\":{}}\n".to_vec()),
    ("a line doubled", |bytes| {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let line = text.lines().nth(1).unwrap();
        text.replacen(line, &format!("{line}\n{line}"), 1).into_bytes()
    }),
];

/// The length stays, and so do the beginning and the end.
const SPOILS_INSIDE: &[Spoil] = &[
    ("a word changed inside", |bytes| {
        String::from_utf8(bytes.to_vec()).unwrap().replacen("one", "eno", 1).into_bytes()
    }),
    ("bytes turned to zero inside", |bytes| {
        let mut spoilt = bytes.to_vec();
        let from = header_end(bytes) + 30;
        spoilt[from..from + 40].fill(0);
        spoilt
    }),
];

fn header_end(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == b'\n').unwrap()
}

/// The copies set aside beside a transcript.
fn set_aside(home: &Home, id: &str) -> Vec<Vec<u8>> {
    let is_copy = |name: &String| name.starts_with(&format!("{id}.jsonl.damaged-"));
    let copies = names(&home.transcripts()).into_iter().filter(is_copy);
    copies.map(|name| fs::read(home.transcripts().join(name)).unwrap()).collect()
}

#[test]
fn a_spoilt_transcript_is_made_anew_by_the_next_ask_and_its_copy_is_kept() {
    mended(SPOILS);
}

#[test]
fn a_transcript_spoilt_inside_is_noticed_too() {
    mended(SPOILS_INSIDE);
}

fn mended(spoils: &[Spoil]) {
    let mut failures = Vec::new();
    for (what, spoil) in spoils {
        let home = Home::new();
        let id = home.ask("one")["sessionId"].as_str().unwrap().to_owned();
        home.ask("two");
        let path = home.transcript(&id);
        let spoilt = spoil(&fs::read(&path).unwrap());
        fs::write(&path, &spoilt).unwrap();
        let before = Log::without_transcript(&home, "main");
        assert_eq!(before.questions(), ["one", "two"], "{what}: the database is untouched");
        home.ask("three");
        let after = Log::without_transcript(&home, "main");
        assert_eq!(after.questions(), ["one", "two", "three"], "{what}");
        // All ways are tried before the test fails, so that one run shows every way that is not noticed.
        if std::panic::catch_unwind(|| after.assert_transcript(&home)).is_err() {
            failures.push(format!("{what}: the file is not the log"));
        } else if !spoilt.is_empty() && set_aside(&home, &id) != [spoilt] {
            failures.push(format!(
                "{what}: the spoilt copy was not kept as it was: {:?}",
                names(&home.transcripts())
            ));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_transcript_that_is_missing_is_made_anew() {
    let home = Home::new();
    let id = home.ask("one")["sessionId"].as_str().unwrap().to_owned();
    for folder in [false, true] {
        if folder {
            fs::remove_dir_all(home.root().join("agents")).unwrap();
        } else {
            fs::remove_file(home.transcript(&id)).unwrap();
        }
        home.ask("more");
        Log::of(&home, "main");
        assert_eq!(names(&home.transcripts()), [format!("{id}.jsonl")], "nothing was set aside");
    }
}

#[test]
fn the_person_is_told_that_a_transcript_was_made_anew() {
    let home = Home::new();
    let id = home.ask("one")["sessionId"].as_str().unwrap().to_owned();
    fs::write(home.transcript(&id), "garbage").unwrap();
    let done = home.call(&["ask", "two"]).ok();
    assert!(done.stderr.contains(".damaged-"), "where the copy is: {done:?}");
    assert_eq!(home.call(&["ask", "three"]).ok().stderr, "", "once");
}

#[test]
fn a_transcript_of_another_session_stays_as_it_is() {
    let home = Home::new();
    let other = home.ask_in("other", "one")["sessionId"].as_str().unwrap().to_owned();
    fs::write(home.transcript(&other), "mine").unwrap();
    home.ask("two");
    assert_eq!(fs::read(home.transcript(&other)).unwrap(), b"mine", "until its own session goes on");
    home.ask_in("other", "three");
    Log::of(&home, "other");
    assert_eq!(set_aside(&home, &other), [b"mine"]);
}

#[test]
fn a_folder_in_place_of_a_transcript_is_set_aside_and_told() {
    let home = Home::new();
    let id = home.ask("one")["sessionId"].as_str().unwrap().to_owned();
    fs::remove_file(home.transcript(&id)).unwrap();
    fs::create_dir(home.transcript(&id)).unwrap();
    let done = home.call(&["ask", "two"]).ok();
    assert!(done.stderr.contains(&format!("{id}.jsonl")), "which file: {done:?}");
    assert_eq!(Log::of(&home, "main").questions(), ["one", "two"]);
}

#[test]
fn a_link_in_place_of_a_transcript_is_not_followed() {
    let home = Home::new();
    let id = home.ask("one")["sessionId"].as_str().unwrap().to_owned();
    let victim = home.around().join("user/victim");
    fs::write(&victim, "precious").unwrap();
    fs::remove_file(home.transcript(&id)).unwrap();
    std::os::unix::fs::symlink(&victim, home.transcript(&id)).unwrap();
    home.call(&["ask", "two"]).run();
    assert_eq!(fs::read(Path::new(&victim)).unwrap(), b"precious");
}

#[test]
fn a_transcript_that_cannot_be_written_stops_nobody() {
    let home = Home::new();
    home.write_config("{ agents: { list: [{ id: 'main', default: true }, { id: 'helper' }] } }");
    let killed = home
        .call(&["ask", "--agent", "helper", "x"])
        .env("TIDEGATE_FAULT", "engine.mirror.before_write=kill");
    killed.run();
    let folder = home.root().join("agents/helper/sessions");
    fs::remove_dir(&folder).unwrap();
    fs::write(&folder, "in the way").unwrap();
    let done = home.call(&["ask", "hi"]).ok();
    assert!(done.stderr.contains("could not be written"), "{done:?}");
    fs::remove_file(&folder).unwrap();
    assert_eq!(home.call(&["ask", "again"]).ok().stderr, "", "it caught up");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}
