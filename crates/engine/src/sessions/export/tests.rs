//! Conversations as files.

use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_protocol::{
    Block, Compaction, Entry, EntryBody, EntryId, FileTrail, Id as _, Message, Origin, RunId, Scope,
    SessionId, SessionKey, SessionSettings, StopReason, Usage,
};
use tidegate_storage::SessionRow;

use super::{ExportFormat, export};

const AT: i64 = 1_771_866_451_120;

fn row(title: Option<&str>) -> SessionRow {
    SessionRow {
        key: SessionKey::named(Scope::personal("main".parse().unwrap()), "work"),
        id: SessionId::from_parts(1, [0; 10]),
        alias: Some("lc-1-abcd".to_owned()),
        current: true,
        head_seq: 5,
        title: title.map(str::to_owned),
        parent: None,
        compactions: 0,
        flushed_at: None,
        usage: Usage::default(),
        context_tokens: 0,
        settings: SessionSettings::default(),
        route: None,
        provider: None,
        profile_id: None,
        created_at: AT,
        updated_at: AT,
    }
}

fn entries(bodies: Vec<EntryBody>) -> Vec<Entry> {
    let entry = |(at, body): (usize, EntryBody)| {
        let seq = i64::try_from(at).unwrap() + 1;
        let id = EntryId::from_parts(u64::try_from(seq).unwrap(), [u8::try_from(seq).unwrap(); 10]);
        Entry {
            session_id: SessionId::from_parts(1, [0; 10]),
            seq,
            id,
            parent_id: None,
            run_id: RunId::from_parts(1, [0; 10]),
            created_at: AT + seq * 1000,
            body,
        }
    };
    bodies.into_iter().enumerate().map(entry).collect()
}

fn assistant(content: Vec<Block>) -> EntryBody {
    let name = |text: &str| text.to_owned();
    EntryBody::Message(Message::Assistant {
        content,
        origin: Origin {
            api: name("x"),
            provider: name("anthropic"),
            model: name("first"),
            profile_id: None,
            route: name("anthropic"),
            stage: name("adapter"),
        },
        usage: Usage::default(),
        stop_reason: StopReason::Stop,
        error_message: None,
        timestamp: AT,
    })
}

fn call(id: &str, arguments: Value) -> Block {
    Block::ToolCall { id: id.to_owned(), name: "exec".to_owned(), arguments, thought_signature: None }
}

fn result(id: &str, text: &str, is_error: bool) -> EntryBody {
    EntryBody::Message(Message::ToolResult {
        tool_call_id: id.to_owned(),
        tool_name: "exec".to_owned(),
        content: vec![Block::text(text)],
        is_error,
        details: None,
        timestamp: AT,
    })
}

/// Something that looks like a key, made of pieces.
fn key() -> String {
    format!("{}-{}", "sk", "0123456789abcdefghij")
}

fn told() -> Vec<Entry> {
    let image = Block::Image { data: "AAAA".to_owned(), mime_type: "image/png".to_owned() };
    let summary = Compaction {
        summary: "They listed files.\nAll is well.".to_owned(),
        first_kept_seq: 4,
        tokens_before: 10,
        mechanical: false,
        files: FileTrail::default(),
    };
    entries(vec![
        EntryBody::Message(Message::User {
            content: vec![Block::text("List <b>files</b> & tell"), image],
            timestamp: AT,
        }),
        assistant(vec![Block::text("I look."), call("c1", json!({"command": "ls"}))]),
        result("c1", "a.txt\n```\n", false),
        EntryBody::Compaction(summary),
        EntryBody::Message(Message::user(format!("My key is {}", key()), AT)),
        assistant(vec![Block::text("Keep it to yourself.")]),
    ])
}

