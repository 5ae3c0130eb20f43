//! What browsers stand on here: the home for their profiles, and the sandboxes that hold them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use tidegate_net::{Client, Egress};
use tidegate_policy::{Confiner, Requester, Runner};
use tidegate_tools::{BrowserGround, Browsers, Place};

use super::toolbox::NoRunner;
use crate::settings::Settings;
use crate::start::Core;

/// The browsers of an engine.
pub(crate) fn browsers(settings: &Arc<Settings>, core: &Weak<Core>) -> Arc<Browsers> {
    let client = Client::default().guarded_by(settings.page_guard());
    let ground = Ground { core: Weak::clone(core), settings: Arc::clone(settings), client };
    Browsers::new(settings.browser(), Arc::new(ground))
}

struct Ground {
    /// None where tools are only looked at.
    core: Weak<Core>,
    settings: Arc<Settings>,
    client: Client,
}

impl BrowserGround for Ground {
    fn folder(&self) -> Option<PathBuf> {
        Some(self.core.upgrade()?.lock.home().root().join("browser"))
    }

    fn runner(&self, place: &Place, folder: &Path) -> Arc<dyn Runner> {
        let Requester { scope, session, .. } = &place.requester;
        let held = self.settings.browser_confinement(scope, session, folder, place.forbidden.clone());
        let nobody: &dyn Confiner = &NoRunner;
        match self.core.upgrade() {
            Some(core) => core.toolbox.confiner.runner_or_refusal(&held),
            None => nobody.runner_or_refusal(&held),
        }
    }

    fn client(&self, requester: &Requester) -> Client {
        let leaks = self.core.upgrade().map(|core| core.toolbox.leaks.clone()).unwrap_or_default();
        self.client.within(&Egress { hosts: self.settings.host_rules(&requester.scope), leaks })
    }
}
