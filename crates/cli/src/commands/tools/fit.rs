//! Tables that fit the terminal: the last column, which has the long texts, is broken between words.

use crate::app::App;
use crate::output::{table, width};

/// With less room than this the last column goes below the others.
const ROOM: usize = 24;
const INDENT: usize = 4;

/// Columns that line up. In a pipe a row stays one line, whatever its length.
pub(in crate::commands) fn fitted(app: &App, rows: &[Vec<String>]) -> String {
    if app.output.terminal { laid(rows, app.output.columns()) } else { table(rows) }
}

/// A text whose lines end before the terminal does.
pub(in crate::commands) fn paragraph(app: &App, text: &str) -> String {
    if app.output.terminal { wrapped(text, app.output.columns()).join("\n") } else { text.to_owned() }
}

fn laid(rows: &[Vec<String>], columns: usize) -> String {
    let widest =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| width(cell)).max().unwrap_or(0);
    let all = rows.iter().map(Vec::len).max().unwrap_or(0).saturating_sub(1);
    if (0..=all).map(|at| 2 + widest(at)).sum::<usize>() <= columns + 2 {
        return table(rows);
    }
    // Columns that do not fit beside the others go below, whole.
    let mut last = all;
    while last > 1 && (0..last).map(|at| 2 + widest(at)).sum::<usize>() > columns + 2 {
        last -= 1;
    }
    let heads: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().take(last).cloned().collect::<Vec<_>>()).collect();
    let taken: usize = (0..last).map(|at| 2 + widest(at)).sum();
    let room = columns.saturating_sub(taken);
    let tail = |row: &Vec<String>| {
        let cells = row.iter().skip(last).filter(|cell| !cell.is_empty()).map(String::as_str);
        cells.collect::<Vec<_>>().join("  ")
    };
    let tails = rows.iter().map(tail);
    if room < ROOM || last < all {
        return below(&heads, tails, columns);
    }
    let mut lines = Vec::new();
    for (head, tail) in heads.into_iter().zip(tails) {
        let mut head = head;
        for part in wrapped(&tail, room) {
            head.resize(last, String::new());
            head.push(part);
            lines.push(std::mem::take(&mut head));
        }
    }
    table(&lines)
}

fn below(heads: &[Vec<String>], tails: impl Iterator<Item = String>, columns: usize) -> String {
    let mut text = String::new();
    for (head, tail) in table(heads).lines().zip(tails) {
        text.push_str(head);
        text.push('\n');
        for part in wrapped(&tail, columns.saturating_sub(INDENT)).iter().filter(|part| !part.is_empty()) {
            text.push_str(&" ".repeat(INDENT));
            text.push_str(part.trim_end());
            text.push('\n');
        }
    }
    text
}

/// Broken between words; a word that is longer than a line is broken where the line ends.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let room = room.max(2);
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        for (at, word) in paragraph.split(' ').enumerate() {
            if at > 0 && width(&line) + 1 + width(word) > room {
                lines.push(std::mem::take(&mut line));
            } else if at > 0 {
                line.push(' ');
            }
            line.push_str(word);
            while width(&line) > room {
                let cut = longest(&line, room);
                let rest = line.split_off(cut);
                lines.push(std::mem::replace(&mut line, rest));
            }
        }
        lines.push(line);
    }
    lines
}

/// How many bytes fit.
fn longest(text: &str, room: usize) -> usize {
    let mut cells = 0;
    let beyond = text.char_indices().find(|(_, c)| {
        cells += width(c.encode_utf8(&mut [0; 4]));
        cells > room
    });
    beyond.map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn a_long_text_goes_on_under_its_own_column() {
        let rows = [row(&["tool", "what it does"]), row(&["exec", "Runs a command in the workspace"])];
        assert_eq!(laid(&rows, 30), "tool  what it does\nexec  Runs a command in the\n      workspace\n");
    }

    #[test]
    fn a_column_without_room_goes_below_the_others() {
        let rows = [row(&["id", "what"]), row(&["0123456789", "/usr/bin/git push origin main"])];
        assert_eq!(laid(&rows, 30), "id\n    what\n0123456789\n    /usr/bin/git push origin\n    main\n");
    }

    #[test]
    fn columns_that_do_not_fit_go_below_in_one_piece() {
        let rows =
            [row(&["id", "when", "took", "text"]), row(&["0123456789", "2026-11-16T14:47", "7 ms", "hi"])];
        let shown = "id\n    when  took  text\n0123456789\n    2026-11-16T14:47  7 ms\n    hi\n";
        assert_eq!(laid(&rows, 27), shown);
    }

    #[test]
    fn wide_characters_are_broken_by_the_cells_they_take() {
        assert_eq!(wrapped("没有等待批准", 5), ["没有", "等待", "批准"]);
    }

    #[test]
    fn nothing_is_lost_and_no_line_is_too_long() {
        let text = "a 会话 is  told averyveryverylongword/which/goes/on 没有等待批准的请求 x";
        let letters = |text: &str| text.replace(' ', "");
        for room in 2..90 {
            let lines = wrapped(text, room);
            assert!(lines.iter().all(|line| width(line) <= room), "{room} {lines:?}");
            assert_eq!(letters(&lines.concat()), letters(text));
        }
    }
}
