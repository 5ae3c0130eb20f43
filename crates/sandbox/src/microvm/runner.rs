//! Running a plan in a machine of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidegate_policy::exec::{Join, Launch, Program, Step};
use tidegate_policy::{Access, Confinement, RunError, Start};

use super::guest::{Guest, Shown, programs};
use super::probe::Facts;
use super::unavailable;
use crate::begin::{Beginning, Prepared, Way};
use crate::hold::{Elsewhere, Hold};
use crate::order::Order;
use crate::process::ourselves;
use crate::script::{Script, script};
use crate::site::Site;
use crate::supervise::identify;

/// Where the home of a place is inside.
const HOME: &str = "/home/agent";

/// A kernel and its first file system need this much before anything runs.
const LEAST_MEMORY: u64 = 192;

/// QEMU, holding programs in one way.
pub(super) struct Machine {
    pub(super) site: Arc<Site>,
    pub(super) facts: Arc<Facts>,
    pub(super) cpus: u32,
    pub(super) place: PathBuf,
    pub(super) confinement: Confinement,
    pub(super) env: BTreeMap<String, String>,
}

/// What is on the disk for one machine; it goes when this is dropped.
pub(super) struct Papers(pub(super) PathBuf);

impl Papers {
    fn begin(&self) -> PathBuf {
        self.0.join("begin")
    }

    pub(super) fn answer(&self) -> PathBuf {
        self.0.join("answer")
    }
}

impl Drop for Papers {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[async_trait]
impl Way for Machine {
    fn site(&self) -> &Site {
        &self.site
    }

    fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    async fn prepare(&self, beginning: Beginning<'_>) -> Result<Prepared, RunError> {
        let env = beginning.env(&[("HOME", HOME), ("TMPDIR", "/tmp"), ("LANG", "C.UTF-8")]);
        let script = script(beginning.plan, &env, true, beginning.start.pty.is_some())
            .map_err(|bad| RunError::Start { path: "sh".to_owned(), cause: bad.to_string() })?;
        self.boot(&script, beginning.start)
    }
}

impl Machine {
    /// A machine that runs this and nothing else.
    pub(super) fn boot(&self, script: &Script, start: Start) -> Result<Prepared, RunError> {
        let (order, papers) = self.order(script, start).map_err(unavailable)?;
        let (begin, answer) = (papers.begin(), papers.answer());
        // It has values of the environment in it, and the machine needs it only at its beginning.
        drop(tidegate_runtime::spawn("forget the beginning of a machine", async move {
            while begin.exists() {
                if fs::metadata(&answer).is_ok_and(|answer| answer.len() > 0) {
                    let _ = fs::remove_file(&begin);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }));
        Ok(Prepared { order, keeps: Some(Box::new(papers)) })
    }

    fn order(&self, script: &Script, start: Start) -> Result<(Order, Papers), String> {
        let folder = &self.confinement.folder;
        let owner = fs::metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let shown = self.prepare().map_err(|error| format!("{}: {error}", self.place.display()))?;
        let guest = Guest {
            kernel: &self.facts.kernel,
            busybox: &self.facts.busybox,
            shown: &shown,
            script,
            user: (owner.uid(), owner.gid()),
            processes: self.confinement.limits.processes,
            disk: self.confinement.limits.disk,
            terminal: start.pty,
        };
        let papers = papers(&self.place).map_err(|error| format!("{}: {error}", self.place.display()))?;
        let written = guest.archive().and_then(|archive| {
            fs::write(papers.begin(), archive)?;
            fs::write(papers.answer(), "")
        });
        written.map_err(|error| format!("the beginning of a machine cannot be written: {error}"))?;
        let path = self.facts.qemu.to_string_lossy().into_owned();
        let identity = identify(&path).map_err(|error| format!("{path}: {error}"))?;
        let mut argv = vec!["qemu".to_owned()];
        argv.extend(self.words(&shown, &papers, start));
        let launch = Launch { program: Program { path, identity, trusted: true }, argv };
        let order = Order {
            steps: vec![Step { join: Join::Then, pipeline: vec![launch] }],
            cwd: "/".to_owned(),
            env: self.env.clone(),
            terminal: start.pty.is_some(),
            hold: Hold::Elsewhere(Box::new(Elsewhere {
                vessel: None,
                answer: Some(papers.answer().to_string_lossy().into_owned()),
                disk: self.confinement.limits.disk,
            })),
            watch: false,
        };
        Ok((order, papers))
    }

    /// The folders that the machine sees.
    fn prepare(&self) -> io::Result<Vec<Shown>> {
        let mut shown = programs();
        for (name, to) in [("tmp", "/tmp"), ("home", HOME)] {
            let from = self.place.join(name);
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&from)?;
            fs::set_permissions(&from, fs::Permissions::from_mode(0o1777))?;
            shown.push(Shown { from, to: to.into(), access: Access::ReadWrite });
        }
        let Confinement { folder, access, .. } = &self.confinement;
        shown.push(Shown { from: folder.clone(), to: folder.clone(), access: *access });
        Ok(shown)
    }

    fn words(&self, shown: &[Shown], papers: &Papers, start: Start) -> Vec<String> {
        let memory = (self.confinement.limits.memory >> 20).max(LEAST_MEMORY);
        let text = "-nodefaults -no-user-config -display none -no-reboot -M q35 -device virtio-serial-pci,max_ports=8";
        let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        add("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny".to_owned());
        let (accelerator, cpu) = if self.facts.kvm { ("kvm", "host") } else { ("tcg", "max") };
        add("-accel", accelerator.to_owned());
        add("-cpu", cpu.to_owned());
        add("-smp", self.cpus.to_string());
        add("-m", memory.to_string());
        add("-kernel", self.facts.kernel.image.to_string_lossy().into_owned());
        add("-initrd", papers.begin().to_string_lossy().into_owned());
        add("-append", "console=none quiet panic=-1".to_owned());
        add("-chardev", format!("file,id=code,path={}", papers.answer().display()));
        let input = || "stdio,id=in,signal=off".to_owned();
        let output = |id: &str, number: u32| format!("file,id={id},path=/dev/fd/{number}");
        let streams = match (start.pty, start.input) {
            (Some(_), true) => vec![("virtconsole", "in", input())],
            (Some(_), false) => vec![("virtconsole", "out", output("out", 1))],
            (None, _) => vec![
                ("virtserialport", "in", input()),
                ("virtserialport", "out", output("out", 1)),
                ("virtserialport", "err", output("err", 2)),
            ],
        };
        for (device, id, chardev) in streams {
            add("-chardev", chardev);
            add("-device", format!("{device},chardev={id},name={id}"));
        }
        // Found last, when the others are there.
        add("-device", "virtserialport,chardev=code,name=code".to_owned());
        for (index, shown) in shown.iter().enumerate() {
            let read_only = if shown.access == Access::ReadOnly { ",readonly=on" } else { "" };
            let from = shown.from.display();
            add(
                "-fsdev",
                format!("local,id=f{index},path={from},security_model=none,multidevs=remap{read_only}"),
            );
            add("-device", format!("virtio-9p-pci,fsdev=f{index},mount_tag=f{index}"));
        }
        words
    }
}

/// A folder for one machine, its owner's alone.
fn papers(place: &Path) -> io::Result<Papers> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let papers = Papers(place.join(format!("machine-{}-{number}", ourselves())));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&papers.0)?;
    Ok(papers)
}
