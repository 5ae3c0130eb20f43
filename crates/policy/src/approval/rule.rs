//! Which rule an `allow-always` may save: what was asked, or a prefix of it that a person chose. Never what a caller
//! made up.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{AllowMatch, Question};
use crate::call::Prepared;
use crate::exec::suggestion;

impl AllowMatch {
    /// The narrowest rule that covers the call: exactly its programs with exactly their arguments, or exactly what it
    /// touches. `None` when nothing about the call can be pinned down that way.
    pub fn of(prepared: &Prepared) -> Option<Self> {
        match prepared.plan() {
            Some(plan) => suggestion(plan, None),
            None if prepared.can_be_named() => Some(Self::Subjects(prepared.subjects().to_vec())),
            None => None,
        }
    }
}

impl Question {
    /// What `allow-always` saves: the rule as it was asked, or with `prefix` the same program with its first words,
    /// whatever follows. A prefix is for one command whose further words can do no harm, and keeps at least one word.
    pub fn rule_for(&self, prefix: Option<u32>) -> Option<AllowMatch> {
        let rule = self.rule.as_ref()?;
        let Some(prefix) = prefix else { return Some(rule.clone()) };
        let plan = self.plan.as_ref()?;
        let one_command = plan.launches().count() == 1;
        if one_command && prefix > 0 { suggestion(plan, Some(prefix)) } else { None }
    }

    /// Whether the question's answer may save this rule.
    pub(super) fn offers(&self, rule: &AllowMatch) -> bool {
        let prefix = match rule {
            AllowMatch::Commands(commands) => match commands.as_slice() {
                [command] => u32::try_from(command.args.len()).ok(),
                _ => None,
            },
            AllowMatch::Subjects(_) => None,
        };
        self.rule.as_ref() == Some(rule) || (prefix.is_some() && self.rule_for(prefix).as_ref() == Some(rule))
    }
}

/// A rule of a kind that only a newer release knows is none that could be saved here; the question is still shown.
pub(super) fn readable<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<AllowMatch>, D::Error> {
    let value = Option::<Value>::deserialize(reader)?;
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::CommandMatch;
    use crate::approval::testing::{command, exec_call, question, reading_call};
    use crate::call::{Subject, SubjectKind};

    fn commands(list: &[CommandMatch]) -> AllowMatch {
        AllowMatch::Commands(list.to_vec())
    }

    #[test]
    fn the_rule_of_a_command_is_exactly_its_programs_and_arguments() {
        let call = exec_call(&[&["git", "log", "-1"], &["head"]]);
        let expected = commands(&[command("/usr/bin/git", &["log", "-1"]), command("/usr/bin/head", &[])]);
        assert_eq!(AllowMatch::of(&call), Some(expected));
    }

    #[test]
    fn the_rule_of_another_call_is_exactly_what_it_touches() {
        let subjects = vec![Subject::new(SubjectKind::Path, "docs/a.md")];
        assert_eq!(AllowMatch::of(&reading_call(subjects.clone())), Some(AllowMatch::Subjects(subjects)));
        assert_eq!(AllowMatch::of(&reading_call(Vec::new())), None);
    }

    #[test]
    fn a_script_for_the_shell_has_no_rule() {
        assert_eq!(AllowMatch::of(&crate::approval::testing::shell_call("echo $(id)")), None);
    }

    #[test]
    fn a_prefix_keeps_at_least_one_word_of_one_command() {
        let asked = question(&exec_call(&[&["git", "log", "-1"]]));
        let open =
            |args: &[&str]| Some(commands(&[CommandMatch { open: true, ..command("/usr/bin/git", args) }]));
        assert_eq!(asked.rule_for(None), asked.rule);
        assert_eq!(asked.rule_for(Some(0)), None);
        assert_eq!(asked.rule_for(Some(1)), open(&["log"]));
        assert_eq!(asked.rule_for(Some(2)), open(&["log", "-1"]));
        assert_eq!(asked.rule_for(Some(3)), None);
        let piped = question(&exec_call(&[&["git", "log"], &["head", "-1"]]));
        assert_eq!(piped.rule_for(Some(1)), None);
        let touching = question(&reading_call(vec![Subject::new(SubjectKind::Path, "a")]));
        assert_eq!(touching.rule_for(Some(1)), None);
        assert_eq!(Question { rule: None, ..asked }.rule_for(None), None);
    }

    #[test]
    fn a_prefix_that_could_never_cover_a_call_is_not_offered() {
        let asked = question(&exec_call(&[&["git", "push", "origin"]]));
        assert!(asked.rule_for(None).is_some());
        assert_eq!(asked.rule_for(Some(1)), None, "what follows `git push` is not for a rule to leave open");
    }

    #[test]
    fn only_the_rule_itself_and_its_prefixes_are_offered() {
        let asked = question(&exec_call(&[&["git", "log", "-1"]]));
        let git = |args: &[&str], open| commands(&[CommandMatch { open, ..command("/usr/bin/git", args) }]);
        for (rule, offered) in [
            (git(&["log", "-1"], false), true),
            (git(&["log", "-1"], true), true),
            (git(&["log"], true), true),
            (git(&["log"], false), false),
            (git(&[], true), false),
            (git(&[], false), false),
            (git(&["push"], true), false),
            (git(&["log", "-1", "x"], true), false),
            (commands(&[]), false),
            (commands(&[command("/usr/bin/rm", &["log", "-1"])]), false),
            (commands(&[command("/usr/bin/git", &["log", "-1"]), command("/usr/bin/rm", &[])]), false),
            (AllowMatch::Subjects(Vec::new()), false),
        ] {
            assert_eq!(asked.offers(&rule), offered, "{rule:?}");
            assert!(!Question { rule: None, ..asked.clone() }.offers(&rule), "{rule:?}");
        }
        let subjects = vec![Subject::new(SubjectKind::Path, "a")];
        let touching = question(&reading_call(subjects.clone()));
        assert!(touching.offers(&AllowMatch::Subjects(subjects)));
        assert!(!touching.offers(&AllowMatch::Subjects(vec![Subject::new(SubjectKind::Path, "b")])));
    }

    #[test]
    fn a_rule_of_a_newer_kind_leaves_the_question_readable() {
        let asked = question(&exec_call(&[&["git", "log"]]));
        let mut stored = serde_json::to_value(&asked).unwrap();
        assert_eq!(serde_json::from_value::<Question>(stored.clone()).unwrap(), asked);
        stored["rule"] = serde_json::json!({ "phaseOfTheMoon": "new" });
        let read: Question = serde_json::from_value(stored).unwrap();
        assert_eq!(read, Question { rule: None, ..asked });
    }
}
