//! What a program does to itself, for good, in the last moment before it begins.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use tidegate_policy::Limits;

use crate::hold::Landlock;
use crate::seccomp::Program;

/// Everything is made before the fork; to apply it takes system calls only.
#[derive(Default)]
pub(super) struct Restriction {
    /// Of control groups: who writes to one of these joins it.
    pub(super) groups: Vec<File>,
    pub(super) limits: Option<OwnLimits>,
    /// Whether it gives up everything that root may do and others may not.
    pub(super) no_capabilities: bool,
    pub(super) rules: Option<OwnedFd>,
    pub(super) filter: Option<Program>,
    /// Where its supervisor gets what it is asked by the filter.
    pub(super) door: Option<OwnedFd>,
    /// Whether its supervisor looks at what it is refused.
    pub(super) traced: bool,
}

/// What each process is held to by itself. All of them together are the watchdog's business.
#[derive(Clone, Copy)]
pub(super) struct OwnLimits {
    memory: u64,
    file: u64,
    /// How many its user may have.
    processes: Option<u64>,
}

impl OwnLimits {
    /// The watchdog is to notice before the program does, so that the result says what happened.
    pub(super) fn of(limits: Limits, processes: Option<u64>) -> Self {
        Self { memory: limits.memory.saturating_add(limits.memory / 4), file: limits.disk, processes }
    }

    pub(super) fn apply(self) -> io::Result<()> {
        let set = |what, most: u64| setrlimit(what, Rlimit { current: Some(most), maximum: Some(most) });
        set(Resource::Core, 0)?;
        set(Resource::Data, self.memory)?;
        set(Resource::Fsize, self.file)?;
        if let Some(processes) = self.processes {
            set(Resource::Nproc, processes)?;
        }
        Ok(())
    }
}

impl Restriction {
    /// Runs between fork and exec.
    pub(super) fn apply(&self) -> io::Result<()> {
        for mut group in &self.groups {
            group.write_all(b"0")?;
        }
        if let Some(limits) = self.limits {
            limits.apply()?;
        }
        if self.no_capabilities {
            give_up_capabilities()?;
        }
        if self.traced {
            super::trace::be_traced()?;
        }
        if let Some(rules) = &self.rules {
            hold_to(rules)?;
        }
        let Some(filter) = &self.filter else { return Ok(()) };
        if let (Some(listener), Some(door)) = (filter.apply()?, &self.door) {
            super::modes::hand_over(door.as_fd(), listener.as_fd())?;
        }
        Ok(())
    }
}

/// Gives them up for good: without a bounding set, root does not get them back by starting a program.
fn give_up_capabilities() -> io::Result<()> {
    const VERSION: u32 = 0x2008_0522;
    const LAST: libc::c_ulong = 63;
    let header: [u32; 2] = [VERSION, 0];
    let none = [0_u32; 6];
    #[expect(unsafe_code, reason = "no safe call changes capabilities")]
    // SAFETY: both arrays have the layout that the version stands for, and the calls are allowed between fork and exec.
    let result = unsafe {
        for capability in 0..=LAST {
            // Numbers that are none are refused, and so is whoever has none: then there is nothing to give up.
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn hold_to(rules: &OwnedFd) -> io::Result<()> {
    #[expect(
        unsafe_code,
        reason = "the crate's own call wants to own the rules, of which each program needs them"
    )]
    // SAFETY: the descriptor is open, and both calls are allowed between fork and exec.
    let result = unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The rules of Landlock. All of them hold or there are none: a kernel that knows less is refused.
pub(super) fn rules(of: &Landlock) -> io::Result<OwnedFd> {
    let abi = ABI::V6;
    let all = AccessFs::from_all(abi);
    let readable = AccessFs::from_read(abi);
    let devices = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev | AccessFs::Truncate;
    let writable = all & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(all);
    let rules = rules.and_then(|rules| rules.scope(Scope::from_all(abi)));
    let rules = if of.filter.reaches_the_network() {
        rules
    } else {
        rules.and_then(|rules| rules.handle_access(AccessNet::from_all(abi)))
    };
    let mut rules = rules.and_then(Ruleset::create).map_err(io::Error::other)?;
    let given = [(&of.readable, readable), (&of.writable, writable), (&of.devices, devices)];
    for (paths, access) in given {
        for path in paths {
            rules = allow(rules, path, access)?;
        }
    }
    Option::<OwnedFd>::from(rules).ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
}

fn allow(rules: RulesetCreated, path: &str, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    // What is not there needs no rule.
    let Ok(beneath) = PathFd::new(path) else { return Ok(rules) };
    let access =
        if std::fs::metadata(path)?.is_dir() { access } else { access & AccessFs::from_file(ABI::V6) };
    rules.add_rule(PathBeneath::new(beneath, access)).map_err(io::Error::other)
}
