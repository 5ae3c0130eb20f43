//! Programs in real machines, where QEMU, a kernel and busybox are installed. Without KVM a machine takes many seconds to
//! boot, so that each test boots few and asks much of them.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tidegate_policy::{
    Access, Besides, Confinement, Exit, Limits, Network, Profile, PtySize, Resource, RunError, Running as _,
    Start,
};

use super::runner::Machine;
use super::{MicrovmSettings, Qemu};
use crate::backend::{Backend as _, Probe};
use crate::begin::begin;
use crate::running::HostRun;
use crate::tests::{Kept, script, site, skip_loudly, until};

const BOOTED: Duration = Duration::from_secs(200);

struct Room {
    qemu: Qemu,
    root: TempDir,
}

fn room() -> Option<Room> {
    let settings = MicrovmSettings { kernel: None, cpus: 1, path: None };
    let tests = std::env::current_exe().unwrap();
    let root = TempDir::new_in(tests.parent().unwrap()).unwrap();
    fs::create_dir(root.path().join("work")).unwrap();
    let site = site(root.path().join("places"), None);
    let qemu = Qemu { settings, site, facts: std::sync::OnceLock::new() };
    match qemu.parts() {
        Ok(_) => Some(Room { qemu, root }),
        Err(why) => {
            skip_loudly(&why);
            None
        }
    }
}

impl Room {
    fn confinement(&self) -> Confinement {
        Confinement {
            profile: Profile::Microvm,
            place: "agent-main".to_owned(),
            folder: self.root.path().join("work").canonicalize().unwrap(),
            access: Access::ReadWrite,
            hidden: vec![self.root.path().join("places")],
            besides: Besides::default(),
            network: Network::None,
            limits: Limits { memory: 256 << 20, processes: 100, disk: 8 << 20 },
        }
    }

    /// Without KVM, which works everywhere.
    fn machine(&self, confinement: &Confinement) -> Machine {
        self.qemu.machine(confinement, Arc::new(self.qemu.parts().unwrap())).unwrap()
    }
}

async fn start_in(machine: &Machine, text: &str, start: Start) -> (HostRun, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let running = begin(machine, &script(text).plan, start, kept.clone()).await.unwrap();
    (running, kept)
}

async fn says(kept: &Kept, text: &str) {
    until(&format!("{text:?}"), BOOTED, || kept.stdout().contains(text)).await;
}

#[tokio::test]
async fn a_probe_boots_a_machine_or_says_why_not() {
    let Some(room) = room() else { return };
    let probe = room.qemu.probe().await;
    assert!(matches!(&probe, Probe::Works(detail) if detail.starts_with("kernel ")), "{probe:?}");
    let settings = MicrovmSettings { path: Some("/nowhere".to_owned()), ..room.qemu.settings.clone() };
    let without = Qemu { settings, ..room.qemu };
    let probe = without.probe().await;
    assert!(matches!(&probe, Probe::Fails(why) if why.contains("qemu-system-x86_64")), "{probe:?}");
}

#[tokio::test]
async fn a_machine_is_all_that_its_programs_see_and_change() {
    let Some(room) = room() else { return };
    let confinement = room.confinement();
    let outside = room.root.path().join("outside");
    let secret = room.root.path().join("secret");
    fs::write(&secret, "of this machine").unwrap();
    std::os::unix::fs::chown(&confinement.folder, Some(1234), Some(1234)).ok();
    let text = format!(
        "export PERL_BADLANG=0; id -u; cat {secret}; ls /root /boot /srv
         for file in /x /usr/x /etc/passwd /begin/plan {outside}; do (echo gone > $file) && echo wrote $file; done
         mount -t tmpfs none /mnt && echo mounts
         unshare -r true && unshare -r mount -t tmpfs none /tmp && echo mounts in its own namespace
         perl -e 'socket(S,2,1,0); connect(S, pack(\"SnC4x8\", 2, 53, 192,0,2,1)) and print \"connects\\n\"'
         ls /sys/class/net
         perl -e '$n = 0; while (defined($p = fork)) {{ if (!$p) {{ sleep 1000 }} $n++ }} print \"forked $n\\n\"; kill 9, -1'
         true",
        secret = secret.display(),
        outside = outside.display()
    );
    let (running, kept) = start_in(&room.machine(&confinement), &text, Start::default()).await;
    let exit = tokio::time::timeout(BOOTED, running.wait()).await.unwrap();
    let said = kept.stdout();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{exit:?} {said} {}", kept.stderr());
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(&confinement.folder).unwrap());
    assert_eq!((lines[0], lines[1]), (owner.to_string().as_str(), "lo"), "{}", kept.stderr());
    let forked: u32 = lines[2].strip_prefix("forked ").unwrap().parse().unwrap();
    assert!((50..100).contains(&forked), "{forked}");
    // It killed all it could, also the shell it was started by.
    assert_eq!(exit, Exit::Code(137));
    assert!(!outside.exists());
}

