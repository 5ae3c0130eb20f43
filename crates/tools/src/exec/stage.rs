//! What the tests of this folder share.

use std::path::Path;

use tidegate_net::Egress;
use tidegate_policy::Requester;
use tidegate_protocol::Scope;

use crate::place::Place;

/// A place with this root and the system's programs.
pub(crate) fn place(root: &Path) -> Place {
    let requester = Requester {
        scope: Scope::personal("main".parse().unwrap()),
        session: "agent:main:main".into(),
        actor: "tester".into(),
        root: root.display().to_string(),
    };
    let env = [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())].into();
    Place {
        requester,
        root: root.to_owned(),
        forbidden: Vec::new(),
        env,
        background: true,
        egress: Egress::default(),
    }
}
