//! `ls`: what is in a folder.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate_policy::Preparation;

use super::read::with_notes;
use super::{FileWork, Held, Stop, looking_at};
use crate::root::{Entry, Folder, Kind, Root};
use crate::spec::ToolSpec;
use crate::tool::{Output, ToolFailure};
use crate::truncate::{self, MAX_BYTES};

pub(super) struct Ls;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// The folder.
    #[serde(default = "here")]
    pub(super) path: String,
    /// How many entries.
    #[serde(default = "limit")]
    #[schemars(range(min = 1))]
    pub(super) limit: usize,
}

pub(super) fn here() -> String {
    ".".to_owned()
}

fn limit() -> usize {
    500
}

impl FileWork for Ls {
    type Args = Args;

    fn spec() -> ToolSpec {
        let description =
            "List a folder by name, dotfiles too. Folders end with /, links show where they lead.";
        ToolSpec::of::<Args>("ls", description)
    }

    fn prepare(args: &Args, root: &Root) -> Result<Preparation, ToolFailure> {
        looking_at(root, &args.path)
    }

    fn run(args: &Args, root: &Root, held: &Held, _stop: &Stop) -> Result<Output, ToolFailure> {
        let found = held.found(root, 0)?;
        let (name, folder) = (found.name()?, found.open_folder()?);
        let (mut entries, whole) =
            folder.entries().map_err(|error| ToolFailure::execution(format!("{name}: {error}")))?;
        entries.sort_by_key(|entry| entry.name.to_string_lossy().to_lowercase());
        let lines = entries.iter().take(args.limit).map(|entry| line(&folder, entry)).collect::<Vec<_>>();
        let text = lines.join("\n");
        let cut = truncate::head(&text, usize::MAX, MAX_BYTES);
        let truncated = !whole || cut.lines < entries.len();
        let mut notes = Vec::new();
        if entries.is_empty() {
            notes.push("The folder is empty.".to_owned());
        } else if truncated {
            notes.push(format!("{} of {} entries are shown.", cut.lines, entries.len()));
        }
        let data = json!({ "path": name, "entries": lines[..cut.lines], "total": entries.len() });
        Ok(Output { truncated, ..Output::text(with_notes(cut.content, &notes)) }.with_data(data))
    }
}

fn line(folder: &Folder, entry: &Entry) -> String {
    let name = entry.name.to_string_lossy();
    match entry.kind {
        Kind::Folder => format!("{name}/"),
        Kind::Link => match folder.link_text(&entry.name) {
            Some(text) => format!("{name} -> {text}"),
            None => name.into_owned(),
        },
        Kind::File | Kind::Other => name.into_owned(),
    }
}
