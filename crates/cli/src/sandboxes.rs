//! Everything on this machine that can hold programs, as it is configured.

use std::sync::Arc;

use tidegate_config::schema::ContainerEngine;
use tidegate_engine::{Home, Settings};
use tidegate_sandbox::{ContainerSettings, Engine, Sandboxes, Supervisor};

use crate::SUPERVISE;
use crate::app::App;
use crate::failure::Failure;
use crate::leaks::leaks;
use crate::proxies::Proxies;
use crate::toolbox::guard;

/// Nothing is tried before a program is started.
pub(crate) fn sandboxes(app: &App, home: &Home, settings: &Settings) -> Result<Sandboxes, Failure> {
    let supervisor = Supervisor { program: std::env::current_exe()?, args: vec![SUPERVISE.into()] };
    let guard = guard(settings)?.looking_for(&leaks(app, home, settings));
    let proxies = Arc::new(Proxies::new(settings, guard));
    let sandboxes = Sandboxes::new(supervisor, home.sandboxes(), Some(proxies));
    let sandboxes = sandboxes.with_containers(&container_settings(app, settings));
    #[cfg(target_os = "linux")]
    let sandboxes = sandboxes.with_microvm(microvm_settings(app, settings));
    Ok(sandboxes)
}

#[cfg(target_os = "linux")]
fn microvm_settings(app: &App, settings: &Settings) -> tidegate_sandbox::MicrovmSettings {
    let machine = settings.sandbox_microvm();
    tidegate_sandbox::MicrovmSettings {
        kernel: machine.kernel.as_deref().map(std::path::PathBuf::from),
        cpus: machine.cpus.unwrap_or(1),
        path: app.env.get("PATH").map(str::to_owned),
    }
}

fn container_settings(app: &App, settings: &Settings) -> ContainerSettings {
    let container = settings.sandbox_container();
    let engines = match container.engine {
        ContainerEngine::Auto => Engine::ALL.to_vec(),
        ContainerEngine::Docker => vec![Engine::Docker],
        ContainerEngine::Podman => vec![Engine::Podman],
    };
    let env = ContainerSettings::ENV.iter().filter_map(|name| {
        let value = app.env.get(name)?;
        Some(((*name).to_owned(), value.to_owned()))
    });
    ContainerSettings {
        engines,
        image: container.image.clone(),
        runtime: container.runtime.clone(),
        user: container.user.clone(),
        env: env.collect(),
    }
}
