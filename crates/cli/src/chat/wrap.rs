//! Breaking a line into rows. Pure, and greedy: a row that is full stays the same whatever text follows it.

use super::line::{Line, Style};
use crate::cells::{cluster_cells, clusters, is_wide};

/// Where rows may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Break {
    /// Between words, and between East Asian characters.
    Words,
    /// Anywhere: every blank counts.
    Anywhere,
}

/// A row, and where the text that follows it begins, in bytes of the whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) line: Line,
    pub(super) next: usize,
}

/// What stands before the text: on the first row, and on those after it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lead {
    pub(super) first: Line,
    pub(super) rest: Line,
}

impl Lead {
    /// The same on every row.
    pub(super) fn same(line: Line) -> Self {
        Self { first: line.clone(), rest: line }
    }
}

struct Cell<'a> {
    text: &'a str,
    style: Style,
    width: usize,
}

/// The rows of a text, from byte `from` of it on. No row takes more than `width` cells, if a sign fits at all.
pub(super) fn rows(line: &Line, lead: &Lead, width: usize, from: usize, breaks: Break) -> Vec<Row> {
    let signs: Vec<Cell<'_>> = line
        .spans()
        .iter()
        .flat_map(|span| clusters(&span.text).map(|text| (text, span.style)))
        .map(|(text, style)| Cell { text, style, width: cluster_cells(text) })
        .collect();
    let mut passed = 0;
    let mut start = signs.iter().take_while(|sign| take(&mut passed, sign.text.len(), from)).count();
    let mut offset: usize = signs.iter().take(start).map(|sign| sign.text.len()).sum();
    let mut rows = Vec::new();
    loop {
        let before = if offset == 0 { &lead.first } else { &lead.rest };
        if offset > 0 && breaks == Break::Words {
            let blanks = signs.iter().skip(start).take_while(|sign| sign.text == " ").count();
            start += blanks;
            offset += blanks;
        }
        if start >= signs.len() && (offset > 0 || !rows.is_empty()) {
            return rows;
        }
        let rest = signs.get(start..).unwrap_or_default();
        let (shown, taken) = one_row(rest, width.saturating_sub(before.cells()), breaks);
        let mut row = before.clone();
        rest.iter().take(shown).for_each(|sign| row.push(sign.style, sign.text));
        offset += rest.iter().take(taken).map(|sign| sign.text.len()).sum::<usize>();
        start += taken;
        rows.push(Row { line: row, next: offset });
        if signs.is_empty() {
            return rows;
        }
    }
}

/// Whether a sign of so many bytes still lies before `from`.
fn take(passed: &mut usize, length: usize, from: usize) -> bool {
    let before = *passed < from;
    *passed += length;
    before
}

/// How many signs are on the next row, and how many are used up by it.
fn one_row(signs: &[Cell<'_>], room: usize, breaks: Break) -> (usize, usize) {
    let mut used = 0;
    let mut end = 0;
    let mut last_break = None;
    while let Some(sign) = signs.get(end) {
        if used + sign.width > room && end > 0 {
            break;
        }
        used += sign.width;
        end += 1;
        if signs.get(end).is_some_and(|next| may_break(sign.text, next.text)) {
            last_break = Some(end);
        }
    }
    if end >= signs.len() || breaks == Break::Anywhere {
        return (end, end);
    }
    let full = signs.get(end).is_some_and(|next| next.text == " ");
    let taken = if full { end } else { last_break.unwrap_or(end) };
    let blanks = signs.iter().take(taken).rev().take_while(|sign| sign.text == " ").count();
    (taken - blanks.min(taken), taken)
}

fn may_break(before: &str, after: &str) -> bool {
    let wide = |text: &str| text.chars().next().is_some_and(is_wide);
    // Marks that must not begin or end a row.
    let begins = |text: &str| "，。、；：！？）》】」』”’…～".contains(text);
    let ends = |text: &str| "（《【「『“‘".contains(text);
    before == " " && after != " " || (wide(before) || wide(after)) && !begins(after) && !ends(before)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::line::PLAIN;
    use super::*;

    fn wrapped(text: &str, width: usize) -> Vec<String> {
        let lead = Lead { first: Line::styled(PLAIN, "- "), rest: Line::styled(PLAIN, "  ") };
        let rows = rows(&Line::styled(PLAIN, text), &lead, width, 0, Break::Words);
        rows.iter().map(|row| row.line.text()).collect()
    }

    #[test]
    fn rows_are_broken_between_words_and_go_on_under_their_text() {
        assert_eq!(wrapped("one two three", 9), ["- one two", "  three"]);
        assert_eq!(wrapped("a verylongword b", 8), ["- a", "  verylo", "  ngword", "  b"]);
        assert_eq!(wrapped("", 8), ["- "]);
    }

    #[test]
    fn chinese_is_broken_anywhere_but_before_its_full_stop() {
        assert_eq!(wrapped("没有等待批准。好", 10), ["- 没有等待", "  批准。好"]);
        assert_eq!(wrapped("没有等待。好", 10), ["- 没有等", "  待。好"]);
    }

    proptest! {
        #[test]
        fn no_row_is_too_long_and_no_letter_is_lost(text in "[a-c 你。👍]{0,60}", width in 6_usize..20) {
            let rows = wrapped(&text, width);
            prop_assert!(rows.iter().all(|row| crate::cells::cells(row) <= width), "{:?}", rows);
            let letters = |text: &str| text.replace([' ', '-'], "");
            prop_assert_eq!(letters(&rows.concat()), letters(&text));
        }

        #[test]
        fn a_full_row_does_not_change_when_more_text_comes(
            text in "[a-c 你。👍]{0,60}", more in "[a-c 你。👍]{0,20}", width in 6_usize..20
        ) {
            let before = wrapped(&text, width);
            let after = wrapped(&[text, more].concat(), width);
            let full = before.len() - 1;
            prop_assert_eq!(&before[..full], &after[..full]);
        }

        #[test]
        fn going_on_where_a_row_ended_gives_the_rows_that_follow(text in "[a-c 你。👍]{1,60}", width in 6_usize..20) {
            let line = Line::styled(PLAIN, text);
            let lead = Lead::same(Line::styled(PLAIN, "> "));
            for breaks in [Break::Words, Break::Anywhere] {
                let all = rows(&line, &lead, width, 0, breaks);
                for (at, row) in all.iter().enumerate() {
                    prop_assert_eq!(&rows(&line, &lead, width, row.next, breaks), &all[at + 1..]);
                }
            }
        }
    }
}
