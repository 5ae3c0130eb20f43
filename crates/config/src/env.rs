//! The environment as a value, so that a config can be resolved without reading the process.
//!
//! [`Env`] is a snapshot. It never prints what it holds, since tokens live in environments.

use std::collections::BTreeMap;
use std::fmt;

/// A snapshot of environment variables for `${VAR}`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Env(BTreeMap<String, String>);

impl Env {
    /// The variables of this process. A name or value that is not UTF-8 cannot be written in a config file
    /// and is left out.
    pub fn of_this_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// The value of a variable. Unset and empty are the same: an empty token is a mistake, not a choice.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.keys().filter_map(|name| Some((name.as_str(), self.get(name)?)))
    }

    /// Adds a variable unless it already has a value that is more than blanks.
    pub(crate) fn set_if_unset(&mut self, name: &str, value: &str) {
        if self.0.get(name).is_none_or(|held| held.trim().is_empty()) {
            self.0.insert(name.to_owned(), value.to_owned());
        }
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let mut env = Env::from_iter([("EMPTY", ""), ("BLANK", " "), ("SET", "x")]);
        assert_eq!(env.get("EMPTY"), None);
        env.set_if_unset("EMPTY", "a");
        env.set_if_unset("BLANK", "b");
        env.set_if_unset("SET", "c");
        assert_eq!((env.get("EMPTY"), env.get("BLANK"), env.get("SET")), (Some("a"), Some("b"), Some("x")));
    }

    #[test]
    fn printing_shows_names_and_never_values() {
        let shown = format!("{:?}", Env::from_iter([("API_KEY", "sk-private")]));
        assert_eq!(shown, r#"{"API_KEY"}"#);
    }
}
