//! The real bash as a judge: what we understood is what it would have run.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::TempDir;
use tidegate_policy::exec::{Join, Plan};

use super::corpus::harmless_scripts;
use super::scene::try_plan;

/// Builtins that are also programs; all others make a script opaque.
const ALSO_PROGRAMS: [&str; 8] = ["[", "echo", "false", "kill", "printf", "pwd", "test", "true"];

#[test]
fn bash_runs_the_corpus_with_our_arguments() {
    let Some(bench) = Bench::new() else { return };
    let compared = harmless_scripts().iter().filter(|script| bench.compare(script)).count();
    assert!(compared > 100, "only {compared} scripts were compared");
}

#[test]
fn bash_runs_generated_scripts_with_our_arguments() {
    let Some(bench) = Bench::new() else { return };
    let compared = Cell::new(0);
    let config = Config { failure_persistence: None, ..Config::with_cases(4000) };
    let mut runner = TestRunner::new(config);
    let result = runner.run(&script(), |script| {
        if compared.get() < 120 && bench.compare(&script) {
            compared.set(compared.get() + 1);
        }
        Ok(())
    });
    result.unwrap();
    assert!(compared.get() >= 100, "only {} scripts were compared", compared.get());
}

#[test]
fn every_word_bash_keeps_for_itself_is_opaque() {
    let Some(_) = Bench::new() else { return };
    let listed =
        Command::new("bash").args(["--norc", "--noprofile", "-c", "compgen -b; compgen -k"]).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let words: Vec<_> = listed.lines().filter(|word| !ALSO_PROGRAMS.contains(word)).collect();
    assert!(words.len() > 50, "{words:?}");
    for word in words {
        let plan = try_plan(&format!("{word} x")).unwrap();
        assert!(plan.opaque().is_some(), "{word}");
    }
}

/// Words, quotes and operators in any order: most of it is nonsense, some is not.
fn script() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        8 => "[a-c1.=:@%+,_/~^-]{1,3}",
        6 => Just(" ".to_owned()),
        3 => "'[a-c \"$`*;&|\\\\!~#]{0,4}'",
        3 => "\"[a-c '*;&|!~#]{0,4}\"",
        2 => "\"(\\\\[a-c\"\\\\$`' ])[a-c ]{0,2}\"",
        2 => "\\\\[a-c \"'$`*;&|#~\\\\]",
        2 => prop::sample::select(vec![" ; ", " && ", " || ", " | ", ";", "&&", "||", "|"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["#", "~", "é", "\t", "!", "]", "'", "\"", "\\", "\n", "[", "{", "}"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(pieces, 1..14).prop_map(|pieces| pieces.concat())
}

struct Bench {
    folder: TempDir,
    bash: PathBuf,
}

impl Bench {
    /// Absent when there is no bash, which is said loudly.
    fn new() -> Option<Self> {
        let Some(bash) = find_bash() else {
            skip_loudly("bash is not installed");
            return None;
        };
        let folder = TempDir::new().unwrap();
        let helper = folder.path().join("helper");
        let text = "#!/bin/sh\nprintf '%s\\0' \"${0##*/}\" \"$@\" > \"$OUT/$$\"\nexit \"$STATUS\"\n";
        fs::write(&helper, text).unwrap();
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
        let disable = format!("enable -n {}\n", ALSO_PROGRAMS.map(|word| format!("'{word}'")).join(" "));
        fs::write(folder.path().join("env"), disable).unwrap();
        Some(Self { folder, bash })
    }

    /// Runs a script that was understood, once with programs that succeed and once with some that fail. Answers whether
    /// there was anything to compare.
    fn compare(&self, script: &str) -> bool {
        let Ok(plan) = try_plan(script) else { return false };
        if plan.opaque().is_some() || !plan.launches().all(|launch| is_plain_name(&launch.argv[0])) {
            return false;
        }
        for succeeds in [true, false] {
            assert_eq!(self.run(script, &plan, succeeds), expected(&plan, succeeds), "{script:?}");
        }
        true
    }

    /// What bash started, each as its words, sorted: the commands of a pipeline run at once.
    fn run(&self, script: &str, plan: &Plan, succeeds: bool) -> Vec<Vec<String>> {
        let programs = TempDir::new_in(self.folder.path()).unwrap();
        let out = TempDir::new_in(self.folder.path()).unwrap();
        for launch in plan.launches() {
            let _ = symlink(self.folder.path().join("helper"), programs.path().join(&launch.argv[0]));
        }
        let ended = Command::new(&self.bash)
            // Restricted: should a reading be wrong, it writes no file and starts nothing but the helper.
            .args(["--restricted", "--norc", "--noprofile", "-c", "--", script])
            .env_clear()
            .envs(BTreeMap::from([
                ("PATH", programs.path()),
                ("OUT", out.path()),
                ("HOME", Path::new("/nowhere")),
            ]))
            .env("BASH_ENV", self.folder.path().join("env"))
            .env("LC_ALL", "C.UTF-8")
            .env("STATUS", if succeeds { "0" } else { "1" })
            .current_dir(out.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(said, "", "{script:?}");
        let mut ran: Vec<_> = fs::read_dir(out.path())
            .unwrap()
            .map(|file| words(&fs::read(file.unwrap().path()).unwrap()))
            .collect();
        ran.sort();
        ran
    }
}

fn find_bash() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("bash")).find(|bash| bash.is_file())
}

fn is_plain_name(word: &str) -> bool {
    !word.is_empty() && !word.contains('/') && word.chars().any(|character| character != '.')
}

fn words(record: &[u8]) -> Vec<String> {
    let text = String::from_utf8(record.to_vec()).unwrap();
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// Which commands of a plan run when all of them end the same way.
fn expected(plan: &Plan, succeeds: bool) -> Vec<Vec<String>> {
    let mut ran = Vec::new();
    for step in plan.steps() {
        let runs = match step.join {
            Join::Then => true,
            Join::And => succeeds,
            Join::Or => !succeeds,
        };
        if runs {
            ran.extend(step.pipeline.iter().map(|launch| launch.argv.clone()));
        }
    }
    ran.sort();
    ran
}

/// A runner hides what a passing test prints, so the line also goes to the file that collects skipped tests.
fn skip_loudly(why: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED {}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = std::env::var_os("TIDEGATE_SKIPS") {
        let file = fs::OpenOptions::new().create(true).append(true).open(file);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
