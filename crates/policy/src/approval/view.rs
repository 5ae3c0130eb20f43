//! What a person is shown. Every text that came from outside is inert.

use serde_json::{Map, Value};
use tidegate_protocol::api::{AllowRuleView, ApprovalView, PrefixRule};

use super::shell::{lines, quoted};
use super::{AllowMatch, AllowRule, Approval, CommandMatch, Question};
use crate::call::{Subject, SubjectKind};
use crate::exec::Plan;
use crate::inert::{inert, inert_line};

/// The most entries of a list or an object that are shown; the first and the last ones.
const ENTRIES: usize = 200;

/// A question as it is shown.
pub fn view(approval: &Approval) -> ApprovalView {
    let question = &approval.question;
    let plan = question.plan.as_ref();
    let answered = approval.answered.as_ref();
    ApprovalView {
        id: approval.id,
        agent: approval.scope.agent.as_str().to_owned(),
        session: inert_line(&approval.session),
        run: approval.run,
        tool: inert_line(&approval.tool),
        state: inert_line(approval.state.as_str()),
        requester: inert_line(&approval.requester),
        reason: inert(&question.reason),
        args: inert_value(&question.args),
        commands: plan.map(lines).unwrap_or_default(),
        shell: plan.is_some_and(|plan| plan.opaque().is_some()),
        cwd: folder(question).map(inert_line),
        env: plan.map(environment).unwrap_or_default(),
        subjects: question.subjects.iter().map(subject).collect(),
        preview: question.preview.as_deref().map(inert),
        rule: question.rule.as_ref().map(rule_in_words),
        prefix: prefix(question),
        answered_by: answered.map(|answered| inert_line(&answered.by)),
        answer_reason: answered.and_then(|answered| answered.reason.as_deref()).map(inert),
        created_at: approval.created_at,
        expires_at: approval.expires_at,
    }
}

/// The rule for the program's own command and whatever follows: `git log …` of `git log -1 --oneline`.
fn prefix(question: &Question) -> Option<PrefixRule> {
    let [launch] = question.plan.as_ref()?.launches().collect::<Vec<_>>()[..] else { return None };
    let [_, command, _, ..] = launch.argv.as_slice() else { return None };
    if command.starts_with('-') {
        return None;
    }
    let rule = question.rule_for(Some(1))?;
    Some(PrefixRule { words: 1, rule: rule_in_words(&rule) })
}

/// Where programs start, or what paths are relative to; nothing for a call that has to do with neither.
fn folder(question: &Question) -> Option<&str> {
    let files = |subject: &Subject| matches!(subject.kind, SubjectKind::Path | SubjectKind::Tree);
    match &question.plan {
        Some(plan) => Some(plan.cwd()),
        None if question.subjects.iter().any(files) => Some(&question.root),
        None => None,
    }
}

pub fn allow_rule_view(rule: &AllowRule) -> AllowRuleView {
    AllowRuleView {
        id: rule.id,
        agent: rule.scope.agent.as_str().to_owned(),
        tool: inert_line(&rule.tool),
        rule: rule_in_words(&rule.matches),
        created_by: inert_line(&rule.created_by),
        approval: rule.approval,
        created_at: rule.created_at,
        last_used_at: rule.last_used_at,
    }
}

/// A rule as a person can check it: `/usr/bin/git status`, or `/usr/bin/git log …` when more may follow.
pub fn rule_in_words(rule: &AllowMatch) -> String {
    let parts: Vec<_> = match rule {
        AllowMatch::Commands(commands) => commands.iter().map(command).collect(),
        AllowMatch::Subjects(subjects) => subjects.iter().map(subject).collect(),
    };
    parts.join("; ")
}

fn command(command: &CommandMatch) -> String {
    let mut words = vec![quoted(&command.program)];
    words.extend(command.args.iter().map(|word| quoted(word)));
    if command.open {
        words.push("…".to_owned());
    }
    words.join(" ")
}

fn subject(subject: &Subject) -> String {
    let kind = match subject.kind {
        SubjectKind::Path => "path",
        SubjectKind::Tree => "everything in",
        SubjectKind::Host => "host",
        SubjectKind::Url => "url",
        SubjectKind::Method => "method",
    };
    format!("{kind} {}", quoted(&subject.value))
}

