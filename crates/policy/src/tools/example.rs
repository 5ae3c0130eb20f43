//! An example of a rule as the rule looks at it.

use serde_json::Value;

use super::condition::{Commands, View};
use super::rule::Example;
use crate::call::{Subject, SubjectKind};

/// The call an example stands for.
pub(super) struct Owned<'a> {
    subjects: Vec<Subject>,
    commands: &'a [Vec<String>],
    args: Value,
}

impl<'a> Owned<'a> {
    pub(super) fn new(example: &'a Example) -> Self {
        let kinds = [
            (SubjectKind::Path, &example.path),
            (SubjectKind::Host, &example.host),
            (SubjectKind::Url, &example.url),
            (SubjectKind::Method, &example.method),
        ];
        let subjects = kinds
            .into_iter()
            .flat_map(|(kind, values)| values.iter().map(move |value| Subject::new(kind, value)))
            .collect();
        Self { subjects, commands: &example.command, args: Value::Object(example.args.clone()) }
    }

    pub(super) fn view(&self) -> View<'_> {
        View { subjects: &self.subjects, commands: Commands::Words(self.commands), args: &self.args }
    }
}
