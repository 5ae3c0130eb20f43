//! Programs that try to get out, to reach somebody, or to use up the machine.

use std::fs;
use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use tidegate_policy::{Access, Exit, Resource};

use super::{room, run_in};
use crate::tests::{carriers, script};

/// Runs a text and says how it ended and what it printed.
async fn outcome(held: &crate::container::runner::Held, text: &str) -> (Exit, String) {
    let program = script(&format!("export PERL_BADLANG=0\n{text}"));
    let (exit, kept) = run_in(held, &program.plan).await;
    assert_eq!(carriers(&program.mark), [0; 0], "{text}");
    (exit, kept.stdout() + &kept.stderr())
}

#[tokio::test]
async fn a_container_writes_nowhere_but_in_its_own_folders() {
    let Some(room) = room().await else { return };
    let outside = room.root.path().join("outside");
    let text = format!(
        "for file in /x /etc/x /bin/x /./root/x /proc/sys/kernel/hostname /sys/x {}; do
           (echo gone > $file) 2>/dev/null && echo wrote $file
         done
         for folder in {} /tmp /var/tmp /run $HOME; do (echo fine > $folder/x) || echo cannot write $folder; done",
        outside.display(),
        room.work().display()
    );
    assert_eq!(outcome(&room.held(), &text).await, (Exit::Code(0), String::new()));
    assert!(!outside.exists());
    assert_eq!(fs::read_to_string(room.work().join("x")).unwrap(), "fine\n");
}

#[tokio::test]
async fn a_container_that_may_only_look_cannot_write() {
    let Some(room) = room().await else { return };
    fs::write(room.work().join("text"), "as it was").unwrap();
    let held = room.held_so(|confinement| confinement.access = Access::ReadOnly);
    let text = format!("cd {} && cat text && rm -f text; echo x > text; echo x > new", room.work().display());
    let (exit, said) = outcome(&held, &text).await;
    assert_ne!(exit, Exit::Code(0));
    assert!(said.contains("as it was") && said.contains("ead-only file system"), "{said}");
    assert_eq!(fs::read_to_string(room.work().join("text")).unwrap(), "as it was");
    assert!(!room.work().join("new").exists());
}

#[tokio::test]
async fn a_container_sees_neither_the_state_nor_root_nor_other_processes() {
    let Some(room) = room().await else { return };
    let secret = room.root.path().join("places/agent-main/secret");
    fs::create_dir_all(secret.parent().unwrap()).unwrap();
    fs::write(&secret, "of the state").unwrap();
    fs::create_dir(room.work().join("inner")).unwrap();
    fs::write(room.work().join("inner/secret"), "of the state").unwrap();
    let held = room.held_so(|confinement| {
        let inner = confinement.folder.join("inner");
        confinement.hidden.push(inner);
    });
    let text = format!(
        "cat {} {}/inner/secret 2>/dev/null; ls -A /root; ls -d /home/* 2>/dev/null; cat /proc/{}/environ; ls -d /proc/[0-9]* | wc -l",
        secret.display(),
        room.work().display(),
        std::process::id()
    );
    let (_, said) = outcome(&held, &text).await;
    let lines: Vec<_> = said.lines().filter(|line| !line.contains("can't open")).collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert_eq!(lines[0], "/home/agent");
    assert!(lines[1].trim().parse::<u32>().unwrap() < 10, "{said}");
}

#[tokio::test]
async fn a_container_without_network_reaches_nobody() {
    let Some(room) = room().await else { return };
    let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
    let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
    udp.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let path = room.root.path().join("socket");
    let unix = UnixListener::bind(&path).unwrap();
    let name = format!("tidegate-test-{}", std::process::id());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    for listener in [&unix, &hidden] {
        listener.set_nonblocking(true).unwrap();
    }
    tcp.set_nonblocking(true).unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let text = format!(
        r#"nc -w 1 127.0.0.1 {tcp_port} </dev/null && echo tcp
           echo x | nc -u -w 1 127.0.0.1 {udp_port}; echo x | nc -u -w 1 192.0.2.1 {udp_port}
           nc -w 1 192.0.2.1 80 </dev/null && echo out
           perl -e 'socket(S,1,1,0); connect(S, pack("Sa*", 1, "{}")) and print "unix\n"'
           perl -e 'socket(S,1,1,0); connect(S, pack("Sa*", 1, "\0{name}")) and print "abstract\n"'
           nslookup example.com >/dev/null 2>&1 && echo names; true"#,
        path.display()
    );
    let program = script(&text);
    let (exit, kept) = run_in(&room.held(), &program.plan).await;
    assert_eq!((exit, kept.stdout().as_str()), (Exit::Code(0), ""), "{}", kept.stderr());
    assert!(tcp.accept().is_err() && unix.accept().is_err() && hidden.accept().is_err());
    assert!(udp.recv(&mut [0; 8]).is_err());
}

