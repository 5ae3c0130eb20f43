//! Groups about what tools may do and how they do it: commands, policies, addresses, keys, cut output.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_net::class_of;
use tidegate_policy::approval::{AllowMatch, AllowRule, CommandMatch};
use tidegate_policy::exec::{
    Ask, AskFallback, ExecPolicy, FileIdentity, Lookup, Plan, PlanPlace, Program, Security, judge,
};
use tidegate_policy::tools::{
    Base, Pipeline, Profile, Sender, Stage, StageKind, ToolPolicy, Trust, Verdict, by_sender,
};
use tidegate_protocol::{AllowRuleId, Id as _, Scope};
use tidegate_tools::testing::encode_keys;
use tidegate_tools::truncate::{self, CutBy};

use super::{Answer, Compared, compared, in_and_out, read};

pub(super) fn answer_of(group: &str) -> Option<Answer> {
    Some(match group {
        "exec" => exec,
        "policy" => policy,
        "tools_by_sender" => tools_by_sender,
        "ssrf" => ssrf,
        "keys" => keys,
        "trunc_tail" => trunc_tail,
        _ => return None,
    })
}

/// The machine of the recorded commands.
struct Machine;

impl Machine {
    fn program(path: String) -> Program {
        let identity = FileIdentity { device: 1, inode: 2, size: 3, modified: 4 };
        Program { path, identity, trusted: true }
    }
}

impl Lookup for Machine {
    fn find(&self, word: &str, _place: &PlanPlace) -> Option<Program> {
        let name = word.strip_prefix("/usr/bin/").unwrap_or(word);
        let known = ["ls", "jq", "git", "echo", "sort"].contains(&name);
        known.then(|| Self::program(format!("/usr/bin/{name}")))
    }

    fn shell(&self) -> Option<Program> {
        Some(Self::program("/usr/bin/bash".to_owned()))
    }
}

fn place() -> PlanPlace {
    let env = [("HOME", "/home/ada"), ("PATH", "/usr/bin")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    PlanPlace { cwd: "/home/ada/work".to_owned(), env: BTreeMap::from(env), added_env: BTreeMap::new() }
}

fn exec_policy() -> ExecPolicy {
    let filters = "jq grep cut sort uniq head tail tr wc";
    ExecPolicy {
        security: Security::Allowlist,
        ask: Ask::OnMiss,
        fallback: AskFallback::Deny,
        confined: true,
        unconfined_by_name: false,
        safe_bins: filters.split(' ').map(str::to_owned).collect(),
        forbidden: Vec::new(),
        roots: Vec::new(),
    }
}

fn rule(command: CommandMatch) -> Result<AllowRule, String> {
    Ok(AllowRule {
        id: AllowRuleId::from_parts(1, [1; 10]),
        scope: Scope::personal("main".parse().map_err(|_| "no agent's name")?),
        tool: "exec".to_owned(),
        matches: AllowMatch::Commands(vec![command]),
        created_by: "ada".to_owned(),
        approval: None,
        created_at: 0,
        last_used_at: None,
    })
}

/// Git and echo are allowed by their full paths. That list names programs and not arguments, so ours gets every argument
/// list of git that the case has.
fn exec(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Case {
        c: String,
        analysis_ok: bool,
        ok: bool,
        argv: Vec<Vec<String>>,
    }
    let case: Case = read(case)?;
    let echo = CommandMatch { program: "/usr/bin/echo".to_owned(), args: Vec::new(), open: true };
    let mut rules = vec![rule(echo)?];
    for argv in &case.argv {
        if let [program, args @ ..] = argv.as_slice()
            && program.trim_start_matches("/usr/bin/") == "git"
        {
            let program = "/usr/bin/git".to_owned();
            rules.push(rule(CommandMatch { program, args: args.to_vec(), open: false })?);
        }
    }
    let ours = Plan::of_script(&case.c, place(), &Machine).ok().filter(|plan| plan.opaque().is_none());
    let (understood, allowed, argv) = ours.map_or((false, false, Vec::new()), |plan| {
        let allowed = judge(&plan, &exec_policy(), &rules).verdict == Verdict::Allow;
        (true, allowed, plan.launches().map(|launch| launch.argv.clone()).collect())
    });
    compared(json!([case.analysis_ok, case.ok, case.argv]), json!([understood, allowed, argv]))
}

fn policy(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Lists {
        allow: Option<Vec<String>>,
        deny: Option<Vec<String>>,
    }
    #[derive(Deserialize)]
    struct Case {
        tool: String,
        policy: Lists,
        allowed: bool,
    }
    let Case { tool, policy: Lists { allow, deny }, allowed } = read(case)?;
    let mut stage = Stage::new(StageKind::Global, "tools");
    stage.allow = allow;
    stage.deny = deny.unwrap_or_default();
    let policy = ToolPolicy {
        base: Base { profile: Profile::Full, ..Base::default() },
        stages: vec![stage],
        ..ToolPolicy::default()
    };
    let pipeline = Pipeline::new(&policy).map_err(|error| error.to_string())?;
    compared(allowed, !pipeline.tools([tool.as_str()], Trust::Normal).is_empty())
}

fn tools_by_sender(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Input {
        tools_by_sender: serde_json::Map<String, Value>,
        sender_id: Option<String>,
        sender_username: Option<String>,
        sender_name: Option<String>,
    }
    let (input, out): (Input, Value) = in_and_out(case)?;
    let table: Vec<(String, Value)> = input.tools_by_sender.into_iter().collect();
    let sender = Sender {
        id: input.sender_id.as_deref(),
        username: input.sender_username.as_deref(),
        name: input.sender_name.as_deref(),
    };
    compared(out, by_sender(&table, sender).cloned().unwrap_or_default())
}

fn ssrf(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        a: String,
        r#priv: bool,
    }
    let Case { a, r#priv: private } = read(case)?;
    let address: IpAddr = a.parse().map_err(|error| format!("{a:?}: {error}"))?;
    compared(private, class_of(address).is_some())
}

fn keys(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        keys: Vec<String>,
        data: String,
        warnings: Vec<String>,
    }
    let Case { keys, data, warnings } = read(case)?;
    // There are no warnings here: what is no key is refused.
    let ours = match encode_keys(&keys) {
        Ok(bytes) => json!([String::from_utf8_lossy(&bytes), []]),
        Err(token) => json!({ "refused": token }),
    };
    compared(json!([data, warnings]), ours)
}

/// The end of one long line of `aé` again and again, seven bytes of it: there an é begins before the cut.
fn trunc_tail(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Case {
        content: String,
        truncated_by: String,
        last_line_partial: bool,
    }
    let case: Case = read(case)?;
    let text = "aé".repeat(50);
    let cut = truncate::tail(&text, 2000, 7);
    let by = cut.by.map(|by| match by {
        CutBy::Lines => "lines",
        CutBy::Bytes => "bytes",
    });
    compared(
        json!([case.content, case.truncated_by, case.last_line_partial]),
        json!([cut.content, by, cut.partial]),
    )
}
