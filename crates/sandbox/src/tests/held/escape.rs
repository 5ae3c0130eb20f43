//! Programs that try to get out. They fail, they die, and the machine around them is as it was.

use std::fs;
use std::io::Read as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::time::Duration;

use tidegate_policy::{Exit, Start};

use super::super::{carriers, until};
use super::{Held, all};

const SOON: Duration = Duration::from_secs(20);

fn nothing_came_of(held: &Held, script: &str, kept: &super::Kept) {
    let name = held.backend.name();
    assert!(!kept.stdout().contains("got"), "{name}: {script}: {}", kept.stdout());
}

#[tokio::test]
async fn nothing_is_written_outside_the_folder() {
    for held in all().await {
        let base = held.base();
        let outside = base.join("outside");
        fs::write(&outside, "old").unwrap();
        let secret = base.join("state/secret");
        std::os::unix::fs::symlink(&outside, held.work().join("link")).unwrap();
        for target in [
            outside.to_str().unwrap(),
            secret.to_str().unwrap(),
            "link",
            "../outside",
            "/etc/tidegate-was-here",
            "/usr/bin/tidegate-was-here",
            "/./root/tidegate-was-here",
            "/var/tmp/../../root/tidegate-was-here",
            "/dev/shm/../../root/tidegate-was-here",
            "/proc/self/root/root/tidegate-was-here",
            "/proc/1/root/root/tidegate-was-here",
            "/tidegate-was-here",
            "/proc/sys/kernel/hostname",
            "/proc/sysrq-trigger",
        ] {
            let script = format!(
                "(echo evil > {target}) 2>/dev/null && echo got; rm -f {target} 2>/dev/null; mv {target} . 2>/dev/null; ln {target} hard 2>/dev/null; true"
            );
            let (_, kept) = held.run(&script).await;
            if target != "link" {
                nothing_came_of(&held, &script, &kept);
            }
            assert_eq!(fs::read_to_string(&outside).unwrap(), "old", "{}: {target}", held.backend.name());
            assert_eq!(fs::read_to_string(&secret).unwrap(), "canary", "{}: {target}", held.backend.name());
        }
        for folder in ["/etc", "/usr/bin", "/root", "/"] {
            assert!(!fs::exists(format!("{folder}/tidegate-was-here")).unwrap());
        }
    }
}

#[tokio::test]
async fn what_is_hidden_is_not_read() {
    for held in all().await {
        let base = held.base();
        let secret = base.join("state/secret");
        std::os::unix::fs::symlink(&secret, held.work().join("link")).unwrap();
        let secret = secret.to_str().unwrap();
        for script in [
            format!("cat {secret} && echo got"),
            "cat link && echo got".to_owned(),
            format!("ls {} && echo got", base.join("state").display()),
            format!("cat /proc/1/root{secret} && echo got"),
            format!("cat /proc/self/root{secret} && echo got"),
            "ls /./root/. && echo got".to_owned(),
            "ls /home/*/.ssh && echo got".to_owned(),
            "test -s /etc/shadow && cat /etc/shadow && echo got".to_owned(),
            "cat /run/docker.sock 2>&1 | grep -v denied | grep -v 'No such' && echo got".to_owned(),
            "mkdir d && ln -s / d/r && cat d/r/etc/shadow | grep root && echo got".to_owned(),
        ] {
            let (_, kept) = held.run(&format!("{{ {script}; }} 2>/dev/null")).await;
            nothing_came_of(&held, &script, &kept);
            assert!(!kept.stdout().contains("canary"), "{}: {script}", held.backend.name());
        }
    }
}

#[tokio::test]
async fn nobody_outside_is_reached_over_any_socket() {
    for held in all().await {
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let path = held.base().join("socket");
        let unix = UnixListener::bind(&path).unwrap();
        let datagrams_at = held.base().join("datagrams");
        let datagrams = UnixDatagram::bind(&datagrams_at).unwrap();
        datagrams.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let abstract_name = format!("tidegate-test-{}-{}", std::process::id(), held.backend.name());
        let hidden = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let hidden = UnixListener::bind_addr(&hidden).unwrap();
        for listener in [&unix, &hidden] {
            listener.set_nonblocking(true).unwrap();
        }
        tcp.set_nonblocking(true).unwrap();
        let program = format!(
            "import socket
def attempt(what):
    try:
        what()
        print('reached')
    except OSError as error:
        print('refused', error)
attempt(lambda: socket.create_connection(('127.0.0.1', {tcp}), 2))
attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp})))
def unix(kind, name, message=None):
    s = socket.socket(socket.AF_UNIX, kind)
    s.connect(name)
    if message: s.send(message)
