//! The file tools, one file each. All of them reach files through [`Root`] only.
//!
//! A call is prepared by finding out which files it means, under their real names, and what they hold now. It runs on
//! those names, not on what the model wrote: a link that appeared since, or a file that changed, stops it.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_policy::{Permitted, Preparation, Prepared, Subject, SubjectKind};
use tokio_util::sync::CancellationToken;

use crate::place::Place;
use crate::root::{Found, PathError, Root, Was};
use crate::spec::ToolSpec;
use crate::tool::{Output, Tool, ToolFailure, Work};

mod diff;
mod edit;
mod find;
mod fold;
mod fs_list_dir;
mod fs_read_file;
mod grep;
mod ls;
mod memory_append;
mod patch;
mod read;
mod replace;
#[cfg(test)]
mod tests;
mod tree;
mod write;

pub use read::image_type;

/// The largest file that is read whole to be shown or searched.
const READ_CAP: u64 = 32 * 1024 * 1024;
/// The largest file that is changed.
const CHANGE_CAP: u64 = 8 * 1024 * 1024;

/// The tools of this folder.
pub fn file_tools() -> Vec<Arc<dyn Tool>> {
    vec![
        FileTool::<read::Read>::shared(),
        FileTool::<write::Write>::shared(),
        FileTool::<edit::Edit>::shared(),
        FileTool::<patch::ApplyPatch>::shared(),
        FileTool::<ls::Ls>::shared(),
        FileTool::<find::Find>::shared(),
        FileTool::<grep::Grep>::shared(),
        FileTool::<fs_list_dir::ListDir>::shared(),
        FileTool::<fs_read_file::ReadFile>::shared(),
        FileTool::<memory_append::MemoryAppend>::shared(),
    ]
}

/// What one of these tools does, in blocking code.
trait FileWork: Send + Sync + 'static {
    type Args: DeserializeOwned + JsonSchema + Send + 'static;

    fn spec() -> ToolSpec;

    fn prepare(args: &Self::Args, root: &Root) -> Result<Preparation, ToolFailure>;

    fn run(args: &Self::Args, root: &Root, held: &Held, stop: &Stop) -> Result<Output, ToolFailure>;
}

struct FileTool<W> {
    spec: ToolSpec,
    work: PhantomData<fn() -> W>,
}

impl<W: FileWork> FileTool<W> {
    fn shared() -> Arc<dyn Tool> {
        Arc::new(Self { spec: W::spec(), work: PhantomData })
    }
}

#[async_trait]
impl<W: FileWork> Tool for FileTool<W> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, args: &Value, place: &Place) -> Result<Preparation, ToolFailure> {
        let args = parse::<W::Args>(args)?;
        let (path, forbidden) = (place.root.clone(), place.forbidden.clone());
        blocking(move || W::prepare(&args, &Root::open(&path, &forbidden)?)).await
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        let prepared = permitted.prepared();
        if work.place.root.as_os_str() != prepared.requester().root.as_str() {
            return Err(ToolFailure::execution("the call was permitted for another folder"));
        }
        let args = parse::<W::Args>(prepared.args())?;
        let held = Held::of(prepared);
        let (path, forbidden) = (work.place.root.clone(), work.place.forbidden.clone());
        let stop = Stop(work.cancel.child_token());
        // Whoever gives up waiting stops the work too.
        let _given_up = stop.0.clone().drop_guard();
        let stopped = stop.clone();
        blocking(move || W::run(&args, &Root::open(&path, &forbidden)?, &held, &stopped)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolFailure> + Send + 'static,
) -> Result<T, ToolFailure> {
    let done = tidegate_runtime::spawn_blocking("file tool", work).join().await;
    done.unwrap_or_else(|end| Err(ToolFailure::execution(end.to_string())))
}

fn parse<A: DeserializeOwned>(args: &Value) -> Result<A, ToolFailure> {
    A::deserialize(args).map_err(|error| ToolFailure::arguments(error.to_string()))
}

/// One of two names for an argument: models were trained on both.
fn either<'a>(
    name: &str,
    value: Option<&'a String>,
    alias: Option<&'a String>,
) -> Result<&'a str, ToolFailure> {
    match (value, alias) {
        (Some(value), None) | (None, Some(value)) => Ok(value),
        (Some(value), Some(alias)) if value == alias => Ok(value),
        (Some(_), Some(_)) => Err(ToolFailure::arguments(format!("argument {name} was given twice"))),
        (None, None) => Err(ToolFailure::arguments(format!("missing required argument: {name}"))),
    }
}

/// Says when nobody waits for the work any more.
#[derive(Debug, Clone)]
struct Stop(CancellationToken);

impl Stop {
    fn check(&self) -> Result<(), ToolFailure> {
        if self.0.is_cancelled() { Err(ToolFailure::execution("the call was stopped")) } else { Ok(()) }
    }
}

/// What a call is held to: the files it was permitted for, and what they held.
#[derive(Debug)]
struct Held {
    names: Vec<String>,
    conditions: Vec<(String, String)>,
}

impl Held {
    fn of(prepared: &Prepared) -> Self {
        Self::new(prepared.subjects(), prepared.conditions())
    }

    fn new(subjects: &[Subject], conditions: &[(String, String)]) -> Self {
        let paths =
            subjects.iter().filter(|subject| matches!(subject.kind, SubjectKind::Path | SubjectKind::Tree));
        Self { names: paths.map(|subject| subject.value.clone()).collect(), conditions: conditions.to_vec() }
    }

    /// The file that the n-th path of the arguments means.
    fn found<'r>(&self, root: &'r Root, index: usize) -> Result<Found<'r>, ToolFailure> {
        let name =
            self.names.get(index).ok_or_else(|| ToolFailure::execution("the call names another file"))?;
        Ok(root.exactly(name)?)
    }

    /// Whether a file still holds what it held when the call was prepared.
    fn check(&self, name: &str, was: &Was) -> Result<(), ToolFailure> {
        let expected = condition(name, was);
        if self.conditions.contains(&expected) {
            return Ok(());
        }
        Err(PathError::Changed(name.to_owned()).into())
    }
}

fn condition(name: &str, was: &Was) -> (String, String) {
    (format!("sha256 {name}"), was.digest())
}

fn subject(name: &str) -> Subject {
    Subject::new(SubjectKind::Path, name)
}

/// The preparation of a call that only looks at one file or folder.
fn looking_at(root: &Root, path: &str) -> Result<Preparation, ToolFailure> {
    Ok(Preparation { subjects: vec![subject(&root.normalise(path)?)], ..Preparation::default() })
}

/// The same of one that looks at everything below a folder, or at one file.
fn looking_through(root: &Root, path: &str) -> Result<Preparation, ToolFailure> {
    let mut preparation = looking_at(root, path)?;
    preparation.subjects[0].kind = SubjectKind::Tree;
    Ok(preparation)
}

impl From<PathError> for ToolFailure {
    fn from(error: PathError) -> Self {
        Self::execution(error.to_string())
    }
}
