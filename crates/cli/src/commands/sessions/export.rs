//! `sessions export`: a whole conversation as a file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use tidegate_engine::ExportFormat;
use tidegate_protocol::ErrorCode;

use super::read;
use crate::app::App;
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, Message, With as _};
use crate::output::{complain, print, print_json, printable};
use crate::{Outcome, texts};

/// What is written where nobody says what.
const USUAL: (&str, ExportFormat) = ("jsonl", ExportFormat::Jsonl);

pub(in crate::commands) fn export(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let output = parsed.value("output").filter(|file| *file != "-");
    let (name, format) = wanted(parsed.value("format"), output)
        .map_err(|message| Failure::new(ErrorCode::InvalidValue, message).with_usage(command))?;
    let (row, entries) = read(app, parsed, None)?;
    let text = tidegate_engine::export(&row, &entries, format);
    let Some(file) = output else {
        print(&text)?;
        return Ok(ExitCode::SUCCESS);
    };
    write(file, &text, parsed.has("force"))?;
    if parsed.has("json") {
        print_json(&json!({ "file": file, "format": name, "entries": entries.len() }))?;
    } else {
        complain(&app.fill(texts::EXPORTED, &[("file", &file)]));
    }
    Ok(ExitCode::SUCCESS)
}

/// The format that was named, or the one that the file's ending means.
fn wanted(name: Option<&str>, file: Option<&str>) -> Result<(&'static str, ExportFormat), Message> {
    match (name, file) {
        (Some(name), _) => named(name).ok_or_else(|| {
            let known = ExportFormat::NAMES.join(", ");
            texts::sessions::INVALID_FORMAT.with(&[("value", &name), ("known", &known)])
        }),
        (None, Some(file)) => {
            by_ending(file).ok_or_else(|| texts::sessions::UNKNOWN_ENDING.with(&[("file", &printable(file))]))
        }
        (None, None) => Ok(USUAL),
    }
}

/// The name of the format that the ending of a file's name means.
pub(crate) fn format_of(file: &Path) -> Option<&'static str> {
    named(file.extension()?.to_str()?).map(|(name, _)| name)
}

/// A format by its name, or by what its files end in.
fn named(name: &str) -> Option<(&'static str, ExportFormat)> {
    let name = name.to_ascii_lowercase();
    let name = match name.as_str() {
        "md" => "markdown",
        "htm" => "html",
        other => other,
    };
    let name = ExportFormat::NAMES.into_iter().find(|known| *known == name)?;
    Some((name, ExportFormat::parse(name)?))
}

/// What a file should hold. One without an ending says nothing about it.
fn by_ending(file: &str) -> Option<(&'static str, ExportFormat)> {
    match Path::new(file).extension() {
        Some(ending) => named(ending.to_str()?),
        None => Some(USUAL),
    }
}

/// Writes the file for its owner alone. One that is there stays, unless somebody insists.
fn write(file: &str, text: &str, force: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let written = options.open(file).and_then(|mut out| out.write_all(text.as_bytes()));
    written.map_err(|error| {
        let message = match error.kind() {
            ErrorKind::AlreadyExists => texts::sessions::FILE_EXISTS.with(&[("file", &file)]),
            _ => Message::plain(format!("{file}: {error}")),
        };
        Failure::new(ErrorCode::InvalidValue, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_what_its_ending_says() {
        let format = |file| by_ending(file).map(|(name, _)| name);
        let endings = ["a.md", "a.markdown", "b/a.HTML", "a.htm", "a.jsonl", "a", "a.b/c", ".hidden"];
        assert_eq!(
            endings.map(format),
            ["markdown", "markdown", "html", "html", "jsonl", "jsonl", "jsonl", "jsonl"].map(Some)
        );
        assert_eq!(["a.pdf", "a.json", "a.md.txt"].map(format), [None; 3]);
    }
}
