//! Whatever a program does, it and everything it started are dead when its plan has ended, is aborted or dropped, and
//! when the gateway dies.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tidegate_policy::{Exit, RunError, Running as _, Start};

use super::{Kept, carriers, host, marked_as, script, start, until};
use crate::{Host, Supervisor};

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Programs that cling to life. All say `ready` when they have done their worst, and end only if they are ended. Those
/// that fork are limited by their own text: where the tests run as root, the system sets no limit.
pub(crate) const CLINGING: [(&str, &str); 9] = [
    (
        "it daemonises",
        "(setsid sh -c 'setsid sleep 1000 & sleep 1000' >/dev/null 2>&1 &); echo ready; sleep 1000",
    ),
    ("it ignores SIGTERM", "trap '' TERM HUP INT; echo ready; while :; do sleep 1000; done"),
    (
        "it is two hundred processes",
        "f() { if [ $1 -gt 0 ]; then f $(($1 - 1)) & f $(($1 - 1)) & fi; sleep 1000; }; f 6 & sleep 0.2; echo ready; sleep 1000",
    ),
    (
        "it is reborn in another session all the time",
        "export N=400 R='N=$((N - 1)); [ $N -gt 0 ] || exit; sleep 0.01; setsid sh -c \"$R\" >/dev/null 2>&1 &'; i=0
         while [ $i -lt 8 ]; do sh -c \"$R\"; i=$((i + 1)); done; echo ready; sleep 1000",
    ),
    ("it closes its streams", "echo ready; exec </dev/null >/dev/null 2>&1; sleep 1000 & sleep 1000"),
    (
        "it holds the streams in the background",
        "(setsid sleep 1000 &); (trap '' HUP; sleep 1000) & echo ready; wait",
    ),
    ("it stops itself", "echo ready; kill -STOP $$"),
    (
        "it kills its own group",
        "(setsid sleep 1000 &); trap '' TERM; sleep 1000 & echo ready; kill -TERM 0; sleep 1000",
    ),
    (
        "it signals its supervisor",
        "for s in TERM INT HUP QUIT USR1 ALRM; do kill -$s $PPID; done; echo ready; sleep 1000",
    ),
];

async fn all_are_gone(what: &str, mark: &str) {
    until(&format!("{what}: the end of all"), SOON, || carriers(mark).is_empty()).await;
}

#[tokio::test]
async fn whatever_a_program_does_an_abort_ends_it_and_everything_it_started() {
    for (what, text) in CLINGING {
        let program = script(text);
        let (running, kept) = start(&program.plan, Start::default()).await.unwrap();
        kept.wait_for("ready").await;
        let since = Instant::now();
        running.kill();
        assert_eq!(running.wait().await, Exit::Killed, "{what}");
        assert_eq!(carriers(&program.mark), [0; 0], "{what}");
        assert!(since.elapsed() < SOON, "{what}: it took {:?}", since.elapsed());
    }
}

#[tokio::test]
async fn whatever_a_program_does_nothing_outlives_whoever_holds_it() {
    for (what, text) in CLINGING {
        let program = script(text);
        let (running, kept) = start(&program.plan, Start::default()).await.unwrap();
        kept.wait_for("ready").await;
        drop(running);
        all_are_gone(what, &program.mark).await;
    }
}

#[tokio::test]
async fn a_start_that_nobody_waits_for_leaves_nothing() {
    let program = script("echo ready; sleep 1000");
    for patience in [0, 1, 3, 10, 30] {
        let _ = tokio::time::timeout(Duration::from_millis(patience), start(&program.plan, Start::default()))
            .await;
        all_are_gone("dropped at its start", &program.mark).await;
    }
}

#[tokio::test]
async fn what_a_plan_leaves_in_the_background_dies_with_it() {
    let text =
        "(setsid sleep 1000 &); sleep 1000 & (trap '' TERM HUP; setsid sh -c 'sleep 1000; :' &); echo left";
    let program = script(text);
    let (exit, kept) = super::run(&program.plan).await;
    assert_eq!((exit, kept.stdout().as_str()), (Exit::Code(0), "left\n"));
    assert_eq!(carriers(&program.mark), [0; 0]);
}

#[tokio::test]
async fn an_abort_leaves_time_to_clean_up() {
    let program = script("trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.02; done");
    let (running, kept) = start(&program.plan, Start::default()).await.unwrap();
    kept.wait_for("ready").await;
    running.kill();
    assert_eq!(running.wait().await, Exit::Killed);
    assert_eq!(kept.stdout(), "ready\ncleaned\n");
}

