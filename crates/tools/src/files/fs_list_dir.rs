//! `fs.list_dir`: a folder and what is below it, as the contract of the command line has it.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_policy::Preparation;

use super::{FileWork, Held, Stop, looking_at, looking_through};
use crate::root::{Entry, Folder, Kind, Root};
use crate::spec::ToolSpec;
use crate::tool::{Output, ToolFailure};

/// How many entries are listed.
const MAX_PATHS: usize = 2000;

pub(super) struct ListDir;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Args {
    /// The folder.
    pub(super) path: String,
    /// Folders below it too.
    #[serde(default)]
    pub(super) recursive: bool,
    /// How many levels of folders.
    #[serde(default = "max_depth")]
    #[schemars(range(min = 1))]
    pub(super) max_depth: usize,
}

fn max_depth() -> usize {
    4
}

impl FileWork for ListDir {
    type Args = Args;

    fn spec() -> ToolSpec {
        ToolSpec::of::<Args>("fs.list_dir", "List a folder, with recursive also the folders below it.")
    }

    fn prepare(args: &Args, root: &Root) -> Result<Preparation, ToolFailure> {
        if args.recursive { looking_through(root, &args.path) } else { looking_at(root, &args.path) }
    }

    fn run(args: &Args, root: &Root, held: &Held, stop: &Stop) -> Result<Output, ToolFailure> {
        let found = held.found(root, 0)?;
        let (name, folder) = (found.name()?, found.open_folder()?);
        let start = if name == "." { PathBuf::new() } else { PathBuf::from(&name) };
        let levels = if args.recursive { args.max_depth } else { 1 };
        let mut listing = Listing { root, stop, levels, nodes: Vec::new(), paths: 0, all: true };
        listing.folder(&folder, &start, 0)?;
        let (target, paths, all) = (root.absolute(&name), listing.paths, listing.all);
        let mut data = json!({
            "target": target,
            "recursive": args.recursive,
            "maxDepth": args.max_depth,
            "nodes": listing.nodes,
        });
        let mut content = format!("listed {paths} paths under {target}");
        if !all {
            data["truncated"] = true.into();
            content.push_str(" (there are more)");
        }
        Ok(Output { truncated: !all, ..Output::text(content) }.with_data(data))
    }
}

struct Listing<'a> {
    root: &'a Root,
    stop: &'a Stop,
    levels: usize,
    nodes: Vec<Value>,
    paths: usize,
    all: bool,
}

impl Listing<'_> {
    fn folder(&mut self, folder: &Folder, path: &Path, depth: usize) -> Result<(), ToolFailure> {
        self.stop.check()?;
        let (entries, whole) = folder
            .entries()
            .map_err(|error| ToolFailure::execution(format!("{}: {error}", path.display())))?;
        let room = MAX_PATHS - self.paths;
        self.all &= whole && entries.len() <= room;
        let entries = &entries[..entries.len().min(room)];
        self.paths += entries.len();
        let children: Vec<_> = entries.iter().map(|entry| self.child(path, entry)).collect();
        self.nodes.push(json!({ "depth": depth, "path": self.absolute(path), "children": children }));
        if depth + 1 >= self.levels {
            return Ok(());
        }
        for entry in entries.iter().filter(|entry| entry.kind == Kind::Folder) {
            let path = path.join(&entry.name);
            // A folder that may not be entered is listed by name only.
            if let Ok(inner) = folder.enter(self.root, &entry.name, &path) {
                if self.paths == MAX_PATHS {
                    self.all = false;
                    return Ok(());
                }
                self.folder(&inner, &path, depth + 1)?;
            }
        }
        Ok(())
    }

    fn child(&self, path: &Path, entry: &Entry) -> Value {
        let kind = match entry.kind {
            Kind::File => "file",
            Kind::Folder => "directory",
            Kind::Link => "symlink",
            Kind::Other => "other",
        };
        json!({
            "type": kind,
            "name": entry.name.to_string_lossy(),
            "path": self.absolute(&path.join(&entry.name)),
        })
    }

    fn absolute(&self, path: &Path) -> String {
        let name = path.to_string_lossy();
        self.root.absolute(if name.is_empty() { "." } else { &name })
    }
}
