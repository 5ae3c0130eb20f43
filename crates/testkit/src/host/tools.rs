//! What an agent has to work with in a host: a tool that leaves a mark each time it runs, one that only looks, and those
//! of a release that touch files.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tidegate_config::Loaded;
use tidegate_engine::{Options, Toolbox};
use tidegate_models::{Forgetful, Registry as Models, RegistryOptions};
use tidegate_policy::{Permitted, Preparation};
use tidegate_protocol::Risk;
use tidegate_runtime::{SystemClock, fault};
use tidegate_secrets::StoreOptions;
use tidegate_tools::{Output, Place, Registry, Tool, ToolFailure, ToolSpec, Work, basic_tools, file_tools};

/// The tool that leaves a mark. Run twice it leaves two. The configuration has to name both: policy knows no others.
pub const NOTE: &str = "tools.custom.note";
/// The tool that only looks.
pub const LOOK: &str = "tools.custom.look";

const MARKS: &str = "marks";

/// The ids of the calls whose marks are there, in the order they were made.
pub fn noted(world: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(world.join(MARKS)).unwrap_or_default();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// The options with the models of the configuration and everything the agent may use.
pub(super) fn given(options: Options, loaded: &Loaded, home: &Path, world: &Path) -> Options {
    let mut registry = Registry::default();
    let marks = world.join(MARKS);
    let own: [Arc<dyn Tool>; 2] = [Arc::new(Note::new(marks.clone())), Arc::new(Look::new(marks))];
    for tool in own.into_iter().chain(basic_tools()).chain(file_tools()) {
        registry.add(tool).expect("no two tools have the same name");
    }
    let models = RegistryOptions {
        home: home.to_owned(),
        credentials: home.join("credentials"),
        store: StoreOptions::default(),
        environment: Arc::new(|_| None),
        standings: Arc::new(Forgetful),
        clock: Arc::new(SystemClock),
    };
    Options {
        models: Arc::new(Models::new(&loaded.config, models)),
        toolbox: Toolbox { registry: Arc::new(registry), ..Toolbox::empty() },
        ..options
    }
}

#[derive(Deserialize, JsonSchema)]
struct NoArgs {}

struct Note {
    spec: ToolSpec,
    marks: PathBuf,
}

impl Note {
    fn new(marks: PathBuf) -> Self {
        let spec = ToolSpec::of::<NoArgs>(NOTE, "Leaves a mark.");
        Self { spec: ToolSpec { risk: Risk::Write, idempotent: false, ..spec }, marks }
    }
}

#[async_trait]
impl Tool for Note {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, _args: &Value, _place: &Place) -> Result<Preparation, ToolFailure> {
        Ok(Preparation::default())
    }

    async fn run(&self, permitted: &Permitted, _work: &Work<'_>) -> Result<Output, ToolFailure> {
        fault::pause("testkit.note.before").await;
        let id = permitted.prepared().call().id.clone();
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(|error| ToolFailure::execution(error.to_string()))?;
        let line = format!("{id} {:08x}\n", u32::from_le_bytes(random));
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(&self.marks);
        file.and_then(|mut file| file.write_all(line.as_bytes()).and_then(|()| file.sync_all()))
            .map_err(|error| ToolFailure::execution(error.to_string()))?;
        fault::pause("testkit.note.after").await;
        Ok(Output::text(format!("noted {id}.")))
    }
}

struct Look {
    spec: ToolSpec,
    marks: PathBuf,
}

impl Look {
    fn new(marks: PathBuf) -> Self {
        Self { spec: ToolSpec::of::<NoArgs>(LOOK, "Counts the marks."), marks }
    }
}

#[async_trait]
impl Tool for Look {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, _args: &Value, _place: &Place) -> Result<Preparation, ToolFailure> {
        Ok(Preparation::default())
    }

    async fn run(&self, permitted: &Permitted, _work: &Work<'_>) -> Result<Output, ToolFailure> {
        let marks = std::fs::read_to_string(&self.marks).unwrap_or_default().lines().count();
        Ok(Output::text(format!("looked {}. {marks} marks", permitted.prepared().call().id)))
    }
}