fn environment(plan: &Plan) -> Vec<String> {
    plan.added_env().iter().map(|(name, value)| format!("{}={}", quoted(name), quoted(value))).collect()
}

/// Arguments with every text in them inert, and long lists cut in the middle.
fn inert_value(value: &Value) -> Value {
    match value {
        Value::String(text) => inert(text).into(),
        Value::Array(items) => {
            let mut shown: Vec<_> = kept(items.len()).map(|place| inert_value(&items[place])).collect();
            if let Some(mark) = left_out(items.len()) {
                shown.insert(ENTRIES / 2, mark.into());
            }
            shown.into()
        }
        Value::Object(fields) => {
            let all: Vec<_> = fields.iter().collect();
            let mut shown: Map<_, _> =
                kept(all.len()).map(|place| (inert_line(all[place].0), inert_value(all[place].1))).collect();
            if let Some(mark) = left_out(all.len()) {
                shown.insert(mark, Value::Null);
            }
            shown.into()
        }
        other => other.clone(),
    }
}

/// The places of the entries that are shown.
fn kept(length: usize) -> impl Iterator<Item = usize> {
    let half = if length > ENTRIES { ENTRIES / 2 } else { length };
    (0..half).chain((length - half).max(half)..length)
}

fn left_out(length: usize) -> Option<String> {
    (length > ENTRIES).then(|| format!("⟨{} more⟩", length - ENTRIES))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_protocol::Id;

    use super::*;
    use crate::approval::testing::{command as exact, exec_call, question, reading_call, shell_call};
    use crate::approval::{Answered, ApprovalState};
    use crate::call::Prepared;

    fn shown(call: &Prepared) -> ApprovalView {
        view(&Approval::ask(Id::from_parts(1, [1; 10]), None, call, question(call), 10, 20))
    }

    #[test]
    fn a_command_is_shown_as_it_would_run_with_the_rule_it_would_save() {
        let view = shown(&exec_call(&[&["git", "log", "a b"], &["head"]]));
        assert_eq!(view.commands, ["/usr/bin/git log 'a b'", "| /usr/bin/head"]);
        assert_eq!((view.shell, view.cwd.as_deref()), (false, Some("/home/a/work")));
        assert_eq!(view.env, ["LANG=C"]);
        assert_eq!(view.rule.as_deref(), Some("/usr/bin/git log 'a b'; /usr/bin/head"));
        assert_eq!((view.agent.as_str(), view.session.as_str(), view.tool.as_str()), ("main", "cli", "exec"));
        assert_eq!((view.state.as_str(), view.requester.as_str()), ("pending", "a"));
        assert_eq!((view.reason.as_str(), view.created_at, view.expires_at), ("every command asks", 10, 20));
    }

    #[test]
    fn a_prefix_is_offered_where_whatever_follows_can_do_no_harm() {
        let offered =
            |call: &[&str]| shown(&exec_call(&[call])).prefix.map(|prefix| (prefix.words, prefix.rule));
        assert_eq!(offered(&["git", "log", "-1"]), Some((1, "/usr/bin/git log …".to_owned())));
        for call in [&["git", "log"][..], &["git", "push", "origin"], &["git", "-C", "log"], &["git"]] {
            assert_eq!(offered(call), None, "{call:?}");
        }
        assert_eq!(shown(&exec_call(&[&["git", "log", "-1"], &["head", "-1", "x"]])).prefix, None);
    }

    #[test]
    fn a_script_says_that_a_shell_reads_it_and_offers_no_rule() {
        let view = shown(&shell_call("echo $(id)"));
        assert_eq!((view.shell, view.rule), (true, None));
    }

    #[test]
    fn what_a_call_touches_is_shown() {
        let subjects = vec![
            Subject::new(SubjectKind::Path, "docs/a b.md"),
            Subject::new(SubjectKind::Host, "example.org"),
            Subject::new(SubjectKind::Url, "https://example.org/?a"),
            Subject::new(SubjectKind::Method, "POST"),
        ];
        let view = shown(&reading_call(subjects));
        let expected =
            ["path 'docs/a b.md'", "host example.org", "url 'https://example.org/?a'", "method POST"];
        assert_eq!(view.subjects, expected);
        assert_eq!(view.rule, Some(expected.join("; ")));
        assert_eq!((view.commands.len(), view.env.len()), (0, 0));
        let root = reading_call(Vec::new()).requester().root.clone();
        assert_eq!(view.cwd, Some(root), "paths are relative to something");
        assert_eq!(shown(&reading_call(vec![Subject::new(SubjectKind::Host, "a.org")])).cwd, None);
    }

    #[test]
    fn every_text_in_a_view_is_inert() {
        const BAD: &str = "a\u{202E}b\u{1b}[2J";
        let call = exec_call(&[&["git", BAD]]);
        let mut approval = Approval::ask(Id::from_parts(1, [1; 10]), None, &call, question(&call), 10, 20);
        approval.session = BAD.to_owned();
        approval.tool = BAD.to_owned();
        approval.requester = BAD.to_owned();
        approval.state = ApprovalState::Unknown(BAD.to_owned());
        approval.answered =
            Some(Answered { by: BAD.to_owned(), reason: Some(BAD.to_owned()), rule: None, at: 15 });
        approval.question.args = json!({ BAD: [BAD, { "deep": BAD }, 5, null] });
        approval.question.preview = Some(BAD.to_owned());
        approval.question.reason = BAD.to_owned();
        approval.question.subjects = vec![Subject::new(SubjectKind::Path, BAD)];
        let view = view(&approval);
        let text = serde_json::to_string(&view).unwrap();
        // JSON writes controls as escapes.
        assert!(!text.contains('\u{202E}') && !text.contains("\\u001b"), "{text}");
        assert_eq!(view.args["a⟨U+202E⟩b⟨U+001B⟩[2J"][2], 5);
        assert_eq!(view.answer_reason.as_deref(), Some("a⟨U+202E⟩b⟨U+001B⟩[2J"));
        assert_eq!(view.answered_by, view.answer_reason);
    }

    #[test]
    fn a_rule_says_when_more_may_follow() {
        let mut git = exact("/usr/bin/git", &["log"]);
        git.open = true;
        assert_eq!(rule_in_words(&AllowMatch::Commands(vec![git.clone()])), "/usr/bin/git log …");
        // Somebody may name a file like the sign for more.
        let named = exact("/usr/bin/git", &["log", "…"]);
        assert_eq!(rule_in_words(&AllowMatch::Commands(vec![named])), "/usr/bin/git log '…'");
        let rule = AllowRule {
            id: Id::from_parts(2, [2; 10]),
            scope: exec_call(&[&["git"]]).requester().scope.clone(),
            tool: "exec".to_owned(),
            matches: AllowMatch::Commands(vec![git]),
            created_by: "a\u{200B}".to_owned(),
            approval: None,
            created_at: 5,
            last_used_at: Some(6),
        };
        let view = allow_rule_view(&rule);
        assert_eq!((view.rule.as_str(), view.created_by.as_str()), ("/usr/bin/git log …", "a⟨U+200B⟩"));
        assert_eq!((view.created_at, view.last_used_at), (5, Some(6)));
    }

    #[test]
    fn long_lists_show_their_first_and_their_last() {
        let list = |length: usize| inert_value(&json!((0..length).collect::<Vec<_>>()));
        assert_eq!(list(ENTRIES).as_array().unwrap().len(), ENTRIES);
        let cut = list(ENTRIES + 5);
        assert_eq!(cut.as_array().unwrap().len(), ENTRIES + 1);
        assert_eq!((&cut[0], &cut[99], &cut[100]), (&json!(0), &json!(99), &json!("⟨5 more⟩")));
        assert_eq!((&cut[101], &cut[200]), (&json!(105), &json!(204)));
        let fields = |length: usize| {
            let all: Map<_, _> = (0..length).map(|n| (format!("k{n:04}"), n.into())).collect();
            inert_value(&Value::Object(all))
        };
        assert_eq!(fields(ENTRIES).as_object().unwrap().len(), ENTRIES);
        let cut = fields(ENTRIES + 5);
        assert_eq!(cut.as_object().unwrap().len(), ENTRIES + 1);
        assert!(cut.get("⟨5 more⟩").is_some() && cut.get("k0204").is_some() && cut.get("k0100").is_none());
    }
}
