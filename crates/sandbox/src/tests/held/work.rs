//! Ordinary work is not in the way of being held.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use tidegate_policy::exec::Join;
use tidegate_policy::{Access, Exit, PtySize, RunError, Start};

use super::super::carriers;
use super::{all, launch, plan_of, step};

#[tokio::test]
async fn programs_work_in_their_folder_and_leave_their_files_there() {
    for held in all().await {
        let name = held.backend.name();
        let script = "pwd; echo new > file && mkdir sub && mv file sub/ && chmod +x sub/file && ln -s sub/file link && cat link";
        let (exit, kept) = held.run(script).await;
        assert_eq!((exit, kept.stderr().as_str()), (Exit::Code(0), ""), "{name}");
        assert_eq!(kept.stdout(), format!("{}\nnew\n", held.work().display()), "{name}");
        assert_eq!(fs::read_to_string(held.work().join("sub/file")).unwrap(), "new\n", "{name}");
    }
}

#[tokio::test]
async fn exit_codes_signals_and_failures_are_those_of_the_program() {
    for held in all().await {
        let name = held.backend.name();
        assert_eq!(held.run("exit 7").await.0, Exit::Code(7), "{name}");
        assert_eq!(held.run("kill -INT $$").await.0, Exit::Signal(2), "{name}");
        assert_eq!(held.run("kill -KILL $$").await.0, Exit::Signal(9), "{name}");
        assert_eq!(held.run("exec nonexistent 2>/dev/null").await.0, Exit::Code(127), "{name}");
    }
}

#[tokio::test]
async fn steps_and_pipelines_are_those_of_the_plan() {
    for held in all().await {
        let steps = [
            step(
                Join::Then,
                vec![launch(&["printf", "b\\na\\n"]), launch(&["sort"]), launch(&["tr", "a-z", "A-Z"])],
            ),
            step(Join::And, vec![launch(&["false"])]),
            step(Join::And, vec![launch(&["echo", "never"])]),
            step(Join::Or, vec![launch(&["echo", "or"])]),
        ];
        let plan = plan_of(&steps, held.work().to_str().unwrap(), &BTreeMap::new());
        let (running, kept) = held.start(&plan, Start::default()).await.unwrap();
        assert_eq!(running.wait().await, Exit::Code(0));
        assert_eq!(kept.stdout(), "A\nB\nor\n", "{}", held.backend.name());
    }
}

#[tokio::test]
async fn a_program_is_called_what_the_plan_calls_it() {
    for held in all().await {
        let mut sh = launch(&["sh", "-c", "echo $0"]);
        sh.argv = vec![
            "another name".to_owned(),
            "-c".to_owned(),
            "tr '\\0' '|' < /proc/self/cmdline; echo \"$0\"".to_owned(),
        ];
        let plan = plan_of(&[step(Join::Then, vec![sh])], "/", &held.plan(&["true"], "x").env().clone());
        let (running, kept) = held.start(&plan, Start::default()).await.unwrap();
        assert_eq!(running.wait().await, Exit::Code(0), "{}", kept.stderr());
        assert!(kept.stdout().ends_with("another name\n"), "{}: {}", held.backend.name(), kept.stdout());
    }
}

#[tokio::test]
async fn the_temporary_folder_and_the_home_are_shared_by_the_commands_of_a_place_and_nobody_else() {
    for mut held in all().await {
        let name = held.backend.name();
        let (exit, kept) =
            held.run("echo left > $TMPDIR/note && echo home > ~/note && test \"$HOME\" != /root").await;
        assert_eq!((exit, kept.stderr().as_str()), (Exit::Code(0), ""), "{name}");
        assert_eq!(held.run("cat $TMPDIR/note ~/note").await.1.stdout(), "left\nhome\n", "{name}");
        assert!(!std::path::Path::new("/tmp/note").exists(), "{name}");
        held.confinement.place = "another".to_owned();
        assert_eq!(held.run("cat $TMPDIR/note ~/note 2>/dev/null").await.1.stdout(), "", "{name}");
    }
}

#[tokio::test]
async fn python_and_git_do_their_work() {
    for held in all().await {
        let name = held.backend.name();
        let program = "import json, subprocess, tempfile, os
print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout.strip())
with tempfile.NamedTemporaryFile() as file: file.write(b'x')
from concurrent.futures import ThreadPoolExecutor
print(sum(ThreadPoolExecutor(4).map(int, ['1', '2'])))";
        let (exit, kept) = held.python(program).await;
        assert_eq!(
            (exit, kept.stdout().as_str()),
            (Exit::Code(0), "child\n3\n"),
            "{name}: {}",
            kept.stderr()
        );
        let script = "git init -q . && echo text > file && git add file &&
            git -c user.name=n -c user.email=e@example.com commit -qm first && git log --format=%s";
        let (exit, kept) = held.run(script).await;
        assert_eq!((exit, kept.stdout().as_str()), (Exit::Code(0), "first\n"), "{name}: {}", kept.stderr());
    }
}

