//! `fs.read_file`: a whole text file, as the contract of the command line has it.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate_policy::Preparation;
use tidegate_protocol::Block;

use super::{FileWork, Held, READ_CAP, Stop, looking_at};
use crate::root::{PathError, Root};
use crate::spec::ToolSpec;
use crate::tool::{Output, ToolFailure};

pub(super) struct ReadFile;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Args {
    /// The file.
    pub(super) path: String,
    /// A larger file is refused.
    #[serde(default = "max_bytes")]
    pub(super) max_bytes: u64,
}

fn max_bytes() -> u64 {
    204_800
}

impl FileWork for ReadFile {
    type Args = Args;

    fn spec() -> ToolSpec {
        ToolSpec { steady: true, ..ToolSpec::of::<Args>("fs.read_file", "Read a whole text file.") }
    }

    fn prepare(args: &Args, root: &Root) -> Result<Preparation, ToolFailure> {
        looking_at(root, &args.path)
    }

    fn run(args: &Args, root: &Root, held: &Held, _stop: &Stop) -> Result<Output, ToolFailure> {
        let found = held.found(root, 0)?;
        let content = found.read(args.max_bytes.min(READ_CAP)).map_err(|error| match error {
            PathError::TooLarge { size, cap, .. } => {
                ToolFailure::execution(format!("file size exceeds maxBytes ({size} > {cap})"))
            }
            PathError::IsAFolder(_) => ToolFailure::execution("target path is not a file"),
            other => other.into(),
        })?;
        let size = content.bytes.len();
        let mut data =
            json!({ "path": root.absolute(&found.name()?), "size": size, "maxBytes": args.max_bytes });
        match String::from_utf8(content.bytes) {
            Ok(text) => Ok(Output::text(text).with_data(data)),
            Err(error) => {
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                data["encoding"] = "not UTF-8".into();
                let note = "[The file is not UTF-8: what could not be read is shown as \u{FFFD}.]";
                let content = vec![Block::text(text), Block::text(note)];
                Ok(Output { content, data: Some(data), truncated: false })
            }
        }
    }
}
