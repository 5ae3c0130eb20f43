//! What system calls mean, and which of their failures are refusals.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// A call that somebody may be refused.
pub(super) struct Call {
    pub(super) name: String,
    pub(super) meaning: Meaning,
}

/// What a call is about, by the places of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Path {
        at: Option<usize>,
        path: usize,
        write: Write,
    },
    Address {
        place: usize,
        length: usize,
    },
    /// Of a socket: the first argument.
    Family,
    Nothing,
}

/// Whether a call would change what is at the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    Never,
    Always,
    /// By the bits of this argument.
    Opening(usize),
    Asking(usize),
}

impl Write {
    pub(super) fn applies(self, argument: impl Fn(usize) -> u64) -> bool {
        const CHANGES: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::Opening(flags) => argument(flags) & CHANGES != 0,
            Self::Asking(mode) => argument(mode) & libc::W_OK as u64 != 0,
        }
    }
}

/// Whether an error says that something may not be done.
pub(super) fn forbids(error: i32) -> bool {
    matches!(error, libc::EPERM | libc::EACCES)
}

/// The same for paths: one may not be changed, or not be there. Whoever is outside knows whether it really is not.
pub(super) fn hides(error: i32) -> bool {
    forbids(error) || matches!(error, libc::EROFS | libc::ENOENT)
}

/// The same for addresses.
pub(super) fn cuts_off(error: i32) -> bool {
    forbids(error)
        || matches!(
            error,
            libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::ENETDOWN
                | libc::ECONNREFUSED
                | libc::EADDRNOTAVAIL
                | libc::ENOENT
        )
}

const fn at(at: usize, write: Write) -> Meaning {
    Meaning::Path { at: Some(at), path: at + 1, write }
}

#[cfg(target_arch = "x86_64")]
const fn path(path: usize, write: Write) -> Meaning {
    Meaning::Path { at: None, path, write }
}