attempt(lambda: unix(socket.SOCK_STREAM, '{path}'))
attempt(lambda: unix(socket.SOCK_DGRAM, '{datagrams}', b'x'))
attempt(lambda: unix(socket.SOCK_STREAM, '\\0{abstract_name}'))
def pair():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.sendto(b'x', '{datagrams}')
attempt(pair)
attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt(lambda: socket.socket(40, socket.SOCK_STREAM))",
            tcp = tcp.local_addr().unwrap().port(),
            udp = udp.local_addr().unwrap().port(),
            path = path.display(),
            datagrams = datagrams_at.display(),
        );
        let (exit, kept) = held.python(&program).await;
        let name = held.backend.name();
        assert_eq!(exit, Exit::Code(0), "{name}: {}", kept.stderr());
        // Whatever the program believes, nobody was reached.
        assert_eq!(
            tcp.accept().unwrap_err().kind(),
            std::io::ErrorKind::WouldBlock,
            "{name}: {}",
            kept.stdout()
        );
        assert!(udp.recv(&mut [0; 4]).is_err(), "{name}");
        assert_eq!(unix.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "{name}");
        assert_eq!(hidden.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "{name}");
        assert!(datagrams.recv(&mut [0; 4]).is_err(), "{name}");
        let refused = kept.stdout().lines().filter(|line| line.starts_with("refused")).count();
        assert!(refused >= 7, "{name}: {}", kept.stdout());
    }
}

#[tokio::test]
async fn what_is_left_running_dies_with_the_plan_its_abort_and_whoever_holds_it() {
    const CLINGING: &str =
        "(setsid sh -c 'setsid sleep 1000 & trap \"\" TERM HUP INT; sleep 1000; :' >/dev/null 2>&1 &)
        (trap '' TERM HUP; setsid sleep 1000 &); trap '' TERM; echo ready;";
    for held in all().await {
        let name = held.backend.name();
        for (end, tail) in
            [("it ends", ""), ("abort", "while :; do sleep 1000; done"), ("drop", "sleep 1000")]
        {
            let mark = format!("tidegate-held-{}-{name}-{}", std::process::id(), end.len());
            let plan = held.plan(&["sh", "-c", &format!("{CLINGING} {tail}")], &mark);
            let (running, kept) = held.start(&plan, Start::default()).await.unwrap();
            kept.wait_for("ready").await;
            match end {
                "it ends" => assert_eq!(running.wait().await, Exit::Code(0), "{name}"),
                "abort" => {
                    running.kill();
                    assert_eq!(running.wait().await, Exit::Killed, "{name}");
                }
                _ => drop(running),
            }
            until(&format!("{name}, {end}: the end of all"), SOON, || carriers(&mark).is_empty()).await;
        }
    }
}

#[tokio::test]
async fn an_abort_leaves_time_to_clean_up_inside_too() {
    for held in all().await {
        let plan = held.plan(
            &["sh", "-c", "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.02; done"],
            "none",
        );
        let (running, kept) = held.start(&plan, Start::default()).await.unwrap();
        kept.wait_for("ready").await;
        running.kill();
        assert_eq!(running.wait().await, Exit::Killed);
        assert_eq!(kept.stdout(), "ready\ncleaned\n", "{}", held.backend.name());
    }
}

