//! The filter is run here as the kernel runs it, on made-up calls.

use super::*;

/// What a filter answers to a call.
fn answer(filter: Filter, arch: u32, call: u32, arguments: [u64; 3]) -> u32 {
    let load = |offset: u32| match offset {
        NUMBER => call,
        ARCH => arch,
        offset => {
            let argument = arguments[usize::try_from((offset - ARGUMENTS) / 8).unwrap()];
            u32::try_from(argument & 0xffff_ffff).unwrap()
        }
    };
    let program = filter.program().steps;
    let (mut at, mut held) = (0, 0);
    loop {
        let step = program[at];
        let code = u32::from(step.code);
        let jump = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
        at += 1;
        match (code & 7, code & 0xf0) {
            (libc::BPF_LD, _) => held = load(step.k),
            (libc::BPF_ALU, libc::BPF_AND) => held &= step.k,
            (libc::BPF_RET, _) => return step.k,
            (libc::BPF_JMP, libc::BPF_JEQ) => at += jump(held == step.k),
            (libc::BPF_JMP, libc::BPF_JGE) => at += jump(held >= step.k),
            (libc::BPF_JMP, libc::BPF_JSET) => at += jump(held & step.k != 0),
            other => panic!("no such instruction: {other:?}"),
        }
    }
}

const ALL: [Filter; 3] =
    [Filter::Namespaces, Filter::Bare { network: false }, Filter::Bare { network: true }];

fn of(filter: Filter, call: libc::c_long, arguments: [u64; 3]) -> Result<(), i32> {
    match answer(filter, ARCHITECTURE, number(call), arguments) {
        libc::SECCOMP_RET_ALLOW => Ok(()),
        other => Err((other & 0xffff).cast_signed()),
    }
}

fn low(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}

#[test]
fn every_filter_lets_ordinary_calls_through_and_refuses_what_is_not_for_programs() {
    for filter in ALL {
        for call in [libc::SYS_read, libc::SYS_openat, libc::SYS_execve, libc::SYS_wait4, libc::SYS_ioctl] {
            assert_eq!(of(filter, call, [0; 3]), Ok(()), "{call}");
        }
        for &call in REFUSED {
            assert_eq!(of(filter, call, [0; 3]), Err(libc::EPERM), "{call}");
        }
        assert_eq!(of(filter, libc::SYS_clone3, [0; 3]), Err(libc::ENOSYS));
        assert_eq!(of(filter, libc::SYS_clone, [low(libc::SIGCHLD), 0, 0]), Ok(()));
        let namespace = low(libc::CLONE_NEWUSER | libc::SIGCHLD);
        assert_eq!(of(filter, libc::SYS_clone, [namespace, 0, 0]), Err(libc::EPERM));
        // The kernel does not look at the upper half of the number of a request either.
        let typing = 0xdead_0000_0000 | libc::TIOCSTI;
        assert_eq!(of(filter, libc::SYS_ioctl, [0, typing, 0]), Err(libc::EPERM));
        assert_eq!(of(filter, libc::SYS_ioctl, [0, libc::TIOCGWINSZ, 0]), Ok(()));
    }
}

#[test]
fn calls_of_another_architecture_end_the_program() {
    for filter in ALL {
        assert_eq!(answer(filter, 0x4000_0003, 3, [0; 3]), libc::SECCOMP_RET_KILL_PROCESS);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_under_their_second_numbers_are_unknown() {
    let second = 0x4000_0000 | number(libc::SYS_ptrace);
    let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    assert_eq!(answer(Filter::Namespaces, ARCHITECTURE, second, [0; 3]), unknown);
}

#[test]
fn sockets_are_those_that_are_held_by_something_else() {
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET, 40];
    let open = |filter| families.map(|family| of(filter, libc::SYS_socket, [low(family), 1, 0]).is_ok());
    assert_eq!(open(Filter::Namespaces), [true, true, true, true, false, false]);
    assert_eq!(open(Filter::Bare { network: true }), [false, true, true, true, false, false]);
    assert_eq!(open(Filter::Bare { network: false }), [false; 6]);
    for network in [true, false] {
        let filter = Filter::Bare { network };
        let pair = |kind: i32| of(filter, libc::SYS_socketpair, [low(libc::AF_UNIX), low(kind), 0]).is_ok();
        let kinds = [libc::SOCK_STREAM | libc::SOCK_CLOEXEC, libc::SOCK_SEQPACKET, libc::SOCK_DGRAM];
        assert_eq!(kinds.map(pair), [true, true, false]);
        assert!(!pair(libc::SOCK_DGRAM | libc::SOCK_NONBLOCK));
        assert_eq!(of(filter, libc::SYS_connect, [0; 3]).is_ok(), network);
        for &call in HANDED_OVER {
            let answered = answer(filter, ARCHITECTURE, number(call), [0; 3]);
            assert_eq!(answered, libc::SECCOMP_RET_USER_NOTIF, "{call}");
        }
    }
}
