//! A machine that is not there: programs, a folder, saved rules.

use std::collections::BTreeMap;

use tidegate_policy::approval::{AllowMatch, AllowRule, CommandMatch};
use tidegate_policy::exec::{
    Ask, AskFallback, ExecPolicy, FileIdentity, Join, Lookup, Plan, PlanError, PlanPlace, Program, Security,
};
use tidegate_protocol::{AllowRuleId, Id as _, Scope};

pub(crate) const CWD: &str = "/home/ada/work";

/// Every bare name is a program of the system, except those that begin with `missing`. What is in the folder is there,
/// but anybody could have put it there.
pub(crate) struct Machine;

impl Lookup for Machine {
    fn find(&self, word: &str, place: &PlanPlace) -> Option<Program> {
        let name = word.rsplit('/').next().unwrap_or(word);
        if name.is_empty() || name.starts_with("missing") {
            return None;
        }
        let path = match word {
            // Links, as a real machine has them.
            "multi" => "/usr/bin/busybox".to_owned(),
            "tool" => "/usr/bin/python3.11".to_owned(),
            "myjq" => "/usr/bin/jq".to_owned(),
            _ if word.starts_with('/') => word.to_owned(),
            _ if word.contains('/') => format!("{}/{}", place.cwd, word.trim_start_matches("./")),
            _ => format!("/usr/bin/{word}"),
        };
        let trusted = ["/usr/", "/bin/", "/opt/"].iter().any(|folder| path.starts_with(folder));
        let identity = FileIdentity { device: 1, inode: 2, size: 3, modified: 4 };
        Some(Program { path, identity, trusted })
    }

    fn shell(&self) -> Option<Program> {
        let identity = FileIdentity { device: 1, inode: 9, size: 3, modified: 4 };
        Some(Program { path: "/usr/bin/bash".to_owned(), identity, trusted: true })
    }
}

pub(crate) fn place() -> PlanPlace {
    let env = [("HOME", "/home/ada"), ("PATH", "/usr/bin")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    PlanPlace { cwd: CWD.to_owned(), env: BTreeMap::from(env), added_env: BTreeMap::new() }
}

pub(crate) fn place_with(name: &str, value: &str) -> PlanPlace {
    let mut place = place();
    place.env.insert(name.to_owned(), value.to_owned());
    place.added_env.insert(name.to_owned(), value.to_owned());
    place
}

pub(crate) fn plan(script: &str) -> Plan {
    try_plan(script).unwrap_or_else(|error| panic!("{script:?}: {error}"))
}

pub(crate) fn try_plan(script: &str) -> Result<Plan, PlanError> {
    Plan::of_script(script, place(), &Machine)
}

/// Confined, with an allowlist and the usual filters.
pub(crate) fn policy() -> ExecPolicy {
    let filters = "jq grep cut sort uniq head tail tr wc";
    ExecPolicy {
        security: Security::Allowlist,
        ask: Ask::OnMiss,
        fallback: AskFallback::Deny,
        confined: true,
        unconfined_by_name: false,
        safe_bins: filters.split(' ').map(str::to_owned).collect(),
        forbidden: vec!["/home/ada/.tidegate".to_owned()],
        roots: vec!["/home/ada/.tidegate/workspace".to_owned()],
    }
}

pub(crate) fn command(program: &str, args: &[&str], open: bool) -> CommandMatch {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    CommandMatch { program: program.to_owned(), args, open }
}

pub(crate) fn rule(number: u8, matches: AllowMatch) -> AllowRule {
    AllowRule {
        id: AllowRuleId::from_parts(1, [number; 10]),
        scope: Scope::personal("main".parse().unwrap()),
        tool: "exec".to_owned(),
        matches,
        created_by: "ada".to_owned(),
        approval: None,
        created_at: 0,
        last_used_at: None,
    }
}

pub(crate) fn rules(commands: Vec<CommandMatch>) -> Vec<AllowRule> {
    let one = |(number, command)| rule(number, AllowMatch::Commands(vec![command]));
    (1..).zip(commands).map(one).collect()
}

/// A plan's words with its joins, as `[["git","log"],"|",["jq","."]]`.
pub(crate) fn outline(plan: &Plan) -> serde_json::Value {
    let mut outline: Vec<serde_json::Value> = Vec::new();
    for (index, step) in plan.steps().iter().enumerate() {
        if index > 0 {
            let join = match step.join {
                Join::Then => ";",
                Join::And => "&&",
                Join::Or => "||",
            };
            outline.push(join.into());
        }
        for (index, launch) in step.pipeline.iter().enumerate() {
            if index > 0 {
                outline.push("|".into());
            }
            outline.push(launch.argv.clone().into());
        }
    }
    outline.into()
}

/// The rows of a table: `script  =>  expectation`, with what cannot be written in a line made visible.
pub(crate) fn table(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("##"));
    lines
        .map(|line| {
            let (script, expected) = line.rsplit_once("  =>  ").unwrap_or_else(|| panic!("no =>: {line}"));
            (spelled(script), expected.trim().to_owned())
        })
        .collect()
}

/// `␤` is a line end, `␍` a carriage return, `␉` a tab, and `⟦200B⟧` the character with that number.
fn spelled(text: &str) -> String {
    let text = text.replace('␤', "\n").replace('␍', "\r").replace('␉', "\t");
    let mut pieces = text.split('⟦');
    let mut spelled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (number, rest) = piece.split_once('⟧').expect("⟧");
        let number = u32::from_str_radix(number, 16).expect("a hexadecimal number");
        spelled.push(char::from_u32(number).expect("a character"));
        spelled.push_str(rest);
    }
    spelled
}
