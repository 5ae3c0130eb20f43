//! The instructions word for word, and how long they may be.

use std::path::Path;

use tidegate_models::ToolSpec;

use super::{answer, user};
use crate::context::{BootstrapFile, Line, PromptMode, Scene, report, system};

fn file(name: &str, text: &str) -> BootstrapFile {
    BootstrapFile { name: name.into(), text: Some(text.into()) }
}

fn tool(name: &str) -> ToolSpec {
    let parameters = serde_json::json!({"type": "object", "properties": {}});
    ToolSpec { name: name.into(), description: format!("What {name} does."), parameters }
}

fn full() -> Scene {
    Scene {
        agent: "Nora".into(),
        workspace: Some("/home/ada/work".into()),
        files: vec![
            file("AGENTS.md", "Be kind.\n"),
            file("SOUL.md", "You are a lighthouse keeper."),
            BootstrapFile { name: "TOOLS.md".into(), text: None },
            file("IDENTITY.md", "  \n"),
            file("USER.md", "Ada, likes short answers."),
            file("HEARTBEAT.md", "- look at the tide table"),
            file("MEMORY.md", "Ada's door code is a secret."),
        ],
        zone: "Europe/Berlin".into(),
        channel: Some("telegram".into()),
        ..Scene::default()
    }
}

/// Compares with the stored text; `TIDEGATE_BLESS=1` stores it anew.
#[track_caller]
fn is_as_stored(name: &str, scene: &Scene, tools: &[ToolSpec]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    let text = system(scene, tools).join("\n\n<<< next block >>>\n\n") + "\n";
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        return;
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text, stored,
        "{name} differs; if that is meant: TIDEGATE_BLESS=1 cargo test -p tidegate-agent"
    );
}

#[test]
fn the_instructions_are_as_stored() {
    let tools = [tool("read"), tool("time.now")];
    is_as_stored("full.md", &full(), &tools);
    is_as_stored("group.md", &Scene { group: true, ..full() }, &tools);
    let task = Some("Count the ships.\n".to_owned());
    is_as_stored("minimal.md", &Scene { mode: PromptMode::Minimal, task, ..full() }, &tools);
    is_as_stored("bare.md", &Scene { mode: PromptMode::Bare, ..full() }, &tools);
    is_as_stored("nothing.md", &Scene::default(), &[]);
}

#[test]
fn the_same_scene_gives_the_same_bytes_whatever_the_descriptions_of_tools() {
    let before = system(&full(), &[tool("read")]);
    assert_eq!(before, system(&full(), &[tool("read")]));
    assert!(before.iter().all(|block| !block.contains("What read does")));
}

#[test]
fn an_agent_without_files_hears_nothing_of_them() {
    let scene = Scene { files: vec![BootstrapFile { name: "SOUL.md".into(), text: None }], ..full() };
    let text = system(&scene, &[]).join("\n");
    assert!(!text.contains("SOUL") && !text.contains("HEARTBEAT") && !text.contains("Files"), "{text}");
}

#[test]
fn memory_is_not_shown_where_strangers_listen_nor_to_tasks() {
    let secret = |scene: &Scene| system(scene, &[]).iter().any(|block| block.contains("door code"));
    assert!(secret(&full()));
    assert!(!secret(&Scene { group: true, ..full() }));
    assert!(!secret(&Scene { mode: PromptMode::Minimal, ..full() }));
}

#[test]
fn a_long_file_keeps_its_beginning_and_its_end_and_says_what_is_missing() {
    let text = format!("{}{}{}", "b".repeat(14_000), "m".repeat(6_001), "e".repeat(4_000));
    let scene = Scene { files: vec![file("AGENTS.md", &text)], ..Scene::default() };
    let shown = system(&scene, &[]).pop().unwrap();
    let expected = format!(
        "## AGENTS.md\n{}\n[6001 of 24001 characters are left out here; all of it is in AGENTS.md]\n{}",
        "b".repeat(14_000),
        "e".repeat(4_000)
    );
    assert!(shown.ends_with(&expected), "{}", &shown[shown.len() - 200..]);
    let whole = Scene { longest_file: Some(24_001), ..scene };
    assert!(system(&whole, &[]).pop().unwrap().ends_with(&text));
    let none = Scene { longest_file: Some(0), ..whole };
    assert_eq!(system(&none, &[]).len(), 1);
}

#[test]
fn all_files_together_are_bounded() {
    let names = ["AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md"];
    let files = names.map(|name| file(name, &"中".repeat(19_000))).to_vec();
    let scene = Scene { files, ..Scene::default() };
    let shown = system(&scene, &[]).pop().unwrap();
    assert!(shown.chars().count() < 62_000, "{}", shown.chars().count());
    assert!(names.iter().all(|name| shown.contains(&format!("## {name}\n"))));
}

#[test]
fn a_report_says_where_the_characters_go() {
    let lines = [user("hello"), answer("yes")].map(|message| Line { seq: None, message });
    let scene = Scene { longest_file: Some(20), ..full() };
    let report = report(&scene, &[tool("read")], &lines);
    let all: usize = system(&scene, &[tool("read")]).iter().map(|block| block.chars().count()).sum();
    assert_eq!(usize::try_from(report.system.chars).unwrap(), all);
    let sections: Vec<_> = report.sections.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(sections, ["identity", "tools", "outside", "workspace", "time", "replies"]);
    let soul = &report.files[1];
    assert_eq!((soul.name.as_str(), soul.chars), ("SOUL.md", 28));
    assert_ne!(soul.shown.chars, soul.chars);
    assert_eq!(
        report.tools.iter().map(|part| (part.name.as_str(), part.chars)).collect::<Vec<_>>(),
        [("read", 52)]
    );
    assert_eq!((report.history.chars, report.history.tokens, report.messages), (8, 2, 2));
    assert_eq!(report.tokens(), report.system.tokens + 13 + 2);
}
