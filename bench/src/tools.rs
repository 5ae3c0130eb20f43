//! What a decision about a tool call costs, against starting the program it is about.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_policy::approval::{AllowMatch, AllowRule, CommandMatch};
use tidegate_policy::exec::{ExecPolicy, FileIdentity, Lookup, Plan, PlanPlace, Program};
use tidegate_policy::tools::{
    Base, Circumstances, Pipeline, Profile, Stage, StageKind, ToolPolicy, Trust, Verdict,
};
use tidegate_policy::{Preparation, Prepared, Requester, Subject, SubjectKind};
use tidegate_protocol::{Id as _, Risk, Scope, ToolCall, ToolSource};

use crate::machine::Cpu;
use crate::stats::{p50_us, rounded};

const ROUNDS: usize = 2_000;
const STARTS: usize = 50;

pub(crate) fn run() -> Result<Value, Box<dyn Error>> {
    let others = Cpu::now();
    let pipeline = Pipeline::new(&policy())?;
    let rules = saved();
    let facts = Circumstances { trust: Trust::Normal, allowed: &rules };
    let reading = call(
        "read",
        Preparation {
            subjects: vec![Subject::new(SubjectKind::Path, "docs/guide/tools.md")],
            ..Preparation::default()
        },
    )?;
    let decided = timed(ROUNDS, || drop(black_box(pipeline.decide(black_box(&reading), &facts))));
    let mut scripts = serde_json::Map::new();
    for (name, script) in scripts_of_a_kilobyte() {
        let took = timed(ROUNDS, || {
            let plan = Plan::of_script(black_box(&script), place(), &Anywhere).ok();
            let prepared = call("exec", Preparation { plan, ..Preparation::default() });
            drop(black_box(prepared.map(|prepared| pipeline.decide(&prepared, &facts))));
        });
        scripts.insert(name.to_owned(), json!({ "bytes": script.len(), "p50_us": rounded(p50_us(&took)) }));
    }
    let spawned = timed(STARTS, || {
        let _ = std::process::Command::new("/bin/true").status();
    });
    let spawn = p50_us(&spawned);
    Ok(json!({
        "bench": "tools",
        "goal": "a decision without parsing under 20 us, parse and decision of 1 KB under 200 us",
        "decision_p50_us": rounded(p50_us(&decided)),
        "parse_and_decision": scripts,
        "spawn_p50_us": rounded(spawn),
        "decision_over_spawn": rounded(p50_us(&decided) / spawn),
        "others_cpu_share": rounded(others.others_since()),
    }))
}

fn timed(rounds: usize, mut work: impl FnMut()) -> Vec<Duration> {
    let once = |()| {
        let begin = Instant::now();
        work();
        begin.elapsed()
    };
    std::iter::repeat_n((), rounds).map(once).collect()
}

/// A configuration of some size: every stage says something.
fn policy() -> ToolPolicy {
    let mut stages = Vec::new();
    for (kind, source) in [
        (StageKind::Provider, "tools.byProvider.openai"),
        (StageKind::Global, "tools"),
        (StageKind::Agent, "agents.list[main].tools"),
        (StageKind::Group, "channels.slack.groups.dev.tools"),
        (StageKind::Sandbox, "tools.sandbox.tools"),
    ] {
        let mut stage = Stage::new(kind, source);
        stage.deny = vec!["group:automation".to_owned(), "whatsapp_*".to_owned(), "browser".to_owned()];
        stage.modes = BTreeMap::from([("http.*".to_owned(), Verdict::Ask)]);
        stages.push(stage);
    }
    ToolPolicy {
        base: Base { profile: Profile::Full, source: "tools.profile".to_owned(), also_allow: Vec::new() },
        stages,
        exec: ExecPolicy { unconfined_by_name: true, ..ExecPolicy::default() },
        ..ToolPolicy::default()
    }
}

fn call(tool: &str, preparation: Preparation) -> Result<Prepared, Box<dyn Error>> {
    let call = ToolCall {
        id: "1".to_owned(),
        name: tool.to_owned(),
        args: json!({ "path": "docs/guide/tools.md" }),
        source: ToolSource::Model,
    };
    let requester = Requester {
        scope: Scope::personal("main".parse()?),
        session: "main".to_owned(),
        actor: "local:owner".to_owned(),
        root: "/srv/work".to_owned(),
    };
    Ok(Prepared::new(call, requester, Risk::Read, true, preparation))
}

/// Twenty saved rules, the last of which fits.
fn saved() -> Vec<AllowRule> {
    let Ok(agent) = "main".parse() else { return Vec::new() };
    let scope = Scope::personal(agent);
    let rule = |at: u8| AllowRule {
        id: tidegate_protocol::AllowRuleId::from_parts(1, [at; 10]),
        scope: scope.clone(),
        tool: "exec".to_owned(),
        matches: AllowMatch::Commands(vec![CommandMatch {
            program: "/usr/bin/git".to_owned(),
            args: vec![if at == 19 { "status".to_owned() } else { format!("log-{at}") }],
            open: true,
        }]),
        created_by: "local:owner".to_owned(),
        approval: None,
        created_at: 0,
        last_used_at: None,
    };
    (0..20).map(rule).collect()
}

/// A long text, and as many commands as a person would still call one line.
fn scripts_of_a_kilobyte() -> [(&'static str, String); 3] {
    let long = format!("git status '{}'", "word ".repeat(200));
    let pipes =
        vec!["git status --short --branch -- 'crates/policy/src/exec' docs/tools.md"; 14].join(" && ");
    let opaque = vec!["for f in *.md; do cat \"$f\" | head -n 3; done"; 22].join("; ");
    [("one long command", long), ("fourteen commands", pipes), ("a script for the shell", opaque)]
}

fn place() -> PlanPlace {
    PlanPlace { cwd: "/srv/work".to_owned(), env: BTreeMap::new(), added_env: BTreeMap::new() }
}

/// Finds everything in `/usr/bin` without looking.
struct Anywhere;

impl Lookup for Anywhere {
    fn find(&self, word: &str, _place: &PlanPlace) -> Option<Program> {
        let identity = FileIdentity { device: 1, inode: 2, size: 3, modified: 4 };
        Some(Program { path: format!("/usr/bin/{word}"), identity, trusted: true })
    }

    fn shell(&self) -> Option<Program> {
        self.find("bash", &place())
    }
}
