//! Finding out whether machines can be made here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_policy::{
    Access, Besides, Confinement, Exit, Limits, Network, Profile, Running as _, Sink, Start, Stream,
};

use super::Qemu;
use super::kernel::{self, Kernel};
use crate::begin::Prepared;
use crate::process::{is_answered_for, ourselves};
use crate::script::{Script, quoted};

/// For a machine to boot and end: with help of the processor, and without.
const WITH_KVM: Duration = Duration::from_secs(20);
const WITHOUT: Duration = Duration::from_mins(3);

/// What machines are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) qemu: PathBuf,
    pub(super) kernel: Kernel,
    pub(super) busybox: PathBuf,
    /// Whether the processor helps.
    pub(super) kvm: bool,
}

impl Facts {
    pub(super) fn detail(&self) -> String {
        let how = if self.kvm { "KVM" } else { "without KVM: slow" };
        format!("kernel {}, {how}", self.kernel.version)
    }
}

impl Qemu {
    pub(super) async fn find_out(&self) -> Result<Facts, String> {
        let mut facts = self.parts()?;
        self.remove_stale();
        // The device may be there and not work.
        if fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok() {
            facts.kvm = true;
            if self.try_one(&facts, WITH_KVM).await.is_ok() {
                return Ok(facts);
            }
            facts.kvm = false;
        }
        self.try_one(&facts, WITHOUT).await?;
        Ok(facts)
    }

    /// What a machine is made of, or what is missing.
    pub(super) fn parts(&self) -> Result<Facts, String> {
        if std::env::consts::ARCH != "x86_64" {
            return Err("machines are made on x86-64 only".to_owned());
        }
        let need = |name: &str, package: &str| {
            self.finds(name)
                .ok_or_else(|| format!("there is no {name} on PATH (on Debian: apt-get install {package})"))
        };
        let qemu = need("qemu-system-x86_64", "qemu-system-x86")?;
        let busybox = need("busybox", "busybox-static")?;
        need("setpriv", "util-linux")?;
        need("prlimit", "util-linux")?;
        if !is_static(&busybox) {
            return Err(format!(
                "{} needs libraries (on Debian: apt-get install busybox-static)",
                busybox.display()
            ));
        }
        let kernel = kernel::find(self.settings.kernel.as_deref())?;
        Ok(Facts { qemu, kernel, busybox, kvm: false })
    }

    fn finds(&self, name: &str) -> Option<PathBuf> {
        let path = self.settings.path.as_deref().unwrap_or("/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        let found =
            std::env::split_paths(path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(name));
        found.filter(|file| file.is_file()).find_map(|file| file.canonicalize().ok())
    }

    /// Boots a machine, has it try what it must not be able to do, and what it must.
    async fn try_one(&self, facts: &Facts, limit: Duration) -> Result<(), String> {
        let place = format!("probe-qemu-{}-0", ourselves());
        let root = self.site.places.join(&place);
        let made = fs::create_dir_all(root.join("work"))
            .and_then(|()| fs::write(root.join("secret"), "not for machines"));
        let result = match made {
            Ok(()) => self.try_in(facts, &place, &root, limit).await,
            Err(error) => Err(format!("{}: {error}", root.display())),
        };
        let _ = fs::remove_dir_all(&root);
        result
    }

    async fn try_in(&self, facts: &Facts, place: &str, root: &Path, limit: Duration) -> Result<(), String> {
        let folder = root.join("work").canonicalize().map_err(|error| error.to_string())?;
        let confinement = Confinement {
            profile: Profile::Microvm,
            place: place.to_owned(),
            folder: folder.clone(),
            access: Access::ReadWrite,
            hidden: Vec::new(),
            besides: Besides::default(),
            network: Network::None,
            limits: Limits { memory: 256 << 20, processes: 64, disk: 16 << 20 },
        };
        let machine =
            self.machine(&confinement, Arc::new(facts.clone())).map_err(|error| error.to_string())?;
        let inside = quoted(&folder.to_string_lossy());
        let text = format!(
            "cd {inside} || exit 1\nif [ -e ../secret ]; then echo 'sees other files'; exit 1; fi\n\
             if (: > /usr/tidegate-probe) 2>/dev/null; then echo 'writes outside'; exit 1; fi\n\
             : > /tmp/probe && echo held > written && echo held\n"
        );
        let said = Arc::new(Said::default());
        let script = Script { text, values: BTreeMap::new() };
        let Prepared { order, keeps } =
            machine.boot(&script, Start::default()).map_err(|error| error.to_string())?;
        let running = self.site.host.start_order(order, keeps, Start::default(), said.clone()).await;
        let running = running.map_err(|error| error.to_string())?;
        let exit = tokio::time::timeout(limit, running.wait()).await;
        let heard = said.text();
        let written = fs::read_to_string(folder.join("written")).unwrap_or_default();
        match exit {
            Ok(Exit::Code(0)) if written == "held\n" && heard.contains("held") => Ok(()),
            Ok(Exit::Failed(error)) => Err(error.to_string()),
            Ok(_) => Err(format!("a machine says: {}", heard.lines().last().unwrap_or("nothing"))),
            Err(_) => Err(format!("a machine does not boot within {} s", limit.as_secs())),
        }
    }

    /// Removes what machines of gateways that are gone have left.
    fn remove_stale(&self) {
        let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        for place in entries(&self.site.places) {
            for paper in entries(&place.path()) {
                let name = paper.file_name().to_string_lossy().into_owned();
                if name.starts_with("machine-") && !is_answered_for(&name) {
                    let _ = fs::remove_dir_all(paper.path());
                }
            }
        }
    }
}

/// Whether a program runs without an interpreter: what it asks for stands near its beginning.
fn is_static(program: &Path) -> bool {
    let Ok(bytes) = fs::read(program) else { return false };
    let head = &bytes[..bytes.len().min(4096)];
    head.starts_with(b"\x7FELF")
        && !head.windows(8).any(|window| window == b"ld-linux" || window == b"ld-musl-")
}

#[derive(Default)]
struct Said(Mutex<Vec<u8>>);

impl Said {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Sink for Said {
    fn write(&self, _stream: Stream, bytes: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < 1 << 16 {
            said.extend(bytes);
        }
    }
}
