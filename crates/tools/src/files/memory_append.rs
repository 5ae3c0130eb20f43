//! `memory_append`: one more note in a file of the folder `memory`. What is there stays as it is.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate_policy::Preparation;
use tidegate_protocol::Risk;
use tidegate_runtime::{Clock as _, SystemClock, Zone};

use super::{FileWork, Held, Stop, subject};
use crate::root::{Found, PathError, Root};
use crate::spec::ToolSpec;
use crate::tool::{Output, ToolFailure};

/// The folder of the notes, and how their files end.
const FOLDER: &str = "memory";
const ENDING: &str = ".md";
/// Bytes of one note, and of a file.
const NOTE: usize = 8 * 1024;
const FILE: u64 = 1024 * 1024;
/// Characters of a file's name.
const NAME: usize = 100;
/// Somebody may write to the same file: then the note comes after theirs.
const TRIES: usize = 5;

pub(super) struct MemoryAppend;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// The note, in few words.
    text: String,
    /// The file in memory/, such as people.md; today's notes without one.
    #[serde(default)]
    file: Option<String>,
}

impl FileWork for MemoryAppend {
    type Args = Args;

    fn spec() -> ToolSpec {
        let description =
            "Add a note to your memory: a fact, a decision or a preference worth knowing later.";
        ToolSpec {
            risk: Risk::Write,
            idempotent: false,
            ..ToolSpec::of::<Args>("memory_append", description)
        }
    }

    fn prepare(args: &Args, root: &Root) -> Result<Preparation, ToolFailure> {
        let item = item(&args.text)?;
        let name = name(args.file.as_deref(), &Zone::default().day(SystemClock.now_ms()))?;
        let found = own(root.find(&name)?, &name)?;
        longer(&found, &item)?;
        Ok(Preparation { subjects: vec![subject(&name)], preview: Some(item), ..Preparation::default() })
    }

    fn run(args: &Args, root: &Root, held: &Held, stop: &Stop) -> Result<Output, ToolFailure> {
        let item = item(&args.text)?;
        let mut tries = TRIES;
        loop {
            tries -= 1;
            let mut found = held.found(root, 0)?;
            found.make_folders()?;
            let (was, new) = longer(&found, &item)?;
            let staged = found.stage(&new, &was, was.mode())?;
            stop.check()?;
            match staged.put() {
                Err(PathError::Changed(_)) if tries > 0 => {}
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    let name = found.name()?;
                    return Ok(Output::text(format!("Noted in {name}."))
                        .with_data(json!({ "path": name, "size": new.len() })));
                }
            }
        }
    }
}

/// The note as an item of a list, however many lines it has.
fn item(text: &str) -> Result<String, ToolFailure> {
    if text.len() > NOTE {
        let problem = format!("text has {} bytes, {NOTE} are the limit: shorten it", text.len());
        return Err(ToolFailure::arguments(problem));
    }
    let text: String = text.replace("\r\n", "\n").replace('\r', "\n");
    let text: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    let text = text.trim_start();
    let text = text.strip_prefix("- ").or_else(|| text.strip_prefix("* ")).unwrap_or(text).trim();
    if text.is_empty() {
        return Err(ToolFailure::arguments("text is empty: say what to note"));
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    Ok(format!("- {}\n", lines.join("\n  ")))
}

/// The file's name below the root. Only files right in the folder are notes.
fn name(file: Option<&str>, day: &str) -> Result<String, ToolFailure> {
    let Some(file) = file.map(str::trim).filter(|file| !file.is_empty()) else {
        return Ok(format!("{FOLDER}/{day}{ENDING}"));
    };
    let plain = file.strip_prefix("./").unwrap_or(file);
    let plain = plain.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix('/')).unwrap_or(plain);
    let has_name = plain.strip_suffix(ENDING).is_some_and(|stem| !stem.is_empty());
    let is_plain = !plain.starts_with(['.', '~'])
        && !plain.contains(|c: char| matches!(c, '/' | '\\') || c.is_control());
    if !has_name || !is_plain || plain.chars().count() > NAME {
        let problem =
            format!("file has to be the name of a {ENDING} file in {FOLDER}/, such as people{ENDING}");
        return Err(ToolFailure::arguments(problem));
    }
    Ok(format!("{FOLDER}/{plain}"))
}

/// What the name leads to, if that is the file itself: a link would lead out of the notes.
fn own<'r>(found: Found<'r>, name: &str) -> Result<Found<'r>, ToolFailure> {
    let leads_to = found.name()?;
    if leads_to == name {
        return Ok(found);
    }
    Err(ToolFailure::execution(format!("{name} is a link to {leads_to}: notes are kept in {FOLDER}/ only")))
}

/// The file as it is, and with the note at its end.
fn longer(found: &Found<'_>, item: &str) -> Result<(crate::root::Was, Vec<u8>), ToolFailure> {
    let was = found.was(FILE)?;
    let mut new = was.bytes().unwrap_or_default().to_vec();
    if new.last().is_some_and(|byte| *byte != b'\n') {
        new.push(b'\n');
    }
    new.extend_from_slice(item.as_bytes());
    let (size, cap) = (u64::try_from(new.len()).unwrap_or(u64::MAX), FILE);
    if size > cap {
        return Err(PathError::TooLarge { path: found.name()?, size, cap }.into());
    }
    Ok((was, new))
}
