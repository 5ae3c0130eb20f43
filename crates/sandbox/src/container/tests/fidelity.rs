//! What a container runs is what was permitted: these words, this environment, these streams.

use std::collections::BTreeMap;
use std::fs;

use tidegate_policy::exec::Join;
use tidegate_policy::{Exit, PtySize, Running as _, Start};

use super::{room, run_in, start_in};
use crate::tests::{carriers, launch, plan_of, script, step, until};

fn path() -> BTreeMap<String, String> {
    BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())])
}

#[tokio::test]
async fn words_and_exit_codes_arrive_as_they_are() {
    let Some(room) = room().await else { return };
    let words = ["printf", "<%s>", "a b", "", "it's", "\"$HOME\" `id` \\ *", "-n", "line\nline", "ü"];
    let plan = plan_of(&[step(Join::Then, vec![launch(&words)])], "/", &path());
    let (exit, kept) = run_in(&room.held(), &plan).await;
    assert_eq!(exit, Exit::Code(0), "{}", kept.stderr());
    assert_eq!(kept.stdout(), "<a b><><it's><\"$HOME\" `id` \\ *><-n><line\nline><ü>");
    let program = script("echo to errors >&2; exit 41");
    let (exit, kept) = run_in(&room.held(), &program.plan).await;
    assert_eq!(
        (exit, kept.stdout(), kept.stderr()),
        (Exit::Code(41), String::new(), "to errors\n".to_owned())
    );
    let (exit, _) = run_in(&room.held(), &script("kill -9 $$").plan).await;
    assert_eq!(exit, Exit::Code(137));
}

#[tokio::test]
async fn steps_are_taken_as_a_shell_would() {
    let Some(room) = room().await else { return };
    let say = |text: &str| vec![launch(&["echo", text])];
    let steps = [
        step(Join::Then, say("\\tone")),
        step(
            Join::And,
            vec![launch(&["printf", "b\\na\\n"]), launch(&["sort"]), launch(&["head", "-n", "1"])],
        ),
        step(Join::Or, say("not this")),
        step(Join::Then, vec![launch(&["false"])]),
        step(Join::And, say("nor this")),
        step(Join::Or, vec![launch(&["sh", "-c", "echo that; exit 3"])]),
    ];
    let (exit, kept) = run_in(&room.held(), &plan_of(&steps, "/", &path())).await;
    // The programs of the image print, not what its shell has built in: that one would read `\t`.
    assert_eq!((exit, kept.stdout().as_str()), (Exit::Code(3), "\\tone\na\nthat\n"), "{}", kept.stderr());
}

#[tokio::test]
async fn the_environment_is_that_of_the_plan_and_the_client_has_nothing_of_it() {
    let Some(room) = room().await else { return };
    let mut env = path();
    let key = format!("key-{}-of the\n operator's $(x)", std::process::id());
    for (name, value) in
        [("KEY", key.as_str()), ("LD_PRELOAD", "/nowhere.so"), ("DOCKER_HOST", "tcp://192.0.2.1:1")]
    {
        env.insert(name.to_owned(), value.to_owned());
    }
    let text =
        "printf '%s' \"$KEY\" | wc -c; env | sed -n 's/=.*//p' | sort | tr '\\n' ' '; echo ready; sleep 1000";
    let plan = plan_of(&[step(Join::Then, vec![launch(&["sh", "-c", text])])], "/", &env);
    let (running, kept) = start_in(&room.held(), &plan, Start::default()).await;
    kept.wait_for("ready").await;
    let said = kept.stdout();
    let (length, names) = said.split_once('\n').unwrap();
    assert_eq!(length.trim(), key.len().to_string());
    for name in names.trim_end_matches("ready\n").split_whitespace() {
        let known =
            ["DOCKER_HOST", "HOME", "KEY", "LANG", "LD_PRELOAD", "OLDPWD", "PATH", "PWD", "SHLVL", "TMPDIR"];
        assert!(known.contains(&name), "{name}");
    }
    let mut clients = 0;
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        if words.contains("tidegate-agent-main") && words.contains("podman") {
            let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&environ).contains("\0LD_PRELOAD="));
            clients += 1;
        }
        assert!(!words.contains(&key), "{words}");
    }
    assert!(clients > 0);
    running.kill();
    assert_eq!(running.wait().await, Exit::Killed);
}

