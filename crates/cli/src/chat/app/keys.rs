//! What a key does: it belongs to the question that is put, else to the line that is typed.

use tidegate_protocol::api::{AnswerApproval, ApprovalDecision};

use super::super::editor::Deed;
use super::super::keys::Key;
use super::super::question::{Question, Reply};
use super::scroll::Kind;
use super::{Effect, State};
use crate::texts::chat as words;

/// Two escapes within this time, in milliseconds, are one that means more.
const TWICE: i64 = 600;
/// A question takes no answer from somebody who typed this short a time ago.
pub(super) const STILL_TYPING: i64 = 500;

impl State {
    pub(super) fn key(&mut self, key: Key, effects: &mut Vec<Effect>) {
        self.notice = None;
        if key == Key::Ctrl('z') {
            return effects.push(Effect::Suspend);
        }
        let paused = self.now >= self.typing_until;
        if !paused {
            self.typing_until = self.now + STILL_TYPING;
        }
        // Whoever has begun a line goes on with it, however long they read in between.
        let answers = paused && self.editor.is_empty();
        let telling = match self.questions.front_mut() {
            Some(question) if question.is_telling() => true,
            Some(question) if answers => {
                let reply = question.press(&key);
                match reply {
                    Reply::Answer(answer) => return self.answer(answer, effects),
                    Reply::Tell => return,
                    // Only what ends or leaves is heard beside the answers.
                    Reply::Nothing if !matches!(key, Key::Esc | Key::Ctrl('c' | 'd')) => return,
                    Reply::Nothing => false,
                }
            }
            _ => false,
        };
        match self.editor.press(key) {
            Deed::Nothing => {}
            Deed::Submit(text) if telling => self.tell(text, effects),
            Deed::Submit(text) => self.entered(text, effects),
            Deed::Escape if telling => self.stop_telling(),
            Deed::Escape => self.escape(effects),
            Deed::Warn => self.notice = Some(self.say(words::LEAVE_AGAIN).to_owned()),
            Deed::Leave => effects.push(Effect::Leave),
        }
    }

    fn escape(&mut self, effects: &mut Vec<Effect>) {
        let again = self.escaped_at.take().is_some_and(|at| self.now - at <= TWICE);
        self.escaped_at = (!again).then_some(self.now);
        self.stop(again, effects);
    }

    fn stop_telling(&mut self) {
        if let Some(question) = self.questions.front_mut() {
            question.stop_telling();
        }
        self.editor.set_aside();
    }

    /// Nobody waits for answers any more; half a reason is no message.
    pub(super) fn drop_questions(&mut self) {
        if self.questions.front().is_some_and(Question::is_telling) {
            self.editor.set_aside();
        }
        self.questions.clear();
        self.answered.clear();
    }

    fn tell(&mut self, reason: String, effects: &mut Vec<Effect>) {
        self.stop_telling();
        let answer = AnswerApproval { decision: ApprovalDecision::Deny, reason: Some(reason), prefix: None };
        self.answer(answer, effects);
    }

    fn answer(&mut self, answer: AnswerApproval, effects: &mut Vec<Effect>) {
        let Some(question) = self.questions.pop_front() else { return };
        let line = question.answered(self.facts.language, &answer, self.width);
        self.scroll.add(Kind::Card, vec![line]);
        effects.push(Effect::Answer(question.id(), answer));
        self.answered.push(question);
        self.put_question(effects);
    }

    /// Puts a question once more, in front of the others unless a reason is being typed there.
    pub(super) fn ask_again(&mut self, question: Question, effects: &mut Vec<Effect>) {
        let at = usize::from(self.questions.front().is_some_and(Question::is_telling));
        self.questions.insert(at, question);
        if at == 0 {
            self.put_question(effects);
        }
    }

    /// Shows the whole of the question that is put now.
    pub(super) fn put_question(&mut self, effects: &mut Vec<Effect>) {
        if let Some(question) = self.questions.front() {
            let body = question.body(self.facts.language, self.width);
            self.scroll.add(Kind::Question, body);
            self.typing_until = self.now + STILL_TYPING;
            effects.push(Effect::Bell);
        }
    }
}
