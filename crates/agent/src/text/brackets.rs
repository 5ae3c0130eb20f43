//! The second stage of the filter: directives (`[[reply_to_current]]`), and tool calls and results that a
//! model wrote as text because its history had been flattened to text.

use super::fences::CodeTracker;

/// A mark longer than this is none.
const MOST_MARK: usize = 256;
/// Blanks between a written call and its arguments, at most.
const MOST_BLANKS: usize = 64;

const CALL: &str = "[tool call:";
const RESULT: &str = "[tool result for id";
const ARGUMENTS: &str = "arguments";

/// What a model asked for about how its answer is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directives {
    /// `[[reply_to_current]]`: quote the message that is answered.
    pub reply_to_current: bool,
    /// `[[reply_to: id]]`: quote that message. The last one counts.
    pub reply_to: Option<String>,
    /// Whether any of the two was there, even without an id.
    pub has_reply_tag: bool,
    /// `[[audio_as_voice]]`: send audio as a voice message.
    pub audio_as_voice: bool,
}

impl Directives {
    /// The message to quote: a named one before the current one.
    pub fn target<'d>(&'d self, current: Option<&'d str>) -> Option<&'d str> {
        self.reply_to.as_deref().or(current.filter(|_| self.reply_to_current))
    }

    fn take(&mut self, directive: Directive) {
        self.has_reply_tag |= directive != Directive::AudioAsVoice;
        match directive {
            Directive::ReplyToCurrent => self.reply_to_current = true,
            Directive::ReplyTo(Some(id)) => self.reply_to = Some(id),
            Directive::ReplyTo(None) => {}
            Directive::AudioAsVoice => self.audio_as_voice = true,
        }
    }
}

/// What this stage hands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Char(char),
    /// Something was taken out here: the blanks around it are one.
    Gap,
}

#[derive(Debug, PartialEq, Eq)]
enum Directive {
    ReplyToCurrent,
    ReplyTo(Option<String>),
    AudioAsVoice,
}

#[derive(Debug, PartialEq, Eq)]
enum Reading {
    Never,
    Maybe,
    Directive(Directive),
    Call,
    Result,
}

/// Reads what begins with `[`.
fn read(text: &str) -> Reading {
    if text.len() > MOST_MARK || text.contains('\n') {
        return Reading::Never;
    }
    let lower = text.to_ascii_lowercase();
    if CALL.starts_with(&lower) || RESULT.starts_with(&lower) {
        return Reading::Maybe;
    }
    for (start, whole) in [(CALL, Reading::Call), (RESULT, Reading::Result)] {
        if lower.starts_with(start) {
            return match lower.chars().next_back() {
                Some(']') => whole,
                Some('[') => Reading::Never,
                _ => Reading::Maybe,
            };
        }
    }
    match text.strip_prefix("[[") {
        Some(body) => read_directive(body),
        None => Reading::Never,
    }
}

/// Reads what stands behind `[[`, as far as it has come.
fn read_directive(body: &str) -> Reading {
    let (inner, ends) = match body.find(']') {
        None => (body, ""),
        Some(at) => body.split_at(at),
    };
    if !matches!(ends, "" | "]" | "]]") || inner.contains('[') {
        return Reading::Never;
    }
    let inner = inner.trim_start();
    let word = inner.find(|c: char| !c.is_ascii_alphabetic() && c != '_').unwrap_or(inner.len());
    let (name, value) = inner.split_at(word);
    let (name, value) = (name.to_ascii_lowercase(), value.trim());
    let directive = match (name.as_str(), value.strip_prefix(':')) {
        ("reply_to_current", None) if value.is_empty() => Directive::ReplyToCurrent,
        ("audio_as_voice", None) if value.is_empty() => Directive::AudioAsVoice,
        ("reply_to", Some(id)) => Directive::ReplyTo(Some(id.trim().to_owned()).filter(|id| !id.is_empty())),
        // The word, or what follows it, may still come.
        (name, None) if value.is_empty() && ends.is_empty() => {
            return read_word(name, inner.len() > name.len());
        }
        _ => return Reading::Never,
    };
    if ends == "]]" { Reading::Directive(directive) } else { Reading::Maybe }
}

fn read_word(name: &str, is_whole: bool) -> Reading {
    let names = ["reply_to_current", "reply_to", "audio_as_voice"];
    let fits = names.iter().any(|known| if is_whole { *known == name } else { known.starts_with(name) });
    if fits { Reading::Maybe } else { Reading::Never }
}

