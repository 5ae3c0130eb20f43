//! What the engine tells about a turn.

use tidegate_models::format_tokens;
use tidegate_protocol::api::{ApprovalView, AskAnswer, AskEvent};
use tidegate_protocol::{ApprovalId, ErrorBody, ErrorCode, RunEventBody, RunId, Verbose};

use super::super::card::{Card, End, Look};
use super::super::choice::{answered_by, begins_anew, chosen};
use super::super::elsewhere::about_subagent;
use super::super::line::Line;
use super::super::markdown::Markdown;
use super::super::question::Question;
use super::scroll::Kind;
use super::{Doing, Effect, State, Turn, TurnId};
use crate::commands::gist::shortened;
use crate::texts::chat as words;
use crate::texts::hint_for;

/// More than this is not held for a turn that is not current of what tools say while they run.
const MOST_HELD: usize = 1_000;

/// Characters that are shown of a message that was not written here.
const SHOWN_OF_OTHERS: usize = 200;

impl State {
    pub(super) fn told(&mut self, id: TurnId, event: AskEvent, effects: &mut Vec<Effect>) {
        if let AskEvent::Accepted { run_id, .. } = &event {
            self.own.insert(*run_id);
        }
        if self.current.as_ref().is_some_and(|turn| turn.id == id) {
            return self.told_now(event, effects);
        }
        let Some(at) = self.waiting.iter().position(|turn| turn.id == id) else { return };
        let Some(turn) = self.waiting.get_mut(at) else { return };
        match event {
            AskEvent::Accepted { run_id, .. } => accepted(turn, run_id, effects),
            AskEvent::Answer(_) | AskEvent::Error { .. } if turn.joined || turn.stopping => {
                self.waiting.remove(at);
            }
            // The end of the current one may come later than the beginning of the next.
            event => hold(&mut turn.held, event),
        }
    }

    fn told_now(&mut self, event: AskEvent, effects: &mut Vec<Effect>) {
        match event {
            AskEvent::Accepted { run_id, .. } => {
                if let Some(turn) = &mut self.current {
                    accepted(turn, run_id, effects);
                }
            }
            AskEvent::Delta { text } => self.text(&text),
            AskEvent::Notice { notice } => self.notified(notice, effects),
            AskEvent::Restarted => self.restarted(),
            AskEvent::Answer(answer) => {
                self.answered(&answer, effects);
                self.end_text();
                if self.current.as_ref().is_some_and(|turn| !turn.shown) {
                    self.text(&answer.text);
                    self.end_text();
                    if answer.text.trim().is_empty() {
                        self.scroll.remark(self.say(words::NO_REPLY), self.width);
                    }
                }
                self.ended(effects);
            }
            AskEvent::Error { error } => {
                self.end_text();
                self.end_cards();
                self.failed(&error);
                self.ended(effects);
            }
        }
    }

    /// Which model is shown: the one that answered, or the one that was chosen.
    fn answered(&mut self, answer: &AskAnswer, effects: &mut Vec<Effect>) {
        if let Some(model) = answered_by(&answer.origin) {
            self.facts.model = model;
        }
        if self.current.as_ref().is_some_and(|turn| begins_anew(&turn.text)) {
            self.window = None;
        }
        let choice = self.current.as_ref().and_then(|turn| chosen(&self.models, &turn.text));
        if let Some(choice) = choice {
            if let Some(model) = &choice.model {
                self.facts.model.clone_from(model);
            }
            self.facts.verbose = choice.verbose.unwrap_or(self.facts.verbose);
            effects.push(Effect::Chose(choice));
        }
    }

    fn text(&mut self, text: &str) {
        self.end_thought();
        self.doing = Doing::Working;
        if let Some(turn) = &mut self.current
            && !text.is_empty()
        {
            turn.shown = true;
        }
        let rows = self.answer.push(text);
        self.scroll.add(Kind::Answer, rows);
    }

    /// The terminal closes: what is there of the answer stays, and what ran is over.
    pub(in crate::chat) fn close(&mut self) {
        self.end_text();
        self.end_cards();
    }

    fn end_cards(&mut self) {
        for card in std::mem::take(&mut self.cards) {
            let lines = card.finished(self.facts.language, End::Interrupted, "", 0, self.look());
            self.show_card(lines);
        }
    }

