//! Input and output: complete, bounded, and never in anybody's way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_policy::{Exit, PtySize, RunError, Running as _, Sink, Start, Stream};

use super::{carriers, host, marked, run, script, start};

const WITH_INPUT: Start = Start { pty: None, input: true };
const TERMINAL: Start = Start { pty: Some(PtySize { columns: 120, rows: 30 }), input: true };

#[tokio::test]
async fn output_and_errors_are_told_apart_and_complete_at_the_end() {
    let (exit, kept) = run(&script("seq 1 50000; echo oops >&2; exit 7").plan).await;
    assert_eq!(exit, Exit::Code(7));
    let lines: Vec<_> = (1..=50000).map(|number| number.to_string()).collect();
    assert!(kept.stdout().lines().eq(lines));
    assert_eq!(kept.stderr(), "oops\n");
}

#[tokio::test]
async fn without_input_a_program_reads_the_end_at_once() {
    let (exit, kept) = run(&marked(&["cat"]).plan).await;
    assert_eq!((exit, kept.stdout().as_str()), (Exit::Code(0), ""));
}

#[tokio::test]
async fn what_is_written_is_read_until_the_input_is_closed() {
    let (running, kept) = start(&marked(&["cat"]).plan, WITH_INPUT).await.unwrap();
    running.write(b"one ").await.unwrap();
    kept.wait_for("one ").await;
    let long = vec![b'x'; 300_000];
    running.write(&long).await.unwrap();
    running.close_input().await.unwrap();
    assert_eq!(running.wait().await, Exit::Code(0));
    assert_eq!(kept.stdout().len(), 4 + long.len());
    assert_eq!(running.write(b"more").await, Err(RunError::Ended));
    assert_eq!(running.close_input().await, Err(RunError::Ended));
}

#[tokio::test]
async fn writing_to_somebody_who_does_not_read_ends_with_the_program() {
    let (running, _kept) = start(&marked(&["sleep", "1000"]).plan, WITH_INPUT).await.unwrap();
    let running = Arc::new(running);
    let writer = Arc::clone(&running);
    let write = tidegate_runtime::spawn("writer", async move { writer.write(&vec![0; 1_000_000]).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    running.kill();
    assert_eq!(running.wait().await, Exit::Killed);
    assert_eq!(write.join().await.unwrap(), Err(RunError::Ended));
}

/// Counts, keeps nothing.
#[derive(Default)]
struct Counted(AtomicU64);

impl Sink for Counted {
    fn write(&self, _stream: Stream, bytes: &[u8]) {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
}

fn resident_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

async fn flood(bytes: u64) {
    let counted = Arc::new(Counted::default());
    let before = resident_kilobytes();
    let flood = marked(&["head", "-c", &bytes.to_string(), "/dev/zero"]);
    let running = host().start_plan(&flood.plan, Start::default(), counted.clone()).await.unwrap();
    let mut longest = Duration::ZERO;
    let exit = loop {
        let since = Instant::now();
        tokio::select! {
            exit = running.wait() => break exit,
            () = tokio::time::sleep(Duration::from_millis(1)) => longest = longest.max(since.elapsed()),
        }
    };
    assert_eq!((exit, counted.0.load(Ordering::Relaxed)), (Exit::Code(0), bytes));
    assert!(resident_kilobytes() < before + 64 * 1024, "the output was kept");
    assert!(longest < Duration::from_secs(1), "others waited for {longest:?}");
}

#[tokio::test]
async fn a_program_that_prints_a_gigabyte_neither_fills_the_memory_nor_holds_up_others() {
    flood(1_000_000_000).await;
}

#[tokio::test]
async fn a_terminal_is_one_with_the_size_that_was_asked_for() {
    let plan =
        script("test -t 0 && test -t 1 && test -t 2 && stty size && echo done </dev/tty; echo err >&2").plan;
    let (running, kept) = start(&plan, TERMINAL).await.unwrap();
    assert_eq!(running.wait().await, Exit::Code(0));
    assert_eq!((kept.stdout().as_str(), kept.stderr().as_str()), ("30 120\r\ndone\r\nerr\r\n", ""));
}

#[tokio::test]
async fn a_terminal_takes_lines_the_end_of_input_and_an_interruption() {
    let (running, kept) = start(&marked(&["cat"]).plan, TERMINAL).await.unwrap();
    running.write(b"a line\n").await.unwrap();
    kept.wait_for("a line\r\na line\r\n").await;
    running.write(b"and a half").await.unwrap();
    running.close_input().await.unwrap();
    assert_eq!(running.wait().await, Exit::Code(0));
    assert!(kept.stdout().ends_with("and a halfand a half"), "{:?}", kept.stdout());

    // Not a shell: one that is just about to start a program may overhear an interrupt.
    let (running, _) = start(&marked(&["sleep", "1000"]).plan, TERMINAL).await.unwrap();
    running.write(&[3]).await.unwrap();
    assert_eq!(running.wait().await, Exit::Signal(2));
}

#[tokio::test]
async fn every_step_of_a_plan_may_read_from_the_terminal() {
    use tidegate_policy::exec::Join;
    let read = super::launch(&["head", "-n", "1"]);
    let pipeline = vec![super::launch(&["head", "-n", "1"]), super::launch(&["tr", "a-z", "A-Z"])];
    let steps = vec![super::step(Join::Then, vec![read]), super::step(Join::And, pipeline)];
    let plan = super::plan_of(&steps, "/", &std::collections::BTreeMap::new());
    let (running, kept) = start(&plan, TERMINAL).await.unwrap();
    running.write(b"one\n").await.unwrap();
    kept.wait_for("one\r\none\r\n").await;
    running.write(b"two\n").await.unwrap();
    assert_eq!(running.wait().await, Exit::Code(0));
    assert!(kept.stdout().ends_with("TWO\r\n"), "{:?}", kept.stdout());
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn zombies() -> usize {
    let own = std::process::id().to_string();
    let stats = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
        let rest: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').take(2).map(str::to_owned).collect();
        (rest == ["Z", own.as_str()]).then_some(())
    });
    stats.count()
}

#[tokio::test]
async fn many_plans_leave_neither_open_files_nor_zombies() {
    let mut before = None;
    for round in 0..40 {
        let start_as = if round % 2 == 0 { WITH_INPUT } else { TERMINAL };
        let plan = marked(&["true"]);
        let (running, _kept) = start(&plan.plan, start_as).await.unwrap();
        assert_eq!(running.wait().await, Exit::Code(0));
        drop(running);
        // The first rounds open what the runtime and the standard library keep.
        if round == 3 {
            before = Some(open_files());
        }
        assert_eq!(carriers(&plan.mark), [0; 0]);
    }
    assert!(Some(open_files()) <= before, "{} files are open, {before:?} at first", open_files());
    assert_eq!(zombies(), 0);
}
