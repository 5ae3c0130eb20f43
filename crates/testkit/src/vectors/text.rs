//! Groups about what of a model's words people see.

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_agent::testing::BUSY;
use tidegate_agent::text::{
    BlockChunker, Chunking, Cleaned, FilterOptions, HeartbeatMode, Preference, Stripped, clean, fence_spans,
    for_people, heartbeat_file_is_empty, is_duplicate, is_silent, normalize, strip_heartbeat,
};
use tidegate_runtime::catalogue::Language;

use super::{Answer, Compared, compared, in_and_out, read};

pub(super) fn answer_of(group: &str) -> Option<Answer> {
    Some(match group {
        "block_chunker" => block_chunker,
        "fence_spans" => fences,
        "silent" => silent,
        "heartbeat" => heartbeat,
        "heartbeat_file_empty" => heartbeat_file_empty,
        "reasoning_strip" => reasoning_strip,
        "directives" => directives,
        "reply_tags" => reply_tags,
        "audio_tags" => audio_tags,
        "media" => media,
        "dedupe_norm" => dedupe_norm,
        "dup" => dup,
        "user_text" => user_text,
        _ => return None,
    })
}

/// Their blocks depend on how a text came in, so a case has two answers; ours, made from the same pieces, are one of them.
fn block_chunker(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Limits {
        min_chars: usize,
        max_chars: usize,
        break_preference: Option<String>,
    }
    #[derive(Deserialize)]
    struct Case {
        cfg: Limits,
        deltas: Vec<String>,
        stream: Vec<String>,
        end_only: Vec<String>,
    }
    let Case { cfg, deltas, stream, end_only } = read(case)?;
    let preference = match cfg.break_preference.as_deref() {
        None | Some("paragraph") => Preference::Paragraph,
        Some("newline") => Preference::Newline,
        Some("sentence") => Preference::Sentence,
        Some(other) => return Err(format!("unknown breakPreference {other:?}")),
    };
    let mut chunker = BlockChunker::new(Chunking { min: cfg.min_chars, max: cfg.max_chars, preference });
    let mut ours: Vec<String> = deltas.iter().flat_map(|delta| chunker.push(delta)).collect();
    ours.extend(chunker.flush());
    compared(if ours == end_only { end_only } else { stream }, ours)
}

fn fences(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        text: String,
        spans: Value,
    }
    let Case { text, spans } = read(case)?;
    // Recorded offsets count in units of UTF-16.
    let units = |end: usize| text.get(..end).map(|start| start.encode_utf16().count());
    let span = |span: tidegate_agent::text::FenceSpan<'_>| {
        json!({
            "start": units(span.start), "end": units(span.end), "openLine": span.open_line,
            "marker": span.marker, "indent": span.indent,
        })
    };
    compared(spans, fence_spans(&text).into_iter().map(span).collect::<Vec<_>>())
}

fn silent(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        text: String,
        silent: bool,
    }
    let Case { text, silent } = read(case)?;
    compared(silent, is_silent(&text))
}

fn heartbeat(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        text: String,
        heartbeat: Value,
        message: Value,
    }
    let Case { text, heartbeat, message } = read(case)?;
    let ours = |mode| {
        let Stripped { skip, text, found } = strip_heartbeat(&text, mode);
        json!({ "shouldSkip": skip, "text": text, "didStrip": found })
    };
    compared(vec![heartbeat, message], vec![ours(HeartbeatMode::HEARTBEAT), ours(HeartbeatMode::Message)])
}

fn heartbeat_file_empty(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        text: String,
        empty: bool,
    }
    let Case { text, empty } = read(case)?;
    compared(empty, heartbeat_file_is_empty(&text))
}

/// They have two ways with a thought that has no end; we have one.
fn reasoning_strip(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        text: String,
        strict: String,
        preserve: String,
    }
    let Case { text, strict, preserve } = read(case)?;
    let visible = cleaned(&text).visible;
    compared(vec![strict, preserve], vec![visible.clone(), visible])
}

fn cleaned(text: &str) -> Cleaned {
    clean(text, FilterOptions::default())
}

/// The current message is `m1` in all of them.
fn directives(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        text: String,
        out: Value,
    }
    let Case { text, out } = read(case)?;
    compared(out, told_directives(&text, Some("m1")))
}

fn audio_tags(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Options {
        current_message_id: Option<String>,
    }
    #[derive(Deserialize)]
    struct Input {
        text: String,
        options: Option<Options>,
    }
    let (Input { text, options }, out) = in_and_out(case)?;
    let current = options.and_then(|options| options.current_message_id);
    compared(out, told_directives(&text, current.as_deref()))
}

fn told_directives(text: &str, current: Option<&str>) -> Value {
    let Cleaned { visible, directives, .. } = cleaned(text);
    let mut told = json!({
        "text": visible,
        "audioAsVoice": directives.audio_as_voice,
        "hasAudioTag": directives.audio_as_voice,
        "replyToCurrent": directives.reply_to_current,
        "hasReplyTag": directives.has_reply_tag,
    });
    if let Some(id) = directives.target(current) {
        told["replyToId"] = id.into();
    }
    if let Some(id) = &directives.reply_to {
        told["replyToExplicitId"] = id.as_str().into();
    }
    told
}

fn reply_tags(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Input {
        text: String,
        current_message_id: Option<String>,
    }
    let (Input { text, current_message_id }, out) = in_and_out(case)?;
    let Cleaned { visible, directives, .. } = cleaned(&text);
    let mut told = json!({
        "cleaned": visible,
        "replyToCurrent": directives.reply_to_current,
        "hasTag": directives.has_reply_tag,
    });
    if let Some(id) = directives.target(current_message_id.as_deref()) {
        told["replyToId"] = id.into();
    }
    compared(out, told)
}

fn media(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        text: String,
        out: Value,
    }
    let Case { text, out } = read(case)?;
    let Cleaned { visible, media, directives, .. } = cleaned(&text);
    let mut told = json!({ "text": visible });
    if let Some(first) = media.first() {
        told["mediaUrl"] = first.as_str().into();
        told["mediaUrls"] = media.clone().into();
    }
    if directives.audio_as_voice {
        told["audioAsVoice"] = true.into();
    }
    compared(out, told)
}

fn dedupe_norm(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        t: String,
        n: String,
    }
    let Case { t, n } = read(case)?;
    compared(n, normalize(&t))
}

fn dup(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        a: String,
        b: Vec<String>,
        dup: bool,
    }
    let Case { a, b, dup } = read(case)?;
    compared(dup, b.iter().any(|sent| is_duplicate(&a, sent)))
}

/// The words for a busy model are our own; the recorded case has a name for them.
fn user_text(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        text: String,
        out: String,
    }
    let Case { text, out } = read(case)?;
    let expected = if out == "<generic busy message>" { BUSY.en.to_owned() } else { out };
    compared(expected, for_people(&text, Language::English))
}
