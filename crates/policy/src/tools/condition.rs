//! Conditions, read once, and what they say about a call.

use serde_json::Value;

use super::glob::{self, PathGlob};
use super::rule::Conditions;
use crate::call::{Prepared, Subject, SubjectKind};
use crate::exec::{Launch, Plan, may_hold_commands};

/// What a rule sees of a call.
pub(super) struct View<'a> {
    pub(super) subjects: &'a [Subject],
    pub(super) commands: Commands<'a>,
    pub(super) args: &'a Value,
}

/// What a call would start.
pub(super) enum Commands<'a> {
    Plan(Option<&'a Plan>),
    /// The words of an example: programs that nobody looked up.
    Words(&'a [Vec<String>]),
}

impl<'a> View<'a> {
    pub(super) fn of(prepared: &'a Prepared) -> Self {
        Self {
            subjects: prepared.subjects(),
            commands: Commands::Plan(prepared.plan()),
            args: prepared.args(),
        }
    }
}

/// Whether conditions hold. Ordered: all of several hold as far as the least of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holds {
    No,
    /// A shell would read a script that was not understood, or a program would start what its arguments say.
    Unclear,
    Yes,
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

/// Conditions, read once.
#[derive(Debug, Clone)]
pub(super) struct Tests {
    subjects: Vec<(SubjectKind, Vec<Pattern>)>,
    commands: Vec<Vec<String>>,
    args: Vec<(String, Vec<Value>)>,
}

#[derive(Debug, Clone)]
enum Pattern {
    Path(PathGlob),
    Text(String),
    /// In lower case; so is what it is compared with.
    Folded(String),
}

impl Pattern {
    fn new(kind: SubjectKind, text: &str) -> Self {
        match kind {
            SubjectKind::Path | SubjectKind::Tree => Self::Path(PathGlob::new(text)),
            SubjectKind::Url => Self::Text(text.to_owned()),
            SubjectKind::Host | SubjectKind::Method => Self::Folded(text.to_lowercase()),
        }
    }

    /// Whether it is about some of what the subject stands for.
    fn touches(&self, subject: &Subject) -> bool {
        match self {
            Self::Path(glob) if subject.kind == SubjectKind::Tree => glob.reaches_into(&subject.value),
            _ => self.fits(&subject.value),
        }
    }

    /// Whether it is about all of it.
    fn covers(&self, subject: &Subject) -> bool {
        match self {
            Self::Path(glob) if subject.kind == SubjectKind::Tree => glob.covers(&subject.value),
            _ => self.fits(&subject.value),
        }
    }

    fn fits(&self, text: &str) -> bool {
        match self {
            Self::Path(glob) => glob.fits(text),
            Self::Text(pattern) => glob::fits(pattern, text),
            Self::Folded(pattern) => glob::fits(pattern, &text.to_lowercase()),
        }
    }
}

impl Tests {
    /// Fails with the name of a condition that has an entry without text.
    pub(super) fn new(conditions: &Conditions) -> Result<Self, &'static str> {
        let Conditions { path, host, url, method, command, args } = conditions;
        let mut subjects = Vec::new();
        for (kind, name, patterns) in [
            (SubjectKind::Path, "path", path),
            (SubjectKind::Host, "host", host),
            (SubjectKind::Url, "url", url),
            (SubjectKind::Method, "method", method),
        ] {
            if patterns.iter().any(|pattern| pattern.trim().is_empty()) {
                return Err(name);
            }
            if !patterns.is_empty() {
                subjects.push((kind, patterns.iter().map(|text| Pattern::new(kind, text)).collect()));
            }
        }
        if command.iter().any(|words| words.first().is_none_or(String::is_empty)) {
            return Err("command");
        }
        if args.values().any(Vec::is_empty) {
            return Err("args");
        }
        let args = args.iter().map(|(name, values)| (name.clone(), values.clone())).collect();
        Ok(Self { subjects, commands: command.clone(), args })
    }

    /// Whether each condition holds for anything of the call.
    pub(super) fn hold_for_any(&self, call: &View<'_>) -> Holds {
        let subjects = self.subjects.iter().map(|(kind, patterns)| {
            Holds::from(
                of_kind(call, *kind).any(|subject| patterns.iter().any(|pattern| pattern.touches(subject))),
            )
        });
        let args = self.args.iter().map(|(name, values)| {
            Holds::from(
                written(call, name).iter().any(|value| values.iter().any(|wanted| equal(wanted, value))),
            )
        });
        subjects.chain(args).chain([self.any_command(call)]).min().unwrap_or(Holds::Yes)
    }

    /// Whether each condition holds for everything of the call that it could be about, and there is such a thing.
    pub(super) fn hold_for_all(&self, call: &View<'_>) -> bool {
        let subjects = self.subjects.iter().all(|(kind, patterns)| {
            of_kind(call, *kind).next().is_some()
                && of_kind(call, *kind).all(|subject| patterns.iter().any(|pattern| pattern.covers(subject)))
        });
        let args = self.args.iter().all(|(name, values)| {
            let written = written(call, name);
            !written.is_empty()
                && written.iter().all(|value| values.iter().any(|wanted| equal(wanted, value)))
        });
        subjects && args && self.every_command(call)
    }

    fn any_command(&self, call: &View<'_>) -> Holds {
        if self.commands.is_empty() {
            return Holds::Yes;
        }
        match &call.commands {
            Commands::Words(commands) => {
                Holds::from(commands.iter().any(|argv| self.commands.iter().any(|words| begins(words, argv))))
            }
            Commands::Plan(None) => Holds::No,
            Commands::Plan(Some(plan)) => {
                if plan.launches().any(|launch| self.commands.iter().any(|words| may_be(words, launch))) {
                    Holds::Yes
                } else if plan.opaque().is_some() || plan.launches().any(may_hold_others) {
                    Holds::Unclear
                } else {
                    Holds::No
                }
            }
        }
    }

    fn every_command(&self, call: &View<'_>) -> bool {
        if self.commands.is_empty() {
            return true;
        }
        let one_of = |fits: &dyn Fn(&[String]) -> bool| self.commands.iter().any(|words| fits(words));
        match &call.commands {
            Commands::Words(commands) => {
                !commands.is_empty() && commands.iter().all(|argv| one_of(&|words| begins(words, argv)))
            }
            Commands::Plan(None) => false,
            Commands::Plan(Some(plan)) => {
                plan.opaque().is_none()
                    && plan.launches().next().is_some()
                    && plan.launches().all(|launch| one_of(&|words| surely_is(words, launch)))
            }
        }
    }
}

