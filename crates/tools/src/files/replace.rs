//! Replacing one piece of a text: exactly as it is written, or else as it reads. Pure.
//!
//! Nothing but that piece changes: line ends, a byte order mark and everything around it stay as they are, byte by byte.

use super::fold::Folded;

/// How many lines an error names.
const LINES_NAMED: usize = 8;
/// Larger texts are compared exactly only: folding can make a text many times as large.
const FOLD_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("oldText is empty: say what is to be replaced")]
    Empty,
    #[error("oldText is not in the file: read it again and copy the text as it is")]
    NotFound,
    #[error("oldText is in the file {count} times (lines {}): give more of the lines around it", named(.lines))]
    Several { count: usize, lines: Vec<usize> },
    #[error("newText is what is there already: nothing would change")]
    Nothing,
}

/// The text with `new` instead of `old`, which has to be there once.
pub(super) fn replace(text: &str, old: &str, new: &str) -> Result<String, Problem> {
    let lines = Lf::of(text);
    let (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    if old.is_empty() {
        return Err(Problem::Empty);
    }
    let exact: Vec<_> = positions(&lines.text, &old).map(|start| (start, start + old.len())).collect();
    let (start, end) = match only(&lines.text, &exact)? {
        Some(piece) => piece,
        None => only(&lines.text, &as_it_reads(&lines.text, &old))?.ok_or(Problem::NotFound)?,
    };
    let new = if lines.mostly_crlf() { new.replace('\n', "\r\n") } else { new };
    let result = [&text[..lines.source(start)], &new, &text[lines.source(end)..]].concat();
    if result == text { Err(Problem::Nothing) } else { Ok(result) }
}

/// Where a piece begins, overlapping ones too: two that overlap are two.
fn positions<'a>(text: &'a str, piece: &'a str) -> impl Iterator<Item = usize> + 'a {
    let step = piece.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + text.get(from..)?.find(piece)?;
        from = start + step;
        Some(start)
    })
}

fn as_it_reads(text: &str, old: &str) -> Vec<(usize, usize)> {
    if text.len().max(old.len()) > FOLD_BYTES {
        return Vec::new();
    }
    let (folded, old_folded) = (Folded::of(text), Folded::of(old));
    if old_folded.text.is_empty() {
        return Vec::new();
    }
    // Spaces that were cut from the end of the piece stood at the end of a line, or it is another place.
    let cut = !old.ends_with('\n') && old.trim_end().len() < old.len();
    let ends_well = |end: usize| !cut || matches!(folded.text.as_bytes().get(end), None | Some(b'\n'));
    positions(&folded.text, &old_folded.text)
        .map(|start| (start, start + old_folded.text.len()))
        .filter(|(_, end)| ends_well(*end))
        .filter_map(|(start, end)| folded.source(start, end))
        .collect()
}

fn only(text: &str, found: &[(usize, usize)]) -> Result<Option<(usize, usize)>, Problem> {
    match found {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        several => {
            let line = |start: usize| text[..start].matches('\n').count() + 1;
            let lines = several.iter().take(LINES_NAMED).map(|(start, _)| line(*start)).collect();
            Err(Problem::Several { count: several.len(), lines })
        }
    }
}

fn named(lines: &[usize]) -> String {
    let mut text = lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    if lines.len() == LINES_NAMED {
        text.push_str(", …");
    }
    text
}

/// A text with LF line ends that knows where each byte was. Without its byte order mark.
struct Lf {
    text: String,
    mark: usize,
    /// The line ends that were CRLF, by their place in `text`.
    crlf: Vec<usize>,
}

impl Lf {
    fn of(text: &str) -> Self {
        let body = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let crlf = body.match_indices("\r\n").enumerate().map(|(count, (start, _))| start - count).collect();
        Self { text: body.replace("\r\n", "\n"), mark: text.len() - body.len(), crlf }
    }

    fn source(&self, place: usize) -> usize {
        self.mark + place + self.crlf.partition_point(|end| *end < place)
    }

    fn mostly_crlf(&self) -> bool {
        self.crlf.len() * 2 > self.text.matches('\n').count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_differently_is_found_as_it_reads() {
        for (text, old, new, result) in [
            ("say \u{201C}hi\u{201D}\n", "say \"hi\"", "say bye", "say bye\n"),
            ("a \u{2013} b\u{00A0}c", "a - b c", "x", "x"),
            ("one  \ntwo\t\nthree", "one\ntwo", "1\n2", "1\n2\t\nthree"),
            ("one\ntwo\n", "one  \ntwo  ", "1", "1\n"),
            ("\u{FB01}ne", "fine", "good", "good"),
            ("cafe\u{301}", "caf\u{e9}", "tea", "tea"),
            ("it\u{2019}s and it's", "it's", "x", "it\u{2019}s and x"),
        ] {
            assert_eq!(replace(text, old, new), Ok(result.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_there_once_is_refused_with_the_reason() {
        for (text, old, new, problem) in [
            ("abc", "", "x", Problem::Empty),
            ("abc", "x", "y", Problem::NotFound),
            ("abc", "b", "b", Problem::Nothing),
            ("a\r\nb", "a\nb", "a\nb", Problem::Nothing),
            ("x\ny\nx\n", "x", "z", Problem::Several { count: 2, lines: vec![1, 3] }),
            ("aaa", "aa", "b", Problem::Several { count: 2, lines: vec![1, 1] }),
            (
                "\u{2018}a\u{2019}\n\u{2019}a\u{2018}",
                "'a'",
                "b",
                Problem::Several { count: 2, lines: vec![1, 2] },
            ),
            // A part of a ligature is no piece of the text.
            ("\u{FB01}ne", "ine", "x", Problem::NotFound),
            // Spaces at the end mean the end of a line.
            ("\u{201C}foo\u{201D}bar", "\"foo\" ", "x", Problem::NotFound),
            ("abc", "   ", "x", Problem::NotFound),
        ] {
            assert_eq!(replace(text, old, new), Err(problem), "{text:?}");
        }
    }

    #[test]
    fn line_ends_and_the_byte_order_mark_stay_as_they_are() {
        for (text, old, new, result) in [
            ("\u{FEFF}a\r\nb\r\nc\r\n", "b\nc", "x\ny\nz", "\u{FEFF}a\r\nx\r\ny\r\nz\r\n"),
            ("a\r\nb\r\nc\nd", "c\nd", "e\nf", "a\r\nb\r\ne\r\nf"),
            ("a\nb\nc\r\nd", "a", "e\nf", "e\nf\nb\nc\r\nd"),
            ("\u{FEFF}a", "a", "b", "\u{FEFF}b"),
        ] {
            assert_eq!(replace(text, old, new), Ok(result.to_owned()), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn everything_around_the_piece_stays(
            before in "\u{FEFF}?[ab\u{201C} \r\n]{0,12}", after in "[ab\u{201C} \r\n]{0,12}", new in "[xy]{1,4}",
        ) {
            let text = format!("{before}OLD{after}");
            prop_assert_eq!(replace(&text, "OLD", &new), Ok(format!("{before}{new}{after}")));
        }

        #[test]
        fn a_text_with_crlf_keeps_it(lines in prop::collection::vec("[a-c]{0,3}", 1..8), new in "[x\n]{1,6}") {
            let text = format!("{}\r\nOLD\r\n", lines.join("\r\n"));
            let result = replace(&text, "OLD", &new).unwrap();
            prop_assert_eq!(result.matches('\n').count(), result.matches("\r\n").count());
        }
    }
}
