//! What becomes of a message: a turn of the model, a command in its place among the messages, or something done at once.

use std::sync::Arc;

use tidegate_policy::Principal;
use tidegate_protocol::{RunCommand, RunId, RunSpec, SessionKey, SessionSettings};
use tidegate_routing::{Command, Line, Setting, Vocabulary, is_abort_word, parse_line};

use super::stop::Unfinished;
use crate::error::EngineError;
use crate::start::Core;

/// What is accepted for one message.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    /// Comes before it, and nobody is told of it.
    pub(crate) first: Option<Step>,
    /// What answers whoever wrote.
    pub(crate) main: Step,
    /// Nobody is told of it either: the message is ignored.
    pub(crate) ignored: bool,
    /// Runs that are ended once the steps are durable.
    pub(crate) ends: Vec<RunId>,
}

/// One run.
#[derive(Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) text: String,
    pub(crate) spec: RunSpec,
    /// Whether it can only be a run of its own, and never be read by one under way.
    pub(crate) alone: bool,
}

/// Who wrote, and where.
#[derive(Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) principal: &'a Principal,
    pub(crate) key: &'a SessionKey,
    pub(crate) standing: Standing,
    /// The name of the message: two with the same one are the same.
    pub(crate) message: Option<&'a str>,
    /// It is known to have come before.
    pub(crate) again: bool,
}

/// What somebody may do to the conversation they write in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Change it, and end what anybody asked there.
    Full,
    /// Add to it, and end what they asked themselves.
    Member,
    /// Add to it: nobody knows which member they are.
    Unknown,
}

impl Writer<'_> {
    fn may_change(self) -> bool {
        self.standing == Standing::Full
    }

    /// Whether they may end a run that this actor asked for.
    pub(super) fn may_end(self, actor: &str) -> bool {
        match self.standing {
            Standing::Full => true,
            Standing::Member => self.principal.actor() == actor,
            Standing::Unknown => false,
        }
    }

    /// Whether they may see what the conversation costs.
    pub(super) fn sees_costs(self) -> bool {
        self.may_change()
    }
}

impl Plan {
    /// A message for the model, as it is.
    pub(crate) fn turn(text: String, spec: RunSpec) -> Self {
        Self::only(Step { text, spec, alone: false })
    }

    fn only(main: Step) -> Self {
        Self { first: None, main, ignored: false, ends: Vec::new() }
    }

    fn command(text: String, spec: RunSpec, command: RunCommand) -> Self {
        Self::only(Step::command(text, spec, command))
    }
}

impl Step {
    fn command(text: String, spec: RunSpec, command: RunCommand) -> Self {
        Self { text, spec: RunSpec { command: Some(command), ..spec }, alone: true }
    }
}

/// Whether the run asks a model, so that there must be one and money for it.
pub(crate) fn asks_a_model(spec: &RunSpec) -> bool {
    !matches!(spec.command, Some(RunCommand::Reset | RunCommand::Say { .. }))
}

impl Core {
    /// Reads a message and does what is done at once. `spec` is what a run would be promised without a word about it.
    pub(crate) async fn plan(
        self: &Arc<Self>,
        writer: Writer<'_>,
        text: String,
        spec: RunSpec,
    ) -> Result<Plan, EngineError> {
        if is_abort_word(&text) {
            let ends = self.unfinished(writer, false).await?;
            if !ends.runs.is_empty() {
                return Ok(self.stopping(text, spec, ends));
            }
        }
        let line = self.read(writer.key, &text);
        if !writer.may_change() && is_reserved(&line) {
            return Ok(unheard(&line, text, spec));
        }
        let Line { command, directives, rest } = line;
        match command {
            None => {
                let chooses = directives != SessionSettings::default();
                let spec = self.settings.directed(&writer.key.scope, spec, &directives)?;
                // Another model, or another depth of thought, is another run.
                Ok(Plan::only(Step { text: rest, spec, alone: chooses }))
            }
            Some(Command::New | Command::Reset) => {
                self.beginning(writer, text, spec, &directives, rest).await
            }
            Some(Command::Stop { all }) => {
                let ends = self.unfinished(writer, all).await?;
                if ends.runs.is_empty() && !writer.may_change() {
                    return Ok(ignored(text, spec));
                }
                Ok(self.stopping(text, spec, ends))
            }
            Some(Command::Compact(instructions)) => {
                Ok(Plan::command(text, spec, RunCommand::Compact { instructions }))
            }
            Some(command) => {
                let said = self.answer_to(writer, &spec, command).await?;
                Ok(Plan::command(text, spec, RunCommand::Say { text: said, logged: None }))
            }
        }
    }

    fn read(&self, key: &SessionKey, text: &str) -> Line {
        let is_model = |word: &str| self.settings.names_model(&key.scope.agent, word);
        let vocabulary = Vocabulary { is_model: &is_model, reset_triggers: self.settings.reset_triggers() };
        parse_line(text, &vocabulary)
    }

