//! The first stage of the filter: thoughts, `<final>`, and calls that a model wrote as tags instead of making
//! them.
//!
//! It reads one character at a time, so that it cannot know where deltas were cut. It holds back what may
//! still become a tag, and nothing else.

use super::fences::CodeTracker;

/// A tag longer than this is none.
const MOST_TAG: usize = 256;
/// A written call longer than this is none.
const MOST_CALL: usize = 64 * 1024;

const CALL_END: &str = "</invoke>";

/// One character and who it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoken {
    Visible(char),
    Thought(char),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Thought,
    Final,
    /// One call among those that [`Name::Calls`] stands around, or only behind.
    Call,
    Calls,
}

const NAMES: [(&str, Name); 7] = [
    ("think", Name::Thought),
    ("thinking", Name::Thought),
    ("thought", Name::Thought),
    ("antthinking", Name::Thought),
    ("final", Name::Final),
    ("invoke", Name::Call),
    ("minimax:tool_call", Name::Calls),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Open,
    Close,
    /// `<think/>`: both at once.
    Empty,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// It never becomes one of our tags.
    Never,
    /// It may, if the right characters follow.
    Maybe,
    Tag(Name, Side),
}

/// Reads what begins with `<`. Blanks, any case and attributes are allowed.
fn read(text: &str) -> Reading {
    let Some(rest) = text.strip_prefix('<').filter(|_| text.len() <= MOST_TAG) else { return Reading::Never };
    let rest = rest.trim_start();
    let (rest, closes) = rest.strip_prefix('/').map_or((rest, false), |rest| (rest.trim_start(), true));
    let length =
        rest.find(|c: char| !c.is_ascii_alphanumeric() && c != ':' && c != '_').unwrap_or(rest.len());
    let (word, attributes) = rest.split_at(length);
    let word = word.to_ascii_lowercase();
    if attributes.is_empty() {
        let may_be = NAMES.iter().any(|(name, _)| name.starts_with(&word));
        return if may_be { Reading::Maybe } else { Reading::Never };
    }
    let Some((_, name)) = NAMES.iter().find(|(name, _)| *name == word) else { return Reading::Never };
    if !attributes.starts_with(|c: char| c.is_whitespace() || matches!(c, '/' | '>')) {
        return Reading::Never;
    }
    let Some(attributes) = attributes.strip_suffix('>') else {
        return if attributes.contains('<') { Reading::Never } else { Reading::Maybe };
    };
    // A call names its tool; prose about an `<invoke>` element does not.
    if *name == Name::Call && (closes || !attributes.contains("name")) {
        return Reading::Never;
    }
    let side = match (closes, attributes.ends_with('/')) {
        (true, _) => Side::Close,
        (false, true) => Side::Empty,
        (false, false) => Side::Open,
    };
    Reading::Tag(*name, side)
}

/// Calls written as tags. They are tool text only if `minimax:tool_call` stands near them, and it often comes
/// last.
#[derive(Debug, Default)]
struct Calls {
    held: String,
    /// Where the last whole call, and blanks behind it, end in it.
    closed: Option<usize>,
}

#[derive(Debug, PartialEq, Eq)]
enum CallsAre {
    Open,
    ToolText,
    Prose,
}

impl Calls {
    fn push(&mut self, c: char, marked: bool) -> CallsAre {
        self.held.push(c);
        if self.held.len() > MOST_CALL {
            return CallsAre::Prose;
        }
        let Some(closed) = self.closed else {
            let ends = c == '>' && ends_with_ignoring_case(&self.held, CALL_END);
            self.closed = ends.then_some(self.held.len());
            return if ends && marked { CallsAre::ToolText } else { CallsAre::Open };
        };
        let behind = self.held.get(closed..).unwrap_or_default().trim_start();
        if behind.is_empty() {
            self.closed = Some(self.held.len());
            return CallsAre::Open;
        }
        match read(behind) {
            Reading::Maybe => CallsAre::Open,
            Reading::Tag(Name::Calls, _) => CallsAre::ToolText,
            Reading::Tag(Name::Call, _) => {
                self.closed = None;
                CallsAre::Open
            }
            Reading::Tag(..) | Reading::Never => CallsAre::Prose,
        }
    }
}

fn ends_with_ignoring_case(text: &str, end: &str) -> bool {
    let start = text.len().checked_sub(end.len());
    start.and_then(|start| text.get(start..)).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
}

/// What `<final>` means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Finals {
    /// Nothing: the tags are taken out.
    #[default]
    Plain,
    /// Only what stands in it is for people, and we are not in it. The text here counts as a thought.
    Outside,
    Inside,
}

/// What of a text was visible so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Shown {
    #[default]
    Nothing,
    /// Something, and nothing on this line.
    Before,
    OnThisLine,
}

