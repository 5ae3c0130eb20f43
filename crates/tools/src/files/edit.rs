//! `edit`: one piece of a text file replaced by another.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate_policy::Preparation;
use tidegate_protocol::Risk;

use super::{CHANGE_CAP, FileWork, Held, Stop, condition, diff, either, replace, subject};
use crate::root::{PathError, Root, Was};
use crate::spec::ToolSpec;
use crate::tool::{Output, ToolFailure};

pub(super) struct Edit;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Args {
    /// The file.
    #[serde(default)]
    pub(super) path: Option<String>,
    /// The same as path.
    #[serde(default, rename = "file_path")]
    pub(super) file_path: Option<String>,
    /// The text to replace, exactly as it is in the file.
    #[serde(default)]
    pub(super) old_text: Option<String>,
    /// The same as oldText.
    #[serde(default, rename = "old_string")]
    pub(super) old_string: Option<String>,
    /// What takes its place.
    #[serde(default)]
    pub(super) new_text: Option<String>,
    /// The same as newText.
    #[serde(default, rename = "new_string")]
    pub(super) new_string: Option<String>,
}

impl Args {
    fn path(&self) -> Result<&str, ToolFailure> {
        either("path", self.path.as_ref(), self.file_path.as_ref())
    }

    fn old_text(&self) -> Result<&str, ToolFailure> {
        either("oldText", self.old_text.as_ref(), self.old_string.as_ref())
    }

    fn new_text(&self) -> Result<&str, ToolFailure> {
        either("newText", self.new_text.as_ref(), self.new_string.as_ref())
    }
}

impl FileWork for Edit {
    type Args = Args;

    fn spec() -> ToolSpec {
        let description = "Replace one piece of a text file. oldText must be in the file exactly once: give enough of \
                           the lines around it.";
        ToolSpec {
            aliases: vec!["file.edit".to_owned()],
            risk: Risk::Write,
            idempotent: false,
            ..ToolSpec::of::<Args>("edit", description)
        }
    }

    fn prepare(args: &Args, root: &Root) -> Result<Preparation, ToolFailure> {
        let found = root.find(args.path()?)?;
        let name = found.name()?;
        let was = found.was(CHANGE_CAP)?;
        let new = edited(args, &name, &was)?;
        Ok(Preparation {
            subjects: vec![subject(&name)],
            preview: Some(diff::preview(&diff::unified(&name, was.bytes(), Some(&new)))),
            conditions: vec![condition(&name, &was)],
            ..Preparation::default()
        })
    }

    fn run(args: &Args, root: &Root, held: &Held, stop: &Stop) -> Result<Output, ToolFailure> {
        let found = held.found(root, 0)?;
        let name = found.name()?;
        let was = found.was(CHANGE_CAP)?;
        held.check(&name, &was)?;
        let new = edited(args, &name, &was)?;
        let staged = found.stage(&new, &was, was.mode())?;
        stop.check()?;
        staged.put()?;
        let diff = diff::preview(&diff::unified(&name, was.bytes(), Some(&new)));
        Ok(Output::text(format!("Edited {name}.\n{diff}")).with_data(json!({ "path": name, "diff": diff })))
    }
}

/// The file as it would be.
fn edited(args: &Args, name: &str, was: &Was) -> Result<Vec<u8>, ToolFailure> {
    let Some(bytes) = was.bytes() else { return Err(PathError::Missing(name.to_owned()).into()) };
    let text = str::from_utf8(bytes)
        .map_err(|_| ToolFailure::execution(format!("{name} is not UTF-8 text: it cannot be edited")))?;
    let new = replace::replace(text, args.old_text()?, args.new_text()?)
        .map_err(|problem| ToolFailure::execution(format!("{name}: {problem}")))?;
    Ok(new.into_bytes())
}