/// Where the stage stands. `held` belongs to the states that wait for more.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// `held` begins with `[`.
    Mark,
    /// Behind a written call: its arguments may follow.
    AfterCall,
    /// Behind the word: the colon, blanks, then the value.
    Arguments,
    /// Inside a JSON value.
    Value { depth: usize, in_string: bool, escaped: bool },
    /// Inside a value that is no JSON: it ends with the line.
    Rest,
    /// Inside a written result: it ends where another call or result begins.
    Result,
    /// The same, and `held` begins with `[`.
    ResultMark,
}

/// Takes directives and written tool text out.
#[derive(Debug, Default)]
pub(super) struct Brackets {
    pub(super) directives: Directives,
    code: CodeTracker,
    state: State,
    held: String,
}

impl Brackets {
    pub(super) fn push(&mut self, c: char, out: &mut Vec<Mark>) {
        match self.state {
            State::Text if c == '[' && self.code.is_plain() => self.hold(State::Mark, c),
            State::Text => self.say(c, out),
            State::Mark => {
                self.held.push(c);
                self.read_mark(out);
            }
            State::AfterCall => {
                self.held.push(c);
                self.read_arguments(out);
            }
            State::Arguments => self.begin_value(c),
            State::Value { depth, in_string, escaped } => self.go_on(c, depth, in_string, escaped, out),
            State::Rest if c == '\n' => {
                self.state = State::Text;
                out.push(Mark::Gap);
                self.say(c, out);
            }
            State::Result if c == '[' => self.hold(State::ResultMark, c),
            State::Rest | State::Result => {}
            State::ResultMark => {
                self.held.push(c);
                self.read_result_mark(out);
            }
        }
    }

    /// The text is over: what is held is text, what is left of tool text is dropped.
    pub(super) fn finish(&mut self, out: &mut Vec<Mark>) {
        if self.state == State::AfterCall {
            self.read_again(out);
        }
        while self.state == State::Mark {
            self.give_back(out);
        }
        self.state = State::Text;
        self.held.clear();
    }

    fn hold(&mut self, state: State, c: char) {
        self.state = state;
        self.held.clear();
        self.held.push(c);
    }

    fn read_mark(&mut self, out: &mut Vec<Mark>) {
        self.state = match read(&self.held) {
            Reading::Maybe => return,
            Reading::Never => return self.give_back(out),
            Reading::Directive(directive) => {
                self.directives.take(directive);
                State::Text
            }
            Reading::Call => State::AfterCall,
            Reading::Result => State::Result,
        };
        self.held.clear();
        out.push(Mark::Gap);
    }

    fn read_arguments(&mut self, out: &mut Vec<Mark>) {
        let word = self.held.trim_start().to_ascii_lowercase();
        if word == ARGUMENTS {
            self.state = State::Arguments;
            self.held.clear();
        } else if self.held.len() > MOST_BLANKS || !ARGUMENTS.starts_with(&word) {
            self.read_again(out);
        }
    }

    /// What is held behind a written call is not its arguments.
    fn read_again(&mut self, out: &mut Vec<Mark>) {
        self.state = State::Text;
        for c in std::mem::take(&mut self.held).chars() {
            self.push(c, out);
        }
    }

    fn begin_value(&mut self, c: char) {
        self.state = match c {
            _ if c == ':' || c.is_whitespace() => return,
            '{' | '[' => State::Value { depth: 1, in_string: false, escaped: false },
            '"' => State::Value { depth: 0, in_string: true, escaped: false },
            _ => State::Rest,
        };
    }

    fn go_on(&mut self, c: char, depth: usize, in_string: bool, escaped: bool, out: &mut Vec<Mark>) {
        let (depth, in_string) = match c {
            _ if escaped => (depth, in_string),
            '"' => (depth, !in_string),
            '{' | '[' if !in_string => (depth + 1, false),
            '}' | ']' if !in_string => (depth.saturating_sub(1), false),
            _ => (depth, in_string),
        };
        let escaped = in_string && c == '\\' && !escaped;
        self.state = State::Value { depth, in_string, escaped };
        if depth == 0 && !in_string {
            self.state = State::Text;
            out.push(Mark::Gap);
        }
    }