macro_rules! calls {
    ($($(#[$on:meta])* $name:ident => $meaning:expr),* $(,)?) => {
        /// The calls that are known by name.
        const KNOWN: &[(libc::c_long, &str, Meaning)] = &[$($(#[$on])* (libc::$name, stringify!($name), $meaning)),*];
    };
}

use Meaning::{Address, Family, Nothing};
use Write::{Always, Asking, Never, Opening};

calls! {
    SYS_openat => at(0, Opening(2)),
    SYS_openat2 => at(0, Never),
    SYS_newfstatat => at(0, Never),
    SYS_statx => at(0, Never),
    SYS_faccessat => at(0, Asking(2)),
    SYS_faccessat2 => at(0, Asking(2)),
    SYS_readlinkat => at(0, Never),
    SYS_execveat => at(0, Never),
    SYS_mkdirat => at(0, Always),
    SYS_mknodat => at(0, Always),
    SYS_unlinkat => at(0, Always),
    SYS_renameat2 => at(2, Always),
    SYS_linkat => at(2, Always),
    SYS_symlinkat => at(1, Always),
    SYS_fchmodat => at(0, Always),
    SYS_fchownat => at(0, Always),
    SYS_utimensat => at(0, Always),
    SYS_execve => Meaning::Path { at: None, path: 0, write: Never },
    SYS_chdir => Meaning::Path { at: None, path: 0, write: Never },
    SYS_truncate => Meaning::Path { at: None, path: 0, write: Always },
    SYS_setxattr => Meaning::Path { at: None, path: 0, write: Always },
    #[cfg(target_arch = "x86_64")] SYS_open => path(0, Opening(1)),
    #[cfg(target_arch = "x86_64")] SYS_creat => path(0, Always),
    #[cfg(target_arch = "x86_64")] SYS_stat => path(0, Never),
    #[cfg(target_arch = "x86_64")] SYS_lstat => path(0, Never),
    #[cfg(target_arch = "x86_64")] SYS_access => path(0, Asking(1)),
    #[cfg(target_arch = "x86_64")] SYS_readlink => path(0, Never),
    #[cfg(target_arch = "x86_64")] SYS_mkdir => path(0, Always),
    #[cfg(target_arch = "x86_64")] SYS_rmdir => path(0, Always),
    #[cfg(target_arch = "x86_64")] SYS_unlink => path(0, Always),
    #[cfg(target_arch = "x86_64")] SYS_rename => path(1, Always),
    #[cfg(target_arch = "x86_64")] SYS_link => path(1, Always),
    #[cfg(target_arch = "x86_64")] SYS_symlink => path(1, Always),
    #[cfg(target_arch = "x86_64")] SYS_chmod => path(0, Always),
    #[cfg(target_arch = "x86_64")] SYS_chown => path(0, Always),
    #[cfg(target_arch = "x86_64")] SYS_lchown => path(0, Always),
    #[cfg(target_arch = "x86_64")] SYS_mknod => path(0, Always),
    SYS_connect => Address { place: 1, length: 2 },
    SYS_sendto => Address { place: 4, length: 5 },
    SYS_socket => Family,
    SYS_socketpair => Nothing,
    SYS_sendmsg => Nothing,
    SYS_mount => Nothing,
    SYS_umount2 => Nothing,
    SYS_ptrace => Nothing,
    SYS_process_vm_readv => Nothing,
    SYS_process_vm_writev => Nothing,
    SYS_unshare => Nothing,
    SYS_setns => Nothing,
    SYS_clone => Nothing,
    SYS_chroot => Nothing,
    SYS_pivot_root => Nothing,
    SYS_bpf => Nothing,
    SYS_keyctl => Nothing,
    SYS_add_key => Nothing,
    SYS_request_key => Nothing,
    SYS_perf_event_open => Nothing,
    SYS_userfaultfd => Nothing,
    SYS_kill => Nothing,
    SYS_tgkill => Nothing,
    SYS_setuid => Nothing,
    SYS_setgid => Nothing,
    SYS_setgroups => Nothing,
    SYS_setresuid => Nothing,
    SYS_setresgid => Nothing,
    SYS_sethostname => Nothing,
    SYS_setpriority => Nothing,
    SYS_sched_setscheduler => Nothing,
    SYS_fchmod => Nothing,
    SYS_fchown => Nothing,
    SYS_fsetxattr => Nothing,
    SYS_ioctl => Nothing,
    SYS_prlimit64 => Nothing,
    SYS_syslog => Nothing,
    SYS_reboot => Nothing,
    SYS_init_module => Nothing,
    SYS_finit_module => Nothing,
    SYS_shmget => Nothing,
    SYS_shmat => Nothing,
    SYS_msgget => Nothing,
    SYS_semget => Nothing,
}

pub(super) fn of(number: u64) -> Call {
    let known = KNOWN.iter().find(|(known, _, _)| u64::try_from(*known) == Ok(number));
    match known {
        Some((_, name, meaning)) => {
            Call { name: name.trim_start_matches("SYS_").to_owned(), meaning: *meaning }
        }
        None => Call { name: format!("system call {number}"), meaning: Nothing },
    }
}

/// An address as people write it.
pub(super) fn address(bytes: &[u8]) -> Option<String> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => {
            let (port, rest) = rest.split_first_chunk::<2>()?;
            let ip = Ipv4Addr::from(*rest.first_chunk::<4>()?);
            Some(SocketAddr::from((ip, u16::from_be_bytes(*port))).to_string())
        }
        libc::AF_INET6 => {
            let (port, rest) = rest.split_first_chunk::<2>()?;
            let ip = Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?);
            Some(SocketAddr::from((ip, u16::from_be_bytes(*port))).to_string())
        }
        libc::AF_UNIX => {
            let text = |bytes: &[u8]| {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                String::from_utf8_lossy(&bytes[..end]).into_owned()
            };
            Some(match rest {
                [0, name @ ..] => format!("unix:@{}", text(name)),
                name => format!("unix:{}", text(name)),
            })
        }
        other => Some(family_name(other)),
    }
}

pub(super) fn family(argument: u64) -> String {
    family_name(i32::try_from(argument).unwrap_or_default())
}

fn family_name(family: i32) -> String {
    match family {
        libc::AF_UNIX => "sockets of this machine".to_owned(),
        libc::AF_INET => "IPv4".to_owned(),
        libc::AF_INET6 => "IPv6".to_owned(),
        libc::AF_NETLINK => "netlink".to_owned(),
        libc::AF_PACKET => "raw packets".to_owned(),
        libc::AF_VSOCK => "vsock".to_owned(),
        other => format!("address family {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_people_know_them() {
        let inet = |family: i32, rest: &[u8]| {
            let family = u16::try_from(family).unwrap().to_ne_bytes();
            address(&[&family, rest].concat())
        };
        let v6 = [&[1, 187, 0, 0, 0, 0][..], &Ipv6Addr::LOCALHOST.octets(), &[0; 4]].concat();
        for (family, bytes, said) in [
            (libc::AF_INET, &[0, 80, 192, 0, 2, 1, 0, 0][..], Some("192.0.2.1:80")),
            (libc::AF_INET6, &v6, Some("[::1]:443")),
            (libc::AF_UNIX, b"/run/x\0", Some("unix:/run/x")),
            (libc::AF_UNIX, b"\0name", Some("unix:@name")),
            (libc::AF_VSOCK, b"", Some("vsock")),
            (libc::AF_INET, b"", None),
        ] {
            assert_eq!(inet(family, bytes).as_deref(), said);
        }
        assert_eq!(address(&[]), None);
    }

    #[test]
    fn what_changes_a_file_is_told_from_what_looks_at_it() {
        let open = |flags: i32| Opening(2).applies(|_| u64::from(flags.cast_unsigned()));
        assert!(open(libc::O_WRONLY) && open(libc::O_RDWR | libc::O_CLOEXEC) && open(libc::O_CREAT));
        assert!(!open(libc::O_RDONLY | libc::O_CLOEXEC));
        assert_eq!(of(u64::try_from(libc::SYS_mount).unwrap()).name, "mount");
        assert_eq!(of(9_999).name, "system call 9999");
    }
}
