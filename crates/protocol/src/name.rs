//! Names that become paths, keys or column values, checked once where they enter.
//!
//! `Scope` says where something belongs. It is a required argument from the edge to SQL: there is no default
//! tenant anywhere below the edge.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest name accepted, in bytes.
const MAX_LEN: usize = 64;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid name: use 1 to 64 of a-z, 0-9, '-' and '_', starting with a letter or digit")]
pub struct NameError(pub String);

fn check(text: &str) -> Result<(), NameError> {
    let mut bytes = text.bytes();
    let first_ok = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let rest_ok = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
    if first_ok && rest_ok && text.len() <= MAX_LEN { Ok(()) } else { Err(NameError(text.to_owned())) }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, ts_rs::TS)]
        #[serde(try_from = "String", into = "String")]
        #[ts(type = "string")]
        pub struct $name(#[schemars(regex(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$"))] String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                check(&text)?;
                Ok(Self(text))
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

names! {
    /// Who owns the data. A personal home is the tenant `local`, not a special case.
    TenantId,
    /// A part of a tenant with its own agents and policies.
    WorkspaceId,
    /// An agent inside a workspace.
    AgentId,
    /// A network or entry: `telegram`, `slack`, `cli`, `local`, …
    ChannelName,
}

/// Where something belongs.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, ts_rs::TS,
)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    pub tenant: TenantId,
    pub workspace: WorkspaceId,
    pub agent: AgentId,
}

impl Scope {
    /// The scope of a personal home: tenant `local`, workspace `default`.
    pub fn personal(agent: AgentId) -> Self {
        Self { tenant: TenantId("local".into()), workspace: WorkspaceId("default".into()), agent }
    }
}

impl ChannelName {
    /// The network of files.
    pub fn local() -> Self {
        Self("local".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_leave_its_folder_is_refused() {
        let long = "a".repeat(65);
        for bad in ["", "..", "a/b", "A", "-a", "_a", "a b", "a\0", "工作", "con:", long.as_str()] {
            assert!(bad.parse::<AgentId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn ordinary_names_pass_and_come_back() {
        for good in ["main", "0", "team-1_b"] {
            assert_eq!(good.parse::<AgentId>().unwrap().as_str(), good);
        }
        assert_eq!("local".parse(), Ok(ChannelName::local()));
    }
}