    fn read_result_mark(&mut self, out: &mut Vec<Mark>) {
        match read(&self.held) {
            Reading::Maybe => {}
            Reading::Call => {
                self.state = State::AfterCall;
                self.held.clear();
            }
            // A later bracket may begin a call.
            _ => {
                self.state = State::Result;
                for c in std::mem::take(&mut self.held).chars().skip(1) {
                    self.push(c, out);
                }
            }
        }
    }

    /// What is held does not begin a mark here; a later bracket in it may.
    fn give_back(&mut self, out: &mut Vec<Mark>) {
        self.state = State::Text;
        let held = std::mem::take(&mut self.held);
        let mut characters = held.chars();
        if let Some(first) = characters.next() {
            self.say(first, out);
        }
        for c in characters {
            self.push(c, out);
        }
    }

    fn say(&mut self, c: char, out: &mut Vec<Mark>) {
        self.code.push(c);
        out.push(Mark::Char(c));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with `_` where something was taken out, and the directives.
    fn taken(text: &str) -> (String, Directives) {
        let mut brackets = Brackets::default();
        let mut out = Vec::new();
        for c in text.chars() {
            brackets.push(c, &mut out);
        }
        brackets.finish(&mut out);
        let shown = out.iter().map(|mark| if let Mark::Char(c) = mark { *c } else { '_' }).collect();
        (shown, brackets.directives)
    }

    #[test]
    fn directives_are_taken_out_and_kept() {
        let (text, directives) =
            taken("[[ Reply_To : abc def ]] a [[AUDIO_AS_VOICE]] b [[reply_to_current]]");
        assert_eq!(text, "_ a _ b _");
        let expected = Directives {
            reply_to_current: true,
            reply_to: Some("abc def".to_owned()),
            has_reply_tag: true,
            audio_as_voice: true,
        };
        assert_eq!(directives, expected);
        assert_eq!(directives.target(Some("m1")), Some("abc def"));
    }

    #[test]
    fn a_directive_without_an_id_names_nothing() {
        let (text, directives) = taken("[[reply_to: ]] x");
        assert_eq!(text, "_ x");
        assert_eq!(directives, Directives { has_reply_tag: true, ..Directives::default() });
    }

    #[test]
    fn what_only_resembles_a_directive_is_text() {
        for text in [
            "a [[unknown]] b",
            "[[reply_to:a]b]] x",
            "[[reply_to]]",
            "[[reply_to_current:1]]",
            "[[audio]]",
            "[[reply_to_cur",
            "[[reply_to:\n1]]",
            "[x](y) [[",
            "`[[reply_to:7]]`",
            "```\n[[reply_to:7]]\n```",
        ] {
            assert_eq!(taken(text), (text.to_owned(), Directives::default()), "{text:?}");
        }
    }

    #[test]
    fn brackets_before_a_directive_do_not_hide_it() {
        assert_eq!(taken("[[[reply_to:1]]").0, "[_");
        assert_eq!(taken("[[reply_to: [[reply_to:1]]").0, "[[reply_to: _");
    }

    #[test]
    fn written_tool_calls_go_with_their_arguments() {
        for (text, expected) in [
            ("a\n[Tool Call: exec (ID: t1)]\nArguments: {\"a\": \"}\\\"[\", \"b\": [1]}\nb", "a\n__\nb"),
            ("[Tool Call: exec] arguments: \"x\" b", "__ b"),
            ("[tool call: exec]\nArguments: none\nb", "__\nb"),
            ("a [Tool Call: exec]\nArgue b", "a _\nArgue b"),
            ("a [Tool Call: exec]\nArg", "a _\nArg"),
            ("a [Tool Call: exec] [[reply_to:1]]b", "a _ _b"),
            ("[Tool Callers] unite", "[Tool Callers] unite"),
        ] {
            assert_eq!(taken(text).0, expected, "{text:?}");
        }
    }

    #[test]
    fn a_written_result_goes_to_the_next_call_or_the_end() {
        for (text, expected) in [
            ("a [Tool Result for ID t1]\nb\n\n[c] d", "a _"),
            ("[Tool Result for ID 1]\nb [[Tool Call: x]\nArguments: {}\nc", "__\nc"),
            ("[Tool Result for ID 1] b [Tool Result for ID 2] c", "_"),
        ] {
            assert_eq!(taken(text).0, expected, "{text:?}");
        }
    }
}
