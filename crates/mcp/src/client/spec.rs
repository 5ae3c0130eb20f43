//! What is configured about a server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_policy::Confinement;
use tidegate_policy::tools::{Verdict, fits};
use tidegate_protocol::Risk;
use tidegate_secrets::Secret;

use crate::login::OauthSpec;

/// A server whose tools are to be had.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSpec {
    /// Lower-case letters, digits, `-` and `_`.
    pub name: String,
    pub reach: Reach,
    pub tools: ToolFilter,
    /// What becomes of calls of its tools, as policy is told.
    pub mode: Verdict,
    /// What its tools can do at worst; absent: as each says of itself.
    pub risk: Option<Risk>,
    /// How long a call may take.
    pub timeout: Duration,
    /// How long it may take to start and to list its tools.
    pub startup: Duration,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Reach {
    Stdio(ProgramSpec),
    Http(AddressSpec),
}

/// A server that is started here.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramSpec {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// What it gets besides the environment that all programs get.
    pub env: BTreeMap<String, Secret>,
    /// The folder it works in.
    pub folder: PathBuf,
    /// What holds it. Its folder is the one above.
    pub confinement: Confinement,
}

/// A server that runs elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct AddressSpec {
    pub url: String,
    pub headers: BTreeMap<String, Secret>,
    /// How one signs in there.
    pub oauth: OauthSpec,
}

impl AddressSpec {
    /// Whether the operator wrote down what it is shown; then no login is used.
    pub fn has_own_authorization(&self) -> bool {
        self.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
    }
}

/// Which tools of a server are there, by their names at the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Absent: all.
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
}

impl ToolFilter {
    pub(crate) fn lets(&self, name: &str) -> bool {
        let listed = |list: &[String]| list.iter().any(|glob| fits(glob, name));
        self.allow.as_deref().is_none_or(listed) && !listed(&self.deny)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_there_means_what_it_says() {
        let filter = |allow: Option<&[&str]>, deny: &[&str]| ToolFilter {
            allow: allow.map(|list| list.iter().map(ToString::to_string).collect()),
            deny: deny.iter().map(ToString::to_string).collect(),
        };
        assert!(filter(None, &[]).lets("echo"));
        assert!(!filter(Some(&[]), &[]).lets("echo"));
        assert!(filter(Some(&["e*"]), &[]).lets("echo"));
        assert!(!filter(Some(&["e*"]), &["echo"]).lets("echo"));
        assert!(!filter(None, &["*"]).lets("echo"));
    }
}