    /// What the model thinks, line by line, for whoever wants to see everything.
    fn thinks(&mut self, text: &str) {
        self.doing = Doing::Thinking;
        if self.facts.verbose != Verbose::Full {
            return;
        }
        self.thought.push_str(text);
        while let Some(end) = self.thought.find('\n') {
            let line: String = self.thought.drain(..=end).collect();
            self.scroll.thought(&line, self.width);
        }
    }

    fn end_thought(&mut self) {
        let rest = std::mem::take(&mut self.thought);
        self.scroll.thought(&rest, self.width);
    }

    /// The whole of what was last cut off.
    pub(super) fn show_cut(&mut self) {
        match self.cut.take() {
            Some(lines) => self.scroll.add(Kind::Card, lines),
            None => self.notice = Some(self.say(words::NOTHING_CUT).to_owned()),
        }
    }

    /// What follows is no longer part of the text so far.
    fn end_text(&mut self) {
        self.end_thought();
        let rows = self.answer.finish();
        self.scroll.add(Kind::Answer, rows);
        self.scroll.answer_ended();
    }

    fn show_card(&mut self, lines: Vec<Line>) {
        if self.facts.verbose != Verbose::Off {
            self.scroll.add(Kind::Card, lines);
        }
    }

    fn restarted(&mut self) {
        self.answer = Markdown::new(self.width);
        self.cards.clear();
        self.drop_questions();
        if let Some(turn) = &mut self.current {
            turn.shown = false;
        }
        self.doing = Doing::Working;
        self.scroll.remark(self.say(words::BEGINS_AGAIN), self.width);
    }

    fn failed(&mut self, error: &ErrorBody) {
        let stopping = self.current.as_ref().is_some_and(|turn| turn.stopping);
        if stopping && error.code == ErrorCode::Aborted {
            return self.scroll.remark(self.say(words::STOPPED), self.width);
        }
        if error.code == ErrorCode::Aborted {
            return self.scroll.remark(self.say(words::STOPPED_ELSEWHERE), self.width);
        }
        let mut text = format!("[{}] {}", error.code, error.message);
        let hint = match error.code {
            ErrorCode::ModelUnavailable => Some(words::HINT_MODEL),
            code => hint_for(code),
        };
        if let Some(hint) = hint {
            text.push('\n');
            text.push_str(&hint.in_language(self.facts.language).replace("{program}", &self.facts.program));
        }
        self.scroll.failure(&text, self.width);
    }

    /// The current turn is over: what ran for it is as well, and the next one begins.
    fn ended(&mut self, effects: &mut Vec<Effect>) {
        self.end_cards();
        self.drop_questions();
        self.current = None;
        // What was taken in by it ends with it.
        self.waiting.retain(|turn| !turn.joined);
        if let Some(next) = self.waiting.pop_front() {
            self.begin(next, effects);
        }
    }

    fn notified(&mut self, event: RunEventBody, effects: &mut Vec<Effect>) {
        match event {
            RunEventBody::ThinkingDelta { text } => self.thinks(&text),
            RunEventBody::ToolStarted { call_id, tool, args } => {
                self.end_text();
                self.doing = Doing::Working;
                self.cards.push(Card::new(&call_id, &tool, &args, self.now));
            }
            RunEventBody::ToolUpdate { call_id, text } => {
                if let Some(card) = self.cards.iter_mut().find(|card| card.call == call_id) {
                    card.update(&text);
                }
            }
            RunEventBody::ToolEnded { call_id, ok, text, duration_ms, shadow, .. } => {
                let end = match (ok, shadow) {
                    (_, true) => End::Shadowed,
                    (true, false) => End::Done,
                    (false, false) => End::Failed,
                };
                self.tool_ended(&call_id, end, &text, i64::try_from(duration_ms).unwrap_or(i64::MAX));
            }
            RunEventBody::ApprovalAsked { approval, .. } => self.asked(approval, effects),
            RunEventBody::ApprovalSettled { approval_id, .. } => self.settled(approval_id, effects),
            RunEventBody::Steered { run_id, text } => self.steered(run_id, &text),
            RunEventBody::CompactionStarted { .. } => self.doing = Doing::Compacting,
            RunEventBody::CompactionEnded { tokens_before, tokens_after, mechanical } => {
                self.doing = Doing::Working;
                let text = if mechanical { words::COMPACTED_PLAINLY } else { words::COMPACTED };
                let values: [(&str, &dyn std::fmt::Display); 2] =
                    [("before", &format_tokens(tokens_before)), ("after", &format_tokens(tokens_after))];
                self.scroll.remark(&self.fill(text, &values), self.width);
            }
            RunEventBody::Usage { context_tokens, window, .. } => {
                self.window = Some((context_tokens, window));
            }
            RunEventBody::ModelSwitched { from, message, .. } => {
                let text = self.fill(words::SWITCHED, &[("model", &from), ("message", &message)]);
                self.scroll.warning(&text, self.width);
            }
            RunEventBody::OverBudget { message } => self.scroll.warning(&message, self.width),
            RunEventBody::Started
            | RunEventBody::TextDelta { .. }
            | RunEventBody::Completed { .. }
            | RunEventBody::Failed { .. } => {}
        }
    }

