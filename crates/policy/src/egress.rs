//! Which hosts may be reached. Every level (tenant, workspace, agent) can only narrow what the ones above it left, and
//! what is denied anywhere is denied.
//!
//! Whether an address is public is not asked here: crate `net` asks that besides, and neither opens what the other
//! closes.

#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Host;

/// One host, or everything below a domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostPattern {
    /// In the form in which hosts are compared: lower case, punycode, no dot at the end, no brackets.
    Exactly(String),
    /// `*.example.com`: what is below it, not itself.
    Below(String),
}

/// A text that is no pattern for hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host: write one like \"example.com\", or \"*.example.com\" for everything below it")]
pub struct BadHostPattern(pub String);

impl HostPattern {
    /// Reads a pattern. Spellings that mean the same host are the same pattern.
    pub fn parse(text: &str) -> Result<Self, BadHostPattern> {
        let bad = || BadHostPattern(text.to_owned());
        match text.strip_prefix("*.") {
            // An address has nothing below it.
            Some(domain) => match read(domain) {
                Some(Host::Domain(domain)) => Ok(Self::Below(domain)),
                _ => Err(bad()),
            },
            None => read(text).map(|host| Self::Exactly(plain(host))).ok_or_else(bad),
        }
    }

    /// Whether a host is meant, however it is spelled.
    pub fn covers(&self, host: &str) -> bool {
        read(host).is_some_and(|host| self.matches(&plain(host)))
    }

    /// The same for a host in its plain form.
    fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exactly(own) => own == host,
            Self::Below(domain) => {
                host.strip_suffix(domain.as_str()).is_some_and(|head| head.len() > 1 && head.ends_with('.'))
            }
        }
    }

    /// What both mean.
    fn and(&self, other: &Self) -> Option<Self> {
        let covers = |wide: &Self, narrow: &Self| match narrow {
            Self::Exactly(host) => wide.matches(host),
            Self::Below(domain) => match wide {
                Self::Exactly(_) => false,
                Self::Below(own) => own == domain || wide.matches(domain),
            },
        };
        if covers(self, other) {
            return Some(other.clone());
        }
        covers(other, self).then(|| self.clone())
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(host) => f.write_str(host),
            Self::Below(domain) => write!(f, "*.{domain}"),
        }
    }
}

impl Serialize for HostPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Reads a host as addresses have it: odd spellings of an address become the address, other alphabets punycode.
fn read(text: &str) -> Option<Host<String>> {
    let unbracketed = text.parse::<std::net::Ipv6Addr>().map(Host::Ipv6);
    let host = unbracketed.or_else(|_| Host::parse(text)).ok()?;
    match host {
        Host::Domain(domain) => {
            let domain = domain.strip_suffix('.').unwrap_or(&domain);
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            let labels = domain.split('.').all(|label| !label.is_empty() && label.chars().all(plain));
            labels.then(|| Host::Domain(domain.to_owned()))
        }
        address => Some(address),
    }
}

fn plain(host: Host<String>) -> String {
    match host {
        Host::Domain(domain) => domain,
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    }
}

/// What one level says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostLevel {
    /// The configuration's key that holds it, such as `egress` or `agents.list.main.egress`.
    pub key: String,
    /// Nothing but these; whatever there is without it.
    pub allow: Option<Vec<HostPattern>>,
    /// None of these, whoever allows them.
    pub deny: Vec<HostPattern>,
}

/// What every level says together. Without a level every host may be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRules {
    levels: Vec<HostLevel>,
}

/// Why a host may not be reached, and which key says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostRefusal {
    #[error("{host} is denied by {key}.denyHosts ({pattern}); only taking that entry out allows it")]
    Denied { host: String, key: String, pattern: HostPattern },
    #[error("{host} is not in {key}.allowHosts; an operator can add it there")]
    NotAllowed { host: String, key: String },
    #[error("{host:?} is no host that rules could be asked about")]
    Unreadable { host: String },
}

impl HostRefusal {
    /// The key to look at, absent for a host that cannot be read.
    pub fn key(&self) -> Option<String> {
        match self {
            Self::Denied { key, .. } => Some(format!("{key}.denyHosts")),
            Self::NotAllowed { key, .. } => Some(format!("{key}.allowHosts")),
            Self::Unreadable { .. } => None,
        }
    }

    pub fn host(&self) -> &str {
        match self {
            Self::Denied { host, .. } | Self::NotAllowed { host, .. } | Self::Unreadable { host } => host,
        }
    }
}

impl HostRules {
    /// One more level, which can only narrow.
    #[must_use]
    pub fn and(mut self, level: HostLevel) -> Self {
        self.levels.push(level);
        self
    }

    /// Everything that both leave.
    #[must_use]
    pub fn narrowed_by(mut self, other: &Self) -> Self {
        self.levels.extend(other.levels.iter().cloned());
        self
    }

    pub fn levels(&self) -> &[HostLevel] {
        &self.levels
    }

    /// Whether anything is said at all.
    pub fn is_empty(&self) -> bool {
        self.levels.iter().all(|level| level.allow.is_none() && level.deny.is_empty())
    }

    /// Judges a host, however it is spelled. What is denied is told before what is not allowed: nothing mends it.
    pub fn judge(&self, host: &str) -> Result<(), HostRefusal> {
        if self.is_empty() {
            return Ok(());
        }
        let Some(found) = read(host).map(plain) else {
            return Err(HostRefusal::Unreadable { host: host.chars().take(200).collect() });
        };
        let denied = self
            .levels
            .iter()
            .find_map(|level| Some((level, level.deny.iter().find(|pattern| pattern.matches(&found))?)));
        if let Some((level, pattern)) = denied {
            let (key, pattern) = (level.key.clone(), pattern.clone());
            return Err(HostRefusal::Denied { host: found, key, pattern });
        }
        let allows = |level: &HostLevel| {
            level.allow.as_ref().is_none_or(|list| list.iter().any(|pattern| pattern.matches(&found)))
        };
        match self.levels.iter().find(|level| !allows(level)) {
            Some(level) => Err(HostRefusal::NotAllowed { host: found, key: level.key.clone() }),
            None => Ok(()),
        }
    }

    /// What is left of a list of hosts, as a list: the hosts that every level allows, and what any denies with a `!`
    /// before it. [`HostLevel::of_list`] reads it back.
    pub fn narrow_list(&self, hosts: &[HostPattern]) -> Vec<String> {
        let mut left = hosts.to_vec();
        for allow in self.levels.iter().filter_map(|level| level.allow.as_ref()) {
            left = left.iter().flat_map(|one| allow.iter().filter_map(move |other| one.and(other))).collect();
        }
        left.sort();
        left.dedup();
        let mut denied: Vec<_> = self.levels.iter().flat_map(|level| &level.deny).collect();
        denied.sort();
        denied.dedup();
        left.iter().map(ToString::to_string).chain(denied.iter().map(|one| format!("!{one}"))).collect()
    }
}

impl HostLevel {
    /// Reads a list of hosts that may be reached, and with a `!` before them those that may not.
    pub fn of_list<S: AsRef<str>>(
        key: &str,
        entries: impl IntoIterator<Item = S>,
    ) -> Result<Self, BadHostPattern> {
        let (mut allow, mut deny) = (Vec::new(), Vec::new());
        for entry in entries {
            match entry.as_ref().strip_prefix('!') {
                Some(denied) => deny.push(HostPattern::parse(denied)?),
                None => allow.push(HostPattern::parse(entry.as_ref())?),
            }
        }
        Ok(Self { key: key.to_owned(), allow: Some(allow), deny })
    }
}
