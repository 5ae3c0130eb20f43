//! `write`: a file with this content, new or instead of what was there.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate_policy::Preparation;
use tidegate_protocol::Risk;

use super::{CHANGE_CAP, FileWork, Held, Stop, condition, diff, either, subject};
use crate::root::Root;
use crate::spec::ToolSpec;
use crate::tool::{Output, ToolFailure};

pub(super) struct Write;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// The file. Folders on the way are made.
    #[serde(default)]
    pub(super) path: Option<String>,
    /// The same as path.
    #[serde(default)]
    pub(super) file_path: Option<String>,
    /// The whole content.
    pub(super) content: String,
}

impl Args {
    fn path(&self) -> Result<&str, ToolFailure> {
        either("path", self.path.as_ref(), self.file_path.as_ref())
    }
}

impl FileWork for Write {
    type Args = Args;

    fn spec() -> ToolSpec {
        let description = "Write a file: make it, or replace all of its content. To change a part, use edit.";
        ToolSpec {
            aliases: vec!["file.write".to_owned()],
            risk: Risk::Write,
            ..ToolSpec::of::<Args>("write", description)
        }
    }

    fn prepare(args: &Args, root: &Root) -> Result<Preparation, ToolFailure> {
        let found = root.find(args.path()?)?;
        let (name, was) = (found.name()?, found.was(CHANGE_CAP)?);
        let preview = match was.bytes() {
            None => args.content.clone(),
            Some(bytes) => diff::unified(&name, Some(bytes), Some(args.content.as_bytes())),
        };
        Ok(Preparation {
            subjects: vec![subject(&name)],
            preview: Some(diff::preview(&preview)),
            conditions: vec![condition(&name, &was)],
            ..Preparation::default()
        })
    }

    fn run(args: &Args, root: &Root, held: &Held, stop: &Stop) -> Result<Output, ToolFailure> {
        let mut found = held.found(root, 0)?;
        let (name, was) = (found.name()?, found.was(CHANGE_CAP)?);
        held.check(&name, &was)?;
        found.make_folders()?;
        let staged = found.stage(args.content.as_bytes(), &was, was.mode())?;
        stop.check()?;
        staged.put()?;
        let (size, created) = (args.content.len(), was.bytes().is_none());
        let verb = if created { "Made" } else { "Replaced" };
        Ok(Output::text(format!("{verb} {name}: {size} bytes."))
            .with_data(json!({ "path": name, "size": size, "created": created })))
    }
}
