//! `apply_patch`: several files changed together, in the form that models of one vendor were trained on.
//!
//! Everything is worked out in memory first, then written beside its place, then put in place. What fails on the way
//! leaves everything as it was.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate_policy::Preparation;
use tidegate_protocol::Risk;

use self::parse::Hunk;
use super::{CHANGE_CAP, FileWork, Held, Stop, condition, diff, subject};
use crate::root::{Found, PathError, Root, Was};
use crate::spec::ToolSpec;
use crate::tool::{Output, ToolFailure};

mod apply;
mod parse;
#[cfg(test)]
mod tests;

pub(super) struct ApplyPatch;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// The patch, from *** Begin Patch to *** End Patch.
    pub(super) input: String,
}

/// A file that a patch names: as it is, and as it will be.
#[derive(Debug)]
struct Change<'r> {
    found: Found<'r>,
    name: String,
    was: Was,
    /// Absent: the file is gone.
    now: Option<Vec<u8>>,
    /// Rights that came with the content from another file.
    mode: Option<u32>,
}

impl FileWork for ApplyPatch {
    type Args = Args;

    fn spec() -> ToolSpec {
        let description = "Change several files at once, all or none. Form: *** Begin Patch, then for each file \
                           *** Add File: <path> (lines with +), *** Delete File: <path>, or *** Update File: <path> \
                           (*** Move to: <path>; pieces that begin with @@ <a line before>, lines with space, - or +; \
                           *** End of File), then *** End Patch.";
        ToolSpec {
            aliases: vec!["apply-patch".to_owned()],
            risk: Risk::Write,
            idempotent: false,
            ..ToolSpec::of::<Args>("apply_patch", description)
        }
    }

    fn prepare(args: &Args, root: &Root) -> Result<Preparation, ToolFailure> {
        let hunks = parsed(args)?;
        let mut subjects = Vec::new();
        let changes = changes(&hunks, |_, path| {
            let found = root.find(path)?;
            // One for each path of the patch, in its order: that is how they are found again.
            subjects.push(subject(&found.name()?));
            Ok(found)
        })?;
        Ok(Preparation {
            subjects,
            preview: Some(diff::preview(&diff_of(&changes))),
            conditions: changes.iter().map(|change| condition(&change.name, &change.was)).collect(),
            ..Preparation::default()
        })
    }

    fn run(args: &Args, root: &Root, held: &Held, stop: &Stop) -> Result<Output, ToolFailure> {
        let changes = changes(&parsed(args)?, |index, _| held.found(root, index))?;
        for change in &changes {
            held.check(&change.name, &change.was)?;
        }
        let (summary, diff) = (summary(&changes), diff::preview(&diff_of(&changes)));
        commit(changes, stop)?;
        Ok(Output::text(format!("Changed:\n{summary}\n{diff}"))
            .with_data(json!({ "changes": summary.lines().collect::<Vec<_>>(), "diff": diff })))
    }
}

fn parsed(args: &Args) -> Result<Vec<Hunk>, ToolFailure> {
    parse::parse(&args.input).map_err(|error| ToolFailure::arguments(error.to_string()))
}

/// What becomes of the files, each named once. `find` is asked for each path of the patch, in its order.
fn changes<'r>(
    hunks: &[Hunk],
    mut find: impl FnMut(usize, &str) -> Result<Found<'r>, ToolFailure>,
) -> Result<Vec<Change<'r>>, ToolFailure> {
    let mut changes: Vec<Change<'r>> = Vec::new();
    let mut asked = 0;
    for hunk in hunks {
        let mut places = Vec::new();
        for path in hunk.paths() {
            places.push(place(&mut changes, find(asked, path)?)?);
            asked += 1;
        }
        match (hunk, places.as_slice()) {
            (Hunk::Add { content, .. }, [at]) => add(&mut changes[*at], content.clone().into_bytes())?,
            (Hunk::Delete { .. }, [at]) => {
                changes[*at].current()?;
                changes[*at].now = None;
            }
            (Hunk::Update { chunks, .. }, [at, rest @ ..]) => {
                let new = changes[*at].updated(chunks)?;
                match rest {
                    [to] if to != at => {
                        let mode = changes[*at].mode.or(changes[*at].was.mode());
                        changes[*at].now = None;
                        add(&mut changes[*to], new)?;
                        changes[*to].mode = mode;
                    }
                    _ => changes[*at].now = Some(new),
                }
            }
            _ => {}
        }
    }
    if changes.iter().all(|change| !change.is_one()) {
        return Err(ToolFailure::execution("the patch changes nothing"));
    }
    Ok(changes)
}

