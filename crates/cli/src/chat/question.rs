//! The card of an approval: what would be done, where, why it is asked, and the answers. Pure.
//!
//! The texts of the view are inert already: what could hide or move text is spelled out.

use tidegate_protocol::ApprovalId;
use tidegate_protocol::api::{AnswerApproval, ApprovalDecision, ApprovalView};
use tidegate_runtime::catalogue::{Language, Text};

use super::card::elapsed;
use super::keys::Key;
use super::line::{BLUE, BOLD, CYAN, DIM, GREEN, Line, PLAIN, RED, Style, YELLOW};
use super::wrap::{Break, Lead, rows};
use crate::texts::chat as words;

/// A question that waits for its answer.
pub(super) struct Question {
    view: ApprovalView,
    /// The person is writing why not.
    telling: bool,
}

/// What a key means for a question.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    /// This is the answer.
    Answer(AnswerApproval),
    /// The reason is typed next.
    Tell,
    /// Nothing: it is no answer.
    Nothing,
}

impl Question {
    pub(super) fn new(view: ApprovalView) -> Self {
        Self { view, telling: false }
    }

    pub(super) fn id(&self) -> ApprovalId {
        self.view.id
    }

    pub(super) fn is_telling(&self) -> bool {
        self.telling
    }

    /// Back to the choice.
    pub(super) fn stop_telling(&mut self) {
        self.telling = false;
    }

    /// The key is pressed.
    pub(super) fn press(&mut self, key: &Key) -> Reply {
        let reply = self.meaning(key);
        self.telling |= reply == Reply::Tell;
        reply
    }

    /// Only a key that is one of the answers is one.
    pub(super) fn meaning(&self, key: &Key) -> Reply {
        let answer = |decision| Reply::Answer(AnswerApproval { decision, reason: None, prefix: None });
        match key {
            Key::Char('y' | 'Y') => answer(ApprovalDecision::AllowOnce),
            Key::Char('a' | 'A') if self.view.rule.is_some() => answer(ApprovalDecision::AllowAlways),
            Key::Char('p' | 'P') if self.view.prefix.is_some() => Reply::Answer(AnswerApproval {
                decision: ApprovalDecision::AllowAlways,
                reason: None,
                prefix: self.view.prefix.as_ref().map(|prefix| prefix.words),
            }),
            Key::Char('n' | 'N') => answer(ApprovalDecision::Deny),
            Key::Char('t' | 'T') => Reply::Tell,
            _ => Reply::Nothing,
        }
    }

    /// The whole question, for the scrollback: nothing of what would be done is left out.
    pub(super) fn body(&self, language: Language, width: usize) -> Vec<Line> {
        let view = &self.view;
        let title = words::ASK_TITLE.fill(language, &[("tool", &view.tool)]);
        let mut lines =
            vec![Line::styled(YELLOW, "? ").then(Style { weight: BOLD.weight, ..YELLOW }, title).cut(width)];
        if view.shell {
            lines
                .push(Line::styled(PLAIN, "  ").then(RED, words::ASK_SHELL.in_language(language)).cut(width));
        }
        lines.extend(what(view).iter().flat_map(|line| wrapped("    ", CYAN, line, width)));
        let mut fact = |title: Text, value: &str| {
            let title = title.in_language(language);
            let lead =
                Lead { first: Line::styled(DIM, format!("  {title} ")), rest: Line::styled(PLAIN, "    ") };
            let first = value.lines().next().unwrap_or_default();
            lines.extend(broken(&Line::styled(PLAIN, first), &lead, width, Break::Words));
            let below = Lead::same(lead.rest);
            for line in value.lines().skip(1) {
                lines.extend(broken(&Line::styled(PLAIN, line), &below, width, Break::Words));
            }
        };
        view.cwd.iter().for_each(|cwd| fact(words::ASK_CWD, cwd));
        view.env.iter().for_each(|variable| fact(words::ASK_ENV, variable));
        let said = |subject: &&String| view.cwd.is_none() || *subject != "path .";
        view.subjects.iter().filter(said).for_each(|subject| fact(words::ASK_TOUCHES, subject));
        fact(words::ASK_WHY, &view.reason);
        if let Some(rule) = &view.rule {
            fact(words::ASK_RULE, rule);
        }
        if let Some(prefix) = &view.prefix {
            fact(words::ASK_PREFIX, &prefix.rule);
        }
        lines
    }

