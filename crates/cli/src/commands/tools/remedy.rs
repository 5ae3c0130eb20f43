//! What a person can do about a refusal: the command that changes the rule, where there is one.

use std::fmt::Display;

use serde_json::json;
use tidegate_config::schema::{ToolProfile, Tools};
use tidegate_policy::tools::{Base, Pipeline, Profile, ToolPolicy, Trust};

use crate::app::App;
use crate::texts::tools as words;

/// The way out of a no.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Shipped with the program: no configuration changes it.
    Never,
    /// Words after the program's name.
    Command(String),
    /// What an agent in a sensitive session sees must not leave.
    Sensitive,
    /// The rule is a key of the configuration that is better read before it is changed.
    Key(String),
}

impl Remedy {
    /// `stage` and `rule` as they are called on the wire.
    pub(super) fn of(stage: &str, rule: &str, tool: &str, tools: &Tools) -> Self {
        match (stage, rule) {
            ("shipped", _) => Self::Never,
            ("trust", _) => Self::Sensitive,
            ("profile", "tools.profile") => Self::Command(granting(tool, tools)),
            ("egress", "egress.private") => Self::Key("tools.web.allowPrivate".to_owned()),
            _ => Self::Key(rule.to_owned()),
        }
    }

    pub(super) fn text(&self, app: &App) -> String {
        let program: (&str, &dyn Display) = ("program", &app.program);
        match self {
            Self::Never => app.say(words::CHANGE_NEVER).to_owned(),
            Self::Sensitive => app.say(words::CHANGE_SENSITIVE).to_owned(),
            Self::Command(command) => format!("{} {command}", app.program),
            Self::Key(key) => app.fill(words::CHANGE_KEY, &[("key", key), program]),
        }
    }
}

/// The smallest step that gives the tool: the profile for work on files and commands if nothing is lost by it, else the
/// tool alone.
fn granting(tool: &str, tools: &Tools) -> String {
    let within_coding = matches!(tools.profile, ToolProfile::Minimal | ToolProfile::Safe);
    if within_coding && coding_has(tool) {
        return "config set tools.profile coding".to_owned();
    }
    let mut also = tools.also_allow.clone();
    also.push(tool.to_owned());
    format!("config set tools.alsoAllow '{}'", json!(also))
}

fn coding_has(tool: &str) -> bool {
    let base = Base { profile: Profile::Coding, ..Base::default() };
    let pipeline = Pipeline::new(&ToolPolicy { base, ..ToolPolicy::default() });
    pipeline.is_ok_and(|pipeline| !pipeline.tools([tool], Trust::default()).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(tool: &str, tools: &Tools) -> String {
        match Remedy::of("profile", "tools.profile", tool, tools) {
            Remedy::Command(command) => command,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_the_coding_profile_has_is_given_by_it() {
        assert_eq!(command("write", &Tools::default()), "config set tools.profile coding");
        assert_eq!(command("apply_patch", &Tools::default()), "config set tools.profile coding");
    }

    #[test]
    fn any_other_tool_is_given_alone_beside_those_there_are() {
        let mut tools = Tools { also_allow: vec!["image".to_owned()], ..Tools::default() };
        assert_eq!(command("web_fetch", &tools), r#"config set tools.alsoAllow '["image","web_fetch"]'"#);
        tools.profile = ToolProfile::Messaging;
        assert_eq!(
            command("write", &tools),
            r#"config set tools.alsoAllow '["image","write"]'"#,
            "the coding profile would take the messages away"
        );
    }

    #[test]
    fn nothing_is_offered_against_a_shipped_rule() {
        let tools = Tools::default();
        assert_eq!(Remedy::of("shipped", "remove-system", "exec", &tools), Remedy::Never);
        assert_eq!(Remedy::of("trust", "sensitive session", "web_fetch", &tools), Remedy::Sensitive);
        assert_eq!(
            Remedy::of("global", "tools.deny[0]", "write", &tools),
            Remedy::Key("tools.deny[0]".into())
        );
    }
}