#[tokio::test]
async fn input_and_a_terminal_reach_the_program() {
    let Some(room) = room().await else { return };
    let plan = plan_of(&[step(Join::Then, vec![launch(&["sort"])])], "/", &path());
    let (running, kept) = start_in(&room.held(), &plan, Start { input: true, pty: None }).await;
    running.write(b"b\na\n").await.unwrap();
    running.close_input().await.unwrap();
    assert_eq!((running.wait().await, kept.stdout().as_str()), (Exit::Code(0), "a\nb\n"));
    let program = script("test -t 0 && test -t 1 && stty size; read -r word; echo got $word");
    let start = Start { input: true, pty: Some(PtySize { columns: 91, rows: 17 }) };
    let (running, kept) = start_in(&room.held(), &program.plan, start).await;
    kept.wait_for("17 91").await;
    running.write(b"this\r").await.unwrap();
    assert_eq!(running.wait().await, Exit::Code(0));
    assert!(kept.stdout().contains("got this"), "{}", kept.stdout());
    let (exit, kept) = run_in(&room.held(), &script("cat; test -t 1 || echo none").plan).await;
    assert_eq!((exit, kept.stdout().as_str()), (Exit::Code(0), "none\n"));
}

#[tokio::test]
async fn a_place_keeps_its_tmp_and_its_home_and_no_other_place_has_them() {
    let Some(room) = room().await else { return };
    let (exit, _) = run_in(&room.held(), &script("echo kept > /tmp/a; echo kept > ~/b").plan).await;
    assert_eq!(exit, Exit::Code(0));
    let look = script("cat /tmp/a ~/b 2>/dev/null; true");
    let (_, kept) = run_in(&room.held(), &look.plan).await;
    assert_eq!(kept.stdout(), "kept\nkept\n");
    let (_, kept) = run_in(&room.held_so(|held| held.place = "other".to_owned()), &look.plan).await;
    assert_eq!(kept.stdout(), "");
}

#[tokio::test]
async fn programs_run_as_the_owner_of_the_folder() {
    let Some(room) = room().await else { return };
    if !rustix::process::geteuid().is_root() {
        return crate::tests::skip_loudly("only root can give a folder to somebody else");
    }
    std::os::unix::fs::chown(room.work(), Some(4321), Some(1234)).unwrap();
    let text = format!("id -u; id -g; cd {} && echo mine > file", room.work().display());
    let (exit, kept) = run_in(&room.held(), &script(&text).plan).await;
    assert_eq!((exit, kept.stdout().as_str()), (Exit::Code(0), "4321\n1234\n"), "{}", kept.stderr());
}

#[tokio::test]
async fn two_plans_of_a_place_do_not_end_each_other() {
    let Some(room) = room().await else { return };
    let (one, other) = (script("echo ready; sleep 1000"), script("echo ready; sleep 1000"));
    let (first, kept) = start_in(&room.held(), &one.plan, Start::default()).await;
    kept.wait_for("ready").await;
    let (second, kept) = start_in(&room.held(), &other.plan, Start::default()).await;
    kept.wait_for("ready").await;
    first.kill();
    assert_eq!(first.wait().await, Exit::Killed);
    assert_eq!((carriers(&one.mark).len(), carriers(&other.mark).is_empty()), (0, false));
    second.kill();
    assert_eq!(second.wait().await, Exit::Killed);
    until("the end of both", crate::tests::death::SOON, || carriers(&other.mark).is_empty()).await;
}
