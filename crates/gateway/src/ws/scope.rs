//! Roles and scopes: what a connection may do. Pure.

/// As what somebody connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A person or a program that uses the gateway.
    Operator,
    /// A device that the gateway uses.
    Node,
}

impl Role {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "operator" => Some(Self::Operator),
            "node" => Some(Self::Node),
            _ => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Node => "node",
        }
    }
}

/// What a method asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Somebody who reads or writes.
    Read,
    Write,
    Approvals,
    Pairing,
    /// Whoever may do everything.
    Admin,
    /// A node, and nobody else.
    Node,
}

impl Need {
    /// The scope that is missing when it is refused.
    pub fn scope(self) -> &'static str {
        match self {
            Self::Read => "operator.read",
            Self::Write => "operator.write",
            Self::Approvals => "operator.approvals",
            Self::Pairing => "operator.pairing",
            Self::Admin => "operator.admin",
            Self::Node => "node",
        }
    }
}

/// What an operator was granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Scopes {
    bits: u8,
}

const READ: u8 = 1;
const WRITE: u8 = 2;
const APPROVALS: u8 = 4;
const PAIRING: u8 = 8;
const ADMIN: u8 = 16;

impl Scopes {
    /// Unknown names grant nothing: a newer client may ask for more than there is here.
    pub(crate) fn of(names: &[String]) -> Self {
        let bit = |name: &String| match name.as_str() {
            "operator.read" => READ,
            "operator.write" => WRITE,
            "operator.approvals" => APPROVALS,
            "operator.pairing" => PAIRING,
            "operator.admin" => ADMIN,
            _ => 0,
        };
        Self { bits: names.iter().map(bit).fold(0, |bits, bit| bits | bit) }
    }

    /// By name, as they were granted.
    pub(crate) fn names(self) -> Vec<&'static str> {
        [Need::Admin, Need::Read, Need::Write, Need::Approvals, Need::Pairing]
            .into_iter()
            .zip([ADMIN, READ, WRITE, APPROVALS, PAIRING])
            .filter(|(_, bit)| self.bits & bit != 0)
            .map(|(need, _)| need.scope())
            .collect()
    }

    pub(crate) fn allow(self, need: Need) -> bool {
        let any = match need {
            Need::Read => READ | WRITE,
            Need::Write => WRITE,
            Need::Approvals => APPROVALS,
            Need::Pairing => PAIRING,
            Need::Admin => 0,
            Need::Node => return false,
        };
        self.bits & (any | ADMIN) != 0
    }
}

/// Whether a caller may give others these scopes: nobody gives away more than they have.
pub(crate) fn may_grant(own: Scopes, names: &[String]) -> Result<(), String> {
    let wanted = Scopes::of(names);
    let needs = [Need::Admin, Need::Read, Need::Write, Need::Approvals, Need::Pairing];
    let missing = needs
        .into_iter()
        .zip([ADMIN, READ, WRITE, APPROVALS, PAIRING])
        .find(|(need, bit)| wanted.bits & bit != 0 && !own.allow(*need));
    missing.map_or(Ok(()), |(need, _)| Err(format!("missing scope: {}", need.scope())))
}

/// Whether a caller may use a method, and else the words for it.
pub(crate) fn permit(role: Role, scopes: Scopes, need: Need) -> Result<(), String> {
    match (role, need) {
        (Role::Node, Need::Node) => Ok(()),
        (Role::Node, _) | (Role::Operator, Need::Node) => {
            Err(format!("unauthorized role: {}", role.as_str()))
        }
        (Role::Operator, need) if scopes.allow(need) => Ok(()),
        (Role::Operator, need) => Err(format!("missing scope: {}", need.scope())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_includes_reading_and_an_administrator_may_everything_but_be_a_node() {
        let scopes =
            |names: &[&str]| Scopes::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        for (names, need, allowed) in [
            (&["operator.read"][..], Need::Read, true),
            (&["operator.read"], Need::Write, false),
            (&["operator.write"], Need::Read, true),
            (&["operator.write"], Need::Approvals, false),
            (&["operator.admin"], Need::Pairing, true),
            (&["operator.admin"], Need::Admin, true),
            (&["operator.approvals"], Need::Read, false),
            (&["operator.everything"], Need::Read, false),
            (&[], Need::Read, false),
        ] {
            assert_eq!(permit(Role::Operator, scopes(names), need).is_ok(), allowed, "{names:?} {need:?}");
        }
        let admin = scopes(&["operator.admin"]);
        assert_eq!(permit(Role::Operator, admin, Need::Node), Err("unauthorized role: operator".into()));
        assert_eq!(permit(Role::Node, admin, Need::Read), Err("unauthorized role: node".into()));
        assert_eq!(permit(Role::Node, admin, Need::Node), Ok(()));
        let names = ["operator.read", "operator.write", "operator.approvals", "operator.pairing"];
        for given in 0..1_u32 << names.len() {
            for own in 0..1_u32 << names.len() {
                let of = |bits: u32| -> Vec<String> {
                    let chosen = names.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0);
                    chosen.map(|(_, name)| (*name).to_owned()).collect()
                };
                // Who writes reads too.
                let within = given & !(own | (own >> 1 & 1)) == 0;
                let granted = may_grant(Scopes::of(&of(own)), &of(given));
                assert_eq!(granted.is_ok(), within, "{:?} gives {:?}", of(own), of(given));
                assert_eq!(may_grant(admin, &of(given)), Ok(()));
            }
        }
        let pairing = scopes(&["operator.pairing"]);
        let refused = Err("missing scope: operator.admin".to_owned());
        assert_eq!(may_grant(pairing, &["operator.admin".to_owned()]), refused);
        let reader = scopes(&["operator.read"]);
        assert_eq!(permit(Role::Operator, reader, Need::Admin), Err("missing scope: operator.admin".into()));
    }
}
