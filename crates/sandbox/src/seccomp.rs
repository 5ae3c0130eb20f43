//! The filter for system calls: what no program in a sandbox has any business with.
//!
//! It refuses rather than kills: a program that tries gets an error, as it would on a machine that cannot do it. Calls
//! of another architecture cannot be told apart by number, and end the program.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

use serde::{Deserialize, Serialize};

/// Which of the two filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Filter {
    /// In namespaces of its own: these hold what a program can reach.
    Namespaces,
    /// On the machine's own network and among its sockets: what Landlock does not hold has to be held here.
    Bare {
        /// Whether it may open connections to other machines.
        network: bool,
    },
}

/// A filter that can be applied between fork and exec.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    steps: Vec<libc::sock_filter>,
    /// Whether some calls are handed over to somebody.
    hands_over: bool,
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: u32 = 0;

/// Offsets in what the kernel shows a filter.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

/// `#define`s that the C library's bindings do not have.
const IOCTL_TIOCLINUX: u32 = 0x541c;
pub(crate) const FCHMODAT2: libc::c_long = 452;

/// Looks at things of other programs, of the kernel or of the machine, or makes what the kernel guards less well.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// What programs do without when the kernel does not know it. `clone3` hides its flags from a filter.
const UNKNOWN: &[libc::c_long] =
    &[libc::SYS_clone3, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_io_uring_setup];

/// What Landlock does not hold: who owns files and what is noted about them, sockets with names in the file system, and
/// memory and queues that all programs of a user share.
const UNHELD: &[libc::c_long] = &[
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_setxattr,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_connect,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_msgget,
    libc::SYS_semget,
];

/// What Landlock does not hold and programs cannot do without: their supervisor does it for them.
const HANDED_OVER: &[libc::c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
];

impl Filter {
    pub(crate) fn reaches_the_network(self) -> bool {
        self != Self::Bare { network: false }
    }

    pub(crate) fn program(self) -> Program {
        let mut program = Writer::default();
        program.head();
        for &call in REFUSED {
            program.refuse(call, libc::EPERM);
        }
        for &call in UNKNOWN {
            program.refuse(call, libc::ENOSYS);
        }
        // Room on a disk that is taken without being written is not counted; programs then write it.
        program.refuse(libc::SYS_fallocate, libc::EOPNOTSUPP);
        let namespaces = libc::CLONE_NEWUSER
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNET
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWCGROUP;
        program.refuse_when_any(libc::SYS_clone, 0, namespaces.cast_unsigned(), libc::EPERM);
        // Typing into the terminal of whoever looks at it.
        let requests = [libc::TIOCSTI.try_into().unwrap_or(u32::MAX), IOCTL_TIOCLINUX];
        for request in requests {
            program.refuse_when(libc::SYS_ioctl, 1, request, libc::EPERM);
        }
        self.sockets(&mut program);
        program.end()
    }

    fn sockets(self, program: &mut Writer) {
        const LOCAL: &[i32] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
        const INTERNET: &[i32] = &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
        let families = match self {
            Self::Namespaces => LOCAL,
            Self::Bare { network: true } => INTERNET,
            Self::Bare { network: false } => &[],
        };
        program.refuse_unless(libc::SYS_socket, 0, families, libc::EAFNOSUPPORT);
        if let Self::Bare { network } = self {
            for &call in UNHELD {
                if !(network && call == libc::SYS_connect) {
                    program.refuse(call, libc::EPERM);
                }
            }
            for &call in HANDED_OVER {
                program.hand_over(call);
            }
            // A pair that keeps to itself is fine; one for datagrams could send them to any name.
            for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
                program.refuse_when_low(libc::SYS_socketpair, 1, kind.cast_unsigned(), libc::EPERM);
            }
        }
    }
}