impl Shown {
    fn after(self, c: char) -> Self {
        match (self, c) {
            (Self::Nothing, c) if c.is_whitespace() => Self::Nothing,
            (_, '\n') => Self::Before,
            (Self::Before, c) if c.is_whitespace() => Self::Before,
            _ => Self::OnThisLine,
        }
    }
}

/// Tells visible text from thoughts.
#[derive(Debug, Default)]
pub(super) struct Tags {
    finals: Finals,
    in_thought: bool,
    /// The thought under way, as it would be shown if it never ends.
    thought: String,
    shown: Shown,
    /// Code in what is visible. A thought is not looked at: one stray backtick in it must not hide its end.
    code: CodeTracker,
    /// What may become a tag.
    held: String,
    calls: Option<Calls>,
    /// `minimax:tool_call` was seen.
    marked: bool,
    /// Set while text that turned out to be no call is read again.
    is_prose: bool,
}

impl Tags {
    pub(super) fn new(enforce_final: bool) -> Self {
        let finals = if enforce_final { Finals::Outside } else { Finals::Plain };
        Self { finals, ..Self::default() }
    }

    pub(super) fn push(&mut self, c: char, out: &mut Vec<Spoken>) {
        if let Some(calls) = &mut self.calls {
            match calls.push(c, self.marked) {
                CallsAre::Open => {}
                CallsAre::ToolText => {
                    self.calls = None;
                    self.marked = true;
                }
                CallsAre::Prose => self.give_back(out),
            }
            return;
        }
        if !self.held.is_empty() {
            self.held.push(c);
            match read(&self.held) {
                Reading::Maybe => return,
                Reading::Tag(name, side) if self.counts(name) => return self.take(name, side),
                Reading::Tag(..) => return self.release(out),
                Reading::Never => {
                    self.held.pop();
                    self.release(out);
                }
            }
        }
        if c == '<' && (self.in_thought || self.code.is_plain()) {
            self.held.push(c);
        } else {
            self.say(c, out);
        }
    }

    /// The text is over. Calls that never ended are shown, unless it is known that they are tool text.
    pub(super) fn finish(&mut self, out: &mut Vec<Spoken>) {
        if self.marked {
            self.calls = None;
        }
        self.give_back(out);
        self.release(out);
        self.unclosed(out);
    }

    /// What begins as a thought and never ends is one, unless nothing else was said, or it stands in the middle of a line:
    /// then it was an answer, or about the tag.
    fn unclosed(&mut self, out: &mut Vec<Spoken>) {
        let thought = std::mem::take(&mut self.thought);
        if self.in_thought && self.finals == Finals::Plain && self.shown != Shown::Before {
            out.extend(thought.chars().map(Spoken::Visible));
        }
    }

    /// Inside a thought only its end matters.
    fn counts(&self, name: Name) -> bool {
        match name {
            Name::Thought => true,
            Name::Call => !self.in_thought && !self.is_prose,
            Name::Final | Name::Calls => !self.in_thought,
        }
    }

    fn take(&mut self, name: Name, side: Side) {
        let tag = std::mem::take(&mut self.held);
        match name {
            Name::Calls => self.marked = true,
            _ if side == Side::Empty => {}
            Name::Thought => self.think(side, &tag),
            Name::Final if self.finals == Finals::Plain => {}
            Name::Final => {
                self.finals = if side == Side::Open { Finals::Inside } else { Finals::Outside };
                self.code = CodeTracker::default();
            }
            Name::Call => self.calls = Some(Calls { held: tag, closed: None }),
        }
    }

    fn think(&mut self, side: Side, tag: &str) {
        if !self.in_thought {
            self.thought.clear();
            // In the middle of a line it may be what the line is about.
            if self.shown == Shown::OnThisLine {
                self.thought.push_str(tag);
            }
        }
        self.in_thought = side == Side::Open;
    }

    /// What was held is no tag.
    fn release(&mut self, out: &mut Vec<Spoken>) {
        for c in std::mem::take(&mut self.held).chars() {
            self.say(c, out);
        }
    }

    /// What was held is no tool text: its other tags count.
    fn give_back(&mut self, out: &mut Vec<Spoken>) {
        let Some(calls) = self.calls.take() else { return };
        self.is_prose = true;
        for c in calls.held.chars() {
            self.push(c, out);
        }
        self.is_prose = false;
    }

