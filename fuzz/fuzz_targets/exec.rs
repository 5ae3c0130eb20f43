//! Commands: whatever the text, a program is started with the arguments that the gate permitted, and bash would have used
//! the same.
//!
//! The target itself plays every program: started with `TIDEGATE_FUZZ_OUT` it writes its own `/proc/self/cmdline` there
//! and ends before the fuzzer reads a single argument.

#![no_main]

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs, process};

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use tidegate_policy::exec::{
    Ask, ExecPolicy, FileIdentity, Join, Lookup, Plan, PlanPlace, Program, Security, destructive,
};
use tidegate_policy::tools::{Base, Circumstances, Pipeline, Profile, ToolPolicy, Trust};
use tidegate_policy::{Gate, Permitted, Preparation, Prepared, Requester};
use tidegate_protocol::{Risk, Scope, ToolCall, ToolSource};

const OUT: &str = "TIDEGATE_FUZZ_OUT";

fuzz_target!(
    init: {
        if let Some(folder) = env::var_os(OUT) {
            let line = fs::read("/proc/self/cmdline").expect("the arguments");
            fs::write(Path::new(&folder).join(process::id().to_string()), line).expect("a place for them");
            process::exit(0);
        }
    },
    |bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let place = PlanPlace { cwd: "/".into(), env: BTreeMap::new(), added_env: BTreeMap::new() };
        let Ok(plan) = Plan::of_script(text, place, &Anything) else { return };
        let never = destructive(&plan).is_some();
        let Some(permitted) = permitted(text, plan.clone()) else {
            assert!(never, "a command that may run was held back");
            return;
        };
        assert!(!never, "a destructive command was permitted");
        // What was read is what was permitted.
        let seen = permitted.plan().expect("a plan");
        assert_eq!(seen.plan(), &plan);
        let plan = seen.plan();
        if plan.opaque().is_some() {
            return;
        }
        assert_eq!(started(plan), expected(plan, |_| true));
        if plan.launches().all(|launch| may_be_a_file(&launch.argv[0])) {
            assert_eq!(started_by_bash(text, plan), expected(plan, |join| join != Join::Or));
        }
    }
);

/// Passes the text's call through a gate that lets every command pass; nothing when it does not all the same.
fn permitted(text: &str, plan: Plan) -> Option<Permitted> {
    static GATE: OnceLock<Gate> = OnceLock::new();
    let gate = GATE.get_or_init(|| {
        let exec = ExecPolicy {
            security: Security::Full,
            ask: Ask::Off,
            unconfined_by_name: true,
            ..ExecPolicy::default()
        };
        let base = Base { profile: Profile::Full, ..Base::default() };
        let policy = ToolPolicy { base, exec, ..ToolPolicy::default() };
        Gate::new(Pipeline::new(&policy).expect("a policy"))
    });
    let args = serde_json::json!({ "command": text });
    let call = ToolCall { id: "1".into(), name: "exec".into(), args, source: ToolSource::Model };
    let requester = Requester {
        scope: Scope::personal("main".parse().expect("a name")),
        session: "agent:main:main".into(),
        actor: "tester".into(),
        root: "/".into(),
    };
    let preparation = Preparation { plan: Some(plan), ..Preparation::default() };
    let prepared = Prepared::new(call, requester, Risk::Execute, false, preparation);
    gate.permit(prepared, &Circumstances { trust: Trust::Normal, allowed: &[] }).ok()
}

/// Every word is a program.
struct Anything;

impl Lookup for Anything {
    fn find(&self, word: &str, _place: &PlanPlace) -> Option<Program> {
        let identity = FileIdentity { device: 0, inode: 0, size: 0, modified: 0 };
        (!word.is_empty()).then(|| Program { path: format!("/bin/{word}"), identity, trusted: true })
    }

    fn shell(&self) -> Option<Program> {
        self.find("bash", &PlanPlace { cwd: "/".into(), env: BTreeMap::new(), added_env: BTreeMap::new() })
    }
}

/// `kill` is left out: should a reading be wrong, bash's own would be the one that runs.
fn may_be_a_file(name: &str) -> bool {
    name.len() < 200 && !name.contains('/') && name != "." && name != ".." && name != "kill"
}

/// The arguments of the programs whose step runs, in any order: those of a pipeline run at once.
fn expected(plan: &Plan, runs: impl Fn(Join) -> bool) -> Vec<Vec<String>> {
    let steps = plan.steps().iter().filter(|step| runs(step.join));
    let mut all: Vec<_> = steps.flat_map(|step| &step.pipeline).map(|launch| launch.argv.clone()).collect();
    all.sort();
    all
}

/// Starts every program of the plan as the sandbox does, without a shell.
fn started(plan: &Plan) -> Vec<Vec<String>> {
    let out = folder();
    for launch in plan.launches() {
        let mut helper = Command::new(myself());
        helper.arg0(&launch.argv[0]).args(&launch.argv[1..]).env_clear().env(OUT, out.path());
        assert!(helper.stdin(Stdio::null()).stderr(Stdio::null()).status().expect("the helper").success());
    }
    collected(&out)
}

/// Lets bash start them: restricted, with nothing on its path but the helper, and without builtins in the way.
fn started_by_bash(text: &str, plan: &Plan) -> Vec<Vec<String>> {
    let (out, programs, empty) = (folder(), folder(), folder());
    for launch in plan.launches() {
        let _ = symlink(myself(), programs.path().join(&launch.argv[0]));
    }
    let start = empty.path().join("start");
    fs::write(&start, "enable -n '[' echo false kill printf pwd test true\n").expect("a start file");
    let bash = Command::new("/bin/bash")
        .args(["--restricted", "--norc", "--noprofile", "-c", "--", text])
        .env_clear()
        .env("BASH_ENV", start)
        .env("LC_ALL", "C.UTF-8")
        .env("PATH", programs.path())
        .env(OUT, out.path())
        .current_dir(empty.path())
        .stdin(Stdio::null())
        .output()
        .expect("bash");
    // The helper is a fuzzer too and has its own complaints.
    let said = String::from_utf8_lossy(&bash.stderr);
    assert!(!said.lines().any(|line| line.starts_with("/bin/bash:")), "{said}");
    collected(&out)
}

fn collected(out: &TempDir) -> Vec<Vec<String>> {
    let files = fs::read_dir(out.path()).expect("a folder");
    let words = |line: Vec<u8>| {
        let line = String::from_utf8(line).expect("text");
        line.split_terminator('\0').map(str::to_owned).collect::<Vec<_>>()
    };
    let mut all: Vec<_> =
        files.map(|file| words(fs::read(file.expect("a file").path()).expect("a line"))).collect();
    all.sort();
    all
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn myself() -> &'static Path {
    static MYSELF: OnceLock<std::path::PathBuf> = OnceLock::new();
    MYSELF.get_or_init(|| env::current_exe().expect("its own path"))
}