    /// The answers, each with its key, and how long there is to answer.
    pub(super) fn choices(&self, language: Language, now: i64, width: usize) -> Vec<Line> {
        if self.telling {
            return vec![
                Line::styled(DIM, format!("  {}", words::TELL_PROMPT.in_language(language))).cut(width),
            ];
        }
        let mut choices = vec![("y", words::CHOICE_YES), ("n", words::CHOICE_NO), ("t", words::CHOICE_TELL)];
        if self.view.prefix.is_some() {
            choices.insert(1, ("p", words::CHOICE_PREFIX));
        }
        if self.view.rule.is_some() {
            choices.insert(1, ("a", words::CHOICE_ALWAYS));
        }
        let mut lines = vec![Line::default()];
        for (key, text) in choices {
            let choice = Line::styled(PLAIN, "  ")
                .then(BLUE, key)
                .then(PLAIN, " ")
                .then(PLAIN, text.in_language(language));
            match lines.last_mut() {
                Some(last) if last.cells() + choice.cells() < width => last.append(&choice),
                _ => lines.push(choice),
            }
        }
        let left = elapsed(language, self.view.expires_at - now);
        lines.push(Line::styled(DIM, format!("  {}", words::ASK_LEFT.fill(language, &[("time", &left)]))));
        lines.into_iter().map(|line| line.cut(width)).collect()
    }

    /// What stays in the scrollback of it once it is answered.
    pub(super) fn answered(&self, language: Language, answer: &AnswerApproval, width: usize) -> Line {
        let wider = self.view.prefix.as_ref().filter(|_| answer.prefix.is_some());
        let rule = wider.map(|prefix| prefix.rule.as_str()).or(self.view.rule.as_deref()).unwrap_or_default();
        let (sign, said) = match (answer.decision, &answer.reason) {
            (ApprovalDecision::AllowOnce, _) => (GREEN_TICK, words::ANSWERED_YES.fill(language, &[])),
            (ApprovalDecision::AllowAlways, _) => {
                (GREEN_TICK, words::ANSWERED_ALWAYS.fill(language, &[("rule", &rule)]))
            }
            (ApprovalDecision::Deny, Some(reason)) => {
                (RED_CROSS, words::ANSWERED_WHY.fill(language, &[("reason", reason)]))
            }
            (ApprovalDecision::Deny, None) => (RED_CROSS, words::ANSWERED_NO.fill(language, &[])),
        };
        // What the rule says need not be said twice.
        let says_it = answer.decision == ApprovalDecision::AllowAlways && rule == self.first();
        let what = if says_it { String::new() } else { self.first() };
        settled(sign, &said, &what, width)
    }

    /// The same when nobody answered it here.
    pub(super) fn gone(&self, language: Language, why: Text, width: usize) -> Line {
        settled(("·", DIM), why.in_language(language), &self.first(), width)
    }

    /// The first line of what would be done.
    fn first(&self) -> String {
        what(&self.view).into_iter().next().unwrap_or_default()
    }

    /// Whether there is no more time to answer.
    pub(super) fn is_over(&self, now: i64) -> bool {
        now >= self.view.expires_at
    }
}

const GREEN_TICK: (&str, Style) = ("✓", GREEN);
const RED_CROSS: (&str, Style) = ("✗", RED);

fn settled((sign, style): (&str, Style), said: &str, what: &str, width: usize) -> Line {
    let line = Line::styled(style, sign).then(PLAIN, format!(" {said}"));
    if what.is_empty() { line.cut(width) } else { line.then(DIM, format!("  {what}")).cut(width) }
}

/// What would be done: the programs, else the arguments, and what would be written.
fn what(view: &ApprovalView) -> Vec<String> {
    // A script is one of them, with all its lines.
    let mut lines: Vec<String> =
        view.commands.iter().flat_map(|command| command.lines()).map(str::to_owned).collect();
    if lines.is_empty() {
        match view.args.as_object() {
            Some(fields) => lines.extend(fields.iter().map(|(name, value)| format!("{name}: {value}"))),
            None => lines.push(view.args.to_string()),
        }
    }
    lines.extend(view.preview.iter().flat_map(|preview| preview.lines().map(str::to_owned)));
    lines
}

fn wrapped(lead: &str, style: Style, text: &str, width: usize) -> Vec<Line> {
    let lead = Lead::same(Line::styled(PLAIN, lead));
    broken(&Line::styled(style, text), &lead, width, Break::Anywhere)
}

