//! The region at the bottom, on a small terminal of our own.

use proptest::prelude::*;

use super::super::line::{BOLD, PLAIN, RED};
use super::emulator::Terminal;
use super::*;

fn lines(texts: &[&str]) -> Vec<Line> {
    texts.iter().map(|text| Line::styled(PLAIN, *text)).collect()
}

#[test]
fn nothing_new_writes_nothing() {
    let mut screen = Screen::new(20, 10, true);
    screen.draw(&[], &lines(&["answer", "› "]), (1, 2));
    assert_eq!(screen.draw(&[], &lines(&["answer", "› "]), (1, 2)), "");
}

#[test]
fn a_letter_that_is_typed_costs_a_letter() {
    let mut screen = Screen::new(20, 10, true);
    screen.draw(&[], &lines(&["answer", "› hel"]), (1, 5));
    assert_eq!(screen.draw(&[], &lines(&["answer", "› hell"]), (1, 6)), "l");
    assert_eq!(screen.draw(&[], &lines(&["answer!", "› hell"]), (1, 6)), "\x1b[1A!\x1b[1B\x1b[7G");
}

#[test]
fn what_is_finished_stays_above_and_is_written_once() {
    let mut screen = Screen::new(20, 4, false);
    let mut terminal = Terminal::new(20, 4);
    terminal.write(&screen.draw(&[], &lines(&["one", "› "]), (1, 2)));
    terminal.write(&screen.draw(&lines(&["one", "two"]), &lines(&["three", "› "]), (1, 2)));
    assert_eq!(terminal.text(), ["one", "two", "three", "›"]);
    let more = screen.draw(&lines(&["three"]), &lines(&["› "]), (0, 2));
    assert!(!more.contains("one"), "{more:?}");
    terminal.write(&more);
    assert_eq!(terminal.text(), ["one", "two", "three", "›"]);
}

#[test]
fn a_region_that_is_too_high_shows_its_end() {
    let mut screen = Screen::new(20, 3, false);
    let mut terminal = Terminal::new(20, 3);
    terminal.write(&screen.draw(&[], &lines(&["a", "b", "c", "d"]), (3, 1)));
    assert_eq!(terminal.text(), ["c", "d"]);
}

#[test]
fn after_the_terminal_became_narrower_the_broken_rows_are_gone() {
    let mut screen = Screen::new(20, 10, false);
    let mut before = Terminal::new(20, 10);
    before.write(&screen.draw(&lines(&["done"]), &lines(&["0123456789abcdef", "› hello"]), (1, 7)));
    // The terminal breaks what no longer fits and keeps the cursor at its sign.
    let mut terminal = Terminal::new(10, 10);
    terminal.write("done\r\n0123456789abcdef\r\n› hello");
    terminal.write(&screen.resize(10, 10));
    terminal.write(&screen.draw(&[], &lines(&["0123456789", "› hello"]), (1, 7)));
    assert_eq!(terminal.text(), ["done", "0123456789", "› hello"]);
}

fn line() -> impl Strategy<Value = Line> {
    let span = ("[ab 你👍]{1,8}", prop::sample::select(vec![PLAIN, BOLD, RED]));
    prop::collection::vec(span, 0..4).prop_map(|spans| {
        spans.into_iter().fold(Line::default(), |line, (text, style)| line.then(style, text))
    })
}

type Drawing = (Vec<Line>, Vec<Line>, prop::sample::Index, usize);

fn drawing() -> impl Strategy<Value = Drawing> {
    let finished = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(line(), 1..4)];
    let live = prop::collection::vec(line(), 0..7);
    (finished, live, any::<prop::sample::Index>(), 0_usize..12)
}

proptest! {
    #[test]
    fn the_terminal_shows_what_is_finished_and_then_the_region(
        drawings in prop::collection::vec(drawing(), 1..12), width in 8_usize..30, height in 3_usize..9, colour: bool
    ) {
        let mut screen = Screen::new(width, height, colour);
        let mut terminal = Terminal::new(width, height);
        let mut scrollback: Vec<String> = Vec::new();
        for (finished, live, row, cell) in drawings {
            let finished: Vec<Line> = finished.iter().map(|line| line.cut(width)).collect();
            let cursor = if live.is_empty() { (0, 0) } else { (row.index(live.len()), cell) };
            terminal.write(&screen.draw(&finished, &live, cursor));
            scrollback.extend(finished.iter().map(|line| line.text().trim_end().to_owned()));
            let hidden = live.len().saturating_sub(height - 1);
            let region = live.iter().skip(hidden).map(|line| line.cut(width).text().trim_end().to_owned());
            let mut expected: Vec<String> = scrollback.iter().cloned().chain(region).collect();
            while expected.last().is_some_and(String::is_empty) {
                expected.pop();
            }
            prop_assert_eq!(terminal.text(), expected);
            let place = (scrollback.len() + cursor.0.saturating_sub(hidden), cursor.1.min(width - 1));
            prop_assert_eq!((terminal.absolute_row(), terminal.column), place);
        }
    }
}