#[tokio::test]
async fn a_megabyte_of_output_arrives_whole() {
    for held in all().await {
        let (exit, kept) = held.run("head -c 1000000 /dev/zero | tr '\\0' x; seq 1 1000 >&2").await;
        assert_eq!((exit, kept.stdout().len()), (Exit::Code(0), 1_000_000));
        assert_eq!(kept.stderr().lines().count(), 1000);
    }
}

#[tokio::test]
async fn a_terminal_is_one_inside_too() {
    for held in all().await {
        let name = held.backend.name();
        let terminal = Start { pty: Some(PtySize { columns: 90, rows: 20 }), input: true };
        let script =
            "test -t 0 && test -t 1 && stty size && echo tty > /dev/tty; read line; echo got $line; exit 3";
        let plan = held.plan(&["sh", "-c", script], "terminal");
        let (running, kept) = held.start(&plan, terminal).await.unwrap();
        running.write(b"typed\n").await.unwrap();
        assert_eq!(running.wait().await, Exit::Code(3), "{name}: {:?}", kept.stdout());
        // What is typed is shown wherever it falls between these.
        let said = kept.stdout();
        let told = ["20 90\r\n", "tty\r\n", "got typed\r\n"].iter().all(|line| said.contains(line));
        assert!(told, "{name}: {said:?}");
        // Not a shell: one that is just about to start a program may overhear an interrupt.
        let plan = held.plan(&["sleep", "1000"], "terminal");
        let (running, kept) = held.start(&plan, terminal).await.unwrap();
        running.write(&[3]).await.unwrap();
        let Ok(exit) = tokio::time::timeout(Duration::from_secs(30), running.wait()).await else {
            panic!("{name}: the interrupt ended nothing: {:?}; {:?}", kept.stdout(), states("terminal"));
        };
        assert_eq!(exit, Exit::Signal(2), "{name}");
    }
}

/// What the programs with a mark are doing, for whoever wonders why they do not end.
fn states(mark: &str) -> Vec<String> {
    let of = |pid: &u32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    carriers(mark)
        .iter()
        .map(|pid| format!("{} waits in {}", of(pid, "stat").trim(), of(pid, "wchan")))
        .collect()
}

#[tokio::test]
async fn input_reaches_a_program_that_runs_on() {
    for held in all().await {
        let plan = held.plan(&["cat"], "none");
        let (running, kept) = held.start(&plan, Start { pty: None, input: true }).await.unwrap();
        running.write(b"one\n").await.unwrap();
        kept.wait_for("one\n").await;
        running.close_input().await.unwrap();
        assert_eq!(running.wait().await, Exit::Code(0), "{}", held.backend.name());
    }
}

#[tokio::test]
async fn a_folder_to_look_at_can_only_be_looked_at() {
    for mut held in all().await {
        let name = held.backend.name();
        held.confinement.access = Access::ReadOnly;
        fs::write(held.work().join("file"), "old").unwrap();
        let (exit, kept) =
            held.run("cat file; echo new > file; rm -f file; touch other; echo x > $TMPDIR/fine").await;
        assert_eq!(exit, Exit::Code(0), "{name}: {}", kept.stderr());
        assert_eq!(kept.stdout(), "old", "{name}");
        assert_eq!(fs::read_to_string(held.work().join("file")).unwrap(), "old", "{name}");
        assert!(!held.work().join("other").exists(), "{name}");
    }
}

#[tokio::test]
async fn a_program_that_was_replaced_does_not_run_inside_either() {
    for held in all().await {
        let tool = held.work().join("tool");
        fs::write(&tool, "#!/bin/sh\necho good\n").unwrap();
        fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let launch =
            super::super::Launch { program: super::super::program_at(&tool), argv: vec!["tool".to_owned()] };
        let plan = plan_of(&[step(Join::Then, vec![launch])], "/", &BTreeMap::new());
        let (running, kept) = held.start(&plan, Start::default()).await.unwrap();
        assert_eq!((running.wait().await, kept.stdout().as_str()), (Exit::Code(0), "good\n"));
        fs::write(&tool, "#!/bin/sh\necho evil\n").unwrap();
        let error = held.start(&plan, Start::default()).await.err();
        assert_eq!(error, Some(RunError::Changed { path: tool.to_str().unwrap().to_owned() }));
    }
}

#[tokio::test]
async fn a_folder_that_became_a_link_is_not_entered() {
    for held in all().await {
        let plan = held.plan(&["true"], "none");
        fs::remove_dir(held.work()).unwrap();
        std::os::unix::fs::symlink(held.base().join("state"), held.work()).unwrap();
        let error = held.start(&plan, Start::default()).await.err();
        assert!(matches!(error, Some(RunError::Folder { .. })), "{}: {error:?}", held.backend.name());
    }
}
