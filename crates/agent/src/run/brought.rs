//! What the program that asks brought along: its tools, its instructions, and what it says was said before.
//!
//! A call of one of its tools ends the run, with the call as part of the answer. The result comes with its next question
//! and is put behind the call in the log, or told as a text where the log does not know the call.

use std::borrow::Cow;

use tidegate_models::{ToolChoice, ToolSpec};
use tidegate_protocol::{BroughtChoice, BroughtTool, Message, RunSpec, ToolCall};

use super::{Run, Stop};

/// The tools that the model is shown: the agent's, and behind them the program's, which win over those of the same name.
pub(super) fn tools<'a>(spec: &RunSpec, own: &'a [ToolSpec]) -> Cow<'a, [ToolSpec]> {
    let own = if spec.tools.model { own } else { &[] };
    match spec.brought.as_deref().filter(|brought| !brought.tools.is_empty()) {
        None => Cow::Borrowed(own),
        Some(brought) => {
            let own = own.iter().filter(|tool| !brought.runs(&tool.name)).cloned();
            Cow::Owned(own.chain(brought.tools.iter().map(shown)).collect())
        }
    }
}

fn shown(tool: &BroughtTool) -> ToolSpec {
    let BroughtTool { name, description, parameters } = tool.clone();
    ToolSpec { name, description, parameters }
}

pub(super) fn instructions(spec: &RunSpec) -> Option<String> {
    spec.brought.as_ref()?.instructions.clone()
}

/// The results that answer calls of the log: those at the beginning of what was brought.
pub(super) fn answers<'a>(spec: &'a RunSpec, input: &'a Message) -> &'a [Message] {
    let is_result = |message: &Message| matches!(message, Message::ToolResult { .. });
    let before = spec.brought.as_ref().map_or(&[][..], |brought| &brought.before);
    match before.iter().position(|message| !is_result(message)) {
        Some(end) => &before[..end],
        None if before.is_empty() && is_result(input) => std::slice::from_ref(input),
        None => before,
    }
}

impl Run<'_> {
    /// The question joins the conversation, and what was brought before it.
    pub(super) fn say_brought(&mut self) -> Result<(), Stop> {
        let Some(brought) = &self.turn.spec.brought else { return self.say(self.turn.input.clone()) };
        let answers = answers(&self.turn.spec, &self.turn.input);
        let before = &brought.before;
        let all = before.iter().chain([&self.turn.input]);
        let (said, rest): (Vec<_>, Vec<_>) = all.enumerate().partition(|(at, _)| *at < answers.len());
        for (_, answer) in said {
            let known = |line: &crate::context::Line| line.seq.is_none() && line.message == *answer;
            if self.lines.iter().any(known) {
                self.note(answer.clone())?;
            } else {
                self.say(told(answer))?;
            }
        }
        for (_, message) in rest {
            // A result that stands behind its own call is one; any other is told.
            let message = if self.answers_a_call(message) { message.clone() } else { told(message) };
            self.say(message)?;
        }
        Ok(())
    }

    /// Whether a message is none that would have to stand behind a call, or stands behind it.
    fn answers_a_call(&self, message: &Message) -> bool {
        let Message::ToolResult { tool_call_id, .. } = message else { return true };
        let calls = self.lines.iter().rev().map(|line| &line.message);
        calls.flat_map(super::past::calls_of).any(|call| call.id == *tool_call_id)
    }

    /// The calls that are the program's to run, and all others.
    pub(super) fn handed(&self, calls: Vec<ToolCall>) -> (Vec<ToolCall>, Vec<ToolCall>) {
        match self.turn.spec.brought.as_deref() {
            Some(brought) => calls.into_iter().partition(|call| brought.runs(&call.name)),
            None => (Vec::new(), calls),
        }
    }

    /// Runs the agent's own calls beside those that are handed over.
    pub(super) async fn do_own(&mut self, calls: Vec<ToolCall>) -> Result<(), Stop> {
        if calls.is_empty() {
            return Ok(());
        }
        self.rounds += 1;
        self.work(calls).await
    }

    /// What the program wishes, for the first call of the run only: else it would never end.
    pub(super) fn brought_choice(&self) -> ToolChoice {
        let wished = self.turn.spec.brought.as_deref().filter(|_| self.rounds == 0);
        match wished.map(|brought| &brought.choice) {
            None | Some(BroughtChoice::Free) => ToolChoice::Auto,
            Some(BroughtChoice::Some) => ToolChoice::Required,
            Some(BroughtChoice::Named(name)) => ToolChoice::Named(name.clone()),
        }
    }
}

/// A result as somebody's words.
fn told(message: &Message) -> Message {
    match message {
        Message::ToolResult { tool_name, timestamp, .. } => {
            Message::user(format!("Tool:{tool_name}: {}", message.text()), *timestamp)
        }
        other => other.clone(),
    }
}
