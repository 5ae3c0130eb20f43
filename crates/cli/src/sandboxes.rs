//! Everything on this machine that can hold programs, as it is configured.

use tidegate_config::schema::ContainerEngine;
use tidegate_engine::{Home, Settings};
use tidegate_sandbox::{ContainerSettings, Engine, Sandboxes, Supervisor, containers};

use crate::SUPERVISE;
use crate::app::App;
use crate::failure::Failure;

pub(crate) fn sandboxes(app: &App, home: &Home, settings: &Settings) -> Result<Sandboxes, Failure> {
    let supervisor = Supervisor { program: std::env::current_exe()?, args: vec![SUPERVISE.into()] };
    let places = home.sandboxes();
    let containers = containers(&container_settings(app, settings), &supervisor, &places);
    let sandboxes = Sandboxes::new(supervisor, places);
    Ok(containers.into_iter().fold(sandboxes, Sandboxes::with))
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
