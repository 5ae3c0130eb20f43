//! `tools explain`: what would become of a call, and which rule says so. Nothing is run.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_policy::inert::inert_line;
use tidegate_policy::tools::{Decision, StageKind, StageSaid, Verdict};
use tidegate_policy::{HostPattern, Prepared};
use tidegate_protocol::ErrorCode;
use tidegate_tools::ToolFailure;

use super::remedy::Remedy;
use super::{Known, arguments, call, decided_json, fitted, verdict};
use crate::Outcome;
use crate::app::App;
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::failure::{Failure, Message};
use crate::output::{print, print_json, print_line, printable, table};
use crate::texts::tools as words;

pub(in crate::commands) fn explain(app: &App, command: &'static Command, parsed: &Parsed) -> Outcome {
    let args = arguments(command, parsed)?;
    let known = Known::new(app, parsed)?;
    let spec = known.find(app, &parsed.arguments[0])?;
    let has_args = args.is_some();
    let (prepared, decision) = match args {
        None => (None, known.outline(spec)),
        Some(args) => {
            let prepared =
                block_on(async { Ok(known.registry.prepare(call(&spec.name, args), &known.place).await) })?;
            match prepared {
                Ok(prepared) => {
                    let decision = known.decide(&prepared);
                    (Some(prepared), decision)
                }
                Err(failure) => (None, refused(known.outline(spec), failure)?),
            }
        }
    };
    if parsed.has("json") {
        print_json(&explained_json(&known, &spec.name, prepared.as_ref(), &decision))?;
    } else {
        print(&explained(app, &known, &spec.name, prepared.as_ref(), &decision))?;
        if !has_args {
            print_line(&format!("\n{}", app.output.dim(app.say(words::EXPLAIN_WITHOUT_ARGS))))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The decision about a call that is refused for where it leads, before anybody looks at who may make it.
fn refused(outline: Decision, failure: ToolFailure) -> Result<Decision, Failure> {
    let policy = failure.details.as_ref().map(|details| &details["policy"]);
    let Some(rule) =
        policy.filter(|policy| policy["stage"] == "egress").and_then(|policy| policy["rule"].as_str())
    else {
        return Err(Failure::new(ErrorCode::InvalidValue, Message::plain(failure.message)));
    };
    let (stage, verdict, rule) = (StageKind::Egress, Verdict::Deny, rule.to_owned());
    let mut trail = outline.trail;
    trail.push(StageSaid { stage, verdict, rule: rule.clone() });
    Ok(Decision {
        verdict,
        stage,
        rule,
        reason: failure.message,
        can_be_saved: false,
        allowed_by: None,
        trail,
    })
}

fn explained_json(known: &Known, tool: &str, prepared: Option<&Prepared>, decision: &Decision) -> Value {
    let mut value = decided_json(decision);
    value["tool"] = tool.into();
    value["agent"] = known.scope.agent.as_str().into();
    value["session"] = known.place.requester.session.as_str().into();
    value["canBeSaved"] = decision.can_be_saved.into();
    value["trail"] = json!(decision.trail);
    if reaches_hosts(tool) {
        value["hosts"] = json!(known.place.egress.hosts.levels());
    }
    if let Some(prepared) = prepared {
        value["call"] = json!({
            "args": prepared.args(),
            "subjects": prepared.subjects(),
            "plan": prepared.plan(),
        });
    }
    value
}

fn explained(
    app: &App,
    known: &Known,
    tool: &str,
    prepared: Option<&Prepared>,
    decision: &Decision,
) -> String {
    let lead = match decision.verdict {
        Verdict::Allow => words::EXPLAIN_ALLOW,
        Verdict::Ask => words::EXPLAIN_ASK,
        Verdict::Deny => words::EXPLAIN_DENY,
    };
    let lead = app.fill(lead, &[("tool", &printable(tool)), ("agent", &known.scope.agent.as_str())]);
    let mut facts = vec![
        vec![app.say(words::EXPLAIN_RULE).to_owned(), printable(&decision.rule)],
        vec![app.say(words::EXPLAIN_STAGE).to_owned(), name(&json!(decision.stage))],
        vec![app.say(words::EXPLAIN_REASON).to_owned(), printable(&decision.reason)],
    ];
    if decision.verdict == Verdict::Deny {
        let way = Remedy::of(&name(&json!(decision.stage)), &decision.rule, tool, &known.tools);
        facts.push(vec![app.say(words::EXPLAIN_CHANGE).to_owned(), printable(&way.text(app))]);
    }
    if decision.verdict == Verdict::Ask && prepared.is_some() {
        let again = if decision.can_be_saved { words::EXPLAIN_SAVED } else { words::EXPLAIN_EVERY_TIME };
        facts.push(vec![app.say(words::EXPLAIN_AGAIN).to_owned(), app.say(again).to_owned()]);
    }
    facts.extend(prepared.iter().flat_map(|prepared| touched(app, prepared)));
    if reaches_hosts(tool) {
        facts.extend(hosts(app, known));
    }
    let titles = app.say(words::EXPLAIN_TITLES).split(',').map(|title| app.output.dim(title)).collect();
    let mut trail: Vec<Vec<String>> = vec![titles];
    trail.extend(decision.trail.iter().map(|said| {
        vec![name(&json!(said.stage)), app.say(verdict(said.verdict)).to_owned(), printable(&said.rule)]
    }));
    let mut text = format!("{}\n{}", app.output.bold(&lead), fitted(app, &facts));
    if trail.len() > 1 {
        let saved = decision.trail.iter().any(|said| said.stage == StageKind::Saved);
        let heading = if saved { words::EXPLAIN_TRAIL_SAVED } else { words::EXPLAIN_TRAIL };
        let _ = write!(text, "\n{}\n{}", app.say(heading), table(&trail));
    }
    text
}

/// Whether a tool calls addresses, so that the rules about hosts hold for it.
fn reaches_hosts(tool: &str) -> bool {
    matches!(tool, "web_fetch" | "http.request" | "image") || tool.starts_with("tools.custom.")
}

/// What is left of all hosts, level by level.
fn hosts(app: &App, known: &Known) -> Vec<Vec<String>> {
    let list = |patterns: &[HostPattern]| {
        let texts: Vec<_> = patterns.iter().map(ToString::to_string).collect();
        texts.join(", ")
    };
    let mut rows = Vec::new();
    for level in known.place.egress.hosts.levels() {
        let mut row = |key: &str, patterns: &[HostPattern]| {
            let said = format!("{}.{key}: {}", level.key, list(patterns));
            rows.push(vec![app.say(words::EXPLAIN_HOSTS).to_owned(), inert_line(&said)]);
        };
        if let Some(allow) = &level.allow {
            row("allowHosts", allow);
        }
        if !level.deny.is_empty() {
            row("denyHosts", &level.deny);
        }
    }
    rows
}

/// What the call would touch and start, as policy sees it.
fn touched(app: &App, prepared: &Prepared) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for subject in prepared.subjects() {
        let shown = format!("{} {}", name(&json!(subject.kind)), subject.value);
        rows.push(vec![app.say(words::EXPLAIN_TOUCHES).to_owned(), inert_line(&shown)]);
    }
    let Some(plan) = prepared.plan() else { return rows };
    if let Some(opaque) = plan.opaque() {
        let shell = app.fill(words::EXPLAIN_SHELL, &[("reason", &inert_line(&opaque.reason))]);
        rows.push(vec![app.say(words::EXPLAIN_RUNS).to_owned(), shell]);
        return rows;
    }
    for launch in plan.launches() {
        let words = launch.argv.get(1..).unwrap_or_default();
        let shown = format!("{} {words:?}", launch.program.path);
        rows.push(vec![app.say(words::EXPLAIN_RUNS).to_owned(), inert_line(&shown)]);
    }
    rows
}

/// How a value is called on the wire.
fn name(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
