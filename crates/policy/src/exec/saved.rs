//! Saved rules: what one covers, and what `allow-always` would save.

use super::environment;
use super::plan::{Launch, Plan};
use super::programs::{self, Saving};
use crate::approval::{AllowMatch, CommandMatch};

/// Whether one saved rule covers every program of a plan.
pub fn covers(matches: &AllowMatch, plan: &Plan) -> bool {
    let mut launches = plan.launches().peekable();
    launches.peek().is_some()
        && obstacle(plan).is_none()
        && launches.all(|launch| covers_launch(matches, launch))
}

/// Exactly the rule that `allow-always` saves for a plan; absent when it may not be saved. With `prefix`, only so many
/// arguments of each program must be the same and more may follow.
pub fn suggestion(plan: &Plan, prefix: Option<u32>) -> Option<AllowMatch> {
    if obstacle(plan).is_some() {
        return None;
    }
    let mut commands: Vec<CommandMatch> = Vec::new();
    for launch in plan.launches() {
        let command = command_match(launch, prefix)?;
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    (!commands.is_empty()).then_some(AllowMatch::Commands(commands))
}

/// Why no saved rule can speak for this plan at all.
pub(super) fn obstacle(plan: &Plan) -> Option<String> {
    if let Some(opaque) = plan.opaque() {
        return Some(format!("a shell has to read it: {}", opaque.reason));
    }
    environment::meddling(plan).map(|name| format!("it sets {name}, which can change what runs"))
}

/// Why no saved rule can speak for this program.
pub(super) fn launch_obstacle(launch: &Launch) -> Option<String> {
    let path = &launch.program.path;
    if !launch.program.trusted {
        return Some(format!("{path} can be replaced by others"));
    }
    match programs::saving(launch) {
        (Saving::Never, reason) => Some(format!("{path}: {reason}")),
        _ => None,
    }
}

pub(super) fn covers_launch(matches: &AllowMatch, launch: &Launch) -> bool {
    let AllowMatch::Commands(commands) = matches else { return false };
    // What costs more is asked last: most rules are about another program or other words.
    commands.iter().any(|command| {
        fits(command, launch) && launch_obstacle(launch).is_none() && (!command.open || may_be_open(launch))
    })
}

/// Whether the words are those of the rule, whatever may be saved about them.
fn fits(command: &CommandMatch, launch: &Launch) -> bool {
    let Some((_, args)) = launch.argv.split_first() else { return false };
    command.program == launch.program.path
        && if command.open { args.starts_with(&command.args) } else { args == command.args }
}

fn command_match(launch: &Launch, prefix: Option<u32>) -> Option<CommandMatch> {
    if launch_obstacle(launch).is_some() {
        return None;
    }
    let (_, args) = launch.argv.split_first()?;
    let program = launch.program.path.clone();
    let Some(prefix) = prefix else {
        return Some(CommandMatch { program, args: args.to_vec(), open: false });
    };
    let kept = args.get(..usize::try_from(prefix).ok()?)?;
    may_be_open(launch).then(|| CommandMatch { program, args: kept.to_vec(), open: true })
}

/// Whether the arguments after a prefix may be anything, as far as this call shows.
fn may_be_open(launch: &Launch) -> bool {
    match programs::saving(launch).0 {
        Saving::Open => true,
        Saving::Exact => git_only_looks(launch),
        Saving::Never => false,
    }
}

/// Git's commands that read a repository, without the options that write files or start programs.
fn git_only_looks(launch: &Launch) -> bool {
    const LOOKING: &[&str] = &[
        "blame",
        "describe",
        "diff",
        "log",
        "ls-files",
        "ls-tree",
        "merge-base",
        "rev-list",
        "rev-parse",
        "shortlog",
        "show",
        "status",
    ];
    const LOOKING_OPTIONS: &[&str] =
        &["--output", "--textconv", "--ext-diff", "--open-files-in-pager", "--contents"];
    let args = launch.argv.get(1..).unwrap_or_default();
    programs::base(&launch.program.path) == "git"
        && args.first().is_some_and(|subcommand| LOOKING.contains(&subcommand.as_str()))
        && !args.iter().any(|arg| LOOKING_OPTIONS.iter().any(|option| programs::abbreviates(arg, option)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::plan_called_as;

    #[test]
    fn git_by_the_name_of_a_launcher_is_left_open_in_no_way() {
        let open = |name: &str| {
            let plan = plan_called_as(name, &["/usr/bin/git", "log"]);
            plan.launches().all(may_be_open)
        };
        assert!(open("git"));
        assert!(!open("env"));
    }

    #[test]
    fn what_was_called_as_nothing_is_covered_by_nothing() {
        let mut value = serde_json::to_value(plan_called_as("mytool", &["/usr/bin/mytool"])).unwrap();
        let command = CommandMatch { program: "/usr/bin/mytool".to_owned(), args: Vec::new(), open: false };
        let rule = AllowMatch::Commands(vec![command]);
        assert!(covers(&rule, &serde_json::from_value(value.clone()).unwrap()));
        value["steps"][0]["pipeline"][0]["argv"] = serde_json::json!([]);
        assert!(!covers(&rule, &serde_json::from_value(value.clone()).unwrap()));
        value["steps"] = serde_json::json!([]);
        assert!(!covers(&rule, &serde_json::from_value(value).unwrap()));
    }
}
