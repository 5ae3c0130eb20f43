//! Where a text is code: fenced blocks of a whole text, and a tracker that knows at each character of a
//! stream.

/// A fenced block: from the first character of its opening line to the last of its closing one, as byte
/// offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FenceSpan<'t> {
    pub start: usize,
    pub end: usize,
    /// What opened it, to open it again: `` ```js ``.
    pub open_line: &'t str,
    pub marker: &'t str,
    pub indent: &'t str,
    /// Without a closing line it reaches to the end of the text.
    pub closed: bool,
}

/// The fenced blocks of a text: at most three blanks, at least three marks, closed by at least as many of the
/// same.
pub fn fence_spans(text: &str) -> Vec<FenceSpan<'_>> {
    let mut spans: Vec<FenceSpan<'_>> = Vec::new();
    let mut start = 0;
    for line in text.split('\n') {
        let end = start + line.len();
        match spans.last_mut().filter(|span| !span.closed) {
            Some(open) => {
                open.end = end;
                open.closed = marker_of(line).is_some_and(|(_, marker)| marker.starts_with(open.marker));
            }
            None => spans.extend(opened_by(line).map(|(indent, marker)| FenceSpan {
                start,
                end,
                open_line: line,
                marker,
                indent,
                closed: false,
            })),
        }
        start = end + 1;
    }
    spans
}

/// The indent and the run of marks a line begins with.
fn marker_of(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start_matches(' ');
    let (indent, _) = line.split_at(line.len() - rest.len());
    let mark = rest.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let (marker, _) = rest.split_at(rest.len() - rest.trim_start_matches(mark).len());
    (indent.len() <= 3 && marker.len() >= 3).then_some((indent, marker))
}

/// As [`marker_of`], but a line such as `` ```a``` `` is inline code and opens nothing.
fn opened_by(line: &str) -> Option<(&str, &str)> {
    let (indent, marker) = marker_of(line)?;
    let info = line.get(indent.len() + marker.len()..)?;
    (!(marker.starts_with('`') && info.contains('`'))).then_some((indent, marker))
}

/// Follows a text character by character and knows whether the next one is code.
///
/// Inline code that is never closed ends with its paragraph, so that one stray backtick does not switch off
/// what looks for tags for the rest of an answer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CodeTracker {
    line: Line,
    fence: Option<Fence>,
    /// How many backticks opened the inline code we are in.
    inline: Option<usize>,
    /// Backticks just read. More may follow, so what they mean is open.
    run: usize,
}

#[derive(Debug, Clone, Copy)]
enum Line {
    /// Nothing but this many blanks so far.
    Start {
        blanks: usize,
    },
    /// A run of marks at the start of the line.
    Marker {
        mark: char,
        length: usize,
    },
    /// Behind the marks that opened or closed the fence at hand.
    Fence,
    Middle,
}

impl Default for Line {
    fn default() -> Self {
        Self::Start { blanks: 0 }
    }
}

#[derive(Debug, Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
    /// Its closing marks were read: it ends with the line.
    closing: bool,
}

impl CodeTracker {
    /// Whether a character other than a mark would stand outside of code here.
    pub(super) fn is_plain(self) -> bool {
        let mut settled = self;
        settled.settle();
        settled.fence.is_none() && settled.inline.is_none()
    }

    /// Whether the next character begins a line, blanks aside.
    pub(super) fn at_line_start(self) -> bool {
        matches!(self.line, Line::Start { .. })
    }

    pub(super) fn push(&mut self, c: char) {
        if c == '\n' {
            return self.end_line();
        }
        match &mut self.line {
            Line::Start { blanks } if c.is_whitespace() => *blanks += 1,
            Line::Start { blanks } if matches!(c, '`' | '~') && *blanks <= 3 => {
                self.line = Line::Marker { mark: c, length: 1 };
            }
            Line::Marker { mark, length } if *mark == c => *length += 1,
            Line::Start { .. } => {
                self.line = Line::Middle;
                self.push_within(c);
            }
            Line::Marker { .. } | Line::Fence | Line::Middle => {
                self.settle_marker();
                self.push_within(c);
            }
        }
    }

    fn push_within(&mut self, c: char) {
        match self.fence {
            // A fence of backticks has none behind it: this is inline code that stands at the start of a
            // line.
            Some(Fence { mark: '`', length, closing: false })
                if c == '`' && matches!(self.line, Line::Fence) =>
            {
                *self = Self { line: Line::Middle, fence: None, inline: Some(length), run: 1 };
            }
            Some(_) => {}
            None if c == '`' => self.run += 1,
            None => self.settle_run(),
        }
    }