impl Program {
    /// Applies it to the calling thread and everything it starts, for good, and answers where calls that are handed over
    /// can be taken up. Makes system calls only.
    pub(crate) fn apply(&self) -> io::Result<Option<OwnedFd>> {
        let filter = libc::sock_fprog {
            len: self.steps.len().try_into().map_err(|_| io::ErrorKind::InvalidInput)?,
            filter: self.steps.as_ptr().cast_mut(),
        };
        let flags = if self.hands_over { libc::SECCOMP_FILTER_FLAG_NEW_LISTENER } else { 0 };
        #[expect(unsafe_code, reason = "no safe call sets a filter")]
        // SAFETY: the filter outlives the call, and the kernel copies it; a descriptor it answers with is nobody else's.
        unsafe {
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
                return Err(io::Error::last_os_error());
            }
            let mode = libc::SECCOMP_SET_MODE_FILTER;
            let result = libc::syscall(libc::SYS_seccomp, mode, flags, &raw const filter);
            match i32::try_from(result) {
                Ok(listener @ 0..) if self.hands_over => Ok(Some(OwnedFd::from_raw_fd(listener))),
                Ok(0) => Ok(None),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }
}

/// Puts instructions together. Between two rules the number of the call is what was loaded last.
#[derive(Default)]
struct Writer(Vec<libc::sock_filter>, bool);

impl Writer {
    fn put(&mut self, code: u32, jt: u8, jf: u8, k: u32) {
        self.0.push(libc::sock_filter { code: u16::try_from(code).unwrap_or_default(), jt, jf, k });
    }

    fn load(&mut self, offset: u32) {
        self.put(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    }

    /// The lower half of an argument: what the kernel looks at in all calls that matter here.
    fn load_argument(&mut self, index: u32) {
        self.load(ARGUMENTS + 8 * index);
    }

    fn answer(&mut self, answer: u32) {
        self.put(libc::BPF_RET | libc::BPF_K, 0, 0, answer);
    }

    fn answer_error(&mut self, error: i32) {
        self.answer(libc::SECCOMP_RET_ERRNO | error.cast_unsigned());
    }

    fn skip_unless_equal(&mut self, value: u32, skip: u8) {
        self.put(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip, value);
    }

    fn head(&mut self) {
        self.load(ARCH);
        self.put(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, ARCHITECTURE);
        self.answer(libc::SECCOMP_RET_KILL_PROCESS);
        self.load(NUMBER);
        if cfg!(target_arch = "x86_64") {
            // The same calls under other numbers, with pointers of half the size.
            self.put(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, 0x4000_0000);
            self.answer_error(libc::ENOSYS);
        }
    }

    /// Leaves a call to whoever listens.
    fn hand_over(&mut self, call: libc::c_long) {
        self.skip_unless_equal(number(call), 1);
        self.answer(libc::SECCOMP_RET_USER_NOTIF);
        self.1 = true;
    }

    fn refuse(&mut self, call: libc::c_long, error: i32) {
        self.skip_unless_equal(number(call), 1);
        self.answer_error(error);
    }

    fn refuse_when(&mut self, call: libc::c_long, argument: u32, value: u32, error: i32) {
        self.skip_unless_equal(number(call), 4);
        self.load_argument(argument);
        self.skip_unless_equal(value, 1);
        self.answer_error(error);
        self.load(NUMBER);
    }

    /// Refuses when the lowest four bits are this.
    fn refuse_when_low(&mut self, call: libc::c_long, argument: u32, value: u32, error: i32) {
        self.skip_unless_equal(number(call), 5);
        self.load_argument(argument);
        self.put(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0xf);
        self.skip_unless_equal(value, 1);
        self.answer_error(error);
        self.load(NUMBER);
    }

    /// Refuses when any of these bits is set.
    fn refuse_when_any(&mut self, call: libc::c_long, argument: u32, bits: u32, error: i32) {
        self.skip_unless_equal(number(call), 4);
        self.load_argument(argument);
        self.put(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, bits);
        self.answer_error(error);
        self.load(NUMBER);
    }

    fn refuse_unless(&mut self, call: libc::c_long, argument: u32, values: &[i32], error: i32) {
        let count = u8::try_from(values.len()).unwrap_or_default();
        self.skip_unless_equal(number(call), count + 3);
        self.load_argument(argument);
        for (value, left) in values.iter().zip((1..=count).rev()) {
            self.put(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, left, 0, value.cast_unsigned());
        }
        self.answer_error(error);
        self.load(NUMBER);
    }

    fn end(mut self) -> Program {
        self.answer(libc::SECCOMP_RET_ALLOW);
        Program { steps: self.0, hands_over: self.1 }
    }
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