#[tokio::test]
async fn an_aborted_plan_takes_no_further_step() {
    use tidegate_policy::exec::Join;
    let first = super::launch(&["sh", "-c", "echo ready; sleep 1000"]);
    let steps = vec![
        super::step(Join::Then, vec![first]),
        super::step(Join::Or, vec![super::launch(&["echo", "or"])]),
        super::step(Join::Then, vec![super::launch(&["echo", "then"])]),
    ];
    let env = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into();
    let (running, kept) = start(&super::plan_of(&steps, "/", &env), Start::default()).await.unwrap();
    kept.wait_for("ready").await;
    running.kill();
    assert_eq!(running.wait().await, Exit::Killed);
    assert_eq!(kept.stdout(), "ready\n");
}

/// Not a test: this executable as a gateway that starts a program and waits to be killed.
#[test]
fn entry_of_a_gateway() {
    if std::env::var_os("GATEWAY_MARK").is_none() {
        return;
    }
    let [mark, text] = ["GATEWAY_MARK", "GATEWAY_SCRIPT"].map(|name| std::env::var(name).unwrap());
    let program = marked_as(mark, &["sh", "-c", &text]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (_running, kept) = start(&program.plan, Start::default()).await.unwrap();
        kept.wait_for("ready").await;
        println!("gateway is ready");
        std::future::pending::<()>().await;
    });
}

#[tokio::test]
async fn whatever_a_program_does_it_dies_with_a_gateway_that_is_killed() {
    use std::io::BufRead as _;
    for (index, (what, text)) in CLINGING.into_iter().enumerate() {
        let mark = format!("tidegate-gateway-{}-{index}", std::process::id());
        let mut gateway = Command::new(std::env::current_exe().unwrap())
            .args(["tests::death::entry_of_a_gateway", "--exact", "--nocapture"])
            .env("GATEWAY_MARK", &mark)
            .env("GATEWAY_SCRIPT", text)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(gateway.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("gateway is ready")), "{what}");
        assert!(!carriers(&mark).is_empty(), "{what}");
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        all_are_gone(what, &mark).await;
    }
}

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// Everything in its session goes. What left the session before is beyond reach without a confining profile.
#[tokio::test]
async fn a_killed_supervisor_is_told_and_takes_its_session_along() {
    let program = script("(trap '' HUP; sleep 1000 & sleep 1000) & echo ready; sh -c 'sleep 1000; :'");
    let (running, kept) = start(&program.plan, Start::default()).await.unwrap();
    kept.wait_for("ready").await;
    send(running.pid(), Signal::KILL);
    let exit = running.wait().await;
    assert!(matches!(exit, Exit::Failed(RunError::Supervisor(_))), "{exit:?}");
    assert_eq!(carriers(&program.mark), [0; 0]);
}

#[tokio::test]
async fn a_program_that_kills_its_supervisor_does_not_gain_by_it() {
    let program = script("trap '' HUP; sleep 1000 & kill -KILL -- -$PPID; kill -KILL $PPID; sleep 1000");
    let (exit, _) = match start(&program.plan, Start::default()).await {
        Ok((running, kept)) => (running.wait().await, kept),
        Err(error) => (Exit::Failed(error), Arc::default()),
    };
    assert!(matches!(exit, Exit::Failed(RunError::Supervisor(_))), "{exit:?}");
    all_are_gone("its supervisor was killed", &program.mark).await;
}

#[tokio::test]
async fn a_supervisor_that_was_stopped_does_not_save_its_programs() {
    let program = script("(setsid sleep 1000 &); echo ready; while :; do kill -STOP $PPID; sleep 0.05; done");
    let (running, kept) = start(&program.plan, Start::default()).await.unwrap();
    kept.wait_for("ready").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    running.kill();
    assert_eq!(running.wait().await, Exit::Killed);
    assert_eq!(carriers(&program.mark), [0; 0]);
}

#[tokio::test]
async fn a_supervisor_that_cannot_be_started_is_told() {
    let nowhere = Supervisor { program: "/nowhere/tidegate".into(), args: Vec::new() };
    let kept = Arc::<Kept>::default();
    let program = script("true");
    let error = Host::new(nowhere).start_plan(&program.plan, Start::default(), kept).await.err();
    assert!(matches!(error, Some(RunError::Supervisor(_))));
    // The same plan is fine under a real one.
    assert!(host().start_plan(&program.plan, Start::default(), Arc::<Kept>::default()).await.is_ok());
}

#[tokio::test]
async fn a_supervisor_that_does_not_answer_is_given_up_and_ended() {
    let plan = script("echo never").plan;
    let mark = format!("{}.25", 1_000_000 + std::process::id());
    let deaf = Supervisor { program: "/bin/sleep".into(), args: vec![mark.clone().into()] };
    let mut host = Host::new(deaf);
    host.starting = Duration::from_millis(300);
    let started = host.start_plan(&plan, Start::default(), Arc::new(Kept::default())).await;
    assert_eq!(started.err(), Some(RunError::Supervisor("it does not answer".to_owned())));
    let is_alive = || {
        fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
        })
    };
    assert!(!is_alive());
}