/// Where in the list the file is; put there when it is new to it.
fn place<'r>(changes: &mut Vec<Change<'r>>, found: Found<'r>) -> Result<usize, ToolFailure> {
    let name = found.name()?;
    if let Some(at) = changes.iter().position(|change| change.name == name) {
        return Ok(at);
    }
    let was = found.was(CHANGE_CAP)?;
    let now = was.bytes().map(<[u8]>::to_vec);
    changes.push(Change { found, name, was, now, mode: None });
    Ok(changes.len() - 1)
}

fn add(change: &mut Change<'_>, content: Vec<u8>) -> Result<(), ToolFailure> {
    if change.now.is_some() {
        return Err(PathError::Exists(change.name.clone()).into());
    }
    change.now = Some(content);
    Ok(())
}

impl Change<'_> {
    fn is_one(&self) -> bool {
        self.now.as_deref() != self.was.bytes()
    }

    fn current(&self) -> Result<&[u8], ToolFailure> {
        self.now.as_deref().ok_or_else(|| PathError::Missing(self.name.clone()).into())
    }

    fn updated(&self, chunks: &[parse::Chunk]) -> Result<Vec<u8>, ToolFailure> {
        let text = str::from_utf8(self.current()?)
            .map_err(|_| ToolFailure::execution(format!("{} is not UTF-8 text", self.name)))?;
        let new = apply::apply(text, chunks)
            .map_err(|problem| ToolFailure::execution(format!("{}: {problem}", self.name)))?;
        Ok(new.into_bytes())
    }
}

/// One line a file: A for added, M for modified, D for deleted.
fn summary(changes: &[Change<'_>]) -> String {
    let lines = changes.iter().filter(|change| change.is_one()).map(|change| {
        let letter = match (change.was.bytes(), &change.now) {
            (None, _) => 'A',
            (_, None) => 'D',
            _ => 'M',
        };
        format!("{letter} {}", change.name)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn diff_of(changes: &[Change<'_>]) -> String {
    let diffs = changes.iter().filter(|change| change.is_one());
    diffs.map(|change| diff::unified(&change.name, change.was.bytes(), change.now.as_deref())).collect()
}

/// Does it: everything is written before anything is put in place, and put back if something cannot be.
fn commit(mut changes: Vec<Change<'_>>, stop: &Stop) -> Result<(), ToolFailure> {
    changes.retain(Change::is_one);
    for change in changes.iter_mut().filter(|change| change.now.is_some()) {
        change.found.make_folders()?;
    }
    let mut staged = Vec::new();
    for change in &changes {
        if let Some(now) = &change.now {
            let mode = change.mode.or(change.was.mode());
            staged.push((change, change.found.stage(now, &change.was, mode)?));
        }
    }
    stop.check()?;
    let mut done = Vec::new();
    let mut result = Ok(());
    for (change, ready) in staged {
        result = result.and_then(|()| ready.put().map(|()| done.push(change)));
    }
    for change in changes.iter().filter(|change| change.now.is_none()) {
        result = result.and_then(|()| change.found.remove(&change.was).map(|()| done.push(change)));
    }
    let Err(error) = result else { return Ok(()) };
    let lost: Vec<_> = done
        .iter()
        .rev()
        .filter(|change| change.found.restore(&change.was).is_err())
        .map(|c| &*c.name)
        .collect();
    if lost.is_empty() {
        return Err(error.into());
    }
    Err(ToolFailure::execution(format!("{error}; these files could not be put back: {}", lost.join(", "))))
}