fn broken(line: &Line, lead: &Lead, width: usize, breaks: Break) -> Vec<Line> {
    rows(line, lead, width, 0, breaks).into_iter().map(|row| row.line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_protocol::api::PrefixRule;

    use super::*;

    fn view(rule: Option<&str>) -> ApprovalView {
        let view = json!({
            "id": "01890a5d-ac96-774b-bcce-b302099a8057", "agent": "main", "session": "main", "tool": "exec",
            "state": "pending", "requester": "model", "reason": "git push is not on the list",
            "args": {"command": "git push"}, "commands": ["git push origin main"], "shell": false, "cwd": "/work",
            "env": [], "subjects": ["path ."], "rule": rule, "createdAt": 0, "expiresAt": 300_000,
        });
        serde_json::from_value(view).unwrap()
    }

    fn text(lines: &[Line]) -> Vec<String> {
        lines.iter().map(Line::text).collect()
    }

    #[test]
    fn a_question_says_what_where_and_why() {
        let mut asked = view(Some("git push origin main"));
        asked.prefix = Some(PrefixRule { words: 1, rule: "git push …".to_owned() });
        let question = Question::new(asked);
        let body = text(&question.body(Language::English, 60));
        let expected = [
            "? exec wants your approval",
            "    git push origin main",
            "  in /work",
            "  why asked git push is not on the list",
            "  always means git push origin main",
            "  the prefix is git push …",
        ];
        assert_eq!(body, expected);
        let choices = "  y yes  a always, exactly this  p always for this prefix  n no";
        assert_eq!(
            text(&question.choices(Language::English, 5_500, 80)),
            [choices, "  t no, and tell it why", "  4 min 54 s to answer"]
        );
        assert_eq!(question.choices(Language::English, 0, 40).len(), 4, "answers that do not fit go below");
    }

    #[test]
    fn always_says_whether_more_than_this_is_meant() {
        let exact = Question::new(view(Some("git push origin main")));
        assert!(text(&exact.choices(Language::English, 0, 80))[0].contains("a always, exactly this"));
        let always = AnswerApproval { decision: ApprovalDecision::AllowAlways, reason: None, prefix: None };
        let line = exact.answered(Language::English, &always, 80);
        assert_eq!(line.text(), "✓ allowed from now on: git push origin main");
        let mut asked = view(Some("git push origin main"));
        asked.prefix = Some(PrefixRule { words: 1, rule: "git push …".to_owned() });
        let mut wider = Question::new(asked);
        let Reply::Answer(prefix) = wider.press(&Key::Char('p')) else { panic!("p is an answer") };
        assert_eq!((prefix.decision, prefix.prefix), (ApprovalDecision::AllowAlways, Some(1)));
        let more = wider.answered(Language::English, &prefix, 80);
        assert_eq!(more.text(), "✓ allowed from now on: git push …  git push origin main");
    }

    #[test]
    fn only_a_key_of_the_answers_answers() {
        let mut question = Question::new(view(None));
        for key in
            [Key::Enter, Key::Char(' '), Key::Char('a'), Key::Char('p'), Key::Esc, Key::Paste("y".to_owned())]
        {
            assert_eq!(question.press(&key), Reply::Nothing, "{key:?}");
        }
        let yes = AnswerApproval { decision: ApprovalDecision::AllowOnce, reason: None, prefix: None };
        assert_eq!(question.press(&Key::Char('y')), Reply::Answer(yes));
        assert!(!question.is_telling());
        assert_eq!(question.press(&Key::Char('t')), Reply::Tell);
        assert!(question.is_telling());
    }

    #[test]
    fn every_line_of_a_script_is_a_row_of_its_own() {
        let mut view = view(None);
        view.commands = vec!["sh -c ⟨script⟩".to_owned(), "if true; then\n\n\trm -r x\nfi".to_owned()];
        (view.shell, view.reason) = (true, "two\nreasons".to_owned());
        let question = Question::new(view);
        let body = text(&question.body(Language::English, 60));
        let expected = [
            "? exec wants your approval",
            "  a shell reads this script",
            "    sh -c ⟨script⟩",
            "    if true; then",
            "    ",
            "        rm -r x",
            "    fi",
            "  in /work",
            "  why asked two",
            "    reasons",
        ];
        assert_eq!(body, expected);
        let (decision, reason) = (ApprovalDecision::Deny, Some("not\nnow".to_owned()));
        let answer = AnswerApproval { decision, reason, prefix: None };
        let line = question.answered(Language::English, &answer, 60);
        assert_eq!(line.text(), "✗ denied: not now  sh -c ⟨script⟩");
    }

    #[test]
    fn what_would_be_done_is_wrapped_and_never_cut_off_at_the_right() {
        let mut view = view(None);
        view.commands = vec!["x".repeat(100)];
        let lines = Question::new(view).body(Language::English, 40);
        let shown: usize = lines[1..4].iter().map(|line| line.text().trim().len()).sum();
        assert_eq!(shown, 100);
        assert!(lines.iter().all(|line| line.cells() <= 40));
    }
}
