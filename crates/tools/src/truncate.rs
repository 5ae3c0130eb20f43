//! Keeping texts short: the head or the tail of a text by lines and bytes, never in the middle of a character.

/// How many lines file tools show at once.
pub(crate) const MAX_LINES: usize = 2000;
/// How many bytes file tools show at once.
pub(crate) const MAX_BYTES: usize = 50 * 1024;

/// What stopped first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutBy {
    Lines,
    Bytes,
}

/// What is left of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut<'a> {
    pub content: &'a str,
    /// Absent: nothing was left out.
    pub by: Option<CutBy>,
    /// How many lines are shown, a part of one counted as one.
    pub lines: usize,
    /// The only line shown is not shown whole.
    pub partial: bool,
}

/// The longest beginning of at most `bytes` bytes.
pub fn head_bytes(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The longest end of at most `bytes` bytes.
pub fn tail_bytes(text: &str, bytes: usize) -> &str {
    let start = text.len().saturating_sub(bytes);
    &text[text.ceil_char_boundary(start)..]
}

/// The first lines. Whole lines, unless the first alone is too long: then its beginning.
pub fn head(text: &str, lines: usize, bytes: usize) -> Cut<'_> {
    let (mut end, mut count) = (0, 0);
    for line in text.split_inclusive('\n') {
        if count == lines {
            return Cut { content: &text[..end], by: Some(CutBy::Lines), lines: count, partial: false };
        }
        if end + without_end(line).len() > bytes {
            if count == 0 {
                let content = head_bytes(line, bytes);
                return Cut { content, by: Some(CutBy::Bytes), lines: 1, partial: true };
            }
            return Cut { content: &text[..end], by: Some(CutBy::Bytes), lines: count, partial: false };
        }
        end += line.len();
        count += 1;
    }
    Cut { content: text, by: None, lines: count, partial: false }
}

/// The last lines. Whole lines, unless the last alone is too long: then its end.
pub fn tail(text: &str, lines: usize, bytes: usize) -> Cut<'_> {
    let (mut start, mut count) = (text.len(), 0);
    for line in text.split_inclusive('\n').rev() {
        if count == lines {
            return Cut { content: &text[start..], by: Some(CutBy::Lines), lines: count, partial: false };
        }
        if text.len() - (start - line.len()) > bytes {
            if count == 0 {
                let content = tail_bytes(line, bytes);
                return Cut { content, by: Some(CutBy::Bytes), lines: 1, partial: true };
            }
            return Cut { content: &text[start..], by: Some(CutBy::Bytes), lines: count, partial: false };
        }
        start -= line.len();
        count += 1;
    }
    Cut { content: text, by: None, lines: count, partial: false }
}

/// At most `characters` characters, with a mark where the rest was.
pub(crate) fn line(text: &str, characters: usize) -> (String, bool) {
    match text.char_indices().nth(characters) {
        Some((end, _)) => (format!("{}… [cut]", &text[..end]), true),
        None => (text.to_owned(), false),
    }
}

fn without_end(line: &str) -> &str {
    line.strip_suffix('\n').unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VECTORS: &str = include_str!("../../testkit/fixtures/vectors/truncate.json");

    #[test]
    fn the_tail_of_one_long_line_begins_at_a_character() {
        // The recorded answer for one line of `aé` again and again. Seven bytes would begin inside an é.
        let vectors: serde_json::Value = serde_json::from_str(VECTORS).unwrap();
        let expected = &vectors["trunc_tail"];
        let text = "aé".repeat(50);
        for bytes in [6, 7] {
            let cut = tail(&text, MAX_LINES, bytes);
            assert_eq!(expected["content"], cut.content);
            assert_eq!(expected["lastLinePartial"], cut.partial);
            assert_eq!((expected["truncatedBy"].as_str(), cut.by), (Some("bytes"), Some(CutBy::Bytes)));
        }
    }

    #[test]
    fn heads_and_tails_are_whole_lines() {
        let text = "one\ntwo\nthree\n";
        let cut = |content, by, lines| Cut { content, by, lines, partial: false };
        assert_eq!(head(text, 2, 100), cut("one\ntwo\n", Some(CutBy::Lines), 2));
        assert_eq!(head(text, 9, 8), cut("one\ntwo\n", Some(CutBy::Bytes), 2));
        assert_eq!(head(text, 3, 100), cut(text, None, 3));
        assert_eq!(tail(text, 2, 100), cut("two\nthree\n", Some(CutBy::Lines), 2));
        assert_eq!(tail(text, 9, 9), cut("three\n", Some(CutBy::Bytes), 1));
        assert_eq!(tail(text, 3, 100), cut(text, None, 3));
        assert_eq!(head("", 0, 0), cut("", None, 0));
    }

    proptest! {
        #[test]
        fn a_cut_is_a_piece_of_the_text_within_its_limits(
            text in "[aé\u{1F30A}\n]{0,60}", lines in 0usize..8, bytes in 0usize..40,
        ) {
            let (first, last) = (head(&text, lines, bytes), tail(&text, lines, bytes));
            prop_assert!(text.starts_with(first.content) && text.ends_with(last.content));
            for cut in [first, last] {
                prop_assert_eq!(cut.by.is_none(), cut.content == text);
                prop_assert!(cut.lines <= lines.max(1));
                // A head's last line end is not counted: it is not shown.
                prop_assert!(cut.content.len() <= bytes + 1);
            }
        }
    }
}
