//! `read`: a part of a text file, or an image.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate_policy::Preparation;
use tidegate_protocol::Block;

use super::{FileWork, Held, READ_CAP, Stop, either, looking_at};
use crate::root::Root;
use crate::spec::ToolSpec;
use crate::tool::{Output, ToolFailure};
use crate::truncate::{self, CutBy, MAX_BYTES, MAX_LINES};

/// The largest image that models take.
const IMAGE_CAP: usize = 5 * 1024 * 1024;
/// How far into a file a NUL says that it is no text.
const SNIFFED: usize = 8 * 1024;

pub(super) struct Read;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// The file.
    #[serde(default)]
    pub(super) path: Option<String>,
    /// The same as path.
    #[serde(default)]
    pub(super) file_path: Option<String>,
    /// The line to begin with; the first is 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub(super) offset: Option<usize>,
    /// How many lines.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub(super) limit: Option<usize>,
}

impl Args {
    fn path(&self) -> Result<&str, ToolFailure> {
        either("path", self.path.as_ref(), self.file_path.as_ref())
    }
}

impl FileWork for Read {
    type Args = Args;

    fn spec() -> ToolSpec {
        let description = "Read a text file or an image (png, jpeg, gif, webp). Shows at most 2000 lines or 50 KB; \
                           use offset and limit to read on.";
        let aliases = vec!["file.read".to_owned()];
        ToolSpec { aliases, steady: true, ..ToolSpec::of::<Args>("read", description) }
    }

    fn prepare(args: &Args, root: &Root) -> Result<Preparation, ToolFailure> {
        looking_at(root, args.path()?)
    }

    fn run(args: &Args, root: &Root, held: &Held, _stop: &Stop) -> Result<Output, ToolFailure> {
        let found = held.found(root, 0)?;
        let (name, bytes) = (found.name()?, found.read(READ_CAP)?.bytes);
        match image_type(&bytes) {
            Some(mime_type) => image(&name, mime_type, &bytes),
            None if is_binary(&bytes) => Err(ToolFailure::execution(refusal(&name, &bytes))),
            None => text(&name, &bytes, args.offset.unwrap_or(1), args.limit),
        }
    }
}

fn image(name: &str, mime_type: &str, bytes: &[u8]) -> Result<Output, ToolFailure> {
    if bytes.len() > IMAGE_CAP {
        return Err(ToolFailure::execution(format!(
            "{name} is an image that is too large ({} > {IMAGE_CAP} bytes)",
            bytes.len()
        )));
    }
    let data = STANDARD.encode(bytes);
    let content = vec![
        Block::text(format!("{name}: {mime_type}, {} bytes", bytes.len())),
        Block::Image { data, mime_type: mime_type.to_owned() },
    ];
    let data = json!({ "path": name, "mimeType": mime_type, "size": bytes.len() });
    Ok(Output { content, data: Some(data), truncated: false })
}

fn text(name: &str, bytes: &[u8], offset: usize, limit: Option<usize>) -> Result<Output, ToolFailure> {
    let decoded = Decoded::of(bytes);
    let total = decoded.text.split_inclusive('\n').count();
    if offset == 0 || (offset > total && offset > 1) {
        let lines = if total == 1 { "1 line".to_owned() } else { format!("{total} lines") };
        return Err(ToolFailure::arguments(format!("offset {offset} is not in {name}: it has {lines}")));
    }
    let start: usize = decoded.text.split_inclusive('\n').take(offset - 1).map(str::len).sum();
    let cut = truncate::head(&decoded.text[start..], limit.unwrap_or(MAX_LINES).min(MAX_LINES), MAX_BYTES);
    let mut notes = Vec::new();
    let last = offset + cut.lines.max(1) - 1;
    match cut.by {
        Some(CutBy::Bytes) if cut.partial => notes.push(format!(
            "Line {offset} is longer than 50 KB: only its beginning is shown. Use exec with sed and cut to see more of \
             it{}",
            if last < total { format!(", or offset={} for the next line.", last + 1) } else { ".".to_owned() }
        )),
        Some(_) => {
            notes.push(format!("Lines {offset} to {last} of {total}. Use offset={} to read on.", last + 1));
        }
        None if decoded.text.is_empty() => notes.push("The file is empty.".to_owned()),
        None => {}
    }
    notes.extend(decoded.notes());
    let truncated = cut.by.is_some();
    let data = json!({ "path": name, "size": bytes.len(), "lines": total });
    Ok(Output { truncated, ..Output::text(with_notes(cut.content, &notes)) }.with_data(data))
}

/// The text of a file as it is shown, and what was done to it for that.
pub(super) struct Decoded {
    pub(super) text: String,
    bom: bool,
    crlf: bool,
    /// How many places are not UTF-8.
    pub(super) invalid: usize,
}

impl Decoded {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let bom = bytes.starts_with(b"\xEF\xBB\xBF");
        let bytes = if bom { &bytes[3..] } else { bytes };
        let invalid = bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
        let text = String::from_utf8_lossy(bytes);
        let crlf = text.contains("\r\n");
        Self { text: text.replace("\r\n", "\n"), bom, crlf, invalid }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.invalid > 0 {
            notes.push(format!("Not UTF-8 in {} places, shown as \u{FFFD}.", self.invalid));
        }
        match (self.bom, self.crlf) {
            (true, true) => notes.push("The file has a byte order mark and CRLF line ends.".to_owned()),
            (true, false) => notes.push("The file has a byte order mark.".to_owned()),
            (false, true) => notes.push("The file has CRLF line ends.".to_owned()),
            (false, false) => {}
        }
        notes
    }
}

/// A text with remarks below it, in brackets.
pub(super) fn with_notes(text: &str, notes: &[String]) -> String {
    if notes.is_empty() {
        return text.to_owned();
    }
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    format!("{text}{gap}[{}]", notes.join(" "))
}

pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(SNIFFED)].contains(&0)
}

fn refusal(name: &str, bytes: &[u8]) -> String {
    if bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF") {
        return format!("{name} is UTF-16 text: convert it to UTF-8 to read it");
    }
    format!("{name} is a binary file ({} bytes), not text", bytes.len())
}

/// Which of the images that models read this is, by what is in it: names lie.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
