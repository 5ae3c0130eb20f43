//! A browser behind a wall: a real one, in a sandbox without a network, and the way of a call to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tidegate_net::{Client, Guard};
use tidegate_policy::exec::{Plan, PlanPlace};
use tidegate_policy::{PermittedPlan, Requester, RunError, Runner, Running, Sink, Start};
use tidegate_protocol::Block;
use tidegate_testkit::skip::skip_loudly;
use tidegate_testkit::web_server::WebServer;
use tidegate_tools::{
    BrowserGround, BrowserSettings, BrowserTool, Browsers, Disk, Output, Place, ToolFailure,
};

use crate::bare::Bare;
use crate::stage::{Stage, permitted};

/// Runs a plan with nothing but a loopback of its own for a network.
struct Walled {
    place: Place,
}

#[async_trait]
impl Runner for Walled {
    fn confines(&self) -> bool {
        true
    }

    async fn start(
        &self,
        plan: PermittedPlan<'_>,
        start: Start,
        sink: Arc<dyn Sink>,
    ) -> Result<Box<dyn Running>, RunError> {
        let plan = plan.plan();
        let wall = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "--unshare-pid", "--proc", "/proc"];
        let wall = wall.into_iter().chain(["--die-with-parent", "--"]).map(str::to_owned);
        let inside = plan.steps()[0].pipeline[0].argv.iter().cloned();
        let here = PlanPlace {
            cwd: plan.cwd().to_owned(),
            env: plan.env().clone(),
            added_env: [].into_iter().collect(),
        };
        let walled = Plan::of_argv(wall.chain(inside).collect(), here, &Disk::new(&self.place)).unwrap();
        Bare.start(PermittedPlan::of_operator(&walled), start, sink).await
    }
}

pub(crate) struct Ground {
    folder: PathBuf,
    guard: Guard,
    /// Whether what it starts is held by anything.
    walled: bool,
}

impl BrowserGround for Ground {
    fn folder(&self) -> Option<PathBuf> {
        Some(self.folder.clone())
    }

    fn runner(&self, place: &Place, _folder: &Path) -> Arc<dyn Runner> {
        if self.walled { Arc::new(Walled { place: place.clone() }) } else { Arc::new(Bare) }
    }

    fn client(&self, _requester: &Requester) -> Client {
        Client::default().guarded_by(self.guard.clone())
    }
}

pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) tool: BrowserTool,
    pub(crate) browsers: Arc<Browsers>,
    pub(crate) folder: PathBuf,
    _state: tempfile::TempDir,
}

/// A scene in which these servers may be reached; nothing where no browser is installed.
pub(crate) fn scene(servers: &[&WebServer]) -> Option<Scene> {
    let guard = Guard::allowing(servers.iter().map(|server| server.address().to_string())).unwrap();
    scene_with(guard, BrowserSettings { evaluate: true, ..BrowserSettings::default() })
}

pub(crate) fn scene_with(guard: Guard, settings: BrowserSettings) -> Option<Scene> {
    for program in ["chromium", "bwrap"] {
        if !["/usr/bin", "/usr/local/bin", "/bin"]
            .iter()
            .any(|folder| Path::new(folder).join(program).exists())
        {
            skip_loudly(&format!("{program} is not installed"));
            return None;
        }
    }
    Some(any_scene(guard, settings, true))
}

/// The same without asking what is installed.
pub(crate) fn any_scene(guard: Guard, settings: BrowserSettings, walled: bool) -> Scene {
    let state = tempfile::tempdir().unwrap();
    let folder = state.path().join("browser");
    let ground = Ground { folder: folder.clone(), guard, walled };
    let browsers = Browsers::new(settings, Arc::new(ground));
    let tool = BrowserTool::new(Arc::clone(&browsers));
    Scene { stage: Stage::new(), tool, browsers, folder, _state: state }
}

impl Scene {
    pub(crate) async fn call(&self, args: Value) -> Result<Output, ToolFailure> {
        let prepared = self.stage.prepare(&self.tool, &args).await?;
        let allowed = permitted(prepared);
        let called = self.stage.run(&self.tool, &allowed);
        tokio::time::timeout(Duration::from_secs(100), called).await.expect("a call ends")
    }

    pub(crate) async fn open(&self, url: &str) -> Output {
        self.call(json!({ "action": "open", "url": url })).await.unwrap()
    }

    pub(crate) async fn snapshot(&self) -> String {
        text(&self.call(json!({ "action": "snapshot" })).await.unwrap())
    }

    /// The ref of the line of a new snapshot that has this in it.
    pub(crate) async fn reference(&self, line: &str) -> String {
        let snapshot = self.snapshot().await;
        let found = snapshot.lines().find(|known| known.contains(line));
        let found = found.unwrap_or_else(|| panic!("{line:?} is not in {snapshot}"));
        let (_, name) = found.split_once("[ref=").unwrap();
        name.split(']').next().unwrap().to_owned()
    }

    /// Waits until the page shows this.
    pub(crate) async fn wait(&self, shown: &str) {
        self.call(json!({ "action": "wait", "text": shown, "timeMs": 20_000 })).await.unwrap();
    }

    /// The processes of the browsers of this scene.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let marker = self.folder.to_str().unwrap();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let ours = entries.filter(|entry| {
            let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(marker)
        });
        ours.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }
}

pub(crate) fn text(output: &Output) -> String {
    let texts = output.content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// What stands inside the fence, and what outside of it.
pub(crate) fn fenced(shown: &str) -> (String, String) {
    let (before, rest) = shown.split_once("\n[outside ").expect("a fence begins");
    let (mark, rest) = rest.split_once("]\n").unwrap();
    let (inside, after) = rest.split_once(&format!("\n[end of outside {mark}]")).expect("a fence ends");
    (inside.to_owned(), format!("{before}{after}"))
}
