//! The state of a conversation at the terminal. Pure: events in, effects out, and what is to be shown.
//!
//! One turn is current: what it tells is shown as it comes. Others wait behind it, or are taken in by it.

mod commands;
mod elsewhere;
mod keys;
mod scroll;
mod stream;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{HashSet, VecDeque};

use tidegate_protocol::api::{AnswerApproval, ApprovalAnswered, AskEvent};
use tidegate_protocol::{ApprovalId, ErrorBody, ErrorCode, RunId, Verbose};
use tidegate_runtime::catalogue::{Language, Text};

pub(super) use self::commands::completions;
use self::scroll::Scroll;
use super::card::{Card, Look};
use super::choice::{Choice, Models};
use super::editor::{Completions, Editor};
use super::elsewhere::Elsewhere;
use super::keys::Key;
use super::markdown::Markdown;
use super::past::Past;
use super::question::Question;

/// A message of this terminal, counted from 1.
pub(super) type TurnId = u64;

/// Something happened.
pub(super) enum Event {
    Key(Key),
    /// A line of the answer to a turn.
    Told(TurnId, AskEvent),
    /// The answer to a turn ended without a last line.
    Broken(TurnId, ErrorBody),
    /// What came of an answer to a question.
    Decided(ApprovalId, Result<ApprovalAnswered, ErrorBody>),
    /// A conversation was written to a file, or could not be.
    Exported(Result<String, String>),
    /// Runs of the conversation that ended, and how many subagents work for it.
    Elsewhere(Vec<Elsewhere>, usize),
    /// How many subagents of the conversation were ended.
    Stopped(Result<usize, ErrorBody>),
    Resized(usize),
    /// Time passed.
    Tick,
}

/// Something is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Effect {
    /// Send a message.
    Ask {
        turn: TurnId,
        text: String,
        join: Join,
    },
    /// This holds for the conversation now.
    Chose(Choice),
    Abort(RunId),
    /// End what works for the conversation, whichever turn began it, and then these.
    StopHelpers(Vec<RunId>),
    Answer(ApprovalId, AnswerApproval),
    /// Keep what was typed for later.
    Remember(String),
    /// Write the conversation to a file; of this name, if it has one.
    Export(Option<String>),
    /// Somebody is asked: they may be looking elsewhere.
    Bell,
    /// Let the person do something else in this terminal.
    Suspend,
    Leave,
}

/// How a message takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    /// It is the next one.
    Queue,
    /// What is under way reads it.
    Steer,
}

/// What is known when the terminal opens.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) language: Language,
    /// How the program is called again, for hints.
    pub(super) program: String,
    pub(super) version: String,
    pub(super) session: String,
    /// The one that is asked until another one answers or is chosen.
    pub(super) model: String,
    /// Further words that begin a conversation anew.
    pub(super) triggers: Vec<String>,
    /// How much is shown of tools.
    pub(super) verbose: Verbose,
    /// What was said before.
    pub(super) past: Option<Past>,
}

pub(super) struct State {
    facts: Facts,
    models: Models,
    width: usize,
    now: i64,
    editor: Editor,
    scroll: Scroll,
    next_turn: TurnId,
    current: Option<Turn>,
    /// Sent, and not current yet.
    waiting: VecDeque<Turn>,
    /// The text of the answer that is coming.
    answer: Markdown,
    cards: Vec<Card>,
    /// The question that is put, and those behind it.
    questions: VecDeque<Question>,
    /// Questions that were answered here, until the answer has arrived.
    answered: Vec<Question>,
    /// Until then keys belong to the line: whoever is typing did not mean to answer.
    typing_until: i64,
    /// A key that answers the question unless a word becomes of it, and when it was pressed.
    answering: Option<(char, i64)>,
    doing: Doing,
    /// The line of a thought that is coming, where thoughts are shown.
    thought: String,
    /// The last output of a tool that was not shown whole.
    cut: Option<Vec<super::line::Line>>,
    /// Told below the input until the next key.
    notice: Option<String>,
    escaped_at: Option<i64>,
    /// Tokens in the model's window, and its size.
    window: Option<(u64, u64)>,
    /// The runs of what was sent from here.
    own: HashSet<RunId>,
    /// What ended without this terminal, until it is shown.
    elsewhere: Vec<Elsewhere>,
    /// Subagents of this conversation.
    at_work: usize,
    /// Nothing else was under way when they were to end: that there was none is told.
    stops_helpers: bool,
}

/// A message and what is known of its run.
struct Turn {
    id: TurnId,
    text: String,
    run: Option<RunId>,
    began: i64,
    /// It is to end as soon as it is known.
    stopping: bool,
    /// Something of the answer was shown.
    shown: bool,
    /// Another run took it in; what it tells is told there.
    joined: bool,
    /// What it told before it became current.
    held: Vec<AskEvent>,
}

/// What the model does, as far as it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Working,
    Thinking,
    Compacting,
}

impl State {
    pub(super) fn new(
        facts: Facts,
        models: Models,
        history: Vec<String>,
        completions: Completions,
        width: usize,
        now: i64,
    ) -> Self {
        let mut state = Self {
            facts,
            models,
            width,
            now,
            editor: Editor::new(history, completions),
            scroll: Scroll::default(),
            next_turn: 1,
            current: None,
            waiting: VecDeque::new(),
            answer: Markdown::new(width),
            cards: Vec::new(),
            questions: VecDeque::new(),
            answered: Vec::new(),
            typing_until: 0,
            answering: None,
            doing: Doing::Working,
            thought: String::new(),
            cut: None,
            notice: None,
            escaped_at: None,
            window: None,
            own: HashSet::new(),
            elsewhere: Vec::new(),
            at_work: 0,
            stops_helpers: false,
        };
        state.welcome();
        state
    }

