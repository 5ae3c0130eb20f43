//! Markdown that comes in pieces.

use proptest::prelude::*;

use super::*;

fn all(text: &str, width: usize) -> Vec<Line> {
    let mut markdown = Markdown::new(width);
    let mut lines = markdown.push(text);
    lines.extend(markdown.finish());
    lines
}

fn plain(text: &str, width: usize) -> Vec<String> {
    all(text, width).iter().map(Line::text).collect()
}

fn painted(text: &str) -> String {
    all(text, 80).iter().map(|line| line.painted(true)).collect::<Vec<_>>().join("\n")
}

#[test]
fn marks_become_styles() {
    assert_eq!(painted("a **b** c"), "a \x1b[1mb\x1b[0m c");
    assert_eq!(painted("*a* _b_ ***c***"), "\x1b[3ma\x1b[0m \x1b[3mb\x1b[0m \x1b[1;3mc\x1b[0m");
    assert_eq!(painted("use `a*b*` ``x ` y``"), "use \x1b[36ma*b*\x1b[0m \x1b[36mx ` y\x1b[0m");
    assert_eq!(painted("~~old~~"), "\x1b[9mold\x1b[0m");
    assert_eq!(painted("# Title #"), "\x1b[1;4mTitle\x1b[0m");
    assert_eq!(painted("**a *b* c**"), "\x1b[1ma \x1b[0m\x1b[1;3mb\x1b[0m\x1b[1m c\x1b[0m");
    assert_eq!(painted("**a *b***"), "\x1b[1ma \x1b[0m\x1b[1;3mb\x1b[0m");
}

#[test]
fn what_only_looks_like_a_mark_stays() {
    for text in [
        "2 * 3 * 4",
        "snake_case_name",
        "a ** b",
        "**open",
        "`open",
        "[x] done",
        "\\ a",
        "a < b > c",
        "5 ~ 6",
        "!",
    ] {
        assert_eq!(plain(text, 80), [text]);
        assert!(!painted(text).contains('\x1b'), "{text}");
    }
    assert_eq!(plain("\\*a\\*", 80), ["*a*"]);
}

#[test]
fn a_link_shows_where_it_leads() {
    assert_eq!(
        plain("see [the page](https://a.example/x_(y)) now", 80),
        ["see the page (https://a.example/x_(y)) now"]
    );
    assert_eq!(
        plain("<https://a.example> [https://b.example](https://b.example)", 80),
        ["https://a.example https://b.example"]
    );
    assert_eq!(plain("![a cat](cat.png \"title\")", 80), ["a cat (cat.png)"]);
}

#[test]
fn lists_go_on_under_their_text() {
    let text = "- one two three four\n  - deep two three\n1. first\n   more";
    assert_eq!(
        plain(text, 16),
        ["• one two three", "  four", "  • deep two", "    three", "1. first", "   more"]
    );
}

#[test]
fn quotes_have_a_bar_on_every_row() {
    assert_eq!(plain("> one two three four\n> > five", 16), ["│ one two three", "│ four", "│ │ five"]);
}

#[test]
fn code_keeps_its_blanks_and_reads_no_marks() {
    let text = "before\n```rust\nfn a() {\n    **b**\n}\n\n```\nafter";
    assert_eq!(plain(text, 40), ["before", "  rust", "  fn a() {", "      **b**", "  }", "  ", "after"]);
    assert_eq!(plain("  ```\n  a\n    b\n  ```", 40), ["    a", "      b"]);
}

#[test]
fn blank_lines_are_single_and_none_comes_first_or_last() {
    assert_eq!(plain("\n\na\n\n\n\nb\n\n", 40), ["a", "", "b"]);
}

#[test]
fn a_rule_is_a_line() {
    assert_eq!(plain("a\n---\nb", 16), ["a", "────────────────", "b"]);
}

#[test]
fn a_table_lines_up_and_breaks_its_widest_column() {
    let text = "| name | n | what |\n|---|--:|---|\n| 甲 | 10 | one two three |\n| b | 9 | `x|y` |\n\nend";
    assert_eq!(
        plain(text, 80),
        ["name   n  what", "────  ──  ─────────────", "甲    10  one two three", "b      9  x|y", "", "end"]
    );
    assert_eq!(
        plain(text, 20),
        [
            "name   n  what",
            "────  ──  ──────────",
            "甲    10  one two",
            "          three",
            "b      9  x|y",
            "",
            "end"
        ]
    );
}

