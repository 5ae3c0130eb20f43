//! What a person sees while a question is answered: the text as it comes, and beside it, on standard error and standing
//! back, what the agent does. A program sees none of it.

use std::io::IsTerminal as _;

use serde_json::Value;
use tidegate_engine::Answer;
use tidegate_protocol::RunEventBody;
use tidegate_protocol::api::ApprovalView;
use tidegate_runtime::catalogue::Language;
use tokio::sync::mpsc;

use crate::app::App;
use crate::chat::Elsewhere;
use crate::commands::gist::{gist, line_of};
use crate::output::{complain, print, print_line, printable};
use crate::texts;
use crate::texts::runs as words;

/// Lines of a result that are shown to whoever wants to see much.
const MOST_LINES: usize = 5;

/// Whatever happens in the run passes here.
pub(super) struct Show {
    language: Language,
    /// The text is shown as it comes.
    streams: bool,
    beside: Beside,
    colour: bool,
    /// What was shown of the model call under way.
    shown: String,
    /// Where the last line that was begun is not ended.
    open: Option<Stream>,
    /// Where questions go that somebody here answers.
    questions: mpsc::UnboundedSender<ApprovalView>,
}

/// How much is shown beside the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Beside {
    Nothing,
    /// Which tools run, and which failed.
    Tools,
    /// And what the model thinks, and what came of the tools.
    Everything,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Answer,
    Thought,
}

impl Show {
    pub(super) fn new(
        app: &App,
        json: bool,
        verbose: bool,
        questions: mpsc::UnboundedSender<ApprovalView>,
    ) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            language: app.language(),
            streams: !json,
            beside: match (verbose, !json && terminal) {
                (true, _) => Beside::Everything,
                (false, true) => Beside::Tools,
                (false, false) => Beside::Nothing,
            },
            colour: terminal && app.output.colour,
            shown: String::new(),
            open: None,
            questions,
        }
    }

    pub(super) fn event(&mut self, event: &RunEventBody) {
        match event {
            RunEventBody::Started => self.begin(),
            RunEventBody::TextDelta { text } if self.streams => self.text(text),
            RunEventBody::ThinkingDelta { text } if self.beside == Beside::Everything => self.thought(text),
            RunEventBody::ToolStarted { tool, args, .. } if self.beside >= Beside::Tools => {
                self.started(tool, args);
            }
            RunEventBody::ToolEnded { tool, ok, text, duration_ms, shadow, .. }
                if self.beside >= Beside::Tools =>
            {
                self.ended(tool, *ok, text, *duration_ms, *shadow);
            }
            RunEventBody::ApprovalAsked { approval, .. } => {
                self.close();
                // Nobody takes it when nobody is there to answer.
                let _ = self.questions.send(approval.clone());
            }
            event => self.notice(event),
        }
    }

    /// What was shown does not count any more.
    pub(super) fn restart(&mut self) {
        self.begin();
    }

    fn begin(&mut self) {
        self.close();
        self.shown.clear();
    }

    fn text(&mut self, text: &str) {
        if self.open == Some(Stream::Thought) {
            self.close();
        }
        self.shown.push_str(text);
        // The answer is durable in any case; a terminal that went away is not this run's business.
        let _ = print(&printable(text));
        self.open = (!text.ends_with('\n')).then_some(Stream::Answer);
    }

    fn thought(&mut self, text: &str) {
        if self.open == Some(Stream::Answer) {
            self.close();
        }
        crate::output::mutter(&self.dim(&printable(text)));
        self.open = (!text.ends_with('\n')).then_some(Stream::Thought);
    }

    fn started(&mut self, tool: &str, args: &Value) {
        self.aside(&format!("● {}", line_of(tool, &gist(args))));
    }

    fn ended(&mut self, tool: &str, ok: bool, text: &str, duration_ms: u64, shadow: bool) {
        let first = text.lines().next().unwrap_or_default();
        if shadow {
            self.aside(&words::NOT_RUN.fill(self.language, &[("tool", &tool)]));
        } else if !ok {
            self.aside(&format!("✗ {}", line_of(tool, first)));
        } else if self.beside == Beside::Everything {
            self.aside(&format!("✓ {tool} ({duration_ms} ms)"));
            self.excerpt(text);
        }
    }

    fn excerpt(&mut self, text: &str) {
        for line in text.lines().take(MOST_LINES) {
            self.aside(&format!("  {line}"));
        }
        let more = text.lines().count().saturating_sub(MOST_LINES);
        if more > 0 {
            self.aside(&format!("  {}", words::MORE_LINES.fill(self.language, &[("count", &more)])));
        }
    }

    /// What a person should know besides the answer: that somebody else answered, that money runs out.
    fn notice(&mut self, event: &RunEventBody) {
        let language = self.language;
        let text = match event {
            RunEventBody::ModelSwitched { from, profile_id, message, .. } => {
                let credential = profile_id.as_ref().map(|id| format!(" ({id})")).unwrap_or_default();
                let values: [(&str, &dyn std::fmt::Display); 3] =
                    [("model", from), ("credential", &credential), ("message", &printable(message))];
                texts::MODEL_SWITCHED.fill(language, &values)
            }
            RunEventBody::OverBudget { message } => {
                texts::OVER_BUDGET.fill(language, &[("message", message)])
            }
            RunEventBody::CompactionEnded { tokens_before, tokens_after, .. } => {
                words::SUMMED_UP.fill(language, &[("before", tokens_before), ("after", tokens_after)])
            }
            _ => return,
        };
        self.close();
        complain(&text);
    }

    /// The answer, unless it stands there already.
    pub(super) fn answer(&mut self, answer: &Answer, text: &str) -> Result<(), crate::failure::Failure> {
        self.close();
        if answer.text.trim().is_empty() {
            self.aside(texts::chat::NO_REPLY.in_language(self.language));
            return Ok(());
        }
        if self.shown.trim() != answer.text.trim() || text != answer.text {
            print_line(&printable(text))?;
        }
        Ok(())
    }

    /// What was answered afterwards, below where it came from.
    pub(super) fn elsewhere(&mut self, one: &Elsewhere) {
        if self.beside >= Beside::Tools {
            self.aside(&format!("· {}", one.heading(self.language)));
        }
        if let Some(error) = &one.error {
            complain(&printable(&format!("[{}] {}", error.code, error.message)));
        }
        if let Some(said) = &one.said {
            // It is durable in any case.
            let _ = print_line(&printable(said));
        }
    }

    /// Ends the line that was begun.
    pub(super) fn close(&mut self) {
        match self.open.take() {
            Some(Stream::Answer) => drop(print_line("")),
            Some(Stream::Thought) => complain(""),
            None => {}
        }
    }

    fn aside(&mut self, line: &str) {
        self.close();
        complain(&self.dim(&printable(line)));
    }

    fn dim(&self, text: &str) -> String {
        if self.colour { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
    }
}