    pub(super) fn update(&mut self, event: Event, now: i64) -> Vec<Effect> {
        self.now = now;
        let mut effects = Vec::new();
        self.settle_answer(&mut effects);
        match event {
            Event::Key(key) => self.key(key, &mut effects),
            Event::Told(turn, event) => self.told(turn, event, &mut effects),
            Event::Broken(turn, error) => self.told(turn, AskEvent::Error { error }, &mut effects),
            Event::Decided(approval, decided) => self.decided(approval, decided, &mut effects),
            Event::Exported(exported) => self.exported(exported),
            Event::Elsewhere(ended, at_work) => self.heard(ended, at_work),
            Event::Stopped(stopped) => self.helpers_stopped(stopped),
            Event::Resized(width) => {
                self.width = width;
                self.answer.resize(width);
            }
            Event::Tick => {}
        }
        self.show_elsewhere();
        effects
    }

    /// Whether something changes by itself, so that it is worth drawing again.
    pub(super) fn is_moving(&self) -> bool {
        self.current.is_some() || !self.questions.is_empty()
    }

    /// Rows for the scrollback, each answered once.
    pub(super) fn take_finished(&mut self) -> Vec<super::line::Line> {
        self.scroll.take()
    }

    fn say(&self, text: Text) -> &'static str {
        text.in_language(self.facts.language)
    }

    fn fill(&self, text: Text, values: &[(&str, &dyn std::fmt::Display)]) -> String {
        text.fill(self.facts.language, values)
    }

    /// Sends a message: as the next one, or to what is under way.
    fn send(&mut self, text: String, effects: &mut Vec<Effect>) {
        let id = self.next_turn;
        self.next_turn += 1;
        let join = if self.current.is_some() { Join::Steer } else { Join::Queue };
        let turn = Turn {
            id,
            text: text.clone(),
            run: None,
            began: self.now,
            stopping: false,
            shown: false,
            joined: false,
            held: Vec::new(),
        };
        if self.current.is_some() {
            self.waiting.push_back(turn);
        } else {
            self.begin(turn, effects);
        }
        effects.push(Effect::Ask { turn: id, text, join });
    }

    /// Makes a turn the current one and shows what it told before.
    fn begin(&mut self, mut turn: Turn, effects: &mut Vec<Effect>) {
        self.scroll.spoken(&turn.text, self.width);
        self.doing = Doing::Working;
        turn.began = self.now;
        let (id, held) = (turn.id, std::mem::take(&mut turn.held));
        self.current = Some(turn);
        for event in held {
            self.told(id, event, effects);
        }
    }

    /// Ends what is under way, with `everything` what waits as well, and with `helpers` whoever works for the conversation:
    /// those of an earlier turn do not end with this one.
    fn stop(&mut self, everything: bool, helpers: bool, effects: &mut Vec<Effect>) {
        let waiting = if everything { self.waiting.len() } else { 0 };
        let mut runs = Vec::new();
        for turn in self.current.iter_mut().chain(self.waiting.iter_mut().take(waiting)) {
            turn.stopping = true;
            runs.extend(turn.run);
        }
        if helpers {
            effects.push(Effect::StopHelpers(runs));
        } else {
            effects.extend(runs.into_iter().map(Effect::Abort));
        }
    }

    fn helpers_stopped(&mut self, stopped: Result<usize, ErrorBody>) {
        let said = match stopped {
            Ok(0) if !std::mem::take(&mut self.stops_helpers) => return,
            Ok(0) => self.say(crate::texts::chat::NOTHING_TO_STOP).to_owned(),
            Ok(1) => self.say(crate::texts::chat::HELPER_STOPPED).to_owned(),
            Ok(count) => self.fill(crate::texts::chat::HELPERS_STOPPED, &[("count", &count)]),
            Err(error) => {
                return self.scroll.failure(&format!("[{}] {}", error.code, error.message), self.width);
            }
        };
        self.scroll.remark(&said, self.width);
    }

    fn look(&self) -> Look {
        Look { width: self.width, whole: self.facts.verbose == Verbose::Full }
    }

    /// What came of an answer. One that did not arrive can be given again.
    fn decided(
        &mut self,
        approval: ApprovalId,
        decided: Result<ApprovalAnswered, ErrorBody>,
        effects: &mut Vec<Effect>,
    ) {
        let at = self.answered.iter().position(|question| question.id() == approval);
        let question = at.map(|at| self.answered.remove(at));
        let (problem, question) = match decided {
            Ok(ApprovalAnswered { won: true, .. }) => return,
            Ok(_) => (self.say(crate::texts::chat::TOO_LATE).to_owned(), None),
            Err(error) => (error.message, question.filter(|_| error.code != ErrorCode::NotFound)),
        };
        let text = self.fill(crate::texts::chat::NOT_ANSWERED, &[("message", &problem)]);
        self.scroll.warning(&text, self.width);
        if let Some(question) = question {
            self.ask_again(question, effects);
        }
    }

    fn exported(&mut self, exported: Result<String, String>) {
        let words = crate::texts::chat::EXPORTED;
        match exported {
            Ok(file) => self.scroll.remark(&self.fill(words, &[("file", &file)]), self.width),
            Err(cause) => {
                let text = self.fill(crate::texts::chat::NOT_EXPORTED, &[("cause", &cause)]);
                self.scroll.warning(&text, self.width);
            }
        }
    }
}