#[tokio::test]
async fn neither_the_gateway_nor_a_supervisor_is_signalled_traced_or_read() {
    for held in all().await {
        let name = held.backend.name();
        let canary = format!("CANARY=x{}", std::process::id());
        let mut victim = std::process::Command::new("sleep")
            .arg("1000")
            .env("CANARY", format!("x{}", std::process::id()))
            .spawn()
            .unwrap();
        let ours = std::process::id();
        let script = format!(
            "for pid in {victim} {ours} $PPID; do kill -KILL $pid; kill -STOP $pid; kill -TERM $pid; cat /proc/$pid/environ; done 2>/dev/null
             cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; echo end",
            victim = victim.id()
        );
        let (exit, kept) = held.run(&script).await;
        assert_eq!(exit, Exit::Code(0), "{name}: {}", kept.stderr());
        assert!(kept.stdout().ends_with("end\n"), "{name}");
        assert!(!kept.stdout().contains(&canary), "{name}: it read the environment of another");
        let state = fs::read_to_string(format!("/proc/{}/stat", victim.id())).unwrap();
        assert!(state.contains(") S "), "{name}: {state}");
        victim.kill().unwrap();
        victim.wait().unwrap();
    }
}

#[tokio::test]
async fn the_settings_of_the_kernel_cannot_be_opened_for_writing() {
    for held in all().await {
        let files = "/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/vm/overcommit_memory /proc/sysrq-trigger /proc/self/root/proc/sys/kernel/core_pattern";
        // Opening is not yet writing: should it work, the machine is still as it was.
        let script =
            format!("for file in {files}; do (exec 3>>$file) 2>/dev/null && echo got $file; done; true");
        let (exit, kept) = held.run(&script).await;
        assert_eq!((exit, kept.stdout().as_str()), (Exit::Code(0), ""), "{}", held.backend.name());
    }
}

/// Calls by number, as no C library offers them all.
#[tokio::test]
async fn calls_that_are_not_for_programs_are_refused() {
    let calls = [
        ("ptrace", libc::SYS_ptrace),
        ("mount", libc::SYS_mount),
        ("bpf", libc::SYS_bpf),
        ("unshare", libc::SYS_unshare),
        ("keyctl", libc::SYS_keyctl),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("kexec_load", libc::SYS_kexec_load),
        ("init_module", libc::SYS_init_module),
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
        ("process_vm_readv", libc::SYS_process_vm_readv),
    ];
    for held in all().await {
        let numbers: Vec<_> = calls.iter().map(|(_, number)| number.to_string()).collect();
        let program = format!(
            "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for number in [{}]:
    ctypes.set_errno(0)
    libc.syscall(number, 0, 0, 0, 0, 0)
    print(ctypes.get_errno())",
            numbers.join(", ")
        );
        let (exit, kept) = held.python(&program).await;
        assert_eq!(exit, Exit::Code(0), "{}", kept.stderr());
        for ((name, _), answer) in calls.iter().zip(kept.stdout().lines()) {
            let refused = [libc::EPERM, libc::ENOSYS].map(|errno| errno.to_string());
            assert!(refused.contains(&answer.to_owned()), "{}: {name}: {answer}", held.backend.name());
        }
        assert_eq!(kept.stdout().lines().count(), calls.len());
    }
}

#[tokio::test]
async fn programs_have_no_capabilities_and_gain_none() {
    let program = "import ctypes
libc = ctypes.CDLL(None)
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
libc.syscall(SYS_capget, header, data)
print(list(data), 'no new privileges:', libc.prctl(39, 0, 0, 0, 0))";
    let program = program.replace("SYS_capget", &libc::SYS_capget.to_string());
    for held in all().await {
        let (_, kept) = held.python(&program).await;
        let none = "[0, 0, 0, 0, 0, 0] no new privileges: 1\n";
        assert_eq!(kept.stdout(), none, "{}: {}", held.backend.name(), kept.stderr());
    }
}

#[tokio::test]
async fn modes_of_files_outside_stay_what_they_are() {
    use std::os::unix::fs::PermissionsExt as _;
    for held in all().await {
        let name = held.backend.name();
        let outside = held.base().join("outside");
        fs::write(&outside, "x").unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o600)).unwrap();
        let script = format!(
            "chmod 777 {0}; chmod 777 {1}; chown 1:1 {0}; touch own; chmod 755 own",
            outside.display(),
            held.base().join("state").display()
        );
        let (exit, kept) = held.run(&script).await;
        assert_eq!(exit, Exit::Code(0), "{name}: {}", kept.stderr());
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&outside), 0o600, "{name}");
        assert_ne!(mode(&held.base().join("state")), 0o777, "{name}");
        assert_eq!(mode(&held.work().join("own")), 0o755, "{name}");
    }
}