/// A condition about paths is one about folders too.
fn of_kind<'a>(call: &View<'a>, kind: SubjectKind) -> impl Iterator<Item = &'a Subject> {
    let meant = move |found| found == kind || (kind == SubjectKind::Path && found == SubjectKind::Tree);
    call.subjects.iter().filter(move |subject| meant(subject.kind))
}

/// The values of an argument: those of a list one by one.
fn written<'a>(call: &View<'a>, name: &str) -> &'a [Value] {
    match call.args.get(name) {
        Some(Value::Array(values)) => values,
        Some(value) => std::slice::from_ref(value),
        None => &[],
    }
}

fn equal(wanted: &Value, value: &Value) -> bool {
    match (wanted, value) {
        (Value::String(pattern), Value::String(text)) => glob::fits(pattern, text),
        _ => wanted == value,
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a command that nobody looked up begins with these words.
fn begins(words: &[String], argv: &[String]) -> bool {
    let [program, ..] = argv else { return false };
    (words[0] == *program || words[0] == file_name(program)) && rest(words, argv)
}

/// Whether a program could be meant: by the name it was called as, its path or its file name.
fn may_be(words: &[String], launch: &Launch) -> bool {
    let path = &launch.program.path;
    let named = words[0] == *path || words[0] == file_name(path);
    begins(words, &launch.argv) || named && rest(words, &launch.argv)
}

/// Whether a program starts what its arguments say, by the name it was called as or by its file.
fn may_hold_others(launch: &Launch) -> bool {
    let Launch { program, argv } = launch;
    let by_file = || {
        let words = std::iter::once(&program.path).chain(argv.iter().skip(1));
        may_hold_commands(&words.cloned().collect::<Vec<_>>())
    };
    may_hold_commands(argv) || by_file()
}

/// Whether a program is meant beyond doubt: by its path, or by its file name if nobody can have put it there.
fn surely_is(words: &[String], launch: &Launch) -> bool {
    let Launch { program, argv } = launch;
    let named = words[0] == program.path || program.trusted && words[0] == file_name(&program.path);
    named && rest(words, argv)
}

fn rest(words: &[String], argv: &[String]) -> bool {
    argv.get(1..).is_some_and(|argv| argv.starts_with(&words[1..]))
}
