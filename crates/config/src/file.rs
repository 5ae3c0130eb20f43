//! The config file: loading it, changing it, and falling back to what was good.
//!
//! Owns the one file and its history. A bad file never turns into silent defaults: it is refused, or the last good
//! revision stands in and says so. A change is checked before it is written, made under a lock, and either whole
//! or not there.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::disk::{self, Lock};
use crate::edit::{self, Change, NEW_FILE, TextError};
use crate::env::Env;
use crate::error::{EditError, LoadError, StoreError};
use crate::load::{self, Loaded, Origin, Outcome};
use crate::patch::merged;
use crate::path::{self, KeyPath};
use crate::problem::{Problem, ProblemKind};
use crate::redact::redact;
use crate::revision::{Revision, Revisions, Saved, hash_of};
use crate::schema::Config;
use crate::shape;

/// The config file and the folder of its revisions.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    path: PathBuf,
    revisions: Revisions,
}

/// Which of a key's values is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reveal {
    /// What the file itself says, before includes and variables.
    Source,
    /// What is in force: with includes, variables and defaults.
    Effective,
}

/// Whether secrets are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    Redacted,
    Shown,
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Edited {
    /// The hash of the file before.
    pub previous_hash: String,
    /// The hash of the file now; the same when the change was none.
    pub hash: String,
    pub revision: Revision,
    /// What was wrong with the file before the edit and still is.
    pub remaining: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

/// A text after all of some changes, one after the other.
fn all(text: &str, changes: &[Change]) -> Result<String, TextError> {
    changes.iter().try_fold(text.to_owned(), |text, change| edit::apply(&text, change))
}

/// A change that may be made.
struct Plan {
    /// The text of the file now; absent when there is none.
    current: Option<String>,
    previous_hash: String,
    edited: String,
    before: Outcome,
    after: Outcome,
}

impl ConfigFile {
    /// `revisions_dir` is made when the first revision is saved.
    pub fn new(path: PathBuf, revisions_dir: PathBuf) -> Self {
        Self { path, revisions: Revisions::new(revisions_dir) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The hash of the file's text now; of nothing when there is no file.
    pub fn hash(&self) -> Result<String, LoadError> {
        Ok(hash_of(self.read()?.unwrap_or_default().as_bytes()))
    }

    /// The config as the file says; every key has its default when there is no file.
    pub fn load(&self, env: &Env) -> Result<Loaded, LoadError> {
        let Some(source) = self.read()? else { return Ok(self.missing()) };
        let outcome = self.outcome(&source, env);
        let mut loaded = self.loaded(source, outcome, Origin::File)?;
        loaded.warnings.extend(self.shared_secret(&loaded));
        Ok(loaded)
    }

    /// The config for a command that must run: as the file says, else the last good revision with the file's
    /// problems in [`Loaded::origin`], to be shown loudly; else the error.
    pub fn load_or_last_good(&self, env: &Env) -> Result<Loaded, LoadError> {
        let error = match self.load(env) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => error,
        };
        // Why the revisions cannot be read matters less than why the file cannot be used.
        let Ok(Some(Saved { revision, source, document })) = self.revisions.last_good() else {
            return Err(error);
        };
        let problems = match &error {
            LoadError::Invalid { problems, .. } => problems.clone(),
            LoadError::Io { .. } => vec![Problem::new(ProblemKind::Syntax, "", error.to_string())],
        };
        let origin = Origin::LastGood { revision: revision.number, problems };
        let outcome = load::from_document(document, Vec::new(), env);
        self.loaded(source, outcome, origin).map_err(|_| error)
    }

    /// Saves the text of a config that is now in force, so that it can be fallen back to. Defaults without a file
    /// are nothing to fall back to.
    pub fn activate(&self, loaded: &Loaded, now_ms: i64) -> Result<Option<Revision>, StoreError> {
        match loaded.origin {
            Origin::Missing => Ok(None),
            Origin::LastGood { revision, .. } => {
                Ok(self.revisions.read(revision).map(|saved| saved.revision))
            }
            Origin::File => {
                let _lock = self.lock()?;
                self.revisions.save(&loaded.source, &loaded.document, true, now_ms).map(Some)
            }
        }
    }

    /// The saved revisions, oldest first.
    pub fn revisions(&self) -> Result<Vec<Revision>, StoreError> {
        self.revisions.list()
    }

    /// Writes the text of a revision back. The text it replaces is saved first.
    pub fn restore(&self, number: u64, base_hash: Option<&str>, now_ms: i64) -> Result<Revision, StoreError> {
        let saved = self.revisions.read(number).ok_or(StoreError::NoRevision { number })?;
        let _lock = self.lock()?;
        let current =
            disk::read(&self.path).map_err(|error| StoreError::io("cannot be read", &self.path, error))?;
        check_base(base_hash, &hash_of(current.as_deref().unwrap_or_default()))?;
        if let Some(current) = current {
            let known = self.revisions.list()?.last().is_some_and(|newest| newest.hash == hash_of(&current));
            if !known {
                self.revisions.save(&String::from_utf8_lossy(&current), &Value::Null, false, now_ms)?;
            }
        }
        self.write(&saved.source)?;
        self.revisions.save(&saved.source, &saved.document, saved.revision.good, now_ms)
    }

    /// Changes one key. The result is checked first: a change that would break the file is refused with all that
    /// would be wrong. A file that is wrong already may be mended one key at a time.
    pub fn edit(
        &self,
        change: &Change,
        base_hash: Option<&str>,
        env: &Env,
        now_ms: i64,
    ) -> Result<Edited, EditError> {
        self.edit_all(std::slice::from_ref(change), base_hash, env, now_ms)
    }

    /// Changes several keys, all or none: only what comes of all of them is checked.
    pub fn edit_all(
        &self,
        changes: &[Change],
        base_hash: Option<&str>,
        env: &Env,
        now_ms: i64,
    ) -> Result<Edited, EditError> {
        self.rewrite(&|text| all(text, changes), base_hash, env, now_ms)
    }

    /// Changes every key that a merge patch names, all of them or none, and checks the result as [`edit`](Self::edit)
    /// does.
    pub fn patch(
        &self,
        patch: &Value,
        base_hash: Option<&str>,
        env: &Env,
        now_ms: i64,
    ) -> Result<Edited, EditError> {
        self.become_what(&|document| merged(document, patch), base_hash, env, now_ms)
    }

    /// Makes the file say this and nothing else. What it says already stays as it is written.
    pub fn replace(
        &self,
        wanted: &Value,
        base_hash: Option<&str>,
        env: &Env,
        now_ms: i64,
    ) -> Result<Edited, EditError> {
        self.become_what(&|_| wanted.clone(), base_hash, env, now_ms)
    }

    fn become_what(
        &self,
        wanted: &dyn Fn(&Value) -> Value,
        base_hash: Option<&str>,
        env: &Env,
        now_ms: i64,
    ) -> Result<Edited, EditError> {
        let changed = |text: &str| {
            let document = crate::document::parse(text).map_err(TextError::Unreadable)?;
            let shown = redact(shape::root(), &document);
            let changes =
                crate::patch::changes(&document, &shown, &wanted(&document)).map_err(TextError::Path)?;
            all(text, &changes)
        };
        self.rewrite(&changed, base_hash, env, now_ms)
    }

    fn rewrite(
        &self,
        changed: &dyn Fn(&str) -> Result<String, TextError>,
        base_hash: Option<&str>,
        env: &Env,
        now_ms: i64,
    ) -> Result<Edited, EditError> {
        // Once without the lock: a change that is refused makes nothing, not even the folder of the lock.
        self.plan(changed, base_hash, env)?;
        let _lock = self.lock()?;
        let Plan { current, previous_hash, edited, before, after } = self.plan(changed, base_hash, env)?;
        let text = current.as_deref().unwrap_or(NEW_FILE);
        if current.is_some() {
            self.save(text, &before, now_ms)?;
        }
        if current.as_deref() != Some(edited.as_str()) {
            self.check_unchanged(&previous_hash)?;
            self.write(&edited)?;
        }
        Ok(Edited {
            previous_hash,
            hash: hash_of(edited.as_bytes()),
            revision: self.save(&edited, &after, now_ms)?,
            remaining: after.problems().to_vec(),
            warnings: after.warnings,
        })
    }

    /// What a change would do, if it may be made.
    fn plan(
        &self,
        changed: &dyn Fn(&str) -> Result<String, TextError>,
        base_hash: Option<&str>,
        env: &Env,
    ) -> Result<Plan, EditError> {
        let current = self.read()?;
        let previous_hash = hash_of(current.as_deref().unwrap_or_default().as_bytes());
        check_base(base_hash, &previous_hash)?;
        let text = current.as_deref().unwrap_or(NEW_FILE);
        let edited = changed(text).map_err(|error| self.edit_error(error))?;
        let before = self.outcome(text, env);
        let after = self.outcome(&edited, env);
        if let Some(problems) = refusal(before.problems(), after.problems()) {
            return Err(EditError::Refused { file: self.path.clone(), problems });
        }
        Ok(Plan { current, previous_hash, edited, before, after })
    }

    /// The value of a key, or the whole document; `None` when it is not set.
    pub fn get(
        &self,
        path: Option<&KeyPath>,
        reveal: Reveal,
        secrets: Secrets,
        env: &Env,
    ) -> Result<Option<Value>, LoadError> {
        let mut document = match reveal {
            Reveal::Source => match self.read()? {
                Some(source) => crate::document::parse(&source).map_err(|problems| self.invalid(problems))?,
                None => Value::Object(serde_json::Map::new()),
            },
            Reveal::Effective => {
                let mut resolved = self.load(env)?.resolved;
                shape::fill_defaults(shape::root(), &mut resolved);
                resolved
            }
        };
        // The whole document is redacted, not the part: only from the root does the schema know what is secret.
        if secrets == Secrets::Redacted {
            document = redact(shape::root(), &document);
        }
        Ok(match path {
            Some(path) => path::get(&document, path).cloned(),
            None => Some(document),
        })
    }

    fn read(&self) -> Result<Option<String>, LoadError> {
        let bytes =
            disk::read(&self.path).map_err(|source| LoadError::Io { file: self.path.clone(), source })?;
        let text = bytes.map(String::from_utf8).transpose();
        text.map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let line = 1 + String::from_utf8_lossy(&error.as_bytes()[..at]).matches('\n').count();
            let message = format!("line {line}: byte {} of the file is not UTF-8 text", at + 1);
            self.invalid(vec![Problem::new(ProblemKind::Syntax, "", message)])
        })
    }

    fn outcome(&self, source: &str, env: &Env) -> Outcome {
        load::from_text(source, &self.path, env, &disk::read_text)
    }

    fn loaded(&self, source: String, outcome: Outcome, origin: Origin) -> Result<Loaded, LoadError> {
        let config = outcome.config.map_err(|problems| self.invalid(problems))?;
        Ok(Loaded {
            config,
            hash: hash_of(source.as_bytes()),
            origin,
            warnings: outcome.warnings,
            source,
            document: outcome.document,
            resolved: outcome.resolved,
        })
    }

    fn missing(&self) -> Loaded {
        let newest = self.revisions.list().ok().and_then(|mut list| list.pop());
        let lost = newest.map(|revision| {
            let (file, kept) = (self.path.display(), self.revisions.folder().display());
            let message = format!(
                "{file} is missing, so every key has its default; revision {} of it is kept in {kept}",
                revision.number
            );
            Problem::new(ProblemKind::Notice, "", message)
        });
        Loaded {
            config: Config::default(),
            hash: hash_of(b""),
            origin: Origin::Missing,
            warnings: lost.into_iter().collect(),
            source: String::new(),
            document: Value::Object(serde_json::Map::new()),
            resolved: Value::Object(serde_json::Map::new()),
        }
    }

    /// A notice when a secret stands in a file that others can read.
    fn shared_secret(&self, loaded: &Loaded) -> Option<Problem> {
        let literal = redact(shape::root(), &loaded.document) != loaded.document;
        (literal && disk::is_shared(&self.path)).then(|| {
            let file = self.path.display();
            let message = format!(
                "{file} holds secrets and others on this computer may read it; run: chmod 600 {file}"
            );
            Problem::new(ProblemKind::Notice, "", message)
        })
    }

    fn invalid(&self, problems: Vec<Problem>) -> LoadError {
        LoadError::Invalid { file: self.path.clone(), problems }
    }

    fn edit_error(&self, error: TextError) -> EditError {
        match error {
            TextError::Unreadable(problems) => self.invalid(problems).into(),
            TextError::Path(error) => error.into(),
            TextError::Unsupported(reason) => EditError::Unsupported { file: self.path.clone(), reason },
        }
    }

    fn save(&self, source: &str, outcome: &Outcome, now_ms: i64) -> Result<Revision, StoreError> {
        self.revisions.save(source, &outcome.document, outcome.config.is_ok(), now_ms)
    }

    /// One writer at a time, across processes.
    fn lock(&self) -> Result<Lock, StoreError> {
        disk::private_folder(self.revisions.folder())?;
        let lock = Lock::take(&self.revisions.folder().join("lock"))?;
        disk::sweep_temporaries(&self.path);
        Ok(lock)
    }

    /// An editor does not take our lock: what it wrote since we read is not overwritten.
    fn check_unchanged(&self, hash: &str) -> Result<(), StoreError> {
        let bytes =
            disk::read(&self.path).map_err(|error| StoreError::io("cannot be read", &self.path, error))?;
        check_base(Some(hash), &hash_of(&bytes.unwrap_or_default()))
    }

    fn write(&self, text: &str) -> Result<(), StoreError> {
        disk::write_atomic(&self.path, text.as_bytes())
    }
}

fn check_base(base: Option<&str>, current: &str) -> Result<(), StoreError> {
    match base {
        Some(base) if !base.eq_ignore_ascii_case(current) => Err(StoreError::Conflict),
        _ => Ok(()),
    }
}

/// The problems for which an edit is refused, or `None` when it may be written.
///
/// A variable that was missing before is no reason: the shell that edits need not have the service's environment.
/// Any other problem is, unless the edit brings none and mends at least one.
fn refusal(before: &[Problem], after: &[Problem]) -> Option<Vec<Problem>> {
    let known = |problem: &&Problem| before.contains(problem);
    let excused = |problem: &&Problem| problem.kind == ProblemKind::EnvMissing && before.contains(problem);
    let blocking = after.iter().filter(|problem| !excused(problem)).count();
    let mends = after.iter().all(|problem| known(&problem)) && after.len() < before.len();
    (blocking > 0 && !mends).then(|| after.to_vec())
}
