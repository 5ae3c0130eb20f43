//! Where a call is made: the folder it works in, and what it may never touch.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_net::Egress;
use tidegate_policy::{Confinement, Profile, Requester, Runner};
use tidegate_tools::Place;

use super::Invoke;
use crate::error::EngineError;
use crate::settings::keys_in;
use crate::start::Core;

/// What commands may name, as the exec stage reads it.
pub struct Reserved {
    /// Nothing in these …
    pub forbidden: Vec<String>,
    /// … but what is in these.
    pub roots: Vec<String>,
}

impl Reserved {
    /// A workspace in our own folder may be named; a folder that has ours in it does not open ours.
    pub fn of(place: &Place) -> Self {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let inside = place.forbidden.iter().any(|folder| place.root.starts_with(folder));
        Self {
            forbidden: place.forbidden.iter().map(text).collect(),
            roots: inside.then(|| text(&place.root)).into_iter().collect(),
        }
    }
}

impl Core {
    pub(super) fn place(&self, invoke: &Invoke) -> Result<Place, EngineError> {
        let root = self.root(invoke)?;
        let state = self.lock.home().root();
        // Under both names, if it has two.
        let mut forbidden = vec![state.to_owned()];
        forbidden.extend(state.canonicalize().ok().filter(|real| real != state));
        forbidden.extend(self.toolbox.forbidden.iter().cloned());
        let requester = Requester {
            scope: invoke.scope.clone(),
            session: invoke.session.clone(),
            actor: invoke.principal.actor().to_owned(),
            root: root.to_string_lossy().into_owned(),
        };
        let egress =
            Egress { hosts: self.settings.host_rules(&invoke.scope), leaks: self.toolbox.leaks.clone() };
        let env = self.toolbox.env.clone();
        let mut place = Place { requester, root, forbidden, env, background: false, egress };
        self.leave_out_hidden_programs(&mut place);
        Ok(place)
    }

    /// A name means a program that can be started there: what a sandbox does not show is not searched.
    fn leave_out_hidden_programs(&self, place: &mut Place) {
        let confinement = self.confinement(place);
        let Some(search) = place.env.get_mut("PATH").filter(|_| confinement.profile != Profile::None) else {
            return;
        };
        let confiner = &self.toolbox.confiner;
        let shown = search.split(':').filter(|folder| confiner.shows(&confinement, Path::new(folder)));
        *search = shown.collect::<Vec<_>>().join(":");
    }

    /// The folder that a call is held to, without links. Our own state is none; an agent's workspace in it is.
    fn root(&self, invoke: &Invoke) -> Result<PathBuf, EngineError> {
        let workspace = self.settings.working_folder(&invoke.scope, &invoke.session, self.lock.home());
        let sees_none = self.settings.sees_no_workspace(&invoke.scope, &invoke.session);
        let named = invoke.root.as_ref().filter(|_| !sees_none);
        let asked = named.unwrap_or(&workspace);
        let unusable = |cause| EngineError::HomeUnusable { path: asked.clone(), cause };
        if named.is_none() {
            // Its owner's alone, whatever the umask.
            DirBuilder::new().recursive(true).mode(0o700).create(&workspace).map_err(unusable)?;
        }
        let root = asked.canonicalize().map_err(unusable)?;
        let state = self.lock.home().root().canonicalize().map_err(unusable)?;
        let workspace = workspace.canonicalize().ok();
        if is_ours(&root, &state, workspace.as_deref()) {
            return Err(EngineError::OwnState { path: root });
        }
        Ok(root)
    }

    /// What starts the programs of a call that is made there.
    pub(super) fn runner(&self, place: &Place) -> Arc<dyn Runner> {
        self.toolbox.confiner.runner_or_refusal(&self.confinement(place))
    }

    fn confinement(&self, place: &Place) -> Confinement {
        let Requester { scope, session, .. } = &place.requester;
        let mut hidden = place.forbidden.clone();
        hidden.extend(keys_in(&place.root, self.toolbox.env.get("HOME").map(String::as_str)));
        self.settings.confinement(scope, session, &place.root, hidden)
    }
}

fn is_ours(root: &Path, state: &Path, workspace: Option<&Path>) -> bool {
    // A workspace that is the state, or has it in it, opens nothing there.
    let inside = workspace.filter(|workspace| workspace.starts_with(state) && *workspace != state);
    root.starts_with(state) && !inside.is_some_and(|workspace| root.starts_with(workspace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_workspace_of_its_own_is_open_inside_the_state() {
        for (root, workspace, ours) in [
            ("/srv/work", "/state/agents/main/workspace", false),
            ("/", "/state/agents/main/workspace", false),
            ("/state2", "/state/agents/main/workspace", false),
            ("/state", "/state/agents/main/workspace", true),
            ("/state/credentials", "/state/agents/main/workspace", true),
            ("/state/agents/other/workspace", "/state/agents/main/workspace", true),
            ("/state/agents/main/workspace", "/state/agents/main/workspace", false),
            ("/state/agents/main/workspace/docs", "/state/agents/main/workspace", false),
            ("/state", "/state", true),
            ("/state/credentials", "/state", true),
            ("/state/credentials", "/", true),
        ] {
            let found = is_ours(Path::new(root), Path::new("/state"), Some(Path::new(workspace)));
            assert_eq!(found, ours, "{root} for {workspace}");
        }
        assert!(is_ours(Path::new("/state/a"), Path::new("/state"), None));
    }
}
