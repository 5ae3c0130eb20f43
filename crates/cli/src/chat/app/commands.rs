//! Commands that are typed. What the terminal can do itself it does; the others are messages, and the engine's.

use tidegate_routing::COMMANDS;

use super::super::choice::about_slip;
use super::super::editor::{Choice, Completions};
use super::super::line::{BOLD, CYAN, DIM, Line, PLAIN};
use super::super::wrap::{Break, Lead, rows};
use super::scroll::Kind;
use super::{Effect, State};
use crate::texts::chat as words;
use tidegate_runtime::catalogue::{Language, Text};

/// Room for the names of commands and keys.
const NAMES: usize = 27;
/// In less than this an explanation stands below the name.
const NARROW: usize = 72;

impl State {
    /// Something was entered.
    pub(super) fn entered(&mut self, text: String, effects: &mut Vec<Effect>) {
        effects.push(Effect::Remember(text.clone()));
        let mut parts = text.trim().splitn(2, char::is_whitespace);
        let command = parts.next().unwrap_or_default().to_lowercase();
        let rest = parts.next().map(str::trim).filter(|rest| !rest.is_empty());
        match (command.as_str(), rest) {
            ("/quit" | "/exit", None) => effects.push(Effect::Leave),
            ("/help" | "/commands", None) => self.help(),
            ("/export", file) => effects.push(Effect::Export(file.map(str::to_owned))),
            ("/verbose" | "/v", None) => {
                let level = self.facts.verbose.as_str();
                self.scroll.remark(&self.fill(words::VERBOSE_IS, &[("level", &level)]), self.width);
            }
            // What was begun a moment ago may not be known here yet.
            ("/stop", None) => {
                self.stops_helpers = self.current.is_none();
                self.stop(false, true, effects);
            }
            ("/stop", Some(word)) if self.current.is_some() && word.eq_ignore_ascii_case("all") => {
                self.stop(true, true, effects);
            }
            _ => match about_slip(self.facts.language, &self.models, &self.facts.triggers, &text) {
                Some(said) => self.scroll.warning(&said, self.width),
                None => self.send(text, effects),
            },
        }
    }

    pub(super) fn welcome(&mut self) {
        let facts = &self.facts;
        let (version, session, model) = (&facts.version, &facts.session, &facts.model);
        let first =
            self.fill(words::WELCOME, &[("version", version), ("session", session), ("model", model)]);
        let hint = self.say(words::WELCOME_HINT);
        let lines = [Line::styled(BOLD, first), Line::styled(DIM, hint)];
        let broken = lines.iter().flat_map(|line| rows(line, &Lead::default(), self.width, 0, Break::Words));
        let broken = broken.map(|row| row.line).collect();
        self.scroll.add(Kind::Remark, broken);
        self.remind();
    }

    /// Shows where the conversation stood.
    fn remind(&mut self) {
        let Some(past) = self.facts.past.take() else { return };
        let values: [(&str, &dyn std::fmt::Display); 2] = [("title", &past.title), ("count", &past.count)];
        let text = if past.title.is_empty() { words::GOES_ON } else { words::GOES_ON_TITLED };
        self.scroll.remark(&self.fill(text, &values), self.width);
        self.scroll.thought(&format!("› {}", past.asked), self.width);
        self.scroll.thought(&past.said, self.width);
    }

    fn help(&mut self) {
        let language = self.facts.language;
        let mut lines = vec![Line::styled(BOLD, self.say(words::HELP_COMMANDS))];
        for choice in commands(language) {
            lines.extend(self.explained(&choice.word, &choice.about));
        }
        lines.push(Line::default());
        lines.push(Line::styled(BOLD, self.say(words::HELP_KEYS)));
        for (key, about) in KEYS {
            lines.extend(self.explained(key, about.in_language(language)));
        }
        self.scroll.add(Kind::Card, lines);
    }

    /// A name, and what it means beside it or below.
    fn explained(&self, name: &str, about: &str) -> Vec<Line> {
        let lead = Line::styled(PLAIN, "  ").then(CYAN, name);
        let narrow = self.width < NARROW;
        let blanks = NAMES.saturating_sub(lead.cells()).max(2);
        let room = if narrow { 4 } else { NAMES };
        let below = Line::styled(PLAIN, " ".repeat(room));
        let first = if narrow { below.clone() } else { lead.clone().then(PLAIN, " ".repeat(blanks)) };
        let text = Line::styled(PLAIN, about);
        let told = rows(&text, &Lead { first, rest: below }, self.width, 0, Break::Words);
        let title = narrow.then(|| lead.cut(self.width));
        title.into_iter().chain(told.into_iter().map(|row| row.line)).collect()
    }
}

const KEYS: [(&str, Text); 8] = [
    ("Enter", words::HELP_ENTER),
    ("Alt+Enter, Ctrl+J", words::HELP_NEWLINE),
    ("Esc", words::HELP_ESC),
    ("Tab", words::HELP_TAB),
    ("↑ ↓", words::HELP_UP),
    ("Ctrl+O", words::HELP_CTRL_O),
    ("Ctrl+C", words::HELP_CTRL_C),
    ("Ctrl+Z", words::HELP_CTRL_Z),
];

/// Every command that may be typed, with what may follow it.
fn commands(language: Language) -> Vec<Choice> {
    let known = COMMANDS.iter().map(|info| {
        let word = format!("/{} {}", info.name, info.arguments).trim_end().to_owned();
        let about = match language {
            Language::English => info.help.en,
            Language::Chinese => info.help.zh,
        };
        Choice { word, about: about.to_owned() }
    });
    let own = [("/export [file]", words::ABOUT_EXPORT), ("/quit", words::ABOUT_QUIT)];
    let own = own
        .map(|(word, about)| Choice { word: word.to_owned(), about: about.in_language(language).to_owned() });
    known.chain(own).collect()
}

/// What can be completed, with the models of the configuration.
pub(in crate::chat) fn completions(language: Language, models: Vec<Choice>) -> Completions {
    let word = |choice: Choice| Choice {
        word: choice.word.split(' ').next().unwrap_or_default().to_owned(),
        ..choice
    };
    let values = COMMANDS.iter().filter(|info| !info.values.is_empty()).map(|info| {
        let choice = |value: &&str| Choice { word: (*value).to_owned(), about: String::new() };
        (format!("/{}", info.name), info.values.iter().map(choice).collect())
    });
    let mut arguments: Vec<(String, Vec<Choice>)> = values.collect();
    arguments.push(("/model".to_owned(), models.clone()));
    Completions { commands: commands(language).into_iter().map(word).collect(), arguments, models }
}
