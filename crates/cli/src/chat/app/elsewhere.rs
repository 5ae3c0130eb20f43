//! What happened in the conversation without this terminal.

use super::super::elsewhere::Elsewhere;
use super::super::markdown::Markdown;
use super::State;
use super::scroll::Kind;

impl State {
    pub(super) fn heard(&mut self, ended: Vec<Elsewhere>, at_work: usize) {
        self.elsewhere.extend(ended);
        self.at_work = at_work;
    }

    /// Shows it as soon as it tears nothing apart. What was sent from here and is not known by its run yet may be among
    /// it, so that waits too.
    pub(super) fn show_elsewhere(&mut self) {
        let unknown = self.current.iter().chain(&self.waiting).any(|turn| turn.run.is_none());
        let amid = self.current.as_ref().is_some_and(|turn| turn.shown) || !self.questions.is_empty();
        if unknown || amid {
            return;
        }
        for one in std::mem::take(&mut self.elsewhere) {
            if !self.own.contains(&one.run) {
                self.show_one(&one);
            }
        }
    }

    fn show_one(&mut self, one: &Elsewhere) {
        self.scroll.remark(&one.heading(self.facts.language), self.width);
        if let Some(said) = &one.said {
            let mut answer = Markdown::new(self.width);
            let mut rows = answer.push(said);
            rows.extend(answer.finish());
            self.scroll.add(Kind::Answer, rows);
            self.scroll.answer_ended();
        }
        if let Some(error) = &one.error {
            self.scroll.failure(&format!("[{}] {}", error.code, error.message), self.width);
        }
    }
}
