//! Whatever programs in a container do, all of them are gone with their plan, with whoever holds it, with the gateway.

use std::io::BufRead as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tidegate_policy::{Exit, RunError, Running as _, Start};

use super::{Room, room, room_at, run_in, start_in};
use crate::tests::death::{CLINGING, SOON};
use crate::tests::{carriers, marked_as, script, until};

/// An engine is slower than the kernel.
const IN_TIME: Duration = Duration::from_mins(1);

async fn all_are_gone(room: &Room, what: &str, mark: &str) {
    until(&format!("{what}: the end of all"), IN_TIME, || carriers(mark).is_empty()).await;
    let deadline = std::time::Instant::now() + IN_TIME;
    loop {
        let left = room.containers().await;
        if left.is_empty() {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{what}: {left:?} are left");
    }
}

#[tokio::test]
async fn whatever_a_program_does_an_abort_ends_its_container() {
    let Some(room) = room().await else { return };
    // Its parent is the one that passes signals on to it: there it ends itself.
    for (what, text) in CLINGING.into_iter().filter(|(what, _)| *what != "it signals its supervisor") {
        let program = script(text);
        let (running, kept) = start_in(&room.held(), &program.plan, Start::default()).await;
        kept.wait_for("ready").await;
        running.kill();
        assert_eq!(running.wait().await, Exit::Killed, "{what}");
        assert_eq!(carriers(&program.mark), [0; 0], "{what}");
        assert_eq!(room.containers().await, [""; 0], "{what}");
    }
}

#[tokio::test]
async fn nothing_outlives_whoever_holds_it() {
    let Some(room) = room().await else { return };
    for (what, text) in &CLINGING[..2] {
        let program = script(text);
        let (running, kept) = start_in(&room.held(), &program.plan, Start::default()).await;
        kept.wait_for("ready").await;
        drop(running);
        all_are_gone(&room, what, &program.mark).await;
    }
}

#[tokio::test]
async fn a_container_that_is_not_wanted_any_more_when_it_is_made_does_not_stay() {
    let Some(room) = room().await else { return };
    let program = script("echo ready; sleep 1000");
    for patience in [0, 50, 150, 300] {
        let (running, _) = start_in(&room.held(), &program.plan, Start::default()).await;
        tokio::time::sleep(Duration::from_millis(patience)).await;
        running.kill();
        let exit = running.wait().await;
        assert_eq!(exit, Exit::Killed, "after {patience} ms");
        all_are_gone(&room, "it was hardly there", &program.mark).await;
    }
}

#[tokio::test]
async fn what_a_plan_leaves_in_the_background_dies_with_it() {
    let Some(room) = room().await else { return };
    let program =
        script("(setsid sleep 1000 &); (trap '' TERM HUP; setsid sh -c 'sleep 1000; :' &); echo left");
    let (exit, kept) = run_in(&room.held(), &program.plan).await;
    assert_eq!((exit, kept.stdout().as_str()), (Exit::Code(0), "left\n"));
    assert_eq!(carriers(&program.mark), [0; 0]);
    assert_eq!(room.containers().await, [""; 0]);
}

#[tokio::test]
async fn an_abort_leaves_time_to_clean_up() {
    let Some(room) = room().await else { return };
    let program = script("trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.02; done");
    let (running, kept) = start_in(&room.held(), &program.plan, Start::default()).await;
    kept.wait_for("ready").await;
    running.kill();
    assert_eq!(running.wait().await, Exit::Killed);
    assert_eq!(kept.stdout(), "ready\ncleaned\n");
}

#[tokio::test]
async fn a_killed_supervisor_takes_its_container_along() {
    let Some(room) = room().await else { return };
    let program = script("(setsid sleep 1000 &); trap '' TERM; echo ready; sleep 1000");
    let (running, kept) = start_in(&room.held(), &program.plan, Start::default()).await;
    kept.wait_for("ready").await;
    kill_process(Pid::from_raw(running.pid().try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    let exit = running.wait().await;
    assert!(matches!(exit, Exit::Failed(RunError::Supervisor(_))), "{exit:?}");
    all_are_gone(&room, "its supervisor was killed", &program.mark).await;
}

/// Not a test: this executable as a gateway that starts a container and waits to be killed.
#[test]
fn entry_of_a_gateway() {
    let Some(root) = std::env::var_os("CONTAINER_ROOT") else { return };
    let mark = std::env::var("CONTAINER_MARK").unwrap();
    let program =
        marked_as(mark, &["sh", "-c", "trap '' TERM; (setsid sleep 1000 &); echo ready; sleep 1000"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let root = TempDir::new_in(root).unwrap();
        // The installation is the one of the test.
        let mut room = room_at(root).await.unwrap();
        room.container.site = crate::tests::site(std::env::var_os("CONTAINER_ROOT").unwrap().into(), None);
        let (running, kept) = start_in(&room.held(), &program.plan, Start::default()).await;
        kept.wait_for("ready").await;
        println!("gateway is ready {}", running.pid());
        std::future::pending::<()>().await;
    });
}

/// A gateway with a container, and the process id of the container's supervisor.
fn gateway(room: &Room, mark: &str) -> (Child, Pid) {
    std::fs::create_dir_all(&room.container.site.places).unwrap();
    let mut gateway = Command::new(std::env::current_exe().unwrap())
        .args(["container::tests::death::entry_of_a_gateway", "--exact", "--nocapture"])
        .env("CONTAINER_ROOT", &room.container.site.places)
        .env("CONTAINER_MARK", mark)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(gateway.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).find(|line| line.contains("gateway is ready")).unwrap();
    let supervisor = ready.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(!carriers(mark).is_empty());
    (gateway, Pid::from_raw(supervisor).unwrap())
}

#[tokio::test]
async fn a_container_dies_with_a_gateway_that_is_killed() {
    let Some(room) = room().await else { return };
    let mark = format!("tidegate-container-{}", std::process::id());
    let (mut gateway, _) = gateway(&room, &mark);
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    all_are_gone(&room, "its gateway was killed", &mark).await;
}

#[tokio::test]
async fn what_a_gateway_left_that_died_with_its_supervisors_is_removed_by_the_next() {
    let Some(room) = room().await else { return };
    let mark = format!("tidegate-container-{}-both", std::process::id());
    let (mut gateway, supervisor) = gateway(&room, &mark);
    // One that runs on is left alone.
    room.container.remove_stale().await;
    assert_eq!(room.containers().await.len(), 1);
    for victim in [Pid::from_raw(gateway.id().try_into().unwrap()).unwrap(), supervisor] {
        kill_process(victim, Signal::STOP).unwrap();
    }
    kill_process(supervisor, Signal::KILL).unwrap();
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    assert_eq!(room.containers().await.len(), 1);
    room.container.remove_stale().await;
    assert_eq!(room.containers().await, [""; 0]);
    until("the end of all", SOON, || carriers(&mark).is_empty()).await;
}