#[test]
fn a_table_without_room_becomes_a_list() {
    let text = "| a long title | another one |\n|---|---|\n| first value | second |\n| third | |";
    assert_eq!(
        plain(text, 17),
        ["a long title:", "  first value", "another one:", "  second", "", "a long title:", "  third"]
    );
}

#[test]
fn escape_sequences_of_a_model_are_shown_and_not_obeyed() {
    assert_eq!(plain("a\x1b[31mb\x07", 40), ["a\u{fffd}[31mb\u{fffd}"]);
    assert_eq!(plain("```\x1b]0;x\n\x1b[2J\n```", 40), ["  \u{fffd}]0;x", "  \u{fffd}[2J"]);
}

#[test]
fn a_long_paragraph_is_handed_out_row_by_row() {
    let mut markdown = Markdown::new(16);
    let rows: Vec<_> = markdown.push("one two three four five six seven").iter().map(Line::text).collect();
    assert_eq!(rows, ["one two three", "four five six"]);
    assert_eq!(markdown.tail().iter().map(Line::text).collect::<Vec<_>>(), ["seven"]);
}

#[test]
fn a_mark_that_may_still_open_something_holds_its_row_back() {
    let mut markdown = Markdown::new(16);
    assert!(markdown.push("a **two three four five six").is_empty());
    assert_eq!(markdown.push("** seven eight nine ten")[0].painted(true), "a \x1b[1mtwo three four\x1b[0m");
}

#[test]
fn what_comes_after_a_resize_is_broken_at_the_new_width() {
    let mut markdown = Markdown::new(16);
    assert_eq!(markdown.push("one two three four five six seven").len(), 2);
    markdown.resize(20);
    let rest: Vec<_> = markdown.push(" eight nine ten\n").iter().map(Line::text).collect();
    assert_eq!(rest, ["seven eight nine ten"]);
}

/// Texts with many marks.
fn source() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "*",
        "**",
        "***",
        "_",
        "`",
        "``",
        "```",
        "~~",
        "[",
        "](",
        ")",
        "!",
        "<",
        ">",
        "\\",
        "|",
        "-",
        "- ",
        "1. ",
        "# ",
        "> ",
        " ",
        " ",
        "\n",
        "\n",
        "\n\n",
        "word",
        "你好",
        "a",
        "|---|",
        "| a | b |",
        "e\u{301}",
        "👍",
        "http://x.y",
        "\x1b[31m",
        "\t",
        "\r\n",
        "long long text that goes on",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_comes_out_does_not_depend_on_where_the_text_was_cut(
        text in source(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30), width in 16_usize..40
    ) {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        ends.retain(|end| text.is_char_boundary(*end));
        ends.push(text.len());
        ends.sort_unstable();
        let mut markdown = Markdown::new(width);
        let mut lines = Vec::new();
        let mut from = 0;
        for end in ends {
            lines.extend(markdown.push(&text[from..end]));
            from = end;
        }
        lines.extend(markdown.finish());
        prop_assert_eq!(lines, all(&text, width));
    }

    #[test]
    fn the_tail_is_what_would_come_if_the_text_ended_here(text in source(), width in 16_usize..40) {
        let mut markdown = Markdown::new(width);
        let mut lines = markdown.push(&text);
        lines.extend(markdown.tail());
        // A fence that has just begun shows its label in the tail, and nothing else if it has none.
        let shown = |lines: &[Line]| lines.iter().map(|line| line.painted(true)).collect::<Vec<_>>().join("\n");
        let (tail, whole) = (shown(&lines), shown(&all(&text, width)));
        prop_assert_eq!(tail.trim_end(), whole.trim_end());
    }

    #[test]
    fn no_row_is_wider_than_the_terminal(text in source(), width in 16_usize..40) {
        for line in all(&text, width) {
            prop_assert!(line.cells() <= width, "{:?}", line);
        }
    }
}

#[test]
fn a_line_of_nothing_but_brackets_is_read_in_one_go() {
    let begin = std::time::Instant::now();
    let nested = ["[".repeat(50_000), "]".repeat(50_000)].concat();
    for line in [nested, "[a](".repeat(50_000), "[a]".repeat(50_000)] {
        let mut markdown = Markdown::new(80);
        let shown: usize = markdown.push(&line).iter().map(|row| row.text().len()).sum();
        let rest: usize = markdown.tail().iter().map(|row| row.text().len()).sum();
        assert_eq!(shown + rest, line.len());
    }
    // Far more than it takes, and far less than looking through the line for each bracket does.
    assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
}
