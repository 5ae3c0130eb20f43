//! Programs in real containers of podman, from an image made of what this machine has.

mod death;
mod escape;
mod fidelity;
mod image;
mod network;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tidegate_policy::exec::Plan;
use tidegate_policy::{Access, Besides, Confinement, Exit, Limits, Network, Profile, Running as _, Start};

use super::cli::Cli;
use super::runner::Held;
use super::{Container, ContainerSettings, Engine};
use crate::backend::{Backend as _, Probe};
use crate::begin::begin;
use crate::running::HostRun;
use crate::site::Site;
use crate::tests::{Kept, site, skip_loudly};

/// An engine, and a folder to work in.
pub(super) struct Room {
    pub(super) container: Container,
    pub(super) root: TempDir,
}

fn settings(image: &str) -> ContainerSettings {
    ContainerSettings {
        engines: vec![Engine::Podman],
        image: image.to_owned(),
        runtime: None,
        user: None,
        env: std::env::vars().collect(),
    }
}

fn container(root: &Path, settings: ContainerSettings) -> Container {
    container_at(site(root.join("places"), None), settings)
}

fn container_at(site: Arc<Site>, settings: ContainerSettings) -> Container {
    Container {
        cli: Cli::new(Engine::Podman, &settings.env, Arc::clone(&site.host)),
        settings,
        site,
        facts: std::sync::OnceLock::new(),
    }
}

/// A room with an engine that works, or nothing: then the reason was told.
async fn room() -> Option<Room> {
    // Not in /tmp: the container has its own.
    let tests = std::env::current_exe().unwrap();
    room_at(TempDir::new_in(tests.parent().unwrap()).unwrap()).await
}

async fn room_at(root: TempDir) -> Option<Room> {
    let image = match image::image() {
        Ok(image) => image,
        Err(why) => {
            skip_loudly(&why);
            return None;
        }
    };
    fs::create_dir_all(root.path().join("work")).unwrap();
    let container = container(root.path(), settings(image));
    match container.probe().await {
        Probe::Works(_) => Some(Room { container, root }),
        Probe::Fails(why) => {
            skip_loudly(&format!("podman is there and cannot hold programs: {why}"));
            None
        }
    }
}

impl Room {
    fn work(&self) -> PathBuf {
        self.root.path().join("work").canonicalize().unwrap()
    }

    fn confinement(&self) -> Confinement {
        Confinement {
            profile: Profile::Container,
            place: "agent-main".to_owned(),
            folder: self.work(),
            access: Access::ReadWrite,
            hidden: vec![self.root.path().join("places")],
            besides: Besides::default(),
            network: Network::None,
            limits: Limits { memory: 256 << 20, processes: 512, disk: 64 << 20 },
        }
    }

    fn held(&self) -> Held {
        self.held_so(|_| {})
    }

    fn held_so(&self, change: impl FnOnce(&mut Confinement)) -> Held {
        let mut confinement = self.confinement();
        change(&mut confinement);
        let facts = Arc::clone(self.container.facts.get().unwrap());
        self.container.held(&confinement, facts).unwrap()
    }

    /// The names of all containers of this room.
    async fn containers(&self) -> Vec<String> {
        let ours = format!("label=tidegate.home={}", self.container.home());
        let words = ["ps", "--all", "--filter", &ours, "--format", "{{.Names}}"];
        let answer = self.container.cli.ask(&words, Duration::from_mins(1)).await.unwrap();
        answer.stdout.lines().map(str::to_owned).collect()
    }
}

async fn start_in(held: &Held, plan: &Plan, start: Start) -> (HostRun, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let running = begin(held, plan, start, kept.clone()).await.unwrap();
    (running, kept)
}

/// Runs a plan to its end.
async fn run_in(held: &Held, plan: &Plan) -> (Exit, Arc<Kept>) {
    let (running, kept) = start_in(held, plan, Start::default()).await;
    (running.wait().await, kept)
}

#[tokio::test]
async fn an_engine_without_a_daemon_an_image_or_at_all_says_what_is_missing() {
    let root = TempDir::new().unwrap();
    let mut settings = settings("localhost/tidegate-nobody-has-this:1");
    let why = match container(root.path(), settings.clone()).probe().await {
        Probe::Fails(why) => why,
        Probe::Works(detail) => panic!("{detail}"),
    };
    let named = "agents.defaults.sandbox.container.image";
    assert!(why.contains(named) || why.contains("PATH") || why.contains("cannot limit"), "{why}");
    settings.env.insert("PATH".to_owned(), "/nowhere".to_owned());
    let nothing = container(root.path(), settings).probe().await;
    assert_eq!(nothing, Probe::Fails("there is no podman on PATH".to_owned()));
}
