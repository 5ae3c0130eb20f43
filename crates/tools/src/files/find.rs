//! `find`: files by the pattern of their names.

use ignore::overrides::{Override, OverrideBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate_policy::Preparation;

use super::ls::here;
use super::read::with_notes;
use super::tree::{self, Next};
use super::{FileWork, Held, Stop, looking_through};
use crate::root::{Kind, Root};
use crate::spec::ToolSpec;
use crate::tool::{Output, ToolFailure};
use crate::truncate::MAX_BYTES;

pub(super) struct Find;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// A glob such as *.rs, src/**/*.ts or {a,b}.md.
    pub(super) pattern: String,
    /// The folder to look in.
    #[serde(default = "here")]
    pub(super) path: String,
    /// How many paths.
    #[serde(default = "limit")]
    #[schemars(range(min = 1))]
    pub(super) limit: usize,
}

fn limit() -> usize {
    1000
}

impl FileWork for Find {
    type Args = Args;

    fn spec() -> ToolSpec {
        let description = "Find files and folders by glob. What .gitignore names is left out.";
        ToolSpec { aliases: vec!["glob".to_owned()], ..ToolSpec::of::<Args>("find", description) }
    }

    fn prepare(args: &Args, root: &Root) -> Result<Preparation, ToolFailure> {
        glob(&args.pattern)?;
        looking_through(root, &args.path)
    }

    fn run(args: &Args, root: &Root, held: &Held, stop: &Stop) -> Result<Output, ToolFailure> {
        let found = held.found(root, 0)?;
        let start = found.name()?;
        let (glob, mut paths, mut more) = (glob(&args.pattern)?, Vec::new(), false);
        let mut size = 0;
        let all = tree::look(root, &found, stop, &mut |visit| {
            let is_folder = visit.entry.kind == Kind::Folder;
            let below = visit.path.strip_prefix(&start).unwrap_or(visit.path);
            if !glob.matched(below, is_folder).is_whitelist() {
                return Next::More;
            }
            let path = format!("{}{}", visit.path.display(), if is_folder { "/" } else { "" });
            size += path.len() + 1;
            if paths.len() == args.limit || size > MAX_BYTES {
                more = true;
                return Next::Enough;
            }
            paths.push(path);
            Next::More
        })?;
        let mut notes = Vec::new();
        if paths.is_empty() && all {
            notes.push("Nothing matches.".to_owned());
        }
        if more {
            notes.push(format!("Only the first {} are shown: narrow the pattern or the path.", paths.len()));
        } else if !all {
            notes.push("Not everything could be looked at.".to_owned());
        }
        let text = with_notes(&paths.join("\n"), &notes);
        let data = json!({ "path": start, "paths": paths });
        Ok(Output { truncated: more || !all, ..Output::text(text) }.with_data(data))
    }
}

/// A glob without a slash is about names at any depth, one with a slash about paths from where it is looked.
pub(super) fn glob(pattern: &str) -> Result<Override, ToolFailure> {
    let refused = |why: &str| ToolFailure::arguments(format!("{pattern:?} is not a glob: {why}"));
    if pattern.trim().is_empty() || pattern.starts_with(['!', '#']) {
        return Err(refused("it is empty or begins with ! or #"));
    }
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let mut builder = OverrideBuilder::new("");
    builder.add(pattern).map_err(|error| refused(&error.to_string()))?;
    builder.build().map_err(|error| refused(&error.to_string()))
}