#[tokio::test]
async fn a_container_can_neither_mount_nor_trace_nor_gain_rights() {
    let Some(room) = room().await else { return };
    let text = format!(
        r#"mount -t tmpfs none /mnt 2>/dev/null && echo mounts
           mknod /tmp/disk b 8 0 2>/dev/null && echo makes devices
           chown 12345 /tmp 2>/dev/null && echo gives away
           perl -e 'syscall(272, 0x10000000) == 0 and print "a user namespace\n"'
           perl -e 'syscall(272, 0x00020000) == 0 and print "a mount namespace\n"'
           perl -e 'syscall(101, 16, {pid}, 0, 0) == 0 and print "traces a process of the machine\n"'
           kill -0 {pid} 2>/dev/null && echo sees a process of the machine
           perl -e 'syscall(321, 0, 0, 0) >= 0 and print "bpf\n"'
           perl -e 'syscall(169, 0xfee1dead, 672274793, 0) == 0 and print "reboot control\n"'
           hostname taken 2>/dev/null && echo renames
           while read -r key value; do case $key in NoNewPrivs:|CapEff:|CapBnd:) echo $key $value;; esac; done </proc/self/status"#,
        pid = std::process::id()
    );
    let (exit, said) = outcome(&room.held(), &text).await;
    let none = "0000000000000000";
    assert_eq!((exit, said), (Exit::Code(0), format!("CapEff: {none}\nCapBnd: {none}\nNoNewPrivs: 1\n")));
}

#[tokio::test]
async fn a_fork_bomb_stays_within_its_number_of_processes() {
    let Some(room) = room().await else { return };
    let held = room.held_so(|confinement| confinement.limits.processes = 40);
    let text =
        "perl -e '$n = 0; while (defined($p = fork)) { if (!$p) { sleep 1000 } $n++ } print \"$n\\n\"'";
    let (exit, said) = outcome(&held, text).await;
    let forked: u32 = said.trim().parse().unwrap();
    assert_eq!(exit, Exit::Code(0));
    assert!((20..40).contains(&forked), "{forked}");
    let bomb = script("perl -e 'while (1) { fork }'");
    let (running, _) = super::start_in(&held, &bomb.plan, tidegate_policy::Start::default()).await;
    crate::tests::until("the bomb", crate::tests::death::SOON, || carriers(&bomb.mark).len() > 10).await;
    assert!(carriers(&bomb.mark).len() <= 40);
    tidegate_policy::Running::kill(&running);
    assert_eq!(tidegate_policy::Running::wait(&running).await, Exit::Killed);
    assert_eq!(carriers(&bomb.mark), [0; 0]);
}

#[tokio::test]
async fn memory_beyond_the_limit_ends_the_program_and_not_the_machine() {
    let Some(room) = room().await else { return };
    let held = room.held_so(|confinement| confinement.limits.memory = 64 << 20);
    let (exit, said) = outcome(&held, "exec perl -e '$x = \"a\" x (1 << 20); $x .= $x while 1'").await;
    assert!(matches!(exit, Exit::Code(137 | 1) | Exit::Signal(9) | Exit::Limit { .. }), "{exit:?} {said}");
    // What lies in memory as files counts, too.
    let (exit, said) = outcome(&held, "dd if=/dev/zero of=/dev/shm/x bs=1M count=200 2>&1").await;
    assert_ne!(exit, Exit::Code(0), "{said}");
    let (exit, _) = outcome(&held, "echo still here").await;
    assert_eq!(exit, Exit::Code(0));
}

#[tokio::test]
async fn a_file_does_not_grow_beyond_the_limit() {
    let Some(room) = room().await else { return };
    let held = room.held_so(|confinement| confinement.limits.disk = 4 << 20);
    let file = room.work().join("big");
    let text = format!("dd if=/dev/zero of={} bs=1M count=64 2>/dev/null", file.display());
    let (exit, said) = outcome(&held, &text).await;
    assert_ne!(exit, Exit::Code(0), "{said}");
    let mut first = [1; 16];
    fs::File::open(&file).unwrap().read_exact(&mut first).unwrap();
    assert!(fs::metadata(&file).unwrap().len() <= 4 << 20);
}

#[tokio::test]
async fn many_files_do_not_grow_beyond_the_limit_together() {
    let Some(room) = room().await else { return };
    let held = room.held_so(|confinement| confinement.limits.disk = 16 << 20);
    let text = format!(
        "cd {} && i=0; while :; do dd if=/dev/zero of=$i bs=1M count=2 2>/dev/null; sleep 0.02; i=$((i + 1)); done",
        room.work().display()
    );
    let (exit, _) = outcome(&held, &text).await;
    assert_eq!(exit, Exit::Limit { what: Resource::Disk, limit: 16 << 20 });
    let written: u64 =
        fs::read_dir(room.work()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(written < 256 << 20, "{written}");
}