#[tokio::test]
async fn a_machine_runs_what_it_is_told_and_keeps_to_its_limits() {
    let Some(room) = room() else { return };
    let confinement = room.confinement();
    let text = format!(
        "cd {}; echo kept > file; echo kept > /tmp/file; cat; echo \"to errors\" >&2
         dd if=/dev/zero of=big bs=1M count=4 2>/dev/null; ls -l big | cut -d' ' -f5
         perl -e '$x = \"a\" x (1 << 20); $x .= $x while 1' >/dev/null 2>&1; echo memory $?; exit 41",
        confinement.folder.display()
    );
    let start = Start { input: true, pty: None };
    let (running, kept) = start_in(&room.machine(&confinement), &text, start).await;
    running.write(b"typed\n").await.unwrap();
    running.close_input().await.unwrap();
    let exit = tokio::time::timeout(BOOTED, running.wait()).await.unwrap();
    let said = kept.stdout();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(exit, Exit::Code(41), "{said} {}", kept.stderr());
    assert_eq!(lines[0], "typed");
    assert_eq!(lines[1], (4 << 20).to_string());
    assert!(lines[2].starts_with("memory ") && lines[2] != "memory 0", "{said}");
    assert!(kept.stderr().contains("to errors\n"), "{}", kept.stderr());
    assert_eq!(fs::read_to_string(confinement.folder.join("file")).unwrap(), "kept\n");
    let place = room.root.path().join("places/agent-main");
    assert_eq!(fs::read_to_string(place.join("tmp/file")).unwrap(), "kept\n");
    let left = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.starts_with("machine-")).count(), 0);
}

#[tokio::test]
async fn a_machine_has_a_terminal_and_ends_when_it_is_told() {
    let Some(room) = room() else { return };
    let confinement = Confinement { access: Access::ReadOnly, ..room.confinement() };
    let text = format!(
        "test -t 0 && test -t 1 && stty size; (echo x > {}/x) 2>/dev/null || echo refused
         trap '' TERM HUP INT; (setsid sleep 1000 &); read -r word; echo got $word; sleep 1000",
        confinement.folder.display()
    );
    let start = Start { input: true, pty: Some(PtySize { columns: 91, rows: 17 }) };
    let (running, kept) = start_in(&room.machine(&confinement), &text, start).await;
    says(&kept, "refused").await;
    assert!(kept.stdout().contains("17 91"), "{}", kept.stdout());
    running.write(b"this\r").await.unwrap();
    says(&kept, "got this").await;
    running.kill();
    assert_eq!(running.wait().await, Exit::Killed);
}

#[tokio::test]
async fn a_machine_that_writes_too_much_is_ended() {
    let Some(room) = room() else { return };
    let confinement = room.confinement();
    let text = format!(
        "cd {}; for i in 1 2 3 4; do dd if=/dev/zero of=$i bs=1M count=6; done; sleep 1000",
        confinement.folder.display()
    );
    let (running, kept) = start_in(&room.machine(&confinement), &text, Start::default()).await;
    let exit = tokio::time::timeout(BOOTED, running.wait()).await.unwrap();
    assert_eq!(exit, Exit::Limit { what: Resource::Disk, limit: 8 << 20 }, "{}", kept.stderr());
}

#[tokio::test]
async fn what_a_machine_cannot_hold_is_refused() {
    let Some(room) = room() else { return };
    let facts = Arc::new(room.qemu.parts().unwrap());
    let confinement = room.confinement();
    let refused = [
        Confinement { network: Network::Full, ..confinement.clone() },
        Confinement { network: Network::Allowlist(vec!["example.com".to_owned()]), ..confinement.clone() },
        Confinement { hidden: vec![confinement.folder.join("inner")], ..confinement.clone() },
        Confinement { hidden: vec!["/usr/local/state".into()], ..confinement },
    ];
    for confinement in refused {
        let error = room.qemu.machine(&confinement, Arc::clone(&facts)).err();
        assert!(matches!(error, Some(RunError::Unavailable { profile: "microvm", .. })), "{error:?}");
    }
}
