//! What was permitted is what runs: these arguments, this environment, this folder, these files, in this order.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_policy::exec::Join;
use tidegate_policy::{Exit, RunError, Running as _, Start};

use super::{launch, marked, plan_of, program, program_at, run, script, start, step};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Any text: quotes, blanks, newlines, empty, other alphabets. A program cannot be given NUL.
fn argument() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>().prop_map(|text| text.replace('\0', "")),
        "[ \t\n'\"$`\\\\;&|<>*?!~#(){}-]{0,12}",
        Just(String::new()),
        Just("--help".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_argument_arrives_as_it_was_permitted(
        name in argument(),
        arguments in prop::collection::vec(argument(), 0..6),
    ) {
        let mut sh = launch(&["sh", "-c", "cat /proc/$$/cmdline"]);
        // A shell whose name begins with a dash would read somebody's profile.
        sh.argv[0] = format!("p{name}");
        sh.argv.extend(arguments);
        let expected = sh.argv.join("\0") + "\0";
        let plan = plan_of(&[step(Join::Then, vec![sh])], "/", &BTreeMap::from([path()]));
        let (exit, kept) = block_on(run(&plan));
        prop_assert_eq!(exit, Exit::Code(0));
        prop_assert_eq!(kept.stdout(), expected);
    }

    #[test]
    fn pipelines_and_joins_mean_what_they_mean_to_bash(
        steps in prop::collection::vec((0..3_usize, prop::collection::vec(0..5_usize, 1..4)), 1..6),
    ) {
        const WORDS: [&str; 5] = ["true", "false", "sh -c 'exit 3'", "sh -c 'echo x'", "sh -c 'cat; echo y'"];
        const JOINS: [(&str, Join); 3] = [(" ; ", Join::Then), (" && ", Join::And), (" || ", Join::Or)];
        let mut text = String::new();
        let mut plan = Vec::new();
        for (index, (join, pipeline)) in steps.iter().enumerate() {
            let (sign, join) = if index == 0 { ("", Join::Then) } else { JOINS[*join] };
            let words: Vec<_> = pipeline.iter().map(|word| WORDS[*word]).collect();
            text = format!("{text}{sign}{}", words.join(" | "));
            plan.push(step(join, words.iter().map(|word| taken_apart(word)).collect()));
        }
        let bash = Command::new("bash").args(["-c", &text]).stdin(std::process::Stdio::null()).output().unwrap();
        let (exit, kept) = block_on(run(&plan_of(&plan, "/", &BTreeMap::from([path()]))));
        prop_assert_eq!(exit, Exit::Code(bash.status.code().unwrap()), "{}", text);
        prop_assert_eq!(kept.stdout(), String::from_utf8(bash.stdout).unwrap(), "{}", text);
    }
}

fn path() -> (String, String) {
    ("PATH".to_owned(), "/usr/bin:/bin".to_owned())
}

fn taken_apart(words: &str) -> tidegate_policy::exec::Launch {
    match words.strip_prefix("sh -c ") {
        Some(text) => launch(&["sh", "-c", text.trim_matches('\'')]),
        None => launch(&[words]),
    }
}

#[tokio::test]
async fn a_pipeline_ends_when_all_of_it_has_and_its_last_program_speaks_for_it() {
    let pipeline = vec![launch(&["yes"]), launch(&["head", "-n", "2"])];
    let plan = plan_of(&[step(Join::Then, pipeline)], "/", &BTreeMap::new());
    let (exit, kept) = run(&plan).await;
    assert_eq!((exit, kept.stdout().as_str()), (Exit::Code(0), "y\ny\n"));
}

#[tokio::test]
async fn a_plan_without_programs_ends_at_once() {
    for steps in [vec![], vec![step(Join::Then, vec![])]] {
        let (exit, _) = run(&plan_of(&steps, "/", &BTreeMap::new())).await;
        assert_eq!(exit, Exit::Code(0));
    }
}

#[tokio::test]
async fn a_program_that_died_of_a_signal_is_told_so() {
    let (exit, _) = run(&script("kill -USR1 $$").plan).await;
    assert_eq!(exit, Exit::Signal(10));
}

#[tokio::test]
async fn a_program_has_the_environment_of_the_plan_and_nothing_else() {
    let env = BTreeMap::from([("A".to_owned(), "1 2\n3".to_owned()), ("Ä".to_owned(), String::new())]);
    let plan = plan_of(&[step(Join::Then, vec![launch(&["env", "-0"])])], "/", &env);
    let (_, kept) = run(&plan).await;
    assert_eq!(kept.stdout(), "A=1 2\n3\0Ä=\0");
}

