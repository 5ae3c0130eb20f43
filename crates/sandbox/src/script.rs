//! A plan as the shell inside a container or a machine reads it.
//!
//! Values of the environment may be the operator's keys: neither the command line of the engine's client nor its own
//! environment may have them under their names. The first is everybody's to read, and the second could turn the client,
//! which nothing holds, into something else (`LD_PRELOAD`, `DOCKER_HOST`). So they travel under names that mean nothing
//! to anybody and get their own inside.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tidegate_policy::exec::{Join, Launch, Plan};

/// What the names of travelling values begin with.
const TRAVELLING: &str = "TIDEGATE_VALUE_";

/// Variables that engines set by themselves.
const OF_THE_ENGINE: [&str; 3] = ["container", "HOSTNAME", "TERM"];

/// Variables that shells keep to themselves: setting one ends some shells.
const OF_THE_SHELL: [&str; 8] =
    ["BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID", "IFS", "LINENO"];

/// Something to run, with the values that go with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) text: String,
    /// What the engine's client has in its environment and hands on.
    pub(crate) values: BTreeMap<String, String>,
}

/// A variable that no shell can set.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a shell cannot set the environment variable {0:?}; a name has letters, digits and underscores")]
pub(crate) struct BadName(String);

/// `init` says that something else than the shell has the process id 1 and looks after orphans.
pub(crate) fn script(
    plan: &Plan,
    env: &BTreeMap<String, String>,
    init: bool,
    terminal: bool,
) -> Result<Script, BadName> {
    let mut text = String::new();
    let mut values = BTreeMap::new();
    for name in OF_THE_ENGINE {
        let stays = terminal && name == "TERM";
        if !stays && !env.contains_key(name) {
            let _ = writeln!(text, "unset {name}");
        }
    }
    for (index, (name, value)) in env.iter().enumerate() {
        if OF_THE_SHELL.contains(&name.as_str()) {
            continue;
        }
        if !is_name(name) {
            return Err(BadName(name.clone()));
        }
        let travelling = format!("{TRAVELLING}{index}");
        let _ = writeln!(text, "export {name}=\"${travelling}\"; unset {travelling}");
        values.insert(travelling, value.clone());
    }
    let _ = writeln!(text, "cd -- {} || exit 126", quoted(plan.cwd()));
    let shell = plan.opaque().is_some();
    match plan.steps() {
        [step] if init && step.pipeline.len() == 1 => {
            let _ = writeln!(text, "{}", exec(&step.pipeline[0], shell));
        }
        steps => {
            for (index, step) in steps.iter().enumerate() {
                let programs: Vec<_> =
                    step.pipeline.iter().map(|launch| format!("({})", exec(launch, shell))).collect();
                text.push_str(match step.join {
                    _ if index == 0 => "",
                    Join::Then => "\n",
                    Join::And => " && ",
                    Join::Or => " || ",
                });
                text.push_str(&programs.join(" | "));
            }
            // Without this a shell may put the last program in its own place, where signals do not end it.
            text.push_str("\nexit $?\n");
        }
    }
    Ok(Script { text, values })
}

/// `exec` starts programs only, never what the shell has built in. The shell of this machine need not be there.
fn exec(launch: &Launch, shell: bool) -> String {
    let mut text = "exec".to_owned();
    for (index, word) in launch.argv.iter().enumerate() {
        text.push(' ');
        text.push_str(&quoted(if shell && index == 0 { "sh" } else { word }));
    }
    text
}

pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
