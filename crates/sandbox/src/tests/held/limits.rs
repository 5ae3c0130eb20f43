//! What all programs of a plan use together has an end, and the end says why.

use std::time::{Duration, Instant};

use tidegate_policy::{Exit, Resource, Start};

use super::super::{carriers, until};
use super::{LIMITS, all};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_fork_bomb_is_ended_and_told() {
    for held in all().await {
        let name = held.backend.name();
        let mark = format!("tidegate-bomb-{}-{name}", std::process::id());
        // Limited by its own text too, should nothing else limit it.
        let bomb =
            "f() { [ $1 -gt 0 ] && { f $(($1 - 1)) & f $(($1 - 1)) & }; sleep 1000; }; f 10; sleep 1000";
        let plan = held.plan(&["sh", "-c", bomb], &mark);
        let since = Instant::now();
        let (running, _) = held.start(&plan, Start::default()).await.unwrap();
        let limit = Exit::Limit { what: Resource::Processes, limit: LIMITS.processes.into() };
        assert_eq!(running.wait().await, limit, "{name}");
        assert!(since.elapsed() < SOON, "{name}");
        until("the end of all", SOON, || carriers(&mark).is_empty()).await;
    }
}

#[tokio::test]
async fn a_program_that_fills_the_memory_is_ended_and_told() {
    for held in all().await {
        let name = held.backend.name();
        let (exit, _) =
            held.python("b = bytearray(2 << 30)\nfor i in range(0, len(b), 4096): b[i] = 1").await;
        // One whose request is refused at once ends by itself.
        let limit = Exit::Limit { what: Resource::Memory, limit: LIMITS.memory };
        assert!(exit == limit || exit == Exit::Code(1), "{name}: {exit:?}");
        let pieces = "import time
all = []
for i in range(600):
    all.append(bytearray(b'x') * (1 << 20))
    time.sleep(0.002)
time.sleep(1000)";
        assert_eq!(held.python(pieces).await.0, limit, "{name}");
    }
}

#[tokio::test]
async fn many_programs_that_fill_the_memory_together_are_ended_and_told() {
    for held in all().await {
        let one = "python3 -c \"import time; b = b'x' * (60 << 20); time.sleep(1000)\"";
        let (exit, _) = held.run(&format!("for i in 1 2 3 4 5 6; do {one} & done; wait; sleep 1000")).await;
        assert_eq!(
            exit,
            Exit::Limit { what: Resource::Memory, limit: LIMITS.memory },
            "{}",
            held.backend.name()
        );
    }
}

#[tokio::test]
async fn a_program_that_fills_the_disk_is_ended_and_told() {
    for held in all().await {
        let name = held.backend.name();
        let script = "i=0; while [ $i -lt 400 ]; do head -c 1000000 /dev/zero > file$i; i=$((i + 1)); done; sleep 1000";
        let (exit, kept) = held.run(script).await;
        let limit = Exit::Limit { what: Resource::Disk, limit: LIMITS.disk };
        assert_eq!(exit, limit, "{name}: {}", kept.stderr());
        // One file cannot be larger at all, whether it is written or only claimed.
        let (_, kept) = held.run("fallocate -l 1G claimed 2>/dev/null; truncate -s 1G huge 2>/dev/null; ls -s claimed huge 2>/dev/null | awk '$1 > 100000'").await;
        assert_eq!(kept.stdout(), "", "{name}");
        let plan = held.plan(&["dd", "if=/dev/zero", "of=huge", "bs=1M", "count=100"], "none");
        let (running, _) = held.start(&plan, Start::default()).await.unwrap();
        assert_eq!(running.wait().await, limit, "{name}");
    }
}

#[tokio::test]
async fn shared_memory_has_an_end_too() {
    for held in all().await {
        let (exit, kept) = held
            .run("head -c 2000000000 /dev/zero > /dev/shm/fill 2>/dev/null; rm -f /dev/shm/fill; echo over")
            .await;
        let is_over = exit == Exit::Code(0) && kept.stdout() == "over\n";
        let memory = Exit::Limit { what: Resource::Memory, limit: LIMITS.memory };
        assert!(is_over || exit == memory, "{}: {exit:?}", held.backend.name());
        assert!(!std::path::Path::new("/dev/shm/fill").exists());
    }
}

#[tokio::test]
async fn no_group_is_left_behind() {
    for held in all().await {
        let plan = held.plan(&["true"], "none");
        let (running, _) = held.start(&plan, Start::default()).await.unwrap();
        let pid = running.pid();
        assert_eq!(running.wait().await, Exit::Code(0));
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        for line in own.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next().unwrap(), parts.next().unwrap());
            let folder = format!("/sys/fs/cgroup/{controllers}{path}/tidegate-{pid}");
            assert!(!std::path::Path::new(&folder).exists(), "{folder}");
        }
    }
}