#[test]
fn markdown_tells_the_turns_and_folds_the_tools() {
    let expected = "\
# Files & folders

lc-1-abcd, 2026-02-23T17:07:31.120Z

## 1 (2026-02-23T17:07:32.120Z)

**User**

List <b>files</b> & tell

*(an image, image/png)*

**Assistant** (anthropic/first)

I look.

<details><summary>Tool: exec</summary>

```json
{
  \"command\": \"ls\"
}
```

````
a.txt
```
````

</details>

**Summed up**

> They listed files.
> All is well.

## 2 (2026-02-23T17:07:36.120Z)

**User**

My key is [redacted]

**Assistant** (anthropic/first)

Keep it to yourself.
";
    assert_eq!(export(&row(Some("Files & folders")), &told(), ExportFormat::Markdown), expected);
}

#[test]
fn a_page_shows_what_was_said_as_text_and_runs_nothing() {
    let page = export(&row(None), &told(), ExportFormat::Html);
    for part in [
        "<title>work</title>",
        "<p class=\"said\">List &lt;b&gt;files&lt;/b&gt; &amp; tell</p>",
        "<p class=\"note\">An image, image/png</p>",
        "<h3>Assistant (anthropic/first)</h3><p class=\"said\">I look.</p>",
        "<details><summary>Tool: exec</summary><pre>{\n  &quot;command&quot;: &quot;ls&quot;\n}</pre><pre>a.txt\n```</pre></details>",
        "<h3>Summed up</h3><p class=\"said\">They listed files.\nAll is well.</p>",
        "My key is [redacted]",
        "prefers-color-scheme:dark",
        "default-src 'none'",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    for part in ["<script", "<b>", "http:", "https:", "src=", &key()] {
        assert!(!page.contains(part), "{part}");
    }
}

#[test]
fn lines_for_programs_are_those_of_the_transcript_without_keys() {
    let text = export(&row(None), &told(), ExportFormat::Jsonl);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["session", "message", "message", "message", "compaction", "message", "message"]);
    assert_eq!(lines[0]["id"], "lc-1-abcd");
    assert_eq!(lines[5]["message"]["content"][0]["text"], "My key is [redacted]");
}

#[test]
fn a_call_that_failed_or_never_ended_and_a_lone_result_are_shown_as_that() {
    let told = entries(vec![
        assistant(vec![call("c1", json!({})), call("c2", json!("not json"))]),
        result("c1", "no", true),
        result("gone", "late", false),
        EntryBody::Unknown(json!({"new": true})),
    ]);
    let text = export(&row(None), &told, ExportFormat::Markdown);
    for part in [
        "<details><summary>Tool: exec (failed)</summary>\n\n```json\n{}\n```\n\n```\nno\n```\n",
        "\"not json\"\n```\n\n*(interrupted: no result)*\n",
        "<details><summary>Tool: exec</summary>\n\n```\nlate\n```\n",
        "*(a line of a newer release)*",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

proptest! {
    #[test]
    fn nothing_that_is_said_can_become_a_part_of_the_page(text in "[<>&\"'a-z/= \n]{0,60}") {
        let empty = export(&row(None), &entries(vec![EntryBody::Message(Message::user("x", AT))]), ExportFormat::Html);
        let told = entries(vec![EntryBody::Message(Message::user(format!("x{text}"), AT))]);
        let page = export(&row(None), &told, ExportFormat::Html);
        prop_assert_eq!(page.matches('<').count(), empty.matches('<').count());
        prop_assert_eq!(page.matches('"').count(), empty.matches('"').count());
    }

    #[test]
    fn no_output_can_end_its_own_block(text in "[`a\n]{0,40}") {
        let told = entries(vec![assistant(vec![call("c", json!({}))]), result("c", &text, false)]);
        let rendered = export(&row(None), &told, ExportFormat::Markdown);
        let after = rendered.split("{}\n```\n\n").nth(1).unwrap();
        let fence = after.lines().next().unwrap();
        // The fence that opens the block stands again exactly once, at its end.
        prop_assert_eq!(after.lines().filter(|line| line.trim_end().starts_with(fence)).count(), 2);
    }
}
