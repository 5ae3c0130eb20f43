//! A plan: exactly the programs that will be started, with exactly these arguments.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::read::{self, Sketch};
use crate::digest::Writer;

/// What will be started. It is built from a script or an argument list and then never changed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    steps: Vec<Step>,
    /// Absolute.
    cwd: String,
    /// The whole environment: nothing else is handed down. The operator's keys may be in it, so it is never written
    /// anywhere.
    #[serde(skip_serializing, default)]
    env: BTreeMap<String, String>,
    /// What the call itself added to the environment.
    added_env: BTreeMap<String, String>,
    /// Set when the script was not understood and a shell has to read it.
    opaque: Option<Opaque>,
}

/// Why a script cannot be taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Opaque {
    /// In plain words, such as "it uses `$(…)`".
    pub reason: String,
    /// The script as the shell will read it.
    pub script: String,
}

/// A pipeline, and when it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub join: Join,
    pub pipeline: Vec<Launch>,
}

/// How a step follows from the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Join {
    /// The first, or after `;`.
    Then,
    /// After `&&`.
    And,
    /// After `||`.
    Or,
}

/// One program with its arguments; `argv[0]` is what it was called as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    pub program: Program,
    pub argv: Vec<String>,
}

/// A program as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Program {
    /// Absolute, without symbolic links.
    pub path: String,
    pub identity: FileIdentity,
    /// Nobody but the system or the owner of this process can replace it.
    pub trusted: bool,
}

/// Which file it is; checked again just before it is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileIdentity {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// Nanoseconds since the epoch.
    pub modified: i128,
}

/// Where a plan runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanPlace {
    pub cwd: String,
    /// The whole environment, with what the call added.
    pub env: BTreeMap<String, String>,
    /// What the call itself added or changed: names and values that `env` has too.
    pub added_env: BTreeMap<String, String>,
}

/// Finds programs. The facts come from whoever may look at the disk.
pub trait Lookup {
    /// What this word would start in this place: a bare name by the search path, anything with a slash from the folder.
    fn find(&self, word: &str, place: &PlanPlace) -> Option<Program>;

    /// The shell that reads what was not understood.
    fn shell(&self) -> Option<Program>;
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("the command is empty")]
    Empty,
    #[error("the command contains a NUL character")]
    Nul,
    #[error("the command is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error("{word}: no such program")]
    NotFound { word: String },
    #[error("there is no shell to run it with")]
    NoShell,
}

impl Plan {
    /// The plan of a script: its programs when it was understood, else a shell that reads it.
    pub fn of_script(text: &str, place: PlanPlace, lookup: &dyn Lookup) -> Result<Self, PlanError> {
        check_text(text)?;
        match read::understand(text) {
            Ok(sketch) => Self::of_sketch(sketch, place, lookup),
            Err(reason) => {
                let shell = lookup.shell().ok_or(PlanError::NoShell)?;
                let argv = shell_argv(&shell, text);
                let opaque = Opaque { reason, script: text.to_owned() };
                Ok(Self::single(Launch { program: shell, argv }, place, Some(opaque)))
            }
        }
    }

    fn of_sketch(sketch: Sketch, place: PlanPlace, lookup: &dyn Lookup) -> Result<Self, PlanError> {
        let mut steps = Vec::with_capacity(sketch.steps.len());
        for step in sketch.steps {
            let launches = step.commands.into_iter().map(|argv| launch(argv, &place, lookup));
            let pipeline = launches.collect::<Result<_, _>>()?;
            steps.push(Step { join: step.join, pipeline });
        }
        Ok(Self { steps, cwd: place.cwd, env: place.env, added_env: place.added_env, opaque: None })
    }