    fn say(&mut self, c: char, out: &mut Vec<Spoken>) {
        if self.in_thought {
            self.thought.push(c);
            return out.push(Spoken::Thought(c));
        }
        self.shown = self.shown.after(c);
        self.code.push(c);
        out.push(if self.finals == Finals::Outside { Spoken::Thought(c) } else { Spoken::Visible(c) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, enforce_final: bool) -> (String, String) {
        let mut tags = Tags::new(enforce_final);
        let mut out = Vec::new();
        for c in text.chars() {
            tags.push(c, &mut out);
        }
        tags.finish(&mut out);
        let of = |wanted: fn(&Spoken) -> Option<char>| out.iter().filter_map(wanted).collect();
        (
            of(|spoken| if let Spoken::Visible(c) = spoken { Some(*c) } else { None }),
            of(|spoken| if let Spoken::Thought(c) = spoken { Some(*c) } else { None }),
        )
    }

    fn assert_split(cases: &[(&str, &str, &str)]) {
        for (text, visible, thought) in cases {
            assert_eq!(split(text, false), ((*visible).to_owned(), (*thought).to_owned()), "{text:?}");
        }
    }

    #[test]
    fn thoughts_are_told_from_what_is_visible() {
        assert_split(&[
            ("<think>a</think>b", "b", "a"),
            ("< THINKING >a< / thinking >b", "b", "a"),
            ("a<thought id=\"1\">b</thought>c<antthinking>d</antthinking>", "ac", "bd"),
            ("x</think>y", "xy", ""),
            ("<final>ok</final>", "ok", ""),
            ("<think>a<think>b</think>c", "c", "ab"),
            ("a<think/>b", "ab", ""),
        ]);
    }

    #[test]
    fn an_unclosed_thought_swallows_the_rest() {
        assert_split(&[("a\n<think>b\n\nc <final>d</final>", "a\n", "b\n\nc <final>d</final>")]);
    }

    #[test]
    fn an_unclosed_thought_is_shown_where_it_would_eat_the_answer() {
        assert_split(&[
            ("<think>It is six.", "It is six.", "It is six."),
            ("\n <think>a<think>b", "\n ab", "ab"),
            ("Write <think> before it.\nSo.", "Write <think> before it.\nSo.", " before it.\nSo."),
            ("Write <think>a</think>, then more", "Write , then more", "a"),
        ]);
    }

    #[test]
    fn a_stray_backtick_in_a_thought_does_not_hide_its_end() {
        assert_split(&[("<think>don`t</think>b", "b", "don`t")]);
    }

    #[test]
    fn what_only_resembles_a_tag_is_text() {
        for text in [
            "a < b",
            "<thinker>",
            "<think-tank>",
            "<think",
            "<th",
            "<",
            "<<final",
            "</ thoughts>",
            "1<final2",
            "<think a<b",
            "<final:>",
        ] {
            assert_split(&[(text, text, "")]);
        }
        let long = format!("<think {}>a", "x".repeat(MOST_TAG));
        assert_split(&[(&long, &long, "")]);
    }

    #[test]
    fn a_tag_in_code_is_text() {
        for text in ["`<think>` kept", "a `b <final>` c", "```\n<think>\n```\nc", "~~~\n</final>"] {
            assert_split(&[(text, text, "")]);
        }
        assert_split(&[("`<think>`<think>a</think>b", "`<think>`b", "a")]);
        assert_split(&[("a ` b\n\n<think>c</think>d", "a ` b\n\nd", "c")]);
    }

    #[test]
    fn with_final_enforced_nothing_else_is_visible() {
        let cases = [
            ("a<final>b</final>c<final>d</final>", "bd", "ac"),
            ("no tag at all", "", "no tag at all"),
            ("in ` <final> tags\n\n<final>b", "b", "in ` <final> tags\n\n"),
            ("<think>a</think>b<final>c<think>d</think>e</final>", "ce", "abd"),
        ];
        for (text, visible, thought) in cases {
            assert_eq!(split(text, true), (visible.to_owned(), thought.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn calls_written_as_tags_go_when_their_marker_is_near() {
        let call = "<invoke name=\"exec\">\n<parameter name=\"command\">ls</parameter>\n</invoke>";
        for (text, visible) in [
            (format!("a\n{call}\n</minimax:tool_call>b"), "a\nb"),
            (format!("a<minimax:tool_call>{call} {call}</minimax:tool_call>b"), "a b"),
            (format!("a{call}\n{call}\n</minimax:tool_call>"), "a"),
            (format!("a<minimax:tool_call>{}", call.get(..30).unwrap()), "a"),
        ] {
            assert_split(&[(&text, visible, "")]);
        }
    }

    #[test]
    fn calls_without_their_marker_are_text_and_other_tags_in_them_count() {
        let prose = "<invoke name=\"x\">y</invoke> z";
        assert_split(&[(prose, prose, "")]);
        assert_split(&[("<invoke> <think>a</think>b", "<invoke> b", "a")]);
        assert_split(&[("<invoke name=\"x\"> <think>a</think>b", "<invoke name=\"x\"> b", "a")]);
        let long = format!("<invoke name=\"x\">{}<think>a</think>b", "y".repeat(MOST_CALL));
        assert_eq!(split(&long, false).1, "a");
    }
}