    /// A conversation that begins anew, with its first message if there is one.
    async fn beginning(
        &self,
        writer: Writer<'_>,
        text: String,
        spec: RunSpec,
        directives: &SessionSettings,
        rest: String,
    ) -> Result<Plan, EngineError> {
        let aborts = self.settings.reset_aborts();
        let ends = if aborts { self.unfinished(writer, false).await?.runs } else { Vec::new() };
        if rest.is_empty() {
            if *directives != SessionSettings::default() && !self.came_before(writer).await? {
                self.choose(writer.principal, writer.key, directives).await?;
            }
            return Ok(Plan { ends, ..Plan::command(text, spec, RunCommand::Reset) });
        }
        let turn = self.settings.directed(&writer.key.scope, spec.clone(), directives)?;
        let first = Some(Step::command(text, spec, RunCommand::Reset));
        Ok(Plan { first, ends, ..Plan::only(Step { text: rest, spec: turn, alone: true }) })
    }

    fn stopping(&self, text: String, spec: RunSpec, ends: Unfinished) -> Plan {
        let said = self.about_stopping(&ends);
        Plan { ends: ends.runs, ..Plan::command(text, spec, RunCommand::Say { text: said, logged: None }) }
    }
}

/// Whether a message is only for those who may change the conversation: it would do so beyond adding to it, or end what
/// others wait for, or it asks what the conversation is made of and who could answer.
fn is_reserved(line: &Line) -> bool {
    let command = match &line.command {
        Some(
            Command::New
            | Command::Reset
            | Command::Compact(_)
            | Command::Set(_)
            | Command::Invalid { .. }
            | Command::Context
            | Command::Show(Setting::Model),
        ) => true,
        Some(Command::Title(words)) => words.is_some(),
        Some(Command::Stop { all }) => *all,
        Some(
            Command::Status
            | Command::Help
            | Command::Show(Setting::Think | Setting::Verbose)
            | Command::Unknown(_),
        )
        | None => false,
    };
    command || line.directives != SessionSettings::default()
}

/// What becomes of it when its writer may not: a command is ignored, a message goes to the model as it was written.
fn unheard(line: &Line, text: String, spec: RunSpec) -> Plan {
    if line.command.is_none() { Plan::turn(text, spec) } else { ignored(text, spec) }
}

fn ignored(text: String, spec: RunSpec) -> Plan {
    let nothing = RunCommand::Say { text: String::new(), logged: None };
    Plan { ignored: true, ..Plan::command(text, spec, nothing) }
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{Limits, ThinkingLevel};

    use super::*;

    fn read(text: &str) -> Line {
        parse_line(text, &Vocabulary { is_model: &|word| word == "opus", reset_triggers: &[] })
    }

    #[test]
    fn what_is_not_for_every_member_of_a_group_is_known() {
        for text in ["/new", "/reset x", "/compact", "/think low", "/model opus", "/title x", "@opus why?"] {
            assert!(is_reserved(&read(text)), "{text}");
        }
        for text in ["/stop all", "/context", "/model", "/model nosuch", "/think loud"] {
            assert!(is_reserved(&read(text)), "{text}");
        }
        for text in ["hello", "/status", "/help", "/title", "/think", "/verbose", "/stop", "/nosuch"] {
            assert!(!is_reserved(&read(text)), "{text}");
        }
    }

    #[test]
    fn a_member_ends_what_they_asked_and_whom_nobody_knows_ends_nothing() {
        let key = SessionKey::named(tidegate_protocol::Scope::personal("main".parse().unwrap()), "main");
        let anna = Principal::of_run(key.scope.tenant.clone(), "slack:T1:anna".to_owned());
        let may_end = |standing| {
            let writer = Writer { principal: &anna, key: &key, standing, message: None, again: false };
            ["slack:T1:anna", "slack:T1:ben"].map(|actor| writer.may_end(actor))
        };
        assert_eq!(may_end(Standing::Full), [true, true]);
        assert_eq!(may_end(Standing::Member), [true, false]);
        assert_eq!(may_end(Standing::Unknown), [false, false]);
    }

    #[test]
    fn who_may_not_is_not_heard_and_what_they_ask_is_asked_as_they_wrote_it() {
        let spec = RunSpec::new("", Vec::new(), Limits::new(1, 1));
        let plan = unheard(&read("/new hello"), "/new hello".to_owned(), spec.clone());
        assert!(plan.ignored && plan.first.is_none() && !asks_a_model(&plan.main.spec));
        let question = "/think high why?";
        let line = read(question);
        assert_eq!(line.directives.thinking, Some(ThinkingLevel::High));
        assert_eq!(unheard(&line, question.to_owned(), spec.clone()), Plan::turn(question.to_owned(), spec));
    }
}