#[tokio::test]
async fn a_program_begins_in_the_folder_of_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap().to_str().unwrap().to_owned();
    let plan = plan_of(&[step(Join::Then, vec![launch(&["pwd"])])], &cwd, &BTreeMap::new());
    let (_, kept) = run(&plan).await;
    assert_eq!(kept.stdout().trim_end(), cwd);

    folder.close().unwrap();
    let error = start(&plan, Start::default()).await.err();
    assert!(matches!(error, Some(RunError::Folder { path, .. }) if path == cwd));
}

#[tokio::test]
async fn no_link_on_the_way_to_the_folder_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("root/sub/deep")).unwrap();
    fs::create_dir_all(base.join("outside/deep")).unwrap();
    for (cwd, moved) in [("root/sub", "root/sub"), ("root/sub/deep", "root/sub")] {
        let cwd = base.join(cwd).to_str().unwrap().to_owned();
        let plan = plan_of(&[step(Join::Then, vec![launch(&["pwd"])])], &cwd, &BTreeMap::new());
        let (exit, _) = run(&plan).await;
        assert_eq!(exit, Exit::Code(0));

        fs::rename(base.join(moved), base.join("root/old")).unwrap();
        std::os::unix::fs::symlink(base.join("outside"), base.join(moved)).unwrap();
        let error = start(&plan, Start::default()).await.err();
        assert!(matches!(error, Some(RunError::Folder { path, .. }) if path == cwd));
        fs::remove_file(base.join(moved)).unwrap();
        fs::rename(base.join("root/old"), base.join(moved)).unwrap();
    }
}

#[tokio::test]
async fn a_program_that_was_replaced_since_it_was_permitted_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().canonicalize().unwrap().join("tool");
    let put = |text: &str| {
        fs::write(&tool, text).unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    };
    put("#!/bin/sh\necho good\n");
    let permitted = super::Launch { program: program_at(&tool), argv: vec!["tool".to_owned()] };
    let plan = plan_of(&[step(Join::Then, vec![permitted.clone()])], "/", &BTreeMap::new());
    assert_eq!(run(&plan).await.1.stdout(), "good\n");

    put("#!/bin/sh\necho evil\n");
    let changed = RunError::Changed { path: tool.to_str().unwrap().to_owned() };
    assert_eq!(start(&plan, Start::default()).await.err(), Some(changed.clone()));

    let later =
        vec![step(Join::Then, vec![launch(&["echo", "first"])]), step(Join::And, vec![permitted.clone()])];
    let (exit, kept) = run(&plan_of(&later, "/", &BTreeMap::new())).await;
    assert_eq!((exit, kept.stdout().as_str()), (Exit::Failed(changed.clone()), "first\n"));

    fs::remove_file(&tool).unwrap();
    std::os::unix::fs::symlink(program("echo").path, &tool).unwrap();
    assert_eq!(start(&plan, Start::default()).await.err(), Some(changed));
}

#[tokio::test]
async fn a_file_that_cannot_be_started_is_told_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().canonicalize().unwrap().join("tool");
    fs::write(&tool, "not executable").unwrap();
    let tool = super::Launch { program: program_at(&tool), argv: vec!["tool".to_owned()] };
    let plan = plan_of(&[step(Join::Then, vec![tool.clone()])], "/", &BTreeMap::new());
    let error = start(&plan, Start::default()).await.err();
    assert!(matches!(error, Some(RunError::Start { path, .. }) if path == tool.program.path));
}

#[tokio::test]
async fn a_program_inherits_three_streams_default_signals_and_a_sane_umask() {
    let sleep = marked(&["sleep", "1000"]);
    let (running, _kept) = start(&sleep.plan, Start { pty: None, input: true }).await.unwrap();
    let [pid] = super::carriers(&sleep.mark)[..] else { panic!("there is one program") };
    let open = || {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let mut open: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        open.sort();
        open
    };
    // A program that has just begun has its libraries open for a moment.
    super::until("only three streams are open", Duration::from_secs(10), || open() == ["0", "1", "2"]).await;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    let masks = ["SigBlk:", "SigIgn:", "ShdPnd:"].map(|name| u64::from_str_radix(&field(name), 16).unwrap());
    // 32 and 33 belong to the C library, which lets nobody touch them.
    assert_eq!(masks.map(|mask| mask & !(0b11 << 31)), [0, 0, 0]);
    assert_eq!(field("Umask:"), "0022");
    running.kill();
    assert_eq!(running.wait().await, Exit::Killed);
}
