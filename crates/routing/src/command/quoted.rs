//! Which parts of a message are somebody else's words or code, where nothing is a directive.

use std::ops::Range;

/// The byte ranges of fenced blocks, quoted lines, inline code and text in quotation marks, in order.
pub(super) fn quoted(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut fence: Option<Fence> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let range = at..at + line.len();
        at = range.end;
        let bare = line.trim_start();
        if let Some(open) = &fence {
            if open.is_closed_by(bare) {
                fence = None;
            }
            found.push(range);
        } else if let Some(open) = Fence::opened_by(bare) {
            fence = Some(open);
            found.push(range);
        } else if bare.starts_with('>') {
            found.push(range);
        } else {
            found.extend(spans(line).map(|span| range.start + span.start..range.start + span.end));
        }
    }
    found
}

struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    fn opened_by(line: &str) -> Option<Self> {
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let length = run(line, mark);
        // Three marks with more of them behind are code inside a line.
        let after = line.trim_start_matches(mark);
        (length >= 3 && !(mark == '`' && after.contains('`'))).then_some(Self { mark, length })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        run(line, self.mark) >= self.length && line.trim_start_matches(self.mark).trim().is_empty()
    }
}

fn run(text: &str, mark: char) -> usize {
    text.chars().take_while(|c| *c == mark).count()
}

/// Inline code and quotations of one line. A mark that is never closed quotes nothing.
fn spans(line: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    // What was not closed once is not closed further on: nobody looks for its end again.
    let mut unclosed: Vec<(char, usize)> = Vec::new();
    std::iter::from_fn(move || {
        loop {
            let (open, close, start) = line.get(at..)?.char_indices().find_map(|(offset, c)| {
                let close = match c {
                    '`' | '"' => c,
                    '“' => '”',
                    '「' => '」',
                    '『' => '』',
                    _ => return None,
                };
                Some((c, close, at + offset))
            })?;
            // As many backticks close code as opened it.
            let length = if open == '`' { run(line.get(start..)?, '`') } else { 1 };
            let inside = start + length * open.len_utf8();
            at = inside;
            if unclosed.contains(&(open, length)) {
                continue;
            }
            match closing(line, inside, close, length) {
                Some(end) => {
                    at = end;
                    return Some(start..end);
                }
                None => unclosed.push((open, length)),
            }
        }
    })
}

/// Where the first run of exactly that many marks ends.
fn closing(line: &str, from: usize, mark: char, length: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let start = at + line.get(at..)?.find(mark)?;
        let found = if mark == '`' { run(line.get(start..)?, mark) } else { 1 };
        at = start + found * mark.len_utf8();
        if found == length {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(text: &str) -> Vec<&str> {
        quoted(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn code_and_quotations_are_found() {
        for (text, expected) in [
            ("plain \" text` here", vec![]),
            ("a `b` c", vec!["`b`"]),
            ("a ``b ` c`` d `e`", vec!["``b ` c``", "`e`"]),
            ("say \"x y\" and “z”", vec!["\"x y\"", "“z”"]),
            ("\"never closed\n\" on one line", vec![]),
            ("a\n> b\nc", vec!["> b\n"]),
            ("a\n```sh\nb\n```\nc", vec!["```sh\n", "b\n", "```\n"]),
            ("~~~\n```\n~~~\nc", vec!["~~~\n", "```\n", "~~~\n"]),
            ("```\nnever closed", vec!["```\n", "never closed"]),
            ("```x``` y", vec!["```x```"]),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn a_long_line_of_open_marks_is_read_in_one_go() {
        let text = "“ ` `` \" ".repeat(50_000) + "「x」";
        assert_eq!(parts(&text).last(), Some(&"「x」"));
    }

    proptest! {
        #[test]
        fn ranges_are_ordered_and_cut_no_character(text in "[`\"“”~> \na]{0,30}") {
            let mut last = 0;
            for range in quoted(&text) {
                prop_assert!(range.start >= last && range.end > range.start);
                prop_assert!(text.get(range.clone()).is_some());
                last = range.end;
            }
        }
    }
}
