//! Recorded cases: files of inputs and the answers that another gateway gave, each put to the function that has that job
//! here. The program `vectors <file>` runs any such file.
//!
//! A file is a JSON object. Each key is a group, a list of cases or one case; keys that begin with `_` are notes. A group
//! without a function here is named and counted, with the reason where it is known; a case where ours differs on purpose
//! is told with the reason too.

mod agent;
mod config;
mod elsewhere;
mod exec;
mod gateway;
mod models;
mod on_purpose;
mod sessions;
mod socket;
mod text;

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// What a case says, and what comes out here.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) expected: Value,
    pub(crate) ours: Value,
}

/// Answers a case; an error says why it is none of its group.
pub(crate) type Answer = fn(&Value) -> Result<Compared, String>;

#[expect(clippy::unnecessary_wraps, reason = "the last word of every answer")]
pub(crate) fn compared(expected: impl Into<Value>, ours: impl Into<Value>) -> Result<Compared, String> {
    Ok(Compared { expected: expected.into(), ours: ours.into() })
}

/// A case in the form of its group.
pub(crate) fn read<T: DeserializeOwned>(case: &Value) -> Result<T, String> {
    serde_json::from_value(case.clone()).map_err(|error| error.to_string())
}

/// A case of a group whose cases are `in` and either `out` or `err`: its input, and what is expected of it.
pub(crate) fn in_and_out<T: DeserializeOwned>(case: &Value) -> Result<(T, Value), String> {
    let input = case.get("in").ok_or("missing field `in`")?;
    let expected = case.get("out").or_else(|| case.pointer("/err/message"));
    let expected = expected.ok_or("missing field `out` or `err.message`")?;
    Ok((read(input)?, expected.clone()))
}

fn answer_of(group: &str) -> Option<Answer> {
    let families =
        [text::answer_of, agent::answer_of, sessions::answer_of, models::answer_of, exec::answer_of];
    let others: [fn(&str) -> Option<Answer>; 3] = [config::answer_of, gateway::answer_of, socket::answer_of];
    families.into_iter().chain(others).find_map(|of| of(group))
}

/// What came of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// A line for everything that is not as recorded.
    pub lines: Vec<String>,
}

impl Report {
    /// All that there is to read, with the sum at the end.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let _ = writeln!(text, "{line}");
        }
        let Self { passed, failed, skipped, .. } = self;
        let _ = writeln!(text, "{passed} passed, {failed} failed, {skipped} skipped");
        text
    }

    fn note(&mut self, name: &str, case: &Value, answer: Answer) {
        let answered = catch_unwind(AssertUnwindSafe(|| answer(case)));
        match answered.unwrap_or_else(|_| Err("our function panicked".to_owned())) {
            Ok(Compared { expected, ours }) if expected == ours => self.passed += 1,
            Ok(Compared { expected, ours }) => {
                if let Some(reason) = on_purpose::reason(name_of_group(name), case, &ours) {
                    self.skipped += 1;
                    self.lines.push(format!("{name}: differs on purpose: {reason}\n  case {case}"));
                } else {
                    self.failed += 1;
                    let told =
                        format!("{name}: differs\n  case {case}\n  expected {expected}\n  ours {ours}");
                    self.lines.push(told);
                }
            }
            Err(problem) => {
                self.failed += 1;
                self.lines.push(format!("{name}: cannot be run: {problem}\n  case {case}"));
            }
        }
    }
}

fn name_of_group(case_name: &str) -> &str {
    case_name.split_once('[').map_or(case_name, |(group, _)| group)
}

/// Runs a file's text.
///
/// # Errors
///
/// When the text is no JSON object.
pub fn run(text: &str) -> Result<Report, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))?;
    let groups = file.as_object().ok_or("this is not a JSON object of groups")?;
    let mut report = Report::default();
    for (group, cases) in groups.iter().filter(|(group, _)| !group.starts_with('_')) {
        let cases = match cases {
            Value::Array(cases) => cases.as_slice(),
            one => std::slice::from_ref(one),
        };
        if let Some(answer) = answer_of(group) {
            for (at, case) in cases.iter().enumerate() {
                report.note(&format!("{group}[{at}]"), case, answer);
            }
        } else {
            report.skipped += cases.len();
            let told = match elsewhere::reason(group) {
                Some(reason) => format!("{group}: {} skipped: {reason}", cases.len()),
                None => format!("{group}: not a group we have, {} skipped", cases.len()),
            };
            report.lines.push(told);
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests;
