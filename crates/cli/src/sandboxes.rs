//! Everything on this machine that can hold programs, as it is configured.

use std::sync::Arc;

use tidegate_config::schema::ContainerEngine;
use tidegate_engine::{Home, Settings};
use tidegate_sandbox::{ContainerSettings, Engine, Sandboxes, Supervisor, containers};

use crate::SUPERVISE;
use crate::app::App;
use crate::failure::Failure;
use crate::leaks::leaks;
use crate::proxies::Proxies;
use crate::toolbox::guard;

/// Nothing is tried before a program is started.
pub(crate) fn sandboxes(app: &App, home: &Home, settings: &Settings) -> Result<Sandboxes, Failure> {
    let supervisor = Supervisor { program: std::env::current_exe()?, args: vec![SUPERVISE.into()] };
    let places = home.sandboxes();
    let mut others = containers(&container_settings(app, settings), &supervisor, &places);
    #[cfg(target_os = "linux")]
    others.push(tidegate_sandbox::microvm(
        microvm_settings(app, settings),
        supervisor.clone(),
        places.clone(),
    ));
    let guard = guard(settings)?.looking_for(&leaks(app, home, settings));
    let proxies = Arc::new(Proxies::new(settings, guard));
    Ok(others.into_iter().fold(Sandboxes::new(supervisor, places, Some(proxies)), Sandboxes::with))
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
