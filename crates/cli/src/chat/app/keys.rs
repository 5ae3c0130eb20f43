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
/// A letter that is followed by another key this soon, in milliseconds, was the beginning of a word and no answer.
pub(super) const WORD: i64 = 250;

impl State {
    pub(super) fn key(&mut self, key: Key, effects: &mut Vec<Effect>) {
        self.notice = None;
        if key == Key::Ctrl('z') {
            return effects.push(Effect::Suspend);
        }
        if key == Key::Ctrl('o') {
            return self.show_cut();
        }
        let paused = self.now >= self.typing_until;
        if !paused {
            self.typing_until = self.now + STILL_TYPING;
        }
        let telling = self.questions.front().is_some_and(Question::is_telling);
        if !telling && self.takes_for_answer(&key, paused, effects) {
            return;
        }
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

    /// Whether the key is for the question that is put. A letter answers it only if it stays alone: whoever has begun a
    /// line, with a word or with what was pasted, goes on with it, however long they read in between.
    fn takes_for_answer(&mut self, key: &Key, paused: bool, effects: &mut Vec<Effect>) -> bool {
        if let Some((letter, _)) = self.answering.take() {
            match key {
                Key::Enter => self.press_answer(letter, effects),
                Key::Backspace | Key::Esc | Key::Ctrl('c') => {}
                _ => {
                    self.editor.press(Key::Char(letter));
                    return false;
                }
            }
            return true;
        }
        let Some(question) = self.questions.front().filter(|_| paused && self.editor.is_empty()) else {
            return false;
        };
        match key {
            Key::Char(letter) if question.meaning(key) != Reply::Nothing => {
                self.answering = Some((*letter, self.now));
                true
            }
            _ => false,
        }
    }

    /// A letter that stayed alone long enough is an answer.
    pub(super) fn settle_answer(&mut self, effects: &mut Vec<Effect>) {
        if let Some((letter, _)) = self.answering.take_if(|(_, at)| self.now - *at >= WORD) {
            self.press_answer(letter, effects);
        }
    }

    fn press_answer(&mut self, letter: char, effects: &mut Vec<Effect>) {
        let reply = self.questions.front_mut().map(|question| question.press(&Key::Char(letter)));
        if let Some(Reply::Answer(answer)) = reply {
            self.answer(answer, effects);
        }
    }

    fn escape(&mut self, effects: &mut Vec<Effect>) {
        let again = self.escaped_at.take().is_some_and(|at| self.now - at <= TWICE);
        self.escaped_at = (!again).then_some(self.now);
        self.stop(again, self.at_work > 0, effects);
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
        self.answering = None;
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
        self.answering = None;
        if let Some(question) = self.questions.front() {
            let body = question.body(self.facts.language, self.width);
            self.scroll.add(Kind::Question, body);
            self.typing_until = self.now + STILL_TYPING;
            effects.push(Effect::Bell);
        }
    }
}
