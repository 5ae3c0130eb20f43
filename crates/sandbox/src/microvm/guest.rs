//! What a machine begins with: a first file system in memory that shows it the programs of this machine, its folders, and
//! what it is to run.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tidegate_policy::{Access, PtySize};

use super::cpio::Archive;
use super::kernel::Kernel;
use crate::script::{Script, quoted};

/// Where the programs and libraries of this machine are. Nothing else of it is shown, so that nothing has to be hidden.
const PROGRAMS: [&str; 8] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ssl"];

/// Files that programs expect, copied.
const FILES: [&str; 5] =
    ["etc/group", "etc/ld.so.cache", "etc/nsswitch.conf", "etc/passwd", "etc/os-release"];

/// How folders are shown.
const NINE: &str = "trans=virtio,version=9p2000.L,msize=262144";

/// A folder of this machine that a machine sees at the same or another path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
    pub(super) access: Access,
}

/// Everything a machine runs.
pub(super) struct Guest<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) busybox: &'a Path,
    pub(super) shown: &'a [Shown],
    pub(super) script: &'a Script,
    pub(super) user: (u32, u32),
    pub(super) processes: u32,
    pub(super) disk: u64,
    pub(super) terminal: Option<PtySize>,
}

/// The folders with programs, as they are here: links stay links.
pub(super) fn programs() -> Vec<Shown> {
    let folders = PROGRAMS.into_iter().map(PathBuf::from);
    let real = folders.filter(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()));
    real.map(|path| Shown { from: path.clone(), to: path, access: Access::ReadOnly }).collect()
}

impl Guest<'_> {
    pub(super) fn archive(&self) -> io::Result<Vec<u8>> {
        let mut archive = Archive::default();
        for folder in ["begin", "dev", "etc", "home", "proc", "run", "sys", "tmp", "var", "var/tmp"] {
            archive.folder(folder, if folder.ends_with("tmp") { 0o1777 } else { 0o755 });
        }
        for path in PROGRAMS {
            if let Ok(to) = fs::read_link(path) {
                archive.link(path.trim_start_matches('/'), &to.to_string_lossy());
            }
        }
        for file in FILES {
            if let Ok(content) = fs::read(Path::new("/").join(file)) {
                archive.file(file, 0o644, &content);
            }
        }
        archive.file("etc/hosts", 0o644, b"127.0.0.1 localhost sandbox\n");
        archive.file("begin/busybox", 0o755, &fs::read(self.busybox)?);
        for (index, module) in self.kernel.modules.iter().enumerate() {
            // The ending says how it is packed.
            archive.file(&module_name(index, module), 0o644, &fs::read(module)?);
        }
        archive.file("begin/plan", 0o644, self.plan().as_bytes());
        archive.file("init", 0o755, self.init().as_bytes());
        Ok(archive.finish())
    }

    /// The values that travel with a plan, then the plan.
    fn plan(&self) -> String {
        let values = self.script.values.iter().map(|(name, value)| format!("{name}={}\n", quoted(value)));
        values.collect::<String>() + &self.script.text
    }

    /// What runs first and last. It says `s` when it needs nothing from here any more, and at the end how it went.
    fn init(&self) -> String {
        let mut text =
            "#!/begin/busybox sh\nb=/begin/busybox\nexport PATH=/usr/bin:/usr/sbin:/bin:/sbin\n".to_owned();
        text.push_str(
            "$b mount -t devtmpfs dev /dev\n$b mount -t proc proc /proc\n$b mount -t sysfs sys /sys\n",
        );
        text.push_str("$b chmod 755 /\n$b mkdir -p /dev/pts /dev/shm\n$b mount -t devpts pts /dev/pts\n");
        text.push_str("for at in /run /var/tmp /dev/shm; do $b mount -t tmpfs -o mode=1777,nosuid,nodev tmp $at; done\n");
        for (index, module) in self.kernel.modules.iter().enumerate() {
            let _ = writeln!(text, "$b insmod /{}", module_name(index, module));
        }
        for (index, shown) in self.shown.iter().enumerate() {
            let to = quoted(&shown.to.to_string_lossy());
            let how = match shown.access {
                Access::ReadOnly => "ro,cache=loose",
                Access::ReadWrite => "rw,nosuid,nodev,cache=mmap",
            };
            let _ = writeln!(text, "$b mkdir -p {to}");
            let _ = writeln!(text, "$b mount -t 9p -o {NINE},{how} f{index} {to}");
        }
        text.push_str(PORTS);
        text.push_str("$b ip link set lo up\n$b hostname sandbox\necho s >$port_code\n");
        let (user, group) = self.user;
        let (processes, disk) = (self.processes, self.disk);
        let run = format!(
            "prlimit --nproc={processes}:{processes} --fsize={disk}:{disk} --core=0:0 setpriv --reuid={user} \
             --regid={group} --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all sh /begin/plan"
        );
        let _ = match self.terminal {
            Some(PtySize { columns, rows }) => writeln!(
                text,
                "$b setsid -c $b sh -c '$0 stty sane rows {rows} cols {columns}; exec {run}' $b \
                 </dev/hvc0 >/dev/hvc0 2>&1"
            ),
            None => writeln!(text, "{run} <$port_in >$port_out 2>$port_err"),
        };
        text.push_str("code=$?\necho $code >$port_code\n$b sync\n$b poweroff -f\n");
        text
    }
}

/// The streams have names; which device has which is known only when all are there.
const PORTS: &str = "n=0
while [ -z \"$port_code\" ] && [ $n -lt 1000 ]; do
  for port in /sys/class/virtio-ports/vport*; do
    [ -r $port/name ] && read -r name <$port/name && eval \"port_$name=/dev/${port##*/}\"
  done
  n=$((n + 1)); [ -n \"$port_code\" ] || $b usleep 10000
done
";

fn module_name(index: usize, module: &Path) -> String {
    let name = module.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    format!("begin/{index}-{name}")
}
