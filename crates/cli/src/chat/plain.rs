//! A conversation without a terminal: a line is a turn, and only answers are printed.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_protocol::api::{AnswerApproval, ApprovalDecision, AskAnswer, AskEvent};
use tidegate_protocol::{ErrorCode, Id as _, RunEventBody};
use tidegate_routing::literal;
use tidegate_runtime::{iso_timestamp, spawn_blocking};
use tokio::sync::mpsc;

use super::app::Join;
use super::choice::{Models, about_slip, chosen};
use super::export::{Export, export};
use super::host::{Back, Host, TRIES};
use super::opening::Opening;
use super::session::request_key;
use super::terminal::keyboard;
use crate::app::App;
use crate::failure::{Failure, Message, With as _};
use crate::output::{complain, print_line, printable};
use crate::signals::Signals;
use crate::texts;
use crate::texts::chat as words;

/// More than this is no line.
const LONGEST: usize = 1 << 20;

pub(super) struct Plain<'a> {
    pub(super) app: &'a App,
    pub(super) host: Host<'a>,
    pub(super) opening: Opening,
    pub(super) back: mpsc::Receiver<Back>,
    pub(super) export: Export,
    pub(super) models: Models,
    pub(super) triggers: Vec<String>,
}

impl Plain<'_> {
    /// Until the input ends. The exit code is that of the last failure.
    pub(super) async fn run(mut self) -> Result<ExitCode, Failure> {
        let mut signals = Signals::listen()?;
        let outcome = tokio::select! {
            outcome = self.until_the_end() => outcome,
            code = signals.next() => Ok(ExitCode::from(code)),
        };
        self.host.let_go().await;
        outcome
    }

    async fn until_the_end(&mut self) -> Result<ExitCode, Failure> {
        let mut input = keyboard()?;
        let mut pending = Vec::new();
        let mut code = ExitCode::SUCCESS;
        loop {
            let piece = input.recv().await;
            let ended = piece.is_none();
            pending.extend(piece.unwrap_or_default());
            while let Some(line) = next_line(&mut pending, ended) {
                // A blank before a slash says that no command is meant.
                let text = line.trim();
                let line = if literal(&line).is_some() { line.trim_end() } else { text };
                if text == "/quit" || text == "/exit" {
                    return Ok(code);
                }
                if !text.is_empty()
                    && let Err(failure) = self.turn(line).await
                {
                    code = self.app.report(&failure, false);
                    if self.opening.json {
                        let error = json!({ "code": failure.code, "message": failure.message.en });
                        print_line(&json!({ "success": false, "error": error }).to_string())?;
                    }
                }
            }
            if ended {
                return Ok(code);
            }
        }
    }

    /// Writes the conversation so far to a file.
    async fn write(&self, file: &str) -> Result<(), Failure> {
        let wanted = self.export.to(Some(file).filter(|file| !file.is_empty()).map(Path::new));
        let language = self.app.language();
        let written = spawn_blocking("chat.export", move || export(language, &wanted)).join().await;
        let file = written.unwrap_or_else(|error| Err(error.to_string())).map_err(|cause| {
            Failure::new(ErrorCode::InvalidValue, words::NOT_EXPORTED.with(&[("cause", &cause)]))
        })?;
        complain(&self.app.fill(words::EXPORTED, &[("file", &printable(&file))]));
        Ok(())
    }

    async fn turn(&mut self, text: &str) -> Result<(), Failure> {
        if let Some(file) =
            text.strip_prefix("/export").filter(|rest| !rest.starts_with(|c: char| !c.is_whitespace()))
        {
            return self.write(file.trim()).await;
        }
        if let Some(said) = about_slip(self.app.language(), &self.models, &self.triggers, text) {
            return Err(Failure::new(ErrorCode::InvalidValue, Message::plain(said)));
        }
        let ask = self.opening.message(text.to_owned(), request_key()?, Join::Queue);
        self.host.ask(1, ask);
        let mut tries = 0;
        while let Some(back) = self.back.recv().await {
            match back {
                Back::Told(_, AskEvent::Answer(answer)) => {
                    if let Some(choice) = chosen(&self.models, text) {
                        self.opening.overruled(&choice);
                    }
                    if self.opening.json {
                        return print_line(&self.object(&answer).to_string());
                    }
                    if answer.text.trim().is_empty() {
                        complain(self.app.say(words::NO_REPLY));
                        return Ok(());
                    }
                    return print_line(&printable(&answer.text));
                }
                Back::Told(_, AskEvent::Error { error }) | Back::Broken(_, error) => {
                    return Err(Failure::of_body(&error));
                }
                Back::Told(_, AskEvent::Notice { notice }) => self.noticed(notice),
                Back::NotTaken(turn, ask) if tries < TRIES => {
                    tries += 1;
                    self.host.seek().await?;
                    self.host.ask(turn, *ask);
                }
                Back::NotTaken(..) => return Err(Failure::of_body(&self.host.gone())),
                Back::Told(..) | Back::Decided(..) | Back::Elsewhere { .. } | Back::Stopped(_) => {}
            }
        }
        Err(Failure::of_body(&self.host.gone()))
    }

    /// The answer for a program: what `ask` says of one, as far as it is known here.
    fn object(&self, answer: &AskAnswer) -> Value {
        json!({
            "success": true,
            "requestId": answer.run_id.alias(),
            "createdAt": iso_timestamp(answer.created_at),
            "route": answer.origin.route,
            "stage": answer.origin.stage,
            "result": answer.text,
            "sessionKey": self.opening.session,
            "sessionId": answer.session_name,
        })
    }

    fn noticed(&self, notice: RunEventBody) {
        match notice {
            // There is nobody to ask.
            RunEventBody::ApprovalAsked { approval, .. } => {
                let reason = self.app.say(words::NOBODY_TO_ASK).to_owned();
                let values: [(&str, &dyn std::fmt::Display); 2] =
                    [("tool", &printable(&approval.tool)), ("reason", &reason)];
                complain(&self.app.fill(words::NOT_ALLOWED, &values));
                let (decision, reason) = (ApprovalDecision::Deny, Some(reason));
                self.host.answer(approval.id, AnswerApproval { decision, reason, prefix: None });
            }
            RunEventBody::ModelSwitched { from, message, .. } => {
                let values: [(&str, &dyn std::fmt::Display); 2] =
                    [("model", &from), ("message", &printable(&message))];
                complain(&self.app.fill(words::SWITCHED, &values));
            }
            RunEventBody::OverBudget { message } => {
                complain(&self.app.fill(texts::OVER_BUDGET, &[("message", &printable(&message))]));
            }
            _ => {}
        }
    }
}

/// Takes the next line; the last one need not have an end.
fn next_line(pending: &mut Vec<u8>, ended: bool) -> Option<String> {
    let end = pending.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
    let end = end.or_else(|| (ended || pending.len() > LONGEST).then_some(pending.len()))?;
    if end == 0 {
        return None;
    }
    let line: Vec<u8> = pending.drain(..end).collect();
    // No database keeps the character zero in a text.
    Some(String::from_utf8_lossy(&line).replace('\0', "\u{fffd}"))
}

#[cfg(test)]
mod tests {
    use super::next_line;

    #[test]
    fn lines_are_taken_one_by_one_and_the_last_needs_no_end() {
        let mut pending = b"one\ntwo\nthr".to_vec();
        assert_eq!(next_line(&mut pending, false).as_deref(), Some("one\n"));
        assert_eq!(next_line(&mut pending, false).as_deref(), Some("two\n"));
        assert_eq!(next_line(&mut pending, false), None);
        assert_eq!(next_line(&mut pending, true).as_deref(), Some("thr"));
        assert_eq!(next_line(&mut pending, true), None);
    }
}
