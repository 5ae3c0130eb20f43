//! The self-test: a program really runs, works where it may, and is refused where it may not.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_policy::exec::{FileIdentity, Lookup, Plan, PlanPlace, Program};
use tidegate_policy::{
    Access, Besides, Confinement, Exit, Limits, Network, Profile, RunError, Running as _, Sink, Start, Stream,
};

use crate::backend::Probe;
use crate::begin::{Way, begin};
use crate::site::Site;
use crate::supervise::identify;

/// A machine under load may need some time; one that does not answer must not hold up everything.
const LIMIT: Duration = Duration::from_secs(20);

/// The place of the self-test.
const PLACE: &str = "self-test";

/// It works in its folder, and neither there nor anywhere else sees or changes what it is not to.
const SCRIPT: &str = "echo works > inside && cat inside && rm inside || exit 3
if cat ../outside 2>/dev/null; then exit 4; fi
(echo x > ../written) 2>/dev/null
exit 0";

/// Has a backend hold the script in a folder beside a file that it must not reach. `works` is what is said then.
pub(super) async fn probe(
    site: &Site,
    way: impl Fn(&Confinement) -> Result<Arc<dyn Way>, RunError>,
    works: String,
) -> Probe {
    let said = async {
        let folder = prepare(&site.places.join(PLACE))?;
        let confinement = confinement(&folder);
        let way = way(&confinement).map_err(|error| error.to_string())?;
        run(way.as_ref(), &folder).await?;
        // Inside there may be another folder of that name; what matters is the one outside.
        let written = Path::new(&folder).with_file_name("written").exists();
        if written { Err("a program could write outside of its folder".to_owned()) } else { Ok(()) }
    };
    match tokio::time::timeout(LIMIT, said).await {
        Ok(Ok(())) => Probe::Works(works),
        Ok(Err(why)) => Probe::Fails(why),
        Err(_) => Probe::Fails("the self-test did not end".to_owned()),
    }
}

fn prepare(place: &Path) -> Result<String, String> {
    let make = || {
        let folder = place.join("work");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(place.join("outside"), "not for programs\n")?;
        folder.canonicalize()
    };
    let folder = make().map_err(|error| format!("there is no folder for the self-test: {error}"))?;
    folder.to_str().map(str::to_owned).ok_or_else(|| "the state folder's name is not valid UTF-8".to_owned())
}

fn confinement(folder: &str) -> Confinement {
    Confinement {
        profile: Profile::Local,
        place: PLACE.to_owned(),
        folder: folder.into(),
        access: Access::ReadWrite,
        hidden: Vec::new(),
        besides: Besides::default(),
        network: Network::None,
        limits: Limits { memory: 1 << 30, processes: 64, disk: 1 << 26 },
    }
}

async fn run(way: &dyn Way, folder: &str) -> Result<(), String> {
    let place = PlanPlace {
        cwd: folder.to_owned(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        added_env: BTreeMap::new(),
    };
    let argv = ["sh", "-c", SCRIPT].map(str::to_owned).to_vec();
    let plan = Plan::of_argv(argv, place, &Shell).map_err(|error| error.to_string())?;
    let kept = Arc::new(Kept::default());
    let running = begin(way, &plan, Start::default(), kept.clone()).await;
    let exit = running.map_err(|error| error.to_string())?.wait().await;
    match exit {
        Exit::Code(0) => Ok(()),
        Exit::Code(4) => Err("a program could read what it was not to see".to_owned()),
        Exit::Failed(error) => Err(error.to_string()),
        exit => Err(format!("a program did not work in it: {exit}: {}", kept.text())),
    }
}

struct Shell;

impl Lookup for Shell {
    fn find(&self, _word: &str, _place: &PlanPlace) -> Option<Program> {
        self.shell()
    }

    fn shell(&self) -> Option<Program> {
        let path = Path::new("/bin/sh").canonicalize().ok()?.to_str()?.to_owned();
        let identity: FileIdentity = identify(&path).ok()?;
        Some(Program { path, identity, trusted: true })
    }
}

/// The first of what a program says, for people.
#[derive(Default)]
struct Kept(Mutex<Vec<u8>>);

impl Kept {
    const MOST: usize = 400;

    fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        String::from_utf8_lossy(&kept).trim().replace('\n', " ")
    }
}

impl Sink for Kept {
    fn write(&self, _stream: Stream, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let room = Self::MOST.saturating_sub(kept.len());
        kept.extend(bytes.iter().take(room));
    }
}
