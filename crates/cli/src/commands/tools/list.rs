//! `tools list`: the tools there are, and what policy says about each.

use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_policy::tools::Verdict;
use tidegate_tools::ToolSpec;

use super::{Known, fitted, risk, verdict};
use crate::Outcome;
use crate::app::App;
use crate::arguments::{Command, Parsed};
use crate::output::{complain, print, print_json, print_line, printable};
use crate::texts::tools as words;

pub(in crate::commands) fn list(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let known = Known::new(app, parsed)?;
    let mut rows: Vec<_> = known.registry.specs().map(|spec| (spec, known.outline(spec).verdict)).collect();
    if parsed.has("allowed") {
        rows.retain(|(_, verdict)| *verdict != Verdict::Deny);
    }
    rows.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    for (server, why) in &known.absent {
        complain(&app.fill(words::SERVER_ABSENT, &[("server", server), ("why", &printable(why))]));
    }
    if parsed.has("json") || !app.output.terminal {
        print_json(&rows.iter().map(|(spec, _)| spec_json(spec)).collect())?;
        return Ok(ExitCode::SUCCESS);
    }
    let agent = known.scope.agent.as_str();
    if rows.is_empty() {
        print_line(&app.fill(words::NO_TOOLS, &[("agent", &agent), ("program", &app.program)]))?;
        return Ok(ExitCode::SUCCESS);
    }
    let titles = app.fill(words::TOOL_TITLES, &[("agent", &agent)]);
    let mut lines = vec![titles.split(',').map(|title| app.output.dim(title)).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(|(spec, said)| {
        let about = spec.description.lines().next().unwrap_or_default();
        vec![
            printable(&spec.name),
            app.say(risk(spec.risk)).to_owned(),
            app.say(verdict(*said)).to_owned(),
            printable(&first_sentence(about)),
        ]
    }));
    print(&fitted(app, &lines))?;
    if rows.iter().any(|(_, said)| *said != Verdict::Allow) {
        let why = app.fill(words::LIST_WHY, &[("program", &app.program)]);
        print_line(&format!("\n{}", app.output.dim(&why)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a list says about a tool; the whole text is in `tools info`.
fn first_sentence(text: &str) -> String {
    match text.find(". ") {
        Some(end) => text[..=end].to_owned(),
        None => text.to_owned(),
    }
}

/// A tool in the words of the contract.
pub(super) fn spec_json(spec: &ToolSpec) -> Value {
    json!({ "name": spec.name, "description": spec.description, "inputSchema": spec.input_schema })
}

#[cfg(test)]
mod tests {
    use super::first_sentence;

    #[test]
    fn a_list_has_one_sentence_about_a_tool() {
        assert_eq!(first_sentence("Reads a file. Long ones are cut."), "Reads a file.");
        assert_eq!(first_sentence("Version 1.5 of it"), "Version 1.5 of it");
    }
}
