//! What can be wrong with a config file, as plain data.
//!
//! A [`Problem`] names the key, says what is wrong and, where one is near, the key or value that was probably
//! meant. This module owns the stable codes; it never decides what is wrong.

use std::fmt;

/// The stable codes a caller, a script or a dialect may act on.
pub mod code {
    pub const SYNTAX: &str = "CONFIG_SYNTAX";
    pub const INVALID: &str = "CONFIG_INVALID";
    pub const INCLUDE: &str = "CONFIG_INCLUDE";
    pub const ENV_MISSING: &str = "CONFIG_ENV_MISSING";
    pub const CONFLICT: &str = "CONFIG_CONFLICT";
    pub const IO: &str = "CONFIG_IO";
    pub const PATH: &str = "CONFIG_PATH";
    pub const VALUE: &str = "CONFIG_VALUE";
    pub const NOT_FOUND: &str = "NOT_FOUND";
}

/// The step of the load pipeline that found a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// The text is not JSON5, or holds what JSON cannot carry.
    Syntax,
    /// An included file is missing, broken, circular or too deep.
    Include,
    /// `${VAR}` names a variable that is unset or empty.
    EnvMissing,
    /// A key that the schema does not know.
    UnknownKey,
    /// A key that must be there and is not.
    Required,
    /// A value of the wrong type, outside its range, or against a rule between keys.
    Invalid,
    /// Nothing is wrong, but the owner should know.
    Notice,
    /// A key that is accepted and has no effect in this version.
    Unused,
}

impl ProblemKind {
    pub fn code(self) -> &'static str {
        match self {
            Self::Syntax => code::SYNTAX,
            Self::Include => code::INCLUDE,
            Self::EnvMissing => code::ENV_MISSING,
            Self::UnknownKey | Self::Required | Self::Invalid | Self::Notice | Self::Unused => code::INVALID,
        }
    }
}

/// One thing that is wrong, or worth a warning, at one key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub kind: ProblemKind,
    /// The key, as in `agents.list[0].id`; empty when the file as a whole is meant.
    pub path: String,
    pub message: String,
    /// What was probably meant: a whole key path, or a value.
    pub suggestion: Option<String>,
}

impl Problem {
    pub(crate) fn new(kind: ProblemKind, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, path: path.into(), message: message.into(), suggestion: None }
    }

    pub(crate) fn suggesting(mut self, suggestion: Option<String>) -> Self {
        self.suggestion = suggestion;
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The message of a missing variable already ends with its path.
        if !self.path.is_empty() && self.kind != ProblemKind::EnvMissing {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.suggestion {
            Some(meant) => write!(f, ", did you mean \"{meant}\"?"),
            None => Ok(()),
        }
    }
}

/// The code of several problems together: their common one, else the general one.
pub(crate) fn common_code(problems: &[Problem]) -> &'static str {
    let mut codes = problems.iter().map(|problem| problem.kind.code());
    match codes.next() {
        Some(first) if codes.all(|code| code == first) => first,
        _ => code::INVALID,
    }
}

/// One problem a line, in the order they were found.
pub(crate) fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_as_one_line_with_path_message_and_suggestion() {
        let problem = Problem::new(ProblemKind::UnknownKey, "gateway.prot", "unknown key")
            .suggesting(Some("gateway.port".into()));
        assert_eq!(problem.to_string(), r#"gateway.prot: unknown key, did you mean "gateway.port"?"#);
        assert_eq!(
            Problem::new(ProblemKind::Syntax, "", "the file is empty").to_string(),
            "the file is empty"
        );
    }

    #[test]
    fn problems_of_one_kind_keep_their_code_and_mixed_ones_are_invalid() {
        let env = Problem::new(ProblemKind::EnvMissing, "a", "");
        let key = Problem::new(ProblemKind::UnknownKey, "b", "");
        assert_eq!(common_code(&[env.clone(), env.clone()]), code::ENV_MISSING);
        assert_eq!(common_code(&[env, key]), code::INVALID);
        assert_eq!(common_code(&[]), code::INVALID);
    }
}
