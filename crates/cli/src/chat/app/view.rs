//! The region at the bottom: what is coming, what is under way, the question, the line that is typed, and where one is.

use tidegate_models::format_tokens;
use tidegate_protocol::Verbose;

use super::super::card::{elapsed, spinner};
use super::super::line::{BLUE, BOLD, CYAN, DIM, Line, PLAIN, YELLOW};
use super::scroll::Kind;
use super::{Doing, State};
use crate::output::printable;
use crate::texts::chat as words;

/// Rows of the input, and of what it may become.
const INPUT_ROWS: usize = 8;
const CHOICE_ROWS: usize = 8;
/// Messages that wait are not all shown.
const WAITING_ROWS: usize = 3;
/// Work shorter than this shows no time.
const MOMENT: i64 = 1_000;

/// The rows of the region and the cursor's place in them.
pub(in crate::chat) struct View {
    pub(in crate::chat) rows: Vec<Line>,
    pub(in crate::chat) cursor: (usize, usize),
}

impl State {
    pub(in crate::chat) fn view(&self) -> View {
        let mut rows = self.under_way();
        if !rows.is_empty() || self.scroll.begins_with_blank(Kind::Spoken) {
            rows.push(Line::default());
        }
        if let Some(question) = self.questions.front() {
            rows.extend(question.choices(self.facts.language, self.now, self.width));
            if !question.is_telling() && !self.editor.is_empty() {
                rows.push(Line::styled(YELLOW, format!("  {}", self.say(words::LINE_FIRST))).cut(self.width));
            }
            if !question.is_telling() && self.editor.is_empty() {
                let row = rows.len().saturating_sub(1);
                rows.extend(self.noticed());
                return View { rows, cursor: (row, 0) };
            }
        }
        let input = self.editor.shown(self.width, INPUT_ROWS);
        let cursor = (rows.len() + input.cursor.0, input.cursor.1);
        rows.extend(input.rows);
        rows.extend(self.choices());
        rows.push(self.status());
        View { rows, cursor }
    }

    /// What is coming and what runs.
    fn under_way(&self) -> Vec<Line> {
        let language = self.facts.language;
        let mut rows = self.answer.tail();
        if !rows.is_empty() && self.scroll.begins_with_blank(Kind::Answer) {
            rows.insert(0, Line::default());
        }
        if !self.cards.is_empty() && self.facts.verbose != Verbose::Off {
            if self.scroll.begins_with_blank(Kind::Card) {
                rows.push(Line::default());
            }
            rows.extend(self.cards.iter().flat_map(|card| card.running(language, self.now, self.width)));
        }
        if let Some(working) = self.working() {
            rows.push(Line::default());
            rows.push(working);
        }
        for turn in self.waiting.iter().filter(|turn| !turn.joined).take(WAITING_ROWS) {
            let text = printable(&turn.text).replace('\n', " ");
            rows.push(Line::styled(DIM, self.fill(words::QUEUED, &[("text", &text)])).cut(self.width));
        }
        rows
    }

    fn working(&self) -> Option<Line> {
        let turn = self.current.as_ref().filter(|_| self.questions.is_empty())?;
        let doing = match self.doing {
            _ if turn.stopping => words::STOPPING,
            Doing::Working => words::WORKING,
            Doing::Thinking => words::THINKING,
            Doing::Compacting => words::COMPACTING,
        };
        let mut line = Line::styled(BLUE, spinner(self.now)).then(PLAIN, " ").then(PLAIN, self.say(doing));
        let elapsed = self.now - turn.began;
        if elapsed >= MOMENT {
            line.push(DIM, &format!("  {}", self::elapsed(self.facts.language, elapsed)));
        }
        line.push(DIM, &format!("  {}", self.say(words::ESC_STOPS)));
        Some(line.cut(self.width))
    }

    fn choices(&self) -> Vec<Line> {
        let choices = self.editor.choices();
        let chosen = choices.iter().position(|(_, chosen)| *chosen).unwrap_or(0);
        let first = (chosen + 1).saturating_sub(CHOICE_ROWS);
        let shown: Vec<_> = choices.iter().skip(first).take(CHOICE_ROWS).collect();
        let wide = shown.iter().map(|(choice, _)| crate::cells::cells(&choice.word)).max().unwrap_or(0);
        let row = |(choice, chosen): &&(&super::super::editor::Choice, bool)| {
            let blanks = wide.saturating_sub(crate::cells::cells(&choice.word)) + 2;
            let style = if *chosen { BOLD } else { CYAN };
            let sign = if *chosen { "▸ " } else { "  " };
            let line = Line::styled(BLUE, sign).then(style, choice.word.as_str());
            line.then(PLAIN, " ".repeat(blanks)).then(DIM, choice.about.as_str()).cut(self.width)
        };
        let mut rows: Vec<Line> = shown.iter().map(row).collect();
        let more = choices.len().saturating_sub(first + shown.len());
        if more > 0 {
            let text = self.fill(words::MORE_CHOICES, &[("count", &more)]);
            rows.push(Line::styled(DIM, format!("  {text}")).cut(self.width));
        }
        rows
    }

    fn noticed(&self) -> Option<Line> {
        let notice = self.notice.as_deref()?;
        Some(Line::styled(PLAIN, "  ").then(YELLOW, notice).cut(self.width))
    }

    /// Where one is, or what was just to be known.
    fn status(&self) -> Line {
        if let Some(notice) = self.noticed() {
            return notice;
        }
        let mut parts = vec![self.facts.session.clone(), self.facts.model.clone()];
        if let Some((used, window)) = self.window.filter(|(_, window)| *window > 0) {
            parts.push(format!("{} / {}", format_tokens(used), format_tokens(window)));
        }
        match self.at_work {
            0 => {}
            1 => parts.push(self.say(words::ONE_AT_WORK).to_owned()),
            count => parts.push(self.fill(words::MORE_AT_WORK, &[("count", &count)])),
        }
        parts.retain(|part| !part.is_empty());
        Line::styled(DIM, format!("  {}", printable(&parts.join(" · ")))).cut(self.width)
    }
}