    fn tool_ended(&mut self, call: &str, end: End, text: &str, took: i64) {
        let Some(at) = self.cards.iter().position(|card| card.call == call) else { return };
        let (card, look) = (self.cards.remove(at), self.look());
        let finished = |look| card.finished(self.facts.language, end, text, took, look);
        let (lines, whole) = (finished(look), finished(Look { whole: true, ..look }));
        self.cut =
            Some(whole).filter(|whole| whole.len() > lines.len() || self.facts.verbose == Verbose::Off);
        self.show_card(lines);
    }

    fn asked(&mut self, approval: ApprovalView, effects: &mut Vec<Effect>) {
        self.end_text();
        self.questions.push_back(Question::new(approval));
        if self.questions.len() == 1 {
            self.put_question(effects);
        }
    }

    fn settled(&mut self, approval: ApprovalId, effects: &mut Vec<Effect>) {
        self.answered.retain(|question| question.id() != approval);
        let Some(at) = self.questions.iter().position(|question| question.id() == approval) else { return };
        let Some(question) = self.questions.remove(at) else { return };
        let why = match &self.current {
            Some(turn) if turn.stopping => words::NOT_ANSWERED_STOPPED,
            _ if question.is_over(self.now) => words::NOT_ANSWERED_LATE,
            _ => words::ANSWERED_ELSEWHERE,
        };
        let line = question.gone(self.facts.language, why, self.width);
        self.scroll.add(Kind::Card, vec![line]);
        if at == 0 {
            if question.is_telling() {
                self.editor.set_aside();
            }
            self.put_question(effects);
        }
    }

    fn steered(&mut self, run: RunId, text: &str) {
        self.end_text();
        let known = self.waiting.iter().position(|turn| turn.run == Some(run));
        // It may be read before the run of its message is known here: they come over different connections.
        let alike = |turn: &Turn| turn.run.is_none() && turn.text.trim() == text.trim();
        let at = known.or_else(|| self.waiting.iter().position(alike));
        if let Some(turn) = at.and_then(|at| self.waiting.get_mut(at)) {
            (turn.run, turn.joined) = (Some(run), true);
            self.scroll.spoken(text, self.width);
        } else {
            // Of somebody else, or what a subagent found: nobody typed it here.
            let remark = about_subagent(self.facts.language, text).unwrap_or_else(|| {
                let first = text.trim().lines().next().unwrap_or_default();
                self.fill(words::ALSO_READ, &[("text", &shortened(first, SHOWN_OF_OTHERS))])
            });
            self.scroll.remark(&remark, self.width);
        }
    }
}

/// Keeps what a turn tells until it is shown: all of it but what nobody would miss, and the text in one piece.
fn hold(held: &mut Vec<AskEvent>, event: AskEvent) {
    match event {
        AskEvent::Notice { notice: RunEventBody::ThinkingDelta { .. } } => {}
        AskEvent::Notice { notice: RunEventBody::ToolUpdate { .. } } if held.len() >= MOST_HELD => {}
        AskEvent::Delta { text } => match held.last_mut() {
            Some(AskEvent::Delta { text: before }) => before.push_str(&text),
            _ => held.push(AskEvent::Delta { text }),
        },
        event => held.push(event),
    }
}

fn accepted(turn: &mut Turn, run: RunId, effects: &mut Vec<Effect>) {
    // Somebody else may have written the same words.
    turn.joined &= turn.run == Some(run);
    turn.run = Some(run);
    if turn.stopping {
        effects.push(Effect::Abort(run));
    }
}