    fn end_line(&mut self) {
        self.settle();
        let is_blank = self.at_line_start();
        if is_blank {
            self.inline = None;
        }
        if self.fence.is_some_and(|fence| fence.closing) {
            self.fence = None;
        }
        self.line = Line::default();
    }

    fn settle(&mut self) {
        self.settle_marker();
        self.settle_run();
    }

    /// The marks at the start of the line are all there: says what they are.
    fn settle_marker(&mut self) {
        let Line::Marker { mark, length } = self.line else { return };
        self.line = Line::Middle;
        match &mut self.fence {
            Some(fence) if mark == fence.mark && length >= fence.length => {
                fence.closing = true;
                self.line = Line::Fence;
            }
            None if mark == '`' && self.inline == Some(length) => self.inline = None,
            None if length >= 3 => {
                self.fence = Some(Fence { mark, length, closing: false });
                self.inline = None;
                self.line = Line::Fence;
            }
            None if mark == '`' => self.run = length,
            _ => {}
        }
    }

    fn settle_run(&mut self) {
        match (std::mem::take(&mut self.run), self.inline) {
            (0, _) => {}
            (run, None) => self.inline = Some(run),
            (run, Some(open)) if run == open => self.inline = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The recorded cases, and what they do not say.
    #[test]
    fn fences_are_found_with_what_opened_them() {
        let cases = [
            ("```\na\n```\nb", (0, 9, "```", "```", "")),
            ("   ```\nz\n   ```", (0, 15, "   ```", "```", "   ")),
            ("````\n```\n````\nq", (0, 13, "````", "````", "")),
            ("a\n~~~ py\nb\n```\n~~~~\n", (2, 19, "~~~ py", "~~~", "")),
        ];
        for (text, (start, end, open_line, marker, indent)) in cases {
            let expected = FenceSpan { start, end, open_line, marker, indent, closed: true };
            assert_eq!(fence_spans(text), [expected], "{text:?}");
        }
    }

    #[test]
    fn an_unclosed_fence_reaches_to_the_end() {
        let spans = fence_spans("é\n```js\nx");
        assert_eq!(
            spans.iter().map(|span| (span.start, span.end, span.closed)).collect::<Vec<_>>(),
            [(3, 10, false)]
        );
    }

    #[test]
    fn code_on_one_line_and_deep_indents_open_no_fence() {
        assert_eq!(fence_spans("```a``` b\nc"), []);
        assert_eq!(fence_spans("    ```\nc"), []);
        assert_eq!(fence_spans("``\nc"), []);
    }

    /// The text with every character that is code replaced.
    fn masked(text: &str) -> String {
        let mut tracker = CodeTracker::default();
        text.chars()
            .map(|c| {
                let shown = if c.is_alphabetic() && !tracker.is_plain() { '#' } else { c };
                tracker.push(c);
                shown
            })
            .collect()
    }

    #[test]
    fn the_tracker_knows_fences_and_inline_code() {
        for (text, expected) in [
            ("a `b` c", "a `#` c"),
            ("a ``b`b`` c", "a ``#`#`` c"),
            ("```js\nb\n``` b\na", "```##\n#\n``` #\na"),
            ("~~~\nb\n```\nb\n~~~\na", "~~~\n#\n```\n#\n~~~\na"),
            ("```b``` a\na", "```#``` a\na"),
            ("a: ```b\nb\n```\na", "a: ```#\n#\n```\na"),
            ("`b\n```\nb\n```\na", "`#\n```\n#\n```\na"),
            ("``` b\n`` b\n```` b\na", "``` #\n`` #\n```` #\na"),
            ("    ```\n\na", "    ```\n\na"),
            ("``\n\na `b", "``\n\na `#"),
        ] {
            assert_eq!(masked(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_stray_backtick_counts_to_the_end_of_its_paragraph_only() {
        assert_eq!(masked("a ` b\nb\n \na"), "a ` #\n#\n \na");
    }

    proptest! {
        #[test]
        fn the_tracker_and_the_spans_agree_on_fences(
            lines in prop::collection::vec(
                prop::sample::select(vec!["```", "````", "~~~", "  ```js", "a", "", " b", "~~~~ c"]),
                0..12,
            )
        ) {
            let text = lines.join("\n");
            let spans = fence_spans(&text);
            let mut tracker = CodeTracker::default();
            for (at, c) in text.char_indices() {
                if c.is_alphabetic() {
                    let fenced = spans.iter().any(|span| span.start <= at && at < span.end);
                    prop_assert_eq!(!tracker.is_plain(), fenced, "{:?} at {}", text, at);
                }
                tracker.push(c);
            }
        }
    }
}