    /// The plan of one program with these arguments: no shell, nothing is read.
    pub fn of_argv(argv: Vec<String>, place: PlanPlace, lookup: &dyn Lookup) -> Result<Self, PlanError> {
        if argv.first().is_none_or(String::is_empty) {
            return Err(PlanError::Empty);
        }
        if argv.iter().any(|argument| argument.contains('\0')) {
            return Err(PlanError::Nul);
        }
        let launch = launch(argv, &place, lookup)?;
        Ok(Self::single(launch, place, None))
    }

    fn single(launch: Launch, place: PlanPlace, opaque: Option<Opaque>) -> Self {
        let step = Step { join: Join::Then, pipeline: vec![launch] };
        Self { steps: vec![step], cwd: place.cwd, env: place.env, added_env: place.added_env, opaque }
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub fn cwd(&self) -> &str {
        &self.cwd
    }

    pub fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    pub fn added_env(&self) -> &BTreeMap<String, String> {
        &self.added_env
    }

    pub fn opaque(&self) -> Option<&Opaque> {
        self.opaque.as_ref()
    }

    /// The plan for people to look at: without the environment, which may have the operator's keys in it.
    pub(crate) fn without_env(&self) -> Self {
        Self { env: BTreeMap::new(), ..self.clone() }
    }

    /// Every program in order.
    pub fn launches(&self) -> impl Iterator<Item = &Launch> {
        self.steps.iter().flat_map(|step| &step.pipeline)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.count("plan", self.steps.len());
        writer.field("cwd", &self.cwd);
        writer.count("env", self.env.len());
        for (name, value) in &self.env {
            writer.field(name, value);
        }
        writer.count("added env", self.added_env.len());
        for (name, value) in &self.added_env {
            writer.field(name, value);
        }
        match &self.opaque {
            Some(opaque) => writer.field("opaque", &opaque.script),
            None => writer.count("understood", self.steps.len()),
        }
        for step in &self.steps {
            writer.count("join", step.join as usize);
            writer.count("pipeline", step.pipeline.len());
            for launch in &step.pipeline {
                launch.write(writer);
            }
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, cwd, env, added_env, opaque } = self;
        f.debug_struct("Plan")
            .field("steps", steps)
            .field("cwd", cwd)
            .field("env", &env.keys())
            .field("added_env", added_env)
            .field("opaque", opaque)
            .finish()
    }
}

impl Launch {
    fn write(&self, writer: &mut Writer) {
        let Program { path, identity, trusted } = &self.program;
        writer.field("program", path);
        writer.field("device", &identity.device.to_string());
        writer.field("inode", &identity.inode.to_string());
        writer.field("size", &identity.size.to_string());
        writer.field("modified", &identity.modified.to_string());
        writer.count("trusted", usize::from(*trusted));
        writer.count("argv", self.argv.len());
        for argument in &self.argv {
            writer.field("", argument);
        }
    }
}

fn launch(argv: Vec<String>, place: &PlanPlace, lookup: &dyn Lookup) -> Result<Launch, PlanError> {
    let word = argv.first().map_or("", String::as_str);
    match lookup.find(word, place) {
        Some(program) => Ok(Launch { program, argv }),
        None => Err(PlanError::NotFound { word: word.to_owned() }),
    }
}

/// A script that begins like an option would be taken for one.
fn shell_argv(shell: &Program, text: &str) -> Vec<String> {
    let mut argv = vec![shell.path.clone(), "-c".to_owned()];
    if text.starts_with(['-', '+']) {
        argv.push("--".to_owned());
    }
    argv.push(text.to_owned());
    argv
}

/// A script longer than this is not a command somebody can judge.
const LONGEST_SCRIPT: usize = 64 * 1024;

fn check_text(text: &str) -> Result<(), PlanError> {
    if text.trim().is_empty() {
        return Err(PlanError::Empty);
    }
    if text.contains('\0') {
        return Err(PlanError::Nul);
    }
    if text.len() > LONGEST_SCRIPT {
        return Err(PlanError::TooLong { limit: LONGEST_SCRIPT });
    }
    Ok(())
}