#[tokio::test]
async fn a_mode_is_changed_where_files_may_be_and_refused_elsewhere() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    for held in all().await {
        let name = held.backend.name();
        let outside = held.base().join("outside");
        fs::write(&outside, "x").unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&outside, held.work().join("way-out")).unwrap();
        let program = "
import os, threading
os.mkdir('sub'); open('sub/own', 'w').close()
def attempt(what):
    try: what()
    except OSError as error: return type(error).__name__
    return 'done'
folder = os.open('sub', os.O_RDONLY)
file = os.open('sub/own', os.O_RDWR)
system = os.open('/usr/bin/env', os.O_RDONLY)
said = [
    attempt(lambda: os.chmod('sub/own', 0o640)),
    attempt(lambda: os.chmod('own', 0o641, dir_fd=folder)),
    attempt(lambda: os.fchmod(file, 0o642)),
    attempt(lambda: os.chmod('/proc/self/fd/%d' % file, 0o642)),
    attempt(lambda: os.chmod('/proc/thread-self/cwd/sub/own', 0o642)),
    attempt(lambda: os.chmod(os.path.abspath('sub'), 0o750)),
    attempt(lambda: os.chmod('sub/nothing', 0o600)),
    oct(os.stat('sub/own').st_mode), oct(os.stat('sub').st_mode),
]
refused = [
    attempt(lambda: os.chmod('way-out', 0o777)),
    attempt(lambda: os.chmod('../outside', 0o777)),
    attempt(lambda: os.fchmod(system, 0o777)),
    attempt(lambda: os.chmod('/usr/bin/env', 0o777)),
]
threads = [threading.Thread(target=lambda: [os.chmod('sub/own', 0o600) for _ in range(50)]) for _ in range(4)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
print(said, 'done' in refused, oct(os.stat('sub/own').st_mode))";
        let before = fs::metadata("/usr/bin/env").unwrap().permissions();
        let (exit, kept) = held.python(program).await;
        assert_eq!(exit, Exit::Code(0), "{name}: {}", kept.stderr());
        let done =
            "'done', 'done', 'done', 'done', 'done', 'done', 'FileNotFoundError', '0o100642', '0o40750'";
        assert_eq!(kept.stdout(), format!("[{done}] False 0o100600\n"), "{name}");
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&outside), 0o600, "{name}");
        assert_eq!(fs::metadata("/usr/bin/env").unwrap().permissions(), before);
    }
}

#[tokio::test]
async fn programs_that_ask_for_modes_without_end_are_killed_all_the_same() {
    let held = Held::new(super::landlock, None);
    if !held.backend.probe().await.works() {
        return;
    }
    let program = "
import os, threading
open('own', 'w').close()
def ask():
    while True: os.chmod('own', 0o600)
threads = [threading.Thread(target=ask) for _ in range(8)]
[thread.start() for thread in threads]
if os.fork() == 0: ask()
print('asking', flush=True)
ask()";
    let plan = held.plan(&["python3", "-c", program], "none");
    let (running, kept) = held.start(&plan, Start::default()).await.unwrap();
    kept.wait_for("asking").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    running.kill();
    // A second at the most on a machine that does nothing else.
    let exit = tokio::time::timeout(Duration::from_secs(5), running.wait()).await;
    assert_eq!(exit.expect("it was killed in time"), Exit::Killed, "{}", kept.stderr());
}

#[tokio::test]
async fn no_program_is_made_that_runs_with_the_rights_of_its_owner_on_the_machine_itself() {
    let held = Held::new(super::landlock, None);
    if !held.backend.probe().await.works() {
        return;
    }
    let (_, kept) =
        held.run("touch own; chmod 4755 own; stat -c %a own; chmod 2755 own; stat -c %a own").await;
    assert_eq!(kept.stdout(), "644\n644\n", "{}", kept.stderr());
}

#[tokio::test]
async fn the_machine_is_as_it_was_afterwards() {
    let mounts = || {
        let mut text = String::new();
        fs::File::open("/proc/self/mountinfo").unwrap().read_to_string(&mut text).unwrap();
        text.lines().count()
    };
    let before = mounts();
    for held in all().await {
        let (_, _) = held.run("mount -t tmpfs none /mnt; umount /proc; hostname evil; true").await;
        assert_eq!(mounts(), before);
    }
    assert_ne!(fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim(), "evil");
}
